// The administration client on each kind of entity: properties, counters and times.
import { listed, one, remove, sleep } from "../bus.js";
import { about, between, fails, has, holds, same } from "../check.js";

const infinite = "P10675199DT2H48M5.4775807S";

/** Times that follow each other. */
const inOrder = (...times) => holds("times in their order", times.every((time, i) => i === 0 || time > times[i - 1]), times);

/** Waits for a later instant of the broker's, which are whole milliseconds: two requests can come in one. */
const later = async () => {
  for (const now = Date.now(); Date.now() <= now + 1; ) await sleep(1);
};

/** Properties that nobody gave. The SDK reads an absent text as an empty one, or not at all. */
const bare = (what, seen) => holds(`${what} is empty`, seen === undefined || seen === "", seen);

export default {
  async "admin-queue"(bus) {
    const admin = bus.admin();
    const [plain, full] = ["admin-queue-plain", "admin-queue-full"];
    await admin.createQueue(plain);
    const got = await admin.getQueue(plain);
    has(plain, got, {
      name: plain, lockDuration: "PT1M", maxSizeInMegabytes: 1024, requiresDuplicateDetection: false, requiresSession: false,
      defaultMessageTimeToLive: infinite, deadLetteringOnMessageExpiration: false, duplicateDetectionHistoryTimeWindow: "PT10M",
      maxDeliveryCount: 10, enableBatchedOperations: true, status: "Active", autoDeleteOnIdle: infinite, enablePartitioning: false,
    });
    for (const name of ["forwardTo", "forwardDeadLetteredMessagesTo", "userMetadata"]) bare(name, got[name]);
    same("exists", await admin.queueExists(plain), true);

    const given = {
      maxSizeInMegabytes: 2048, requiresDuplicateDetection: true, requiresSession: true, deadLetteringOnMessageExpiration: true,
      maxDeliveryCount: 5, enableBatchedOperations: false, userMetadata: "a&b",
    };
    await admin.createQueue(full, {
      ...given, lockDuration: "PT90S", duplicateDetectionHistoryTimeWindow: "PT60S", defaultMessageTimeToLive: "PT24H", autoDeleteOnIdle: "PT60M",
    });
    const expected = {
      ...given, lockDuration: "PT1M30S", duplicateDetectionHistoryTimeWindow: "PT1M", defaultMessageTimeToLive: "P1D", autoDeleteOnIdle: "PT1H",
    };
    const before = await admin.getQueue(full);
    has(full, before, expected);
    const change = { lockDuration: "PT30S", defaultMessageTimeToLive: infinite, maxDeliveryCount: 2147483647, userMetadata: "new" };
    await admin.updateQueue({ ...before, ...change });
    has(full, await admin.getQueue(full), { ...expected, ...change });
    for (const name of [plain, full]) {
      await admin.deleteQueue(name);
      await fails("admin-missing", admin.getQueue(name));
      same("exists", await admin.queueExists(name), false);
      await fails("admin-missing", admin.deleteQueue(name));
    }
  },

  async "admin-topic"(bus) {
    const admin = bus.admin();
    const [plain, full] = ["admin-topic-plain", "admin-topic-full"];
    await admin.createTopic(plain);
    has(plain, await admin.getTopic(plain), {
      name: plain, maxSizeInMegabytes: 1024, requiresDuplicateDetection: false, defaultMessageTimeToLive: infinite,
      duplicateDetectionHistoryTimeWindow: "PT10M", enableBatchedOperations: true, status: "Active", autoDeleteOnIdle: infinite,
      enablePartitioning: false,
    });
    const subscriptions = async (name, expected) =>
      same(`subscriptions of ${name}`, (await admin.getTopicRuntimeProperties(name)).subscriptionCount, expected);
    await subscriptions(plain, 0);
    const given = {
      maxSizeInMegabytes: 3072, requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow: "PT1M", defaultMessageTimeToLive: "P1D",
      autoDeleteOnIdle: "PT1H", userMetadata: "topic",
    };
    await admin.createTopic(full, given);
    const before = await admin.getTopic(full);
    has(full, before, given);
    const change = { defaultMessageTimeToLive: "P2D", duplicateDetectionHistoryTimeWindow: "PT2M", userMetadata: "new" };
    await admin.updateTopic({ ...before, ...change });
    has(full, await admin.getTopic(full), { ...given, ...change });

    for (const name of ["a", "b"]) await admin.createSubscription(full, name);
    await subscriptions(full, 2);
    await admin.deleteSubscription(full, "a");
    await subscriptions(full, 1);
    await bus.at(full).send("M");
    await admin.deleteTopic(full);
    await fails("admin-missing", admin.getTopic(full));
    await fails("admin-missing", admin.getSubscription(full, "b"));
    await fails("entity-not-found", bus.at(full).on("b").receiver().receiveMessages(1, { maxWaitTimeInMs: 500 }));
    await admin.createTopic(full);
    await subscriptions(full, 0);
    for (const name of [plain, full]) await admin.deleteTopic(name);
  },

  async "admin-subscription"(bus) {
    const admin = bus.admin();
    const topic = "admin-subscription-topic";
    await admin.createTopic(topic);
    await admin.createSubscription(topic, "plain");
    const got = await admin.getSubscription(topic, "plain");
    has("plain", got, {
      topicName: topic, subscriptionName: "plain", lockDuration: "PT1M", requiresSession: false, defaultMessageTimeToLive: infinite,
      deadLetteringOnMessageExpiration: false, deadLetteringOnFilterEvaluationExceptions: true, maxDeliveryCount: 10, enableBatchedOperations: true,
      status: "Active", autoDeleteOnIdle: infinite,
    });
    for (const name of ["forwardTo", "forwardDeadLetteredMessagesTo"]) bare(name, got[name]);
    const given = {
      lockDuration: "PT30S", requiresSession: true, defaultMessageTimeToLive: "PT1H", deadLetteringOnMessageExpiration: true,
      deadLetteringOnFilterEvaluationExceptions: false, maxDeliveryCount: 3, autoDeleteOnIdle: "PT10M", userMetadata: "sub",
    };
    await admin.createSubscription(topic, "full", given);
    const before = await admin.getSubscription(topic, "full");
    has("full", before, given);
    const change = { lockDuration: "PT1M", maxDeliveryCount: 4, userMetadata: "new" };
    await admin.updateSubscription({ ...before, ...change });
    has("full", await admin.getSubscription(topic, "full"), { ...given, ...change });
    await admin.deleteSubscription(topic, "full");
    await fails("admin-missing", admin.getSubscription(topic, "full"));
    await fails("admin-missing", admin.deleteSubscription(topic, "full"));
    same("subscriptions", (await listed(admin.listSubscriptions(topic))).map((s) => s.subscriptionName), ["plain"]);
    await admin.deleteTopic(topic);
  },

  async "admin-immutable"(bus) {
    const admin = bus.admin();
    const [queue, topic] = ["admin-immutable-queue", "admin-immutable-topic"];
    const made = await admin.createQueue(queue);
    const fixed = (name, kind) => `The value for the ${name} property of an existing ${kind} cannot be changed`;
    const sessions = admin.updateQueue({ ...made, requiresSession: true, lockDuration: "PT30S" });
    await fails("admin-bad-request", sessions, fixed("RequiresSession", "Queue"));
    const detection = admin.updateQueue({ ...made, requiresDuplicateDetection: true });
    await fails("admin-bad-request", detection, fixed("RequiresDuplicateDetection", "Queue"));
    await fails("admin-bad-request", admin.updateQueue({ ...made, enablePartitioning: true }));
    has(queue, await admin.getQueue(queue), { requiresSession: false, lockDuration: "PT1M" });

    const partitioned = { ...(await admin.createTopic(topic)), enablePartitioning: true };
    await fails("admin-bad-request", admin.updateTopic(partitioned), "Partitioning cannot be changed for Topic. ");
    const subscription = { ...(await admin.createSubscription(topic, "one")), requiresSession: true };
    await fails("admin-bad-request", admin.updateSubscription(subscription), fixed("RequiresSession", "Subscription"));
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);
  },

  async "admin-limits"(bus) {
    const admin = bus.admin();
    const [x, low, high] = ["admin-limits-x", "admin-limits-a", "admin-limits-b"];
    const detecting = (duplicateDetectionHistoryTimeWindow) => ({ requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow });
    for (const wrong of [
      { lockDuration: "PT4S" }, { lockDuration: "PT5M1S" }, { autoDeleteOnIdle: "PT4M59S" }, detecting("PT19S"), detecting("P7DT1S"),
      { maxDeliveryCount: 0 }, { maxSizeInMegabytes: 16384 }, { defaultMessageTimeToLive: "PT0S" }, { userMetadata: "x".repeat(1025) },
    ]) {
      await fails("admin-bad-request", admin.createQueue(x, wrong));
    }
    await fails("admin-missing", admin.getQueue(x));
    for (const [name, right] of [
      [low, { lockDuration: "PT5S", autoDeleteOnIdle: "PT5M", ...detecting("PT20S"), maxDeliveryCount: 1, userMetadata: "x".repeat(1024) }],
      [high, { lockDuration: "PT5M", ...detecting("P7D"), maxDeliveryCount: 2147483647, maxSizeInMegabytes: 5120 }],
    ]) {
      await admin.createQueue(name, right);
      has(name, await admin.getQueue(name), right);
      await admin.deleteQueue(name);
    }
  },

  async "admin-counters"(bus) {
    const admin = bus.admin();
    const [queue, topic] = ["admin-counters-queue", "admin-counters-topic"];
    const counts = (what, seen, active, dead, scheduled) => {
      has(what, seen, {
        activeMessageCount: active, deadLetterMessageCount: dead, scheduledMessageCount: scheduled, transferMessageCount: 0,
        transferDeadLetterMessageCount: 0, totalMessageCount: active + dead + scheduled,
      });
      same(`${what} has a size`, seen.sizeInBytes > 0, seen.totalMessageCount > 0);
    };
    const hour = Date.now() + 3_600_000;
    await admin.createQueue(queue);
    counts("empty", await admin.getQueueRuntimeProperties(queue), 0, 0, 0);
    const q = bus.at(queue);
    for (const body of "AB") await q.send(body);
    const [scheduled] = await q.schedule(hour, { body: "C" });
    const receiver = q.receiver();
    await receiver.deadLetterMessage(await one(receiver, "A"));
    const held = await one(receiver, "B");
    counts("queue", await admin.getQueueRuntimeProperties(queue), 1, 1, 1);

    await admin.createTopic(topic);
    for (const name of ["one", "two"]) await admin.createSubscription(topic, name);
    const t = bus.at(topic);
    for (const body of "AB") await t.send(body);
    await t.schedule(hour, { body: "C" });
    const other = t.on("one").receiver();
    await other.deadLetterMessage(await one(other, "A"));
    const inList = await listed(admin.listSubscriptionsRuntimeProperties(topic));
    for (const [i, name, activeMessageCount, deadLetterMessageCount] of [[0, "one", 1, 1], [1, "two", 2, 0]]) {
      const expected = { subscriptionName: name, activeMessageCount, deadLetterMessageCount, totalMessageCount: 2 };
      has(name, await admin.getSubscriptionRuntimeProperties(topic, name), expected);
      has(`${name} in the list`, inList[i], expected);
    }
    const ofTopic = await admin.getTopicRuntimeProperties(topic);
    has("topic", ofTopic, { scheduledMessageCount: 1, subscriptionCount: 2 });
    holds("a size", ofTopic.sizeInBytes > 0, ofTopic.sizeInBytes);

    await receiver.completeMessage(held);
    await remove(q.deadLetters(), "A");
    await q.cancel(scheduled);
    counts("empty again", await admin.getQueueRuntimeProperties(queue), 0, 0, 0);
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);
  },

  async "admin-times"(bus) {
    const admin = bus.admin();
    const [queue, topic] = ["admin-times-queue", "admin-times-topic"];
    const made = await admin.createQueue(queue);
    let times = await admin.getQueueRuntimeProperties(queue);
    about("created", times.createdAt, Date.now(), 5000);
    same("year of the access", times.accessedAt.getUTCFullYear(), 1);
    await later();
    await admin.updateQueue({ ...made, userMetadata: "meta" });
    times = await admin.getQueueRuntimeProperties(queue);
    inOrder(times.createdAt, times.modifiedAt);
    const q = bus.at(queue);
    await q.send("A");
    await remove(q.receiver(), "A");
    for (const end = Date.now() + 5000; times.accessedAt <= times.modifiedAt && Date.now() < end; await sleep(100)) {
      times = await admin.getQueueRuntimeProperties(queue);
    }
    inOrder(times.createdAt, times.modifiedAt, times.accessedAt);

    await admin.createTopic(topic);
    const subscription = await admin.createSubscription(topic, "one");
    await later();
    await admin.updateSubscription({ ...subscription, userMetadata: "meta" });
    await bus.at(topic).send("B");
    await remove(bus.at(topic).on("one").receiver(), "B");
    times = await admin.getSubscriptionRuntimeProperties(topic, "one");
    inOrder(times.createdAt, times.modifiedAt, times.accessedAt);
    between("accessed", times.accessedAt, Date.now() - 30_000, Date.now());
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);
  },
};
