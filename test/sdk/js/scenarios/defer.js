// Deferred messages: received by their numbers.
import { bodies, complete, deferred, nothing, number, one, take } from "../bus.js";
import { about, fails, has, holds, same } from "../check.js";

const states = (messages) => messages.map((m) => [m.body, m.state, m.deliveryCount]);

export default {
  async "defer-receive"(bus) {
    for (const body of "ABCD") await bus.send(body);
    const receiver = bus.receiver();
    const all = await take(receiver, "A", "B", "C", "D");
    for (const m of all) await receiver.deferMessage(m);
    const [a, , c, d] = all.map(number);
    await nothing(receiver);
    same("peek all", states(await bus.peekAll()), [..."ABCD"].map((body) => [body, "deferred", 1]));
    const got = await deferred(receiver, c, a);
    same("received by number", bodies(got), ["C", "A"]);
    for (const m of got) {
      holds("a lock token", m.lockToken, m.lockToken);
      about("locked until", m.lockedUntilUtc, Date.now() + 60_000, 2000);
      same("count", m.deliveryCount, 1);
    }
    await complete(receiver, got);
    const remover = bus.remover();
    same("received by number", bodies(await deferred(remover, d)), ["D"]);
    await fails("message-not-found", deferred(remover, d));
    same("peek all", states(await bus.peekAll()), [["B", "deferred", 1]]);
  },

  async "defer-not-found"(bus) {
    for (const body of "ABC") await bus.send(body);
    const receiver = bus.receiver();
    const [a, b] = await take(receiver, "A", "B");
    await receiver.deferMessage(a);
    const c = (await bus.peekAll()).find((m) => m.body === "C");
    await fails("message-not-found", deferred(receiver, 999_999));
    await fails("message-not-found", deferred(receiver, number(b)));
    await fails("message-not-found", deferred(receiver, number(c)));
    await fails("message-not-found", deferred(receiver, number(a), 999_999));
    const got = await deferred(receiver, number(a));
    same("received by number", bodies(got), ["A"]);
    await fails("message-not-found", deferred(receiver, number(a)));
    await complete(receiver, got);
  },

  async "defer-settle"(bus) {
    await bus.send("A");
    await bus.send("B");
    const receiver = bus.receiver();
    const [a, b] = await take(receiver, "A", "B");
    await receiver.deferMessage(a);
    await receiver.deferMessage(b);
    const isNow = async (count) => same("peek all", states(await bus.peekAll()), [["A", "deferred", count], ["B", "deferred", 1]]);
    await isNow(1);
    await receiver.abandonMessage((await deferred(receiver, number(a)))[0]);
    await isNow(2);
    await nothing(receiver);
    const [second] = await deferred(receiver, number(a));
    same("count", second.deliveryCount, 2);
    await receiver.deferMessage(second);
    await isNow(3);
    const both = await deferred(receiver, number(a), number(b));
    for (const m of both) {
      const before = m.lockedUntilUtc;
      const after = await receiver.renewMessageLock(m);
      holds("a deadline that does not fall", after >= before, [before, after]);
    }
    await receiver.deadLetterMessage(both[0], { deadLetterReason: "reason" });
    await receiver.completeMessage(both[1]);
    await bus.peekIsEmpty();
    has("dead letter", await one(bus.deadLetters(), "A"), { deadLetterReason: "reason", deliveryCount: 3 });
  },

  async "defer-lock-expiry"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    await receiver.deferMessage(a);
    const [locked] = await deferred(receiver, number(a));
    await nothing(receiver, locked.lockedUntilUtc - Date.now() + 100);
    await fails("lock-lost", receiver.completeMessage(locked));
    same("peek all", states(await bus.peekAll()), [["A", "deferred", 2]]);
    await complete(receiver, await deferred(receiver, number(a)));
    await bus.peekIsEmpty();
  },
};
