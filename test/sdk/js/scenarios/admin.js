// The administration client: lists, names, rights, and what its changes do to messages. What a scenario makes has names that
// begin with its id, which is bus.queue.
import { again, listed, one, peek, remove, withKey } from "../bus.js";
import { about, fails, has, holds, same } from "../check.js";

const wait = { maxWaitTimeInMs: 500 };

/** An authorization rule with keys of its own. */
const accessRule = (keyName, ...accessRights) => {
  const key = (c) => `${keyName.padEnd(43, c)}=`;
  return { claimType: "SharedAccessKey", keyName, accessRights, primaryKey: key("1"), secondaryKey: key("2") };
};

const sender = accessRule("sender", "Send");
const reader = accessRule("reader", "Listen");
const owner = accessRule("owner", "Manage", "Send", "Listen");

/** What is compared of authorization rules. */
const access = (rules = []) => rules.map((r) => [r.keyName, r.accessRights, r.primaryKey, r.secondaryKey]);

/** Calls f with each name, ten at a time. */
async function tenAtATime(names, f) {
  const queue = [...names];
  const worker = async () => {
    for (let name = queue.shift(); name; name = queue.shift()) await f(name);
  };
  await Promise.all(Array.from({ length: 10 }, worker));
}

/** The names of a list that belong to the scenario. */
const own = (bus, names) => names.filter((name) => name.startsWith(bus.queue));

const names = async (bus, pages) => own(bus, (await listed(pages)).map((item) => item.name));
const numbered = (n, prefix) => Array.from({ length: n }, (_, i) => `${prefix}${`${i}`.padStart(3, "0")}`);

