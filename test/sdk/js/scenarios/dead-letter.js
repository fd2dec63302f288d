// Dead-letter queues.
import { bodies, complete, deferred, nothing, number, one, peekFrom, sleepUntil, take, waiting } from "../bus.js";
import { fails, has, holds, onTime, same } from "../check.js";

export default {
  async "dead-letter-reason"(bus) {
    await bus.send("A", { messageId: "id", applicationProperties: { colour: "red" } });
    await bus.send("B");
    const receiver = bus.receiver();
    const [a, b] = await take(receiver, "A", "B");
    const reasons = { deadLetterReason: "reason", deadLetterErrorDescription: "description" };
    await receiver.deadLetterMessage(a, reasons);
    await receiver.deadLetterMessage(b);
    await nothing(receiver);
    await bus.peekIsEmpty();
    const dlq = bus.deadLetters();
    const [deadA, deadB] = await take(dlq, "A", "B");
    has("A", deadA, { ...reasons, messageId: "id", enqueuedTimeUtc: a.enqueuedTimeUtc, deliveryCount: 0 });
    same("number of A", number(deadA), number(a));
    same("properties of A", deadA.applicationProperties, {
      colour: "red", DeadLetterReason: "reason", DeadLetterErrorDescription: "description",
    });
    same("properties of B", deadB.applicationProperties, undefined);
    has("B", deadB, { deadLetterReason: undefined, deadLetterErrorDescription: undefined });
    await bus.send(deadA.body, { messageId: deadA.messageId });
    await complete(dlq, [deadA, deadB]);
    await bus.deadLettersAreEmpty();
    const again = await one(receiver, "A");
    has("A", again, { messageId: "id", deliveryCount: 0, deadLetterReason: undefined });
    holds("a higher number", number(again) > number(b), [number(again), number(b)]);
  },

  async "dead-letter-count-frozen"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    await receiver.abandonMessage(await one(receiver, "A"));
    await receiver.deadLetterMessage(await one(receiver, "A"));
    const dlq = bus.deadLetters();
    for (let i = 0; i < 4; i++) {
      const a = await one(dlq, "A");
      same("count", a.deliveryCount, 1);
      await dlq.abandonMessage(a);
    }
    const locked = await one(dlq, "A");
    same("count", locked.deliveryCount, 1);
    const second = bus.deadLetters();
    const call = waiting(second);
    same("receive", bodies(await call.end), ["A"]);
    onTime("the delivery to the second receiver", call.at, locked.lockedUntilUtc);
    same("count", call.got[0].deliveryCount, 1);
    await second.completeMessage(call.got[0]);
  },

  async "dead-letter-not-twice"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    await receiver.deadLetterMessage(await one(receiver, "A"));
    const dlq = bus.deadLetters();
    await fails("not-allowed", dlq.deadLetterMessage(await one(dlq, "A")));
    same("peek all of the dead letters", bodies(await bus.peekAll({ subQueueType: "deadLetter" })), ["A"]);
    await nothing(bus.deadLetters());
  },

  async "dead-letter-defer"(bus) {
    await bus.send("A");
    await bus.send("B");
    const receiver = bus.receiver();
    for (const m of await take(receiver, "A", "B")) await receiver.deadLetterMessage(m);
    const dlq = bus.deadLetters();
    const peeked = async () => (await bus.peekAll({ subQueueType: "deadLetter" })).map((m) => [m.body, m.state, m.deliveryCount]);
    same("peek all of the dead letters", await peeked(), [["A", "active", 0], ["B", "active", 0]]);
    const a = await one(dlq, "A");
    const before = a.lockedUntilUtc;
    await sleepUntil(Date.now() + 20); // so that later is later in milliseconds too
    const after = await dlq.renewMessageLock(a);
    holds("locked for longer", after > before, [before, after]);
    await dlq.deferMessage(a);
    const b = await one(dlq, "B");
    same("peek all of the dead letters", await peeked(), [["A", "deferred", 0], ["B", "active", 0]]);
    const byNumber = await deferred(dlq, number(a));
    same("received by its number", bodies(byNumber), ["A"]);
    await complete(dlq, [...byNumber, b]);
    await bus.deadLettersAreEmpty();
  },

  async "dead-letter-paths"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    await receiver.deadLetterMessage(await one(receiver, "A"));
    for (const path of ["dead-letter-paths/$DeadLetterQueue", "DEAD-LETTER-PATHS/$deadletterqueue"]) {
      const dlq = bus.client.createReceiver(path, { maxAutoLockRenewalDurationInMs: 0 });
      await dlq.abandonMessage(await one(dlq, "A"));
    }
    await fails("not-allowed", bus.client.createSender("dead-letter-paths/$DeadLetterQueue").sendMessages({ body: "B" }));
    same("peek all of the dead letters", bodies(await peekFrom(bus.deadLetters(), 0, 100)), ["A"]);
  },
};
