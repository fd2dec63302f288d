// Time to live: when messages expire, and what becomes of them.
import { bodies, complete, deferred, nothing, number, one, outlive, receive, sleep, take, waiting, warmUp } from "../bus.js";
import { about, atOnce, between, fails, has, holds, onTime, same } from "../check.js";

const expired = { deadLetterReason: "TTLExpiredException" };

// A deadline that both broker and sender have a part in: the SDK shows absolute-expiry-time - creation-time as the time to
// live, the one as the broker set it, the other from its own clock when it sent. So it may be a little longer than what was sent.
const timeToLive = (m, ms) => between(`time to live of ${m.body}`, m.timeToLive, ms, ms + 1000);

export default {
  async "expiry-dropped"(bus) {
    await bus.send("A", { timeToLive: 1000 });
    await outlive(Date.now() + 1000);
    await nothing(bus.receiver());
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "expiry-lazy"(bus) {
    const dead = waiting(bus.deadLetters());
    await bus.send("A", { timeToLive: 1000 });
    await bus.send("B");
    const [a] = await bus.peekAll();
    same("first message", a.body, "A");
    timeToLive(a, 1000);
    same("expires at", a.expiresAtUtc, new Date(a.enqueuedTimeUtc.getTime() + 1000));
    await outlive(a.expiresAtUtc.getTime() + 1000);
    same("peek all", bodies(await bus.peekAll()), ["A", "B"]);
    same("dead letters", bodies(dead.got), []);
    const receiver = bus.receiver();
    await one(receiver, "B");
    await nothing(receiver);
    const asked = Date.now();
    same("dead letters", bodies(await dead.end), ["A"]);
    atOnce("the time of the dead letter", dead.at, asked);
    has("dead letter", dead.got[0], { ...expired, deadLetterErrorDescription: "The message expired and was dead lettered." });
    same("peek all", bodies(await bus.peekAll()), ["B"]);
  },

  async "expiry-queue-default"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    await bus.send("A");
    await bus.send("C");
    await bus.send("B", { timeToLive: 3_600_000 });
    const peeked = await bus.peekAll();
    same("peek all", bodies(peeked), ["A", "C", "B"]);
    const [peekedA, peekedC, b] = peeked;
    for (const m of [peekedA, peekedC]) holds(`no time to live of ${m.body}`, !m.timeToLive, m.timeToLive);
    timeToLive(b, 3000);
    same("B expires at", b.expiresAtUtc, new Date(b.enqueuedTimeUtc.getTime() + 3000));
    const a = await one(receiver, "A");
    timeToLive(a, 3000);
    same("A expires at", a.expiresAtUtc, new Date(a.enqueuedTimeUtc.getTime() + 3000));
    await receiver.completeMessage(a);
    await outlive(b.expiresAtUtc);
    await nothing(receiver);
    for (const dead of await take(bus.deadLetters(), "C", "B")) has(dead.body, dead, expired);
  },

  async "expiry-locked"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    await bus.send("A", { timeToLive: 2000 });
    await bus.send("B", { timeToLive: 2000 });
    const [a, b] = await take(receiver, "A", "B");
    await nothing(bus.receiver(), b.expiresAtUtc - Date.now() + 1100);
    await receiver.completeMessage(a);
    await receiver.abandonMessage(b);
    await bus.peekIsEmpty();
    const dlq = bus.deadLetters();
    const dead = await one(dlq, "B");
    has("dead letter", dead, expired);
    await dlq.abandonMessage(dead);
    await sleep(1500);
    await dlq.completeMessage(await one(dlq, "B"));
    await bus.deadLettersAreEmpty();
  },

  async "expiry-lock-end"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    await bus.send("A", { timeToLive: 2000 });
    const a = await one(receiver, "A");
    const dead = waiting(bus.deadLetters());
    same("dead letters", bodies(await dead.end), ["A"]);
    onTime("the dead letter", dead.at, a.lockedUntilUtc);
    has("dead letter", dead.got[0], expired);
    await bus.peekIsEmpty();
  },

  async "expiry-deferred"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    await bus.send("A", { timeToLive: 2000 });
    const a = await one(receiver, "A");
    await receiver.deferMessage(a);
    await nothing(bus.receiver(), a.expiresAtUtc - Date.now() + 100);
    same("peek all", (await bus.peekAll()).map((m) => [m.body, m.state]), [["A", "deferred"]]);
    await bus.deadLettersAreEmpty();
    await fails("message-not-found", deferred(receiver, number(a)));
    has("dead letter", await one(bus.deadLetters(), "A"), expired);
    await bus.peekIsEmpty();
  },

  async "expiry-milliseconds"(bus) {
    const lives = [1, 20, 333];
    for (const [i, body] of ["A", "B", "C"].entries()) await bus.send(body, { timeToLive: lives[i] });
    const peeked = await bus.peekAll();
    same("peek all", bodies(peeked), ["A", "B", "C"]);
    for (const [i, m] of peeked.entries()) {
      same(`absolute-expiry-time of ${m.body}`, Number(m._rawAmqpMessage.properties.absoluteExpiryTime), m.enqueuedTimeUtc.getTime() + lives[i]);
    }
    await outlive(peeked[2].enqueuedTimeUtc.getTime() + lives[2]);
    await nothing(bus.receiver());
    for (const dead of await take(bus.deadLetters(), "A", "B", "C")) has(dead.body, dead, expired);
    await bus.peekIsEmpty();
  },

  async "expiry-32-bits"(bus) {
    const days = 60 * 24 * 3_600_000;
    const now = Math.floor(Date.now() / 1000) * 1000;
    // What the SDK makes of it: header ttl 4294967295, creation-time now, absolute-expiry-time 60 days after that.
    await bus.sender.sendMessages({
      bodyType: "data", body: Buffer.from("A"), header: { timeToLive: days }, properties: { creationTime: now },
    });
    const receiver = bus.receiver({ skipParsingBodyAsJson: true });
    const [peeked] = await bus.peekAll({ skipParsingBodyAsJson: true });
    const [received] = await receive(receiver, 1);
    for (const m of [peeked, received]) {
      same("body", m.body.toString(), "A");
      about("absolute-expiry-time", m._rawAmqpMessage.properties.absoluteExpiryTime, m.enqueuedTimeUtc.getTime() + days, 1000);
    }
    await complete(receiver, [received]);
  },
};
