// Scheduled messages.
import { again, bodies, nothing, number, one, receive, take, warmUp } from "../bus.js";
import { atOnce, fails, has, holds, onTime, same } from "../check.js";

const hour = 3_600_000;
const states = (messages) => messages.map((m) => [m.body, m.state]);

export default {
  async "schedule-property"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    const time = Date.now() + 4000;
    await bus.send("A", { scheduledEnqueueTimeUtc: new Date(time) });
    await bus.send("B", { scheduledEnqueueTimeUtc: new Date(Date.now() - hour) });
    await bus.schedule(Date.now() - hour, { body: "C" });
    const asked = Date.now();
    for (const m of await take(receiver, "B", "C")) same(`state of ${m.body}`, m.state, "active");
    atOnce("the time of B and C", Date.now(), asked);
    await nothing(receiver);
    const peeked = await bus.peekAll();
    same("peek all, sorted", bodies(peeked).sort(), ["A", "B", "C"]);
    same("state of A", peeked.find((m) => m.body === "A").state, "scheduled");
    const a = await one(receiver, "A");
    onTime("the delivery of A", Date.now(), time);
    holds("enqueued at its time or later", a.enqueuedTimeUtc >= time, a.enqueuedTimeUtc);
    same("state of A", a.state, "scheduled");
  },

  async "schedule-call"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    const time = Date.now() + 4000;
    const [n1, n2] = await bus.schedule(time, { body: "A" }, { body: "B" });
    holds("numbers that rise", n1 < n2, [n1, n2]);
    same("peek all", (await bus.peekAll()).map((m) => [m.body, m.state, number(m)]), [
      ["A", "scheduled", n1], ["B", "scheduled", n2],
    ]);
    await nothing(receiver);
    for (const m of await take(receiver, "A", "B")) {
      holds(`a number of ${m.body} higher than ${n2}`, number(m) > n2, number(m));
      holds(`${m.body} enqueued at its time or later`, m.enqueuedTimeUtc >= time, m.enqueuedTimeUtc);
    }
    onTime("the delivery of A and B", Date.now(), time);
  },

  async "schedule-cancel"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    const [a, b] = await bus.schedule(Date.now() + 4000, { body: "A" }, { body: "B" });
    await bus.cancel(a);
    same("peek all", bodies(await bus.peekAll()), ["B"]);
    await fails("message-not-found", bus.cancel(a));
    await fails("message-not-found", bus.cancel(999_999));
    await one(receiver, "B");
    await nothing(receiver);
    await fails("message-not-found", bus.cancel(b));
  },

  async "schedule-time-to-live"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    const time = Date.now() + 4000;
    await bus.send("A", { scheduledEnqueueTimeUtc: new Date(time), timeToLive: 1000 });
    const a = await one(receiver, "A");
    holds("enqueued at its time or later", a.enqueuedTimeUtc >= time, a.enqueuedTimeUtc);
    same("expires at", a.expiresAtUtc, new Date(a.enqueuedTimeUtc.getTime() + 1000));
    await receiver.completeMessage(a);
    await bus.deadLettersAreEmpty();
  },

  async "schedule-survives-kill"(bus) {
    await bus.sender.createMessageBatch(); // has its link before the clock runs
    const now = Date.now();
    await bus.schedule(now + 6000, { body: "B" });
    const [x] = await bus.schedule(now + 6000, { body: "X" });
    await bus.schedule(now + 1000, { body: "A" });
    await bus.cancel(x);
    await bus.kill();
    const receiver = bus.receiver();
    await again(() => one(receiver, "A"));
    const [b] = await receive(receiver, 1);
    onTime("the delivery of B", Date.now(), now + 6000);
    has("the second message", b, { body: "B" });
    await nothing(receiver);
    same("peek all, sorted", states(await bus.peekAll()).sort(), [["A", "active"], ["B", "active"]]);
  },
};
