// Topics and subscriptions. Sending is to the topic; bus.on(name) is the scenario on a subscription.
import { again, bodies, complete, lowPart, deferred, nothing, number, one, outlive, receive, remove, sleep, take, texts, waiting } from "../bus.js";
import { about, fails, has, holds, onTime, same } from "../check.js";
import { Load } from "./connection.js";

/** Scenarios that take longer than usual, in seconds. */
export const seconds = { "topic-kill-fan-out": 90 };

const red = { applicationProperties: { colour: "red" } };
const hour = 3_600_000;

const numbers = (messages) => messages.map((m) => lowPart(number(m)));

/** A subscription has nothing at all. */
async function bare(bus) {
  await bus.peekIsEmpty();
  await bus.deadLettersAreEmpty();
}

export default {
  async "topic-fan-out"(bus) {
    const sent = {
      subject: "subject", correlationId: "correlation", contentType: "text/plain", to: "to", replyTo: "reply-to",
      replyToSessionId: "reply-group", sessionId: "group", timeToLive: hour, ...red,
    };
    for (const body of "AB") await bus.send(body, { messageId: `id-${body}`, ...sent });
    let first;
    for (const name of ["one", "two"]) {
      const subscription = bus.on(name);
      const receiver = subscription.receiver();
      const got = await take(receiver, "A", "B");
      for (const m of got) {
        has(m.body, m, { messageId: `id-${m.body}`, deliveryCount: 0, ...sent });
        about("enqueued", m.enqueuedTimeUtc, Date.now(), 5000);
      }
      same("numbers", numbers(got), [1, 2]);
      const enqueued = got.map((m) => [m.enqueuedSequenceNumber, Number(m.enqueuedTimeUtc)]);
      holds("enqueued sequence numbers rise", enqueued[1][0] > enqueued[0][0], enqueued);
      same("enqueued sequence numbers and times", enqueued, (first ??= enqueued));
      await complete(receiver, got);
      await nothing(receiver);
    }
    for (const name of ["one", "two"]) await bare(bus.on(name));
  },

  async "topic-batch"(bus) {
    const all = texts(100);
    const batch = await bus.sender.createMessageBatch();
    for (const body of all) holds("it fits", batch.tryAddMessage({ body, messageId: `id${body}` }), body);
    await bus.sender.sendMessages(batch);
    for (const name of ["one", "two"]) {
      const subscription = bus.on(name);
      const got = await remove(subscription.receiver(), ...all);
      same("ids", got.map((m) => m.messageId), all.map((body) => `id${body}`));
      same("numbers", numbers(got), all.map((body) => Number(body) + 1));
      await subscription.peekIsEmpty();
    }
  },

  async "topic-no-subscription"(bus) {
    const admin = bus.admin();
    await bus.send("A");
    await admin.createSubscription(bus.queue, "late");
    const late = bus.on("late");
    const receiver = late.receiver();
    await nothing(receiver);
    await late.peekIsEmpty();
    await bus.send("B");
    same("numbers", numbers(await remove(receiver, "B")), [1]);
    await nothing(receiver);
    has("runtime of the topic", await admin.getTopicRuntimeProperties(bus.queue), { sizeInBytes: 0, subscriptionCount: 1 });
  },

  async "topic-independent"(bus) {
    for (const body of "ABCD") await bus.send(body);
    const [first, second] = [bus.on("one"), bus.on("two")];
    const receiver = first.receiver();
    const [a, b, c, d] = await take(receiver, ..."ABCD");
    await receiver.completeMessage(a);
    await receiver.abandonMessage(b);
    await receiver.deferMessage(c);
    await receiver.deadLetterMessage(d);
    const states = (messages) => messages.map((m) => [m.body, m.state, m.deliveryCount]);
    same("two", states(await second.peekAll()), [..."ABCD"].map((body) => [body, "active", 0]));
    same("one", states(await first.peekAll()), [["B", "active", 1], ["C", "deferred", 1]]);

    const copies = await remove(second.receiver(), ..."ABCD");
    same("counts", copies.map((m) => m.deliveryCount), [0, 0, 0, 0]);
    await bare(second);
    same("count of B", (await remove(receiver, "B"))[0].deliveryCount, 1);
    await complete(receiver, await deferred(receiver, number(c)));
    await remove(first.deadLetters(), "D");
    await bare(first);
  },

  async "topic-dead-letter"(bus) {
    const subscriptions = [bus.on("one"), bus.on("two")];
    const [receiver, other] = subscriptions.map((s) => s.receiver());
    await bus.send("A", { messageId: "id", ...red });
    const a = await one(receiver, "A");
    await receiver.deadLetterMessage(a, { deadLetterReason: "reason", deadLetterErrorDescription: "description" });
    await nothing(receiver);
    const dlq = subscriptions[0].deadLetters();
    const dead = await one(dlq, "A");
    has("A", dead, { deadLetterReason: "reason", deadLetterErrorDescription: "description" });
    has("properties", dead.applicationProperties, red.applicationProperties);
    same("number", number(dead), number(a));
    await subscriptions[1].deadLettersAreEmpty();
    await remove(other, "A");

    await bus.send(dead.body, { messageId: dead.messageId });
    await dlq.completeMessage(dead);
    for (const r of [receiver, other]) {
      const [again] = await remove(r, "A");
      has("A again", again, { messageId: "id", deliveryCount: 0, deadLetterReason: undefined });
    }
    await subscriptions[0].deadLettersAreEmpty();
  },

  async "topic-max-delivery"(bus) {
    const [few, many] = [bus.on("few"), bus.on("many")];
    await bus.send("A");
    const abandons = async (receiver, times) => {
      for (let count = 0; count < times; count++) {
        const a = await one(receiver, "A");
        same("count", a.deliveryCount, count);
        await receiver.abandonMessage(a);
      }
    };
    const receiver = few.receiver();
    await abandons(receiver, 2);
    await nothing(receiver);
    await few.peekIsEmpty();
    has("dead letter", await one(few.deadLetters(), "A"), {
      deliveryCount: 2, deadLetterReason: "MaxDeliveryCountExceeded",
      deadLetterErrorDescription: "Message could not be consumed after 2 delivery attempts.",
    });
    const patient = many.receiver();
    await abandons(patient, 3);
    same("count", (await remove(patient, "A"))[0].deliveryCount, 3);
    await many.deadLettersAreEmpty();
  },

  async "topic-lock"(bus) {
    const [short, long] = [bus.on("short").receiver(), bus.on("long").receiver()];
    for (const body of "AB") await bus.send(body);
    const [a, b] = await take(short, "A", "B");
    for (const m of [a, b]) about("locked until", m.lockedUntilUtc, Date.now() + 5000, 2000);
    const unhurried = await take(long, "A", "B");
    for (const m of unhurried) about("locked until", m.lockedUntilUtc, Date.now() + 60_000, 2000);
    await complete(long, unhurried);
    const before = a.lockedUntilUtc;
    await sleep(10); // the time of a lock has milliseconds
    const renewed = await short.renewMessageLock(a);
    holds("locked longer", renewed > before, [before, renewed]);
    await short.completeMessage(a);
    const end = b.lockedUntilUtc;
    const second = bus.on("short").receiver();
    const call = waiting(second);
    same("receive", bodies(await call.end), ["B"]);
    onTime("the delivery of B", call.at, end);
    same("count of B", call.got[0].deliveryCount, 1);
    await fails("lock-lost", short.completeMessage(b));
    await second.completeMessage(call.got[0]);
  },

  async "topic-sessions"(bus) {
    for (const [body, sessionId] of [["A", "s"], ["B", "s"], ["C", "t"], ["D", undefined]]) await bus.send(body, { sessionId });
    const [grouped, plain] = [bus.on("grouped"), bus.on("plain")];
    const s = await grouped.accept("s");
    const got = await take(s, "A", "B");
    await s.setSessionState("state");
    same("state", await s.getSessionState(), "state");
    await complete(s, got);
    await nothing(s);
    await s.close();
    const t = await grouped.accept("t");
    await remove(t, "C");
    await t.close();
    const [dead] = await remove(grouped.deadLetters(), "D");
    has("dead letter", dead, {
      deadLetterReason: "Session id is null.",
      deadLetterErrorDescription: "Session enabled entity doesn't allow a message whose session identifier is null.",
    });
    await fails("no-session", grouped.acceptNext(1000));
    const receiver = plain.receiver();
    const all = bus.sorted(await receive(receiver, 4));
    await complete(receiver, all);
    same("all", bodies(all), [..."ABCD"]);
    same("session ids", all.map((m) => m.sessionId), ["s", "s", "t", undefined]);
  },

  async "topic-ttl"(bus) {
    const admin = bus.admin();
    await admin.createTopic("topic-ttl-capped", { defaultMessageTimeToLive: "PT3S" });
    await admin.createSubscription("topic-ttl-capped", "long", { defaultMessageTimeToLive: "PT1H", deadLetteringOnMessageExpiration: true });
    const topic = bus.at("topic-ttl-capped");
    const [short, long, capped] = [bus.on("short"), bus.on("long"), topic.on("long")];
    await bus.send("A");
    await bus.send("B", { timeToLive: hour });
    let b;
    for (const [subscription, timeToLive] of [[short, 3000], [long, hour]]) {
      const peeked = await subscription.peekAll();
      same("peek all", bodies(peeked), ["A", "B"]);
      holds("no time to live of A", !peeked[0].timeToLive, peeked[0].timeToLive);
      b = peeked[1];
      same("time to live of B", b.timeToLive, timeToLive);
    }
    await topic.send("C", { timeToLive: hour });
    const [c] = await capped.peekAll();
    has("C", c, { body: "C", timeToLive: 3000 });
    await outlive(Math.max(Number(b.enqueuedTimeUtc), Number(c.enqueuedTimeUtc)) + 3000);
    await nothing(short.receiver());
    const dead = await take(short.deadLetters(), "A", "B");
    same("reasons", dead.map((m) => m.deadLetterReason), ["TTLExpiredException", "TTLExpiredException"]);
    for (const m of await remove(long.receiver(), "A", "B")) same(`time to live of ${m.body}`, m.timeToLive, hour);
    await nothing(capped.receiver());
    await one(capped.deadLetters(), "C");
  },

  async "topic-schedule"(bus) {
    const admin = bus.admin();
    const subscriptions = [bus.on("one"), bus.on("two")];
    const receivers = subscriptions.map((s) => s.receiver());
    await bus.send("O");
    for (const receiver of receivers) await remove(receiver, "O");
    const due = Date.now() + 4000;
    const scheduled = [...(await bus.schedule(due, { body: "A" }, { body: "B" })), ...(await bus.schedule(due, { body: "X" }))];
    same("different numbers", new Set(scheduled).size, 3);
    await bus.cancel(scheduled[2]);
    await bus.send("C", { scheduledEnqueueTimeUtc: new Date(due) });
    for (const subscription of subscriptions) await subscription.peekIsEmpty();
    has("runtime of the topic", await admin.getTopicRuntimeProperties(bus.queue), { scheduledMessageCount: 3 });
    has("runtime of one", await admin.getSubscriptionRuntimeProperties(bus.queue, "one"), { activeMessageCount: 0, totalMessageCount: 0 });
    await Promise.all(receivers.map(async (receiver) => {
      const got = await receive(receiver, 3);
      onTime("received", Date.now(), due);
      same("bodies", bodies(got).sort(), ["A", "B", "C"]);
      for (const m of got) onTime("enqueued", m.enqueuedTimeUtc, due);
      await complete(receiver, got);
      await nothing(receiver);
    }));
    has("runtime of the topic", await admin.getTopicRuntimeProperties(bus.queue), { scheduledMessageCount: 0 });
  },

  async "topic-schedule-rules"(bus) {
    const admin = bus.admin();
    await admin.getRule(bus.queue, "one", "red"); // has its connection before the clock runs
    await bus.sender.createMessageBatch(); // so has the sender
    await bus.schedule(Date.now() + 4000, { body: "A", ...red }, { body: "B", applicationProperties: { colour: "blue" } });
    await admin.deleteRule(bus.queue, "one", "red");
    await admin.createRule(bus.queue, "one", "blue", { sqlExpression: "colour = 'blue'" });
    const subscription = bus.on("one");
    const receiver = subscription.receiver();
    await remove(receiver, "B");
    await nothing(receiver);
    await bare(subscription);
  },

  async "topic-duplicates"(bus) {
    for (const [body, messageId] of [["A", "1"], ["X", "1"], ["B", "2"]]) await bus.send(body, { messageId });
    const receiver = bus.on("one").receiver();
    same("ids", (await remove(receiver, "A", "B")).map((m) => m.messageId), ["1", "2"]);
    await bus.send("Y", { messageId: "2" });
    await nothing(receiver);
    const renamed = bus.on("renamed").receiver();
    same("ids", (await remove(renamed, "A", "B")).map((m) => m.messageId), ["same", "same"]);
    await nothing(renamed);
  },

  async "topic-refused"(bus) {
    const wait = { maxWaitTimeInMs: 500 };
    await fails("not-allowed", bus.receiver().receiveMessages(1, wait));
    await fails("not-allowed", bus.at("topic-refused/Subscriptions/one").send("A"));
    const missing = bus.on("missing");
    await fails("entity-not-found", missing.receiver().receiveMessages(1, wait));
    await fails("entity-not-found", missing.receiver().peekMessages(1));
    await bus.send("B");
    await remove(bus.on("one").receiver(), "B");
    await bus.on("one").peekIsEmpty();
  },

  async "topic-browse"(bus) {
    for (const body of "LDA") await bus.send(body);
    const subscription = bus.on("one");
    const receiver = subscription.receiver();
    const [l, d] = await take(receiver, "L", "D");
    await receiver.deferMessage(d);
    const shouted = bus.at("TOPIC-BROWSE").on("ONE");
    for (const browsed of [subscription, subscription, shouted]) {
      const states = (await browsed.peekAll()).map((m) => [m.body, m.state, lowPart(number(m))]);
      same("peek all", states, [["L", "active", 1], ["D", "deferred", 2], ["A", "active", 3]]);
    }
    const other = shouted.receiver();
    await complete(other, await deferred(other, number(d)));
    await receiver.completeMessage(l);
    same("count of A", (await remove(receiver, "A"))[0].deliveryCount, 0);
    await subscription.peekIsEmpty();
  },

  async "topic-status"(bus) {
    const admin = bus.admin();
    const [open, closed] = [bus.on("open"), bus.on("closed")];
    await bus.send("A");
    await fails("disabled", closed.receiver().receiveMessages(1, { maxWaitTimeInMs: 500 }));
    await fails("disabled", closed.receiver().peekMessages(1));
    await remove(open.receiver(), "A");
    const setStatus = async (status) => {
      await admin.updateTopic({ ...(await admin.getTopic(bus.queue)), status });
      same("status", (await admin.getTopic(bus.queue)).status, status);
      return bus.at(bus.queue);
    };
    await fails("disabled", (await setStatus("SendDisabled")).send("B"));
    await (await setStatus("Active")).send("C");
    await admin.updateSubscription({ ...(await admin.getSubscription(bus.queue, "closed")), status: "Active" });
    await remove(closed.receiver(), "A", "C");
    await remove(open.receiver(), "C");
  },

  async "topic-survives-kill"(bus) {
    for (const body of "ABC") await bus.send(body);
    const [first, second] = [bus.on("one"), bus.on("two")];
    const receiver = first.receiver();
    const got = await take(receiver, "A", "B");
    await receiver.completeMessage(got[0]);
    await receiver.deadLetterMessage(got[1], { deadLetterReason: "reason" });
    const other = second.receiver();
    const [a, b] = await take(other, "A", "B");
    await other.deferMessage(a);
    await other.abandonMessage(b);
    await bus.kill();

    const peek = async (subscription, options) => again(() => subscription.peekAll(options));
    const shown = (messages) => messages.map((m) => [m.body, lowPart(number(m)), m.state, m.deliveryCount]);
    same("one", shown(await peek(first)), [["C", 3, "active", 0]]);
    const dead = await peek(first, { subQueueType: "deadLetter" });
    same("dead letters", dead.map((m) => [m.body, m.deadLetterReason]), [["B", "reason"]]);
    same("two", shown(await peek(second)), [["A", 1, "deferred", 1], ["B", 2, "active", 1], ["C", 3, "active", 0]]);
    await again(() => remove(receiver, "C"));
    await again(() => remove(other, "B", "C"));
    await complete(other, await deferred(other, number(a)));
    await bus.kill();
    for (const subscription of [first, second]) same("peek all", bodies(await peek(subscription)), []);
    same("dead letters", bodies(await peek(first, { subQueueType: "deadLetter" })), ["B"]);
    await again(() => bus.send("D"));
    for (const r of [receiver, other]) same("numbers", numbers(await again(() => remove(r, "D"))), [4]);
  },

  async "topic-kill-fan-out"(bus) {
    const load = new Load(bus);
    await Promise.all([load.send("a"), load.send("b"), load.kill([100, 250])]);
    let first;
    for (const name of ["one", "two", "three"]) {
      const subscription = bus.on(name);
      const receiver = subscription.remover();
      const seen = [];
      for (let last = Date.now(); Date.now() < last + 1000; ) {
        const some = await again(() => receiver.receiveMessages(100, { maxWaitTimeInMs: 500 }));
        if (some.length > 0) last = Date.now();
        seen.push(...bodies(some));
      }
      same(`copies of ${name}`, seen.sort(), (first ??= seen));
      await subscription.deadLettersAreEmpty();
    }
    same("texts acknowledged and not there", [...load.acknowledged].filter((body) => !first.includes(body)), []);
    same("texts acknowledged", load.acknowledged.size, 400);
  },
};
