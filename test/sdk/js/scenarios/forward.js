// Forwarding. The scenario's queue is where messages end; those that forward have its name and more.
import { bodies, complete, lowPart, nothing, number, one, receive, remove, sleep, take, texts } from "../bus.js";
import { fails, has, holds, promptly, same } from "../check.js";

const hopLimit = "MaxTransferHopCountExceeded";
const large = Buffer.alloc(200_000); // so large that few fit into the smallest queue
const red = { applicationProperties: { colour: "red" } };

/** Makes a queue whose name ends like that, and which forwards to another one. */
async function forwarder(bus, end, target) {
  await bus.admin().createQueue(bus.queue + end, { forwardTo: target });
  return bus.at(bus.queue + end);
}

/** Makes five queues, each of which forwards to the next and the last to the scenario's. */
async function chain(bus) {
  const links = [];
  for (let i = 5; i > 0; i--) links.unshift(await forwarder(bus, `-${i}`, links[0]?.queue ?? bus.queue));
  return links;
}

/** Makes a queue that takes nothing, and one that forwards to it. */
async function unable(bus) {
  await bus.admin().createQueue(`${bus.queue}-off`, { status: "SendDisabled" });
  return forwarder(bus, "-to-off", `${bus.queue}-off`);
}

/** Sends large messages until the queue is full. */
async function fill(bus) {
  const sendAll = async () => {
    for (let i = 0; i < 10; i++) await bus.send(large);
  };
  await fails("queue-full", sendAll());
}

/** Receives a message of a sub-queue, which has the body and the reason. */
async function dead(source, body, reason, subQueueType = "deadLetter") {
  const receiver = source.receiver({ subQueueType });
  const [letter] = await receive(receiver, 1);
  holds(`the body in ${source.queue}`, Buffer.from(letter.body).equals(Buffer.from(body)), letter.body.length);
  has(`the letter in ${source.queue}`, letter, { deadLetterReason: reason });
  await receiver.completeMessage(letter);
  return letter;
}

/** Waits until the counters of an entity are as they should be. */
async function counted(runtime, what, reached) {
  for (const end = Date.now() + promptly; ; await sleep(50)) {
    const counters = await runtime();
    if (reached(counters)) return;
    holds(what, Date.now() < end, counters);
  }
}

/** Waits until an entity has no message of any kind. */
const drained = (runtime) =>
  counted(runtime, "nothing is left", (r) => r.totalMessageCount === 0 && r.transferMessageCount === 0);

const queueRuntime = (bus) => () => bus.admin().getQueueRuntimeProperties(bus.queue);

