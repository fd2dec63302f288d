// Settlement: complete, abandon, defer and dead-letter.
import { again, complete, deferred, number, one, take } from "../bus.js";
import { fails, has, same } from "../check.js";

export default {
  async "settle-twice"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    await receiver.completeMessage(a);
    await fails("settled", receiver.completeMessage(a));
    await fails("settled", receiver.abandonMessage(a));
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "settle-four-ways"(bus) {
    for (const body of "ABCDE") await bus.send(body);
    const receiver = bus.receiver();
    const [a, b, c, d] = await take(receiver, "A", "B", "C", "D");
    for (const m of [a, b, c, d]) same(`count of ${m.body}`, m.deliveryCount, 0);
    await receiver.deadLetterMessage(d);
    await receiver.deferMessage(c);
    await receiver.abandonMessage(b);
    await receiver.completeMessage(a);
    const again = await one(receiver, "B");
    same("count of B", again.deliveryCount, 1);
    same("number of B", number(again), number(b));
    const e = await one(receiver, "E");
    same("count of E", e.deliveryCount, 0);
    await receiver.abandonMessage(again);
    await receiver.abandonMessage(e);
    same("peek all", (await bus.peekAll()).map((m) => [m.body, m.state, m.deliveryCount]), [
      ["B", "active", 2], ["C", "deferred", 1], ["E", "active", 1],
    ]);
    same("count of D", (await one(bus.deadLetters(), "D")).deliveryCount, 0);
  },

  async "settle-properties"(bus) {
    await bus.send("A", { applicationProperties: { colour: "red", size: 1 } });
    const receiver = bus.receiver();
    await receiver.abandonMessage(await one(receiver, "A"), { size: 2, why: "again" });
    const abandoned = await one(receiver, "A");
    same("properties", abandoned.applicationProperties, { colour: "red", size: 2, why: "again" });
    await receiver.deferMessage(abandoned, { why: "later" });
    const [later] = await deferred(receiver, number(abandoned));
    same("properties", later.applicationProperties, { colour: "red", size: 2, why: "later" });
    await receiver.deadLetterMessage(later, {
      deadLetterReason: "reason", deadLetterErrorDescription: "description", why: "last", added: 3,
    });
    const dead = await one(bus.deadLetters(), "A");
    has("dead letter", dead, { deadLetterReason: "reason", deadLetterErrorDescription: "description" });
    has("properties", dead.applicationProperties, { colour: "red", size: 2, why: "last", added: 3 });
  },

  async "settle-survives-kill"(bus) {
    for (const own of "ABCDE") await bus.send(own, { applicationProperties: { own } });
    const receiver = bus.receiver();
    const [a, b, c, d] = await take(receiver, "A", "B", "C", "D");
    await receiver.completeMessage(a);
    await receiver.abandonMessage(b);
    await receiver.deferMessage(c);
    await receiver.deadLetterMessage(d, { deadLetterReason: "reason" });
    const facts = (m) => [m.body, m.state, m.deliveryCount, number(m), m.enqueuedTimeUtc, m.messageId, m.applicationProperties];
    const before = (await bus.peekAll()).map(facts);
    await bus.kill();
    const after = await again(() => bus.peekAll());
    same("peek all after the kill", after.map(facts), before);
    same("peek all", after.map((m) => [m.body, m.state]), [["B", "active"], ["C", "deferred"], ["E", "active"]]);
    same("count of B", after[0].deliveryCount, 1);
    has("dead letter", await again(() => one(bus.deadLetters(), "D")), {
      deadLetterReason: "reason",
    });
    const rest = [await again(() => one(receiver, "B")), await one(receiver, "E"), ...(await deferred(receiver, number(c)))];
    same("received by its number", rest[2].body, "C");
    await complete(receiver, rest);
    await bus.peekIsEmpty();
    await bus.kill();
    await again(() => bus.peekIsEmpty());
  },
};