export default {
  async "admin-all-queues"(bus) {
    const admin = bus.admin();
    const all = numbered(250, `${bus.queue}-`);
    await tenAtATime(all, (name) => admin.createQueue(name));
    same("queues", await names(bus, admin.listQueues()), all);
    const paged = [];
    for await (const page of admin.listQueues().byPage({ maxPageSize: 7 })) paged.push(...page.map((queue) => queue.name));
    same("queues, in pages of 7", own(bus, paged), all);
    const counted = (await listed(admin.listQueuesRuntimeProperties())).filter((queue) => queue.name.startsWith(bus.queue));
    same("queues with counts", counted.map((queue) => [queue.name, queue.totalMessageCount]), all.map((name) => [name, 0]));
    await tenAtATime(all, (name) => admin.deleteQueue(name));
    same("queues", await names(bus, admin.listQueues()), []);
  },

  async "admin-lists"(bus) {
    const admin = bus.admin();
    const topics = ["a", "B", "c"].map((letter) => `${bus.queue}-${letter}`);
    for (const name of topics) await admin.createTopic(name);
    topics[1] = `${bus.queue}-b`; // names of topics are shown in lower case
    same("topics", await names(bus, admin.listTopics()), topics);
    same("topics with counts", await names(bus, admin.listTopicsRuntimeProperties()), topics);
    const subscriptions = async (list) => (await listed(list)).map((s) => s.subscriptionName);
    same("subscriptions", await subscriptions(admin.listSubscriptions(topics[0])), []);
    const all = numbered(120, "s");
    await tenAtATime(all, (name) => admin.createSubscription(topics[0], name));
    same("subscriptions", await subscriptions(admin.listSubscriptions(topics[0])), all);
    same("subscriptions with counts", await subscriptions(admin.listSubscriptionsRuntimeProperties(topics[0])), all);
    const rules = numbered(105, "r");
    await tenAtATime(rules, (name) => admin.createRule(topics[0], "s000", name, { sqlExpression: "1=0" }));
    same("rules", (await listed(admin.listRules(topics[0], "s000"))).map((rule) => rule.name), ["$Default", ...rules]);
    for (const name of topics) await admin.deleteTopic(name);
    same("topics", await names(bus, admin.listTopics()), []);
  },

  async "admin-exists"(bus) {
    const admin = bus.admin();
    const [queue, topic] = ["admin-exists-Queue", "admin-exists-Topic"];
    await admin.createQueue(queue);
    await fails("admin-exists", admin.createQueue("ADMIN-exists-queue"));
    await fails("admin-exists", admin.createTopic("admin-exists-queue"));
    await admin.getQueue("admin-EXISTS-queue");
    await admin.createTopic(topic);
    await admin.createSubscription(topic, "Sub");
    same("topics", await names(bus, admin.listTopics()), ["admin-exists-topic"]);
    await fails("admin-exists", admin.createTopic("admin-exists-topic"));
    await fails("admin-exists", admin.createQueue("admin-exists-TOPIC"));
    await fails("admin-exists", admin.createSubscription(topic, "sub"));
    await fails("admin-exists", admin.createRule(topic, "sub", "$default", { sqlExpression: "1=1" }));
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);
  },

  async "admin-missing"(bus) {
    const admin = bus.admin();
    const [x, topic] = ["admin-missing-x", "admin-missing-topic"];
    const missing = (...calls) => Promise.all(calls.map((call) => fails("admin-missing", call)));
    await missing(admin.getQueue(x), admin.getQueueRuntimeProperties(x), admin.getTopic(x), admin.getTopicRuntimeProperties(x),
      admin.getSubscription(x, "s"), admin.getSubscriptionRuntimeProperties(x, "s"));
    const exists = [await admin.queueExists(x), await admin.topicExists(x), await admin.subscriptionExists(x, "s")];
    same("exists", exists, [false, false, false]);

    await admin.createTopic(topic);
    await admin.createSubscription(topic, "one");
    await admin.createQueue("admin-missing-queue");
    await fails("admin-missing", admin.updateQueue({ ...(await admin.getQueue("admin-missing-queue")), name: x }));
    await fails("admin-missing", admin.updateTopic({ ...(await admin.getTopic(topic)), name: x }));
    const subscription = await admin.getSubscription(topic, "one");
    await fails("admin-missing", admin.updateSubscription({ ...subscription, topicName: x, subscriptionName: "s" }));
    await fails("admin-missing", admin.createSubscription(x, "s"));
    await missing(admin.deleteQueue(x), admin.deleteTopic(x), admin.deleteSubscription(x, "s"));
    await missing(admin.getSubscription(topic, "two"), admin.getRule(topic, "one", "missing"));
    await fails("admin-missing", admin.createRule(topic, "two", "r", { sqlExpression: "1=1" }));
    await admin.deleteQueue("admin-missing-queue");
    await admin.deleteTopic(topic);
  },

  async "admin-names"(bus) {
    const admin = bus.admin();
    const [queue, topic, subscription] = ["admin-names/of.some_kind/a-1", "admin-names/topic", "a.b_c-D"];
    same("name", (await admin.createQueue(queue)).name, queue);
    await admin.createTopic(topic);
    await admin.createSubscription(topic, subscription);
    same("name", (await admin.getQueue(queue)).name, queue);
    same("topics", await names(bus, admin.listTopics()), [topic]);
    has("names", await admin.getSubscription(topic, subscription), { topicName: topic, subscriptionName: subscription });
    const [q, t] = [bus.at(queue), bus.at(topic)];
    await q.send("A");
    await remove(q.receiver(), "A");
    await t.send("B");
    await remove(t.on(subscription).receiver(), "B");
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);

    const long = `${bus.queue}-`.padEnd(260, "x");
    await fails("admin-bad-request", admin.createQueue(`${long}x`));
    await admin.createQueue(long);
    same("name", (await admin.getQueue(long)).name, long);
    await admin.deleteQueue(long);
    await admin.createTopic("admin-names-topic");
    await fails("admin-bad-request", admin.createSubscription("admin-names-topic", "s".repeat(51)));
    await admin.createSubscription("admin-names-topic", "s".repeat(50));
    await admin.getSubscription("admin-names-topic", "s".repeat(50));
    await admin.deleteTopic("admin-names-topic");
  },

  async "admin-keys"(bus) {
    const admin = bus.admin();
    const [first, second, topic] = ["admin-keys-one", "admin-keys-two", "admin-keys-topic"];
    await admin.createQueue(first, { authorizationRules: [sender, reader, owner] });
    await admin.createQueue(second);
    const got = await admin.getQueue(first);
    same("authorization rules", access(got.authorizationRules), access([sender, reader, owner]));

    const sending = bus.as(sender, first);
    await sending.send("A");
    await fails("unauthorized", sending.receiver().receiveMessages(1, wait));
    await fails("unauthorized", bus.as(sender, second).send("X"));
    const reading = bus.as(reader, first);
    await remove(reading.receiver(), "A");
    await fails("unauthorized", reading.send("X"));
    await bus.as(sender, first, sender.secondaryKey).send("B");

    await admin.updateQueue({ ...got, authorizationRules: got.authorizationRules.slice(1) });
    same("authorization rules", access((await admin.getQueue(first)).authorizationRules), access([reader, owner]));
    await fails("unauthorized", bus.as(sender, first).send("X"));

    await admin.createTopic(topic, { authorizationRules: [reader] });
    await admin.createSubscription(topic, "one");
    same("authorization rules", access((await admin.getTopic(topic)).authorizationRules), access([reader]));
    await bus.at(topic).send("C");
    await remove(bus.as(reader, topic).on("one").receiver(), "C");
    await fails("admin-bad-request", admin.createQueue("admin-keys-x", { authorizationRules: [accessRule("half", "Manage")] }));
    for (const name of [first, second]) await admin.deleteQueue(name);
    await admin.deleteTopic(topic);
  },

  async "admin-rights"(bus) {
    const admin = bus.admin();
    const queue = "admin-rights-queue";
    const made = await admin.createQueue(queue, { authorizationRules: [reader, owner] });
    const by = (name, key) => bus.admin(withKey(bus.lab.tlsConnectionString, name, key));
    const reading = by("reader", reader.primaryKey);
    await fails("admin-unauthorized", reading.getQueue(queue));
    await fails("admin-unauthorized", reading.updateQueue(made));
    await fails("admin-unauthorized", reading.deleteQueue(queue));
    await fails("admin-unauthorized", reading.createQueue("admin-rights-x"));

    const owning = by("owner", owner.primaryKey);
    await owning.updateQueue({ ...(await owning.getQueue(queue)), lockDuration: "PT30S" });
    has("properties", await owning.getQueue(queue), { name: queue, lockDuration: "PT30S" });
    await fails("admin-unauthorized", listed(owning.listQueues()));
    await fails("admin-unauthorized", by("RootManageSharedAccessKey", "not-the-key").getQueue(queue));
    await admin.deleteQueue(queue);
  },

  async "admin-forwarding"(bus) {
    const admin = bus.admin();
    const [target, source, topic] = ["admin-forwarding-target", "admin-forwarding-source", "admin-forwarding-topic"];
    const forwards = ({ forwardDeadLetteredMessagesTo: to }) => same("path", new URL(to).pathname || to, `/${target}`);
    const to = { forwardDeadLetteredMessagesTo: target };
    await admin.createQueue(target);
    await admin.createQueue(source, to);
    const got = await admin.getQueue(source);
    forwards(got);
    await admin.updateQueue({ ...got, lockDuration: "PT30S" });
    forwards(await admin.getQueue(source));
    await admin.createTopic(topic);
    await admin.createSubscription(topic, "one", to);
    forwards(await admin.getSubscription(topic, "one"));
    const nowhere = admin.createQueue("admin-forwarding-x", { forwardDeadLetteredMessagesTo: "admin-forwarding-missing" });
    await fails("admin-bad-request", nowhere, "auto forwarding destination entity doesn't exist");
    await fails("admin-missing", admin.getQueue("admin-forwarding-x"));
    for (const name of [source, target]) await admin.deleteQueue(name);
    await admin.deleteTopic(topic);
  },

  async "admin-status"(bus) {
    const admin = bus.admin();
    const name = "admin-status-queue";
    await admin.createQueue(name);
    const queue = bus.at(name);
    for (const body of "AB") await queue.send(body);
    const set = async (status) => {
      await admin.updateQueue({ ...(await admin.getQueue(name)), status });
      same("status", (await admin.getQueue(name)).status, status);
      return bus.at(name);
    };
    let now = await set("ReceiveDisabled");
    await now.send("C");
    await fails("disabled", now.receiver().receiveMessages(1, wait));
    await fails("disabled", peek(now.receiver(), 0, 1));
    now = await set("SendDisabled");
    await fails("disabled", now.send("X"));
    await remove(now.receiver(), "A");
    now = await set("Disabled");
    await fails("disabled", now.send("X"));
    await fails("disabled", now.receiver().receiveMessages(1, wait));
    now = await set("Active");
    await remove(now.receiver(), "B", "C");
    await admin.deleteQueue(name);
  },

  async "admin-update-acts"(bus) {
    const admin = bus.admin();
    const name = "admin-update-acts-queue";
    const made = await admin.createQueue(name);
    const queue = bus.at(name);
    for (const body of "AB") await queue.send(body);
    about("locked until", (await one(queue.receiver(), "A")).lockedUntilUtc, Date.now() + 60_000, 2000);
    await admin.updateQueue({ ...made, lockDuration: "PT10S", maxDeliveryCount: 1, defaultMessageTimeToLive: "PT1H" });
    const receiver = queue.receiver();
    const b = await one(receiver, "B");
    about("locked until", b.lockedUntilUtc, Date.now() + 10_000, 2000);
    await receiver.abandonMessage(b);
    has("dead letter", await one(queue.deadLetters(), "B"), { deadLetterReason: "MaxDeliveryCountExceeded" });
    const later = bus.at(name);
    await later.send("C");
    const [c] = await remove(later.receiver(), "C");
    same("life of C", Number(c.expiresAtUtc) - Number(c.enqueuedTimeUtc), 3_600_000);
    await admin.deleteQueue(name);
    await fails("entity-not-found", bus.at(name).receiver().receiveMessages(1, wait));
  },

  async "admin-recreate"(bus) {
    const admin = bus.admin();
    const x = "admin-recreate-x";
    await admin.createQueue(x);
    let queue = bus.at(x);
    for (const body of "AB") await queue.send(body);
    const receiver = queue.receiver();
    await receiver.deadLetterMessage(await one(receiver, "A"));
    await admin.deleteQueue(x);
    queue = bus.at(x);
    await fails("entity-not-found", queue.send("X"));
    await fails("entity-not-found", queue.receiver().receiveMessages(1, wait));

    await admin.createTopic(x);
    await admin.createSubscription(x, "one");
    const subscription = bus.at(x).on("one");
    await subscription.peekIsEmpty();
    await subscription.deadLettersAreEmpty();
    await subscription.send("C");
    same("number of C", (await remove(subscription.receiver(), "C"))[0].sequenceNumber.toNumber(), 1);
    await admin.deleteTopic(x);

    await admin.createQueue(x);
    same("it is a queue", await admin.queueExists(x), true);
    queue = bus.at(x);
    await queue.peekIsEmpty();
    await queue.deadLettersAreEmpty();
    has("runtime", await admin.getQueueRuntimeProperties(x), { totalMessageCount: 0, sizeInBytes: 0 });
    await queue.send("D");
    same("number of D", (await remove(queue.receiver(), "D"))[0].sequenceNumber.toNumber(), 1);
    await admin.deleteQueue(x);
  },

  async "admin-namespace"(bus) {
    const got = await bus.admin().getNamespaceProperties();
    has("properties", got, { messagingSku: "Standard", messagingUnits: undefined });
    holds("a name", got.name, got.name);
    for (const time of [got.createdAt, got.modifiedAt]) holds("a time in the past", time > new Date(2020, 0) && time <= new Date(), time);
    same("the name", (await bus.admin(bus.lab.connectionString).getNamespaceProperties()).name, got.name);
  },

  async "admin-survives-kill"(bus) {
    const admin = bus.admin();
    const [queue, topic, gone] = ["admin-survives-kill-queue", "admin-survives-kill-topic", "admin-survives-kill-gone"];
    await again(() => admin.createQueue(queue, { lockDuration: "PT30S", userMetadata: "meta", authorizationRules: [sender] }));
    await admin.createTopic(topic);
    await admin.createSubscription(topic, "one", { maxDeliveryCount: 3 });
    await admin.createRule(topic, "one", "red", { sqlExpression: "colour = 'red'" });
    await admin.createQueue(gone);
    await admin.updateQueue({ ...(await admin.getQueue(queue)), maxDeliveryCount: 7 });
    await admin.deleteQueue(gone);
    const q = bus.at(queue);
    for (const body of "AB") await again(() => q.send(body));
    const receiver = q.receiver();
    await receiver.deadLetterMessage(await one(receiver, "A"));
    await q.schedule(Date.now() + 3_600_000, { body: "C" });
    const state = async () => {
      const properties = await again(() => admin.getQueue(queue));
      const { createdAt, activeMessageCount, deadLetterMessageCount, scheduledMessageCount, totalMessageCount, sizeInBytes } =
        await admin.getQueueRuntimeProperties(queue);
      const { lockDuration, userMetadata, maxDeliveryCount, authorizationRules } = properties;
      return {
        lockDuration, userMetadata, maxDeliveryCount, access: access(authorizationRules), createdAt, sizeInBytes,
        counts: [activeMessageCount, deadLetterMessageCount, scheduledMessageCount, totalMessageCount],
        subscription: (await admin.getSubscription(topic, "one")).maxDeliveryCount,
        rules: (await listed(admin.listRules(topic, "one"))).map((rule) => [rule.name, rule.filter.sqlExpression]),
      };
    };
    const before = await state();
    has("before", before, {
      lockDuration: "PT30S", userMetadata: "meta", maxDeliveryCount: 7, access: access([sender]), counts: [1, 1, 1, 3], subscription: 3,
      rules: [["$Default", "1=1"], ["red", "colour = 'red'"]],
    });
    await bus.kill();
    same("after", await state(), before);
    await fails("admin-missing", admin.getQueue(gone));
    const b = await again(() => one(receiver, "B"));
    about("locked until", b.lockedUntilUtc, Date.now() + 30_000, 2000);
    await receiver.completeMessage(b);
    await admin.deleteQueue(queue);
    await admin.deleteTopic(topic);
    await bus.kill();
    await fails("admin-missing", again(() => admin.getQueue(queue)));
    await fails("admin-missing", admin.getTopic(topic));
  },
};