export default {
  async "forward-queue"(bus) {
    const source = await forwarder(bus, "-source", bus.queue);
    await source.sendAll(texts(100).map((body) => ({ body })));
    const receiver = bus.receiver();
    const all = await take(receiver, ...texts(100));
    for (const message of all) same("count", message.deliveryCount, 0);
    await complete(receiver, all);
    await nothing(receiver);
    await drained(queueRuntime(source));
    await fails("not-allowed", source.receiver().receiveMessages(1, { maxWaitTimeInMs: 500 }), "auto-forwarding enabled");
  },

  async "forward-properties"(bus) {
    const source = await forwarder(bus, "-source", bus.queue);
    const sent = {
      contentType: "application/json", correlationId: "correlation", messageId: "id", partitionKey: "group", sessionId: "group",
      replyTo: "reply-to", replyToSessionId: "reply-group", subject: "subject", to: "to", timeToLive: 3_600_000,
      applicationProperties: { colour: "red" },
    };
    await bus.send("X");
    await source.send("B");
    await source.send("A", sent);
    const got = bus.sorted(await receive(bus.receiver(), 3), (m) => -m.body.charCodeAt(0));
    same("bodies", bodies(got), ["X", "B", "A"]);
    const alone = bus.partitioned; // A has a session, and with it a partition of its own
    same("numbers", got.map((m) => lowPart(number(m))), [1, 2, alone ? 1 : 3]);
    const a = got[2];
    has("A", a, { ...sent, deadLetterSource: undefined });
    same("enqueued sequence number", lowPart(a.enqueuedSequenceNumber), alone ? 1 : 2);
    same("expires", Number(a.expiresAtUtc), Number(a.enqueuedTimeUtc) + 3_600_000);
  },

  async "forward-existing"(bus) {
    const admin = bus.admin();
    const name = `${bus.queue}-source`;
    await admin.createQueue(name);
    const source = bus.at(name);
    for (const body of ["A", "B", "C"]) await source.send(body);
    await admin.updateQueue({ ...(await admin.getQueue(name)), forwardTo: bus.queue });
    await remove(bus.receiver(), "A", "B", "C");
    await admin.updateQueue({ ...(await admin.getQueue(name)), forwardTo: undefined });
    const after = bus.at(name, bus.connect());
    await after.send("D");
    await remove(after.receiver(), "D");
    await nothing(bus.receiver());
  },

  async "forward-topics"(bus) {
    const admin = bus.admin();
    const [first, second] = [`${bus.queue}-one`, `${bus.queue}-two`];
    await admin.createTopic(second);
    await admin.createSubscription(second, "all");
    const rule = { name: "red", filter: { sqlExpression: "colour = 'red'" } };
    await admin.createSubscription(second, "red", { forwardTo: bus.queue, defaultRuleOptions: rule });
    await admin.createTopic(first);
    await admin.createSubscription(first, "on", { forwardTo: second });
    const source = await forwarder(bus, "-source", first);
    await source.send("A", { applicationProperties: { colour: "blue" } });
    await source.send("B", red);
    const receiver = bus.receiver();
    const b = await one(receiver, "B");
    has("B", b, red);
    await receiver.completeMessage(b);
    await nothing(receiver);
    same("all", bodies(await receive(bus.at(second).on("all").receiver(), 2)).sort(), ["A", "B"]);
  },

  async "forward-chain"(bus) {
    const links = await chain(bus);
    await links[0].send("A");
    await links[1].send("B");
    const receiver = bus.receiver();
    await remove(receiver, "B");
    await nothing(receiver);
    const letter = await dead(links[4], "A", hopLimit);
    const description = "The maximum number of allowed hops when forwarding between queues has been exceeded.";
    same("description", letter.deadLetterErrorDescription, description);

    const admin = bus.admin();
    const name = `${bus.queue}-a`;
    await admin.createQueue(name);
    const second = await forwarder(bus, "-b", name);
    await admin.updateQueue({ ...(await admin.getQueue(name)), forwardTo: second.queue });
    const first = bus.at(name);
    await first.send("C");
    await dead(first, "C", hopLimit);
  },

  async "forward-refused"(bus) {
    const source = await forwarder(bus, "-source", bus.queue);
    await source.send("A");
    for (const body of ["B", "C"]) await source.send(body, { sessionId: "s" });
    await remove(await bus.accept("s"), "B", "C");
    const letters = source.deadLetters();
    const a = await one(letters, "A");
    const refusal = "The SessionId was not set on a message";
    holds("the description", a.deadLetterErrorDescription.includes(refusal), a.deadLetterErrorDescription);
    await letters.completeMessage(a);
  },

  async "forward-unable"(bus) {
    const gone = `${bus.queue}-gone`;
    await bus.admin().createQueue(gone);
    const sources = [await unable(bus), await forwarder(bus, "-to-gone", gone), await forwarder(bus, "-to-full", bus.queue)];
    await bus.admin().deleteQueue(gone);
    await fill(bus);
    for (const source of sources) await source.send(large);
    const reasons = ["MessagingEntityDisabledException", "MessagingEntityNotFoundException", "QuotaExceededException"];
    for (const [i, reason] of reasons.entries()) await dead(sources[i], large, reason);
  },

  async "forward-transfer-dead-letter"(bus) {
    await bus.restart({ forwarding: { "failures-to": "transfer-dead-letter" } });
    const links = await chain(bus);
    const off = await unable(bus);
    const full = await forwarder(bus, "-to-full", bus.queue);
    await fill(bus);
    for (const source of [links[0], off, full]) await source.send(large);
    await dead(links[4], large, hopLimit, "transferDeadLetter");
    await dead(off, large, "MessagingEntityDisabledException", "transferDeadLetter");
    await dead(full, large, "QuotaExceededException", "transferDeadLetter");
    await nothing(links[4].deadLetters());
    await bus.kill();
  },

  async "forward-dead-letters"(bus) {
    const name = `${bus.queue}-source`;
    await bus.admin().createQueue(name, { forwardDeadLetteredMessagesTo: bus.queue });
    const source = bus.at(name);
    await source.send("A", red);
    const there = source.receiver();
    await there.deadLetterMessage(await one(there, "A"), { deadLetterReason: "reason" });
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    has("A", a, { deadLetterReason: "reason", deadLetterSource: name, deliveryCount: 0 });
    same("colour", a.applicationProperties.colour, "red");
    await receiver.completeMessage(a);
    await nothing(receiver);
    await fails("not-allowed", source.deadLetters().receiveMessages(1, { maxWaitTimeInMs: 500 }), "auto-forwarding enabled");
  },

  async "forward-dead-letters-stay"(bus) {
    const admin = bus.admin();
    const name = `${bus.queue}-a`;
    await admin.createQueue(name, { forwardDeadLetteredMessagesTo: bus.queue });
    const second = await forwarder(bus, "-b", name);
    await admin.updateQueue({ ...(await admin.getQueue(name)), forwardTo: second.queue });
    const first = bus.at(name);
    await first.send("C");
    const one = (r) => r.totalMessageCount === 1 && r.deadLetterMessageCount === 1 && r.transferMessageCount === 0;
    await counted(queueRuntime(first), "one dead letter", one);
    await nothing(bus.receiver());
    await admin.updateQueue({ ...(await admin.getQueue(name)), forwardDeadLetteredMessagesTo: undefined });
    await dead(first, "C", hopLimit);
  },

  async "forward-dead-letters-full"(bus) {
    const name = `${bus.queue}-source`;
    await bus.admin().createQueue(name, { forwardDeadLetteredMessagesTo: bus.queue });
    const source = bus.at(name);
    await fill(bus);
    await source.send(large);
    const there = source.receiver();
    const [letter] = await receive(there, 1);
    await there.deadLetterMessage(letter, { deadLetterReason: "reason" });
    await counted(queueRuntime(source), "one message", (r) => r.totalMessageCount === 1);
    const receiver = bus.receiver();
    for (let late = false; !late; ) {
      const [message] = await receive(receiver, 1);
      late = message.deadLetterSource !== undefined;
      if (late) has("the late one", message, { deadLetterSource: name, deadLetterReason: "reason" });
      await receiver.completeMessage(message);
    }
    await nothing(receiver);
    await drained(queueRuntime(source));
  },

  async "forward-door"(bus) {
    const source = await forwarder(bus, "-source", bus.queue);
    await source.send("O", { messageId: "0" });
    const receiver = bus.receiver();
    await remove(receiver, "O");
    const due = Date.now() + 4000;
    await source.schedule(due, { body: "C", messageId: "3" });
    await source.send("A", { messageId: "1" });
    await source.send("X", { messageId: "1" });
    await source.send("B", { messageId: "2", timeToLive: 3_600_000 });
    const [, b] = await take(receiver, "A", "B");
    same("expires", Number(b.expiresAtUtc), Number(b.enqueuedTimeUtc) + 3_600_000);
    await one(receiver, "C");
    holds("C came no earlier than its time", Date.now() >= due, Date.now() - due);
    await nothing(receiver);
  },

  async "forward-other-sdk"(bus) {
    await bus.admin().createQueue(`${bus.queue}-read`);
    const there = await forwarder(bus, "-out", `${bus.queue}-read`);
    const back = await forwarder(bus, "-in", bus.queue);
    const sent = {
      contentType: "text/plain", correlationId: "correlation", messageId: "id", subject: "subject", timeToLive: 3_600_000,
      applicationProperties: { colour: "red", size: 7.5 },
    };
    await there.send(Buffer.from("A"), sent);
    await bus.relay(`${bus.queue}-read`, back.queue);
    const receiver = bus.receiver();
    const [a] = await receive(receiver, 1);
    same("body", `${a.body}`, "A");
    has("A", a, sent);
    same("enqueued sequence number", lowPart(a.enqueuedSequenceNumber), 1);
    await receiver.completeMessage(a);
    await nothing(receiver);
  },

  async "forward-survives-kill"(bus) {
    const admin = bus.admin();
    const topic = `${bus.queue}-topic`;
    await admin.createTopic(topic);
    await admin.createSubscription(topic, "on", { forwardTo: bus.queue });
    const { queue: name } = await forwarder(bus, "-source", topic);
    const all = [];
    for (let round = 0; round < 4; round++) {
      const some = texts(100).map((text) => `${round} ${text}`);
      await bus.at(name, bus.connect()).sendAll(some.map((body) => ({ body })));
      all.push(...some);
      await bus.kill();
    }
    const after = bus.at(bus.queue, bus.connect());
    same("received", bodies(await receive(after.remover(), all.length)).sort(), all.sort());
    await nothing(after.receiver());
    await drained(queueRuntime(after.at(name)));
    await drained(() => bus.admin().getSubscriptionRuntimeProperties(topic, "on"));
  },
};

export const seconds = { "forward-survives-kill": 100 };
