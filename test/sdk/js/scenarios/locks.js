// Locks: how long they last, who may settle with them, what happens when they end.
import { bodies, nothing, number, one, outlive, sleep, take, waiting } from "../bus.js";
import { about, fails, has, holds, onTime, same } from "../check.js";

export default {
  async "lock-renew"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    const first = a.lockedUntilUtc;
    about("locked until", first, Date.now() + 5000, 2000);
    await sleep(2500);
    about("renewed until", await receiver.renewMessageLock(a), Date.now() + 5000, 2000);
    await sleep(2500);
    about("renewed elsewhere until", await bus.elsewhere().renewMessageLock(a), Date.now() + 5000, 2000);
    await outlive(first);
    await nothing(bus.elsewhere());
    await receiver.completeMessage(a);
    await bus.peekIsEmpty();
  },

  async "lock-auto-renew"(bus) {
    await bus.send("A");
    const receiver = bus.receiver({ maxAutoLockRenewalDurationInMs: 60_000 });
    const a = await one(receiver, "A");
    await nothing(bus.elsewhere(), 7000);
    await receiver.completeMessage(a);
    await bus.peekIsEmpty();
  },

  async "lock-expiry"(bus) {
    await bus.send("A");
    const first = bus.receiver();
    const old = await one(first, "A");
    const end = old.lockedUntilUtc;
    const second = bus.elsewhere();
    const call = waiting(second);
    same("receive", bodies(await call.end), ["A"]);
    const [a] = call.got;
    onTime("the second delivery", call.at, end);
    same("count", a.deliveryCount, 1);
    same("number", number(a), number(old));
    holds("another token", a.lockToken !== old.lockToken, a.lockToken);
    await fails("lock-lost", first.completeMessage(old));
    await fails("lock-lost", first.renewMessageLock(old));
    // The SDK takes the message for settled now that it has had an answer, and asks the broker no more.
    await fails("settled", first.abandonMessage(old));
    await fails("settled", first.deferMessage(old));
    await fails("settled", first.deadLetterMessage(old));
    await second.completeMessage(a);
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "lock-closed-receiver"(bus) {
    await bus.send("A");
    const first = bus.receiver();
    const old = await one(first, "A");
    const end = old.lockedUntilUtc;
    await first.close();
    const second = bus.elsewhere();
    await nothing(second);
    const a = await one(second, "A");
    onTime("the second delivery", Date.now(), end);
    same("count", a.deliveryCount, 1);
    await fails("lock-lost", second.completeMessage(old));
    await second.completeMessage(a);
    await bus.peekIsEmpty();
  },

  async "lock-token-elsewhere"(bus) {
    for (const body of "ABCD") await bus.send(body);
    const client = bus.connect();
    const first = bus.receiver({ client });
    const [a, b, c, d] = await take(first, "A", "B", "C", "D");
    await first.close();
    await client.close();
    const second = bus.elsewhere();
    await nothing(second);
    await second.completeMessage(a);
    await second.abandonMessage(b);
    await second.deferMessage(c);
    await second.deadLetterMessage(d, { deadLetterReason: "reason" });
    same("count of B", (await one(second, "B")).deliveryCount, 1);
    same("peek all", (await bus.peekAll()).map((m) => [m.body, m.state]), [["B", "active"], ["C", "deferred"]]);
    has("dead letter", await one(bus.deadLetters(), "D"), { deadLetterReason: "reason" });
  },

  async "lock-max-delivery"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    for (let count = 0; count < 3; count++) {
      const a = await one(receiver, "A");
      same("count", a.deliveryCount, count);
      await receiver.abandonMessage(a);
    }
    await nothing(receiver);
    await bus.peekIsEmpty();
    has("dead letter", await one(bus.deadLetters(), "A"), {
      deliveryCount: 3, deadLetterReason: "MaxDeliveryCountExceeded",
      deadLetterErrorDescription: "Message could not be consumed after 3 delivery attempts.",
    });
  },
};
