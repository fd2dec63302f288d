// What programs do with the JavaScript SDK. Each test has a queue of its own and names the statements of semantics.md (SM)
// and wire-protocol.md (WP) it is about.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ServiceBusClient } from "@azure/service-bus";
import { Broker } from "./broker.js";

const once = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };
const plain = { LockDuration: "PT1M", MaxDeliveryCount: 10, DefaultMessageTimeToLive: "P1D" };

/** Every test, with the properties of its queue. */
const scenarios = [];

function scenario(name, properties, run) {
  scenarios.push({ name, queue: `q${scenarios.length}`, properties: { ...plain, ...properties }, run });
}

/** What a test works with: a client and its queue. */
class Bus {
  constructor(broker, queue) {
    Object.assign(this, { broker, queue, clients: [], client: undefined });
    this.client = this.connect();
  }
  connect(connectionString = this.broker.connectionString, options = once) {
    const client = new ServiceBusClient(connectionString, options);
    this.clients.push(client);
    return client;
  }
  async send(...bodies) {
    const sender = this.client.createSender(this.queue);
    await sender.sendMessages(bodies.map((body) => ({ body })));
    await sender.close();
  }
  /** A receiver that renews no locks by itself: the SDK does that for five minutes unless it is told otherwise. */
  receiver(options) {
    return this.client.createReceiver(this.queue, { maxAutoLockRenewalDurationInMs: 0, ...options });
  }
  dead(options) {
    return this.receiver({ subQueueType: "deadLetter", ...options });
  }
  async peek(options) {
    const receiver = this.receiver(options);
    const all = await receiver.peekMessages(200);
    await receiver.close();
    return all;
  }
  async close() {
    await Promise.all(this.clients.map((client) => client.close()));
  }
}

/** Receives exactly n messages. */
async function take(receiver, n) {
  const all = [];
  for (const until = Date.now() + 20_000; all.length < n && Date.now() < until; )
    all.push(...(await receiver.receiveMessages(n - all.length, { maxWaitTimeInMs: 5000 })));
  assert.equal(all.length, n);
  return all;
}

async function nothing(receiver) {
  assert.deepEqual(bodies(await receiver.receiveMessages(1, { maxWaitTimeInMs: 200 })), []);
}

const bodies = (messages) => messages.map((m) => m.body);

/** Waits until a condition holds. */
async function until(condition) {
  for (const end = Date.now() + 20_000; !condition(); ) {
    assert.ok(Date.now() < end, "it never happened");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

scenario("send, receive, complete: SM-020 SM-030 WP-071 WP-073 WP-108 WP-220", {}, async (bus) => {
  await bus.send("hello");
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  assert.equal(m.body, "hello");
  assert.equal(m.deliveryCount, 0);
  assert.equal(m.state, "active");
  assert.ok(m.sequenceNumber.toNumber() >= 1);
  assert.ok(Math.abs(m.lockedUntilUtc - Date.now() - 60_000) < 2000, `locked until ${m.lockedUntilUtc}`);
  assert.ok(Math.abs(m.enqueuedTimeUtc - Date.now()) < 2000);
  await receiver.completeMessage(m);
  assert.deepEqual(await bus.peek(), []);
});

scenario("an array of messages keeps its order: SM-010 SM-018 WP-078", {}, async (bus) => {
  await bus.send(..."abcdefgh");
  const got = await take(bus.receiver(), 8);
  assert.equal(bodies(got).join(""), "abcdefgh");
  got.forEach((m, i) => assert.equal(m.sequenceNumber.toNumber(), got[0].sequenceNumber.toNumber() + i));
});

scenario("batch: SM-010 WP-078", {}, async (bus) => {
  const sender = bus.client.createSender(bus.queue);
  const batch = await sender.createMessageBatch();
  let n = 0;
  const body = (i) => `${i} `.repeat(1000);
  while (batch.tryAddMessage({ body: body(n), messageId: `id${n}` })) n++;
  assert.ok(n > 50, `a batch takes ${n} messages of a few thousand bytes`);
  await sender.sendMessages(batch);
  const got = await take(bus.receiver({ receiveMode: "receiveAndDelete" }), n);
  got.forEach((m, i) => assert.equal(m.messageId, `id${i}`));
  got.forEach((m, i) => assert.equal(m.body, body(i)));
});

scenario("every property of a message: SM-015 SM-037 WP-081", {}, async (bus) => {
  const sent = {
    body: "body", contentType: "text/plain", correlationId: "correlation", messageId: "id", partitionKey: "group", sessionId: "group",
    replyTo: "reply-to", replyToSessionId: "reply-group", subject: "subject", to: "to", timeToLive: 3600_000,
    applicationProperties: { text: "ä", number: 1.5, whole: -7, yes: true, no: false, at: new Date(1700000000123), nothing: null },
  };
  await bus.client.createSender(bus.queue).sendMessages(sent);
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  for (const [name, value] of Object.entries(sent)) {
    if (name !== "applicationProperties") assert.deepEqual(m[name], value, name);
  }
  const { at, ...rest } = m.applicationProperties;
  assert.equal(Number(at), 1700000000123);
  const { at: _, ...want } = sent.applicationProperties;
  assert.deepEqual(rest, want);
  await receiver.abandonMessage(m);
  const [again] = await take(receiver, 1);
  assert.equal(again.messageId, "id");
  assert.ok(again.sequenceNumber.equals(m.sequenceNumber));
});

scenario("kinds of bodies: SM-015 WP-080", {}, async (bus) => {
  const kinds = ["text", { a: [1, null, "x"] }, [1, 2], 7, true, null];
  await bus.send(...kinds);
  const receiver = bus.receiver({ receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await take(receiver, kinds.length)), kinds);
  const sender = bus.client.createSender(bus.queue);
  await sender.sendMessages({ body: "a value", bodyType: "value" });
  await sender.sendMessages({ body: [[1, "a"]], bodyType: "sequence" });
  await sender.sendMessages({ body: Buffer.from([0, 255]), bodyType: "data" });
  const raw = (await take(receiver, 3)).map((m) => m._rawAmqpMessage);
  assert.deepEqual(raw.map((m) => m.bodyType), ["value", "sequence", "data"]);
  assert.equal(raw[0].body, "a value");
  assert.deepEqual(raw[1].body.content ?? raw[1].body, [[1, "a"]]);
});

scenario("no message id: SM-012 WP-082", {}, async (bus) => {
  await bus.send("a", "b");
  const [a, b] = await take(bus.receiver(), 2);
  assert.ok(a.messageId && b.messageId && a.messageId !== b.messageId);
});

scenario("message of 200 KiB: SM-015 WP-075 WP-131", {}, async (bus) => {
  const body = Buffer.alloc(200 << 10, "Ledgerbus");
  await bus.send(body);
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  assert.ok(m.body.equals(body));
  await receiver.completeMessage(m);
});

scenario("message over the limit: SM-008 WP-077", {}, async (bus) => {
  // The link ends with the refusal; for a moment the SDK calls it busy, and tries again.
  const client = bus.connect(undefined, { retryOptions: { maxRetries: 5, retryDelayInMs: 50, timeoutInMs: 10_000 } });
  const sender = client.createSender(bus.queue);
  await assert.rejects(sender.sendMessages({ body: Buffer.alloc(300 << 10) }), { code: "MessageSizeExceeded" });
  await sender.sendMessages({ body: "small" });
  assert.deepEqual(bodies(await take(bus.receiver(), 1)), ["small"]);
});

scenario("fewer messages than asked for (drain): SM-038 SM-044 WP-123 WP-124", {}, async (bus) => {
  const receiver = bus.receiver();
  assert.deepEqual(await receiver.receiveMessages(10, { maxWaitTimeInMs: 100 }), []);
  for (let round = 0; round < 5; round++) {
    await bus.send("a", "b");
    const got = await take(receiver, 2);
    assert.deepEqual(bodies(got), ["a", "b"]);
    for (const m of got) assert.equal(m.deliveryCount, 0);
    await Promise.all(got.map((m) => receiver.completeMessage(m)));
    assert.deepEqual(await receiver.receiveMessages(10, { maxWaitTimeInMs: 50 }), []);
  }
});

scenario("abandon: SM-028 SM-032 SM-040 SM-045 WP-109", {}, async (bus) => {
  await bus.send("a", "b");
  const receiver = bus.receiver();
  for (let n = 0; n < 3; n++) {
    const [m] = await take(receiver, 1);
    assert.equal(m.body, "a");
    assert.equal(m.deliveryCount, n);
    if (n > 0) assert.deepEqual(m.applicationProperties, { round: n - 1, why: "not now" });
    await receiver.abandonMessage(m, { round: n, why: "not now" });
  }
});

scenario("defer: SM-040 SM-127 WP-110", {}, async (bus) => {
  await bus.send("a", "b");
  const receiver = bus.receiver();
  const [a] = await take(receiver, 1);
  await receiver.deferMessage(a, { why: "later" });
  assert.deepEqual(bodies(await take(receiver, 1)), ["b"]);
  await nothing(receiver);
  const peeked = await bus.peek();
  assert.deepEqual(peeked.map((m) => [m.body, m.state]), [["a", "deferred"], ["b", "active"]]);
  assert.deepEqual(peeked[0].applicationProperties, { why: "later" });
});

scenario("dead-letter, and out of the dead-letter queue: SM-034 SM-103 SM-110 WP-111", {}, async (bus) => {
  await bus.send("a");
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  await receiver.deadLetterMessage(m, { deadLetterReason: "reason", deadLetterErrorDescription: "description", added: "property" });
  await nothing(receiver);
  const dlq = bus.dead();
  const [dead] = await take(dlq, 1);
  assert.equal(dead.body, "a");
  assert.equal(dead.deadLetterReason, "reason");
  assert.equal(dead.deadLetterErrorDescription, "description");
  assert.equal(dead.applicationProperties.added, "property");
  assert.ok(dead.sequenceNumber.equals(m.sequenceNumber));
  await bus.client.createSender(bus.queue).sendMessages({ body: dead.body, messageId: dead.messageId });
  await dlq.completeMessage(dead);
  assert.deepEqual(await bus.peek({ subQueueType: "deadLetter" }), []);
  assert.deepEqual(bodies(await take(receiver, 1)), ["a"]);
});

scenario("dead-letter queue: abandon leaves the count: SM-104 WP-119", { MaxDeliveryCount: 1 }, async (bus) => {
  await bus.send("a");
  const receiver = bus.receiver();
  await receiver.deadLetterMessage((await take(receiver, 1))[0]);
  const dlq = bus.dead();
  for (let n = 0; n < 4; n++) {
    const [m] = await take(dlq, 1);
    assert.equal(m.deliveryCount, 0);
    await dlq.abandonMessage(m);
  }
});

scenario("maximum delivery count: SM-100 WP-121", { MaxDeliveryCount: 3 }, async (bus) => {
  await bus.send("a");
  const receiver = bus.receiver();
  for (let n = 0; n < 3; n++) await receiver.abandonMessage((await take(receiver, 1))[0]);
  await nothing(receiver);
  const [dead] = await take(bus.dead(), 1);
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
  assert.ok(dead.deadLetterErrorDescription);
  assert.equal(dead.deliveryCount, 3);
});

scenario("receive and delete: SM-021 SM-056 WP-122", {}, async (bus) => {
  await bus.send("a", "b", "c");
  const receiver = bus.receiver({ receiveMode: "receiveAndDelete" });
  const got = await take(receiver, 3);
  assert.deepEqual(bodies(got), ["a", "b", "c"]);
  await assert.rejects(receiver.completeMessage(got[0]));
  assert.deepEqual(await bus.peek(), []);
});

scenario("peek and its pages: SM-140 SM-141 SM-143 SM-145 WP-165 WP-166", {}, async (bus) => {
  assert.deepEqual(await bus.peek(), []);
  const all = Array.from({ length: 70 }, (_, i) => `${i}`);
  await bus.send(...all);
  const [locked] = await take(bus.receiver(), 1);
  const receiver = bus.receiver();
  const pages = [await receiver.peekMessages(30), await receiver.peekMessages(30), await receiver.peekMessages(30)];
  assert.deepEqual(pages.map((p) => p.length), [30, 30, 10]);
  assert.deepEqual(bodies(pages.flat()), all);
  assert.deepEqual(await receiver.peekMessages(30), []);
  const from = await receiver.peekMessages(2, { fromSequenceNumber: pages[1][5].sequenceNumber });
  assert.deepEqual(bodies(from), ["35", "36"]);
  for (const m of pages.flat()) assert.equal(m.deliveryCount, 0);
  assert.equal(locked.body, "0");
});

scenario("peek the dead-letter queue: SM-146 WP-185", {}, async (bus) => {
  await bus.send("a", "b");
  const receiver = bus.receiver();
  for (const m of await take(receiver, 2)) await receiver.deadLetterMessage(m, { deadLetterReason: m.body });
  assert.deepEqual((await bus.peek({ subQueueType: "deadLetter" })).map((m) => m.deadLetterReason), ["a", "b"]);
});

scenario("renew, and complete after the first deadline: SM-026 WP-163", { LockDuration: "PT5S" }, async (bus) => {
  await bus.send("a");
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  const first = Number(m.lockedUntilUtc);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const renewed = await receiver.renewMessageLock(m);
  assert.ok(Math.abs(renewed - Date.now() - 5000) < 1000, `renewed until ${renewed}`);
  await new Promise((resolve) => setTimeout(resolve, first + 300 - Date.now()));
  await receiver.completeMessage(m);
  assert.deepEqual(await bus.peek(), []);
});

scenario("lock lost: SM-027 SM-033 SM-047 WP-118 WP-121", { LockDuration: "PT5S" }, async (bus) => {
  await bus.send("a");
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  const [again] = await take(bus.receiver(), 1);
  const over = Date.now() - m.lockedUntilUtc;
  assert.ok(over > -5 && over < 1000, `back ${over} ms after the lock's end`);
  assert.equal(again.deliveryCount, 1);
  await assert.rejects(receiver.renewMessageLock(m), { code: "MessageLockLost" });
  await assert.rejects(receiver.completeMessage(m), { code: "MessageLockLost" });
});

scenario("settle after the receiver was closed: SM-035 SM-036 WP-120 WP-174", {}, async (bus) => {
  await bus.send("complete", "abandon", "defer", "dead-letter");
  const first = bus.receiver();
  const [a, b, c, d] = await take(first, 4);
  await first.close();
  const receiver = bus.connect().createReceiver(bus.queue);
  await nothing(receiver);
  await receiver.completeMessage(a);
  await receiver.abandonMessage(b, { by: "management" });
  await receiver.deferMessage(c);
  await receiver.deadLetterMessage(d, { deadLetterReason: "reason" });
  const [again] = await take(receiver, 1);
  assert.equal(again.body, "abandon");
  assert.equal(again.applicationProperties.by, "management");
  assert.deepEqual(bodies(await bus.peek()), ["abandon", "defer"]);
  assert.deepEqual((await bus.peek({ subQueueType: "deadLetter" })).map((m) => m.deadLetterReason), ["reason"]);
});

scenario("subscribe, completing by itself: SM-052 WP-072 WP-101", {}, async (bus) => {
  const n = 500;
  const seen = new Map();
  const errors = [];
  const subscription = bus.receiver().subscribe(
    {
      processMessage: async (m) => void seen.set(m.body, (seen.get(m.body) ?? 0) + 1),
      processError: async ({ error }) => void errors.push(error),
    },
    { maxConcurrentCalls: 20 },
  );
  await bus.send(...Array.from({ length: n }, (_, i) => `${i}`));
  await until(() => seen.size === n);
  await subscription.close();
  assert.deepEqual(errors, []);
  assert.ok([...seen.values()].every((times) => times === 1));
  assert.deepEqual(await bus.peek(), []);
});

scenario("subscribe, settling oneself; a failing handler abandons: SM-032 WP-109", {}, async (bus) => {
  const seen = [];
  const receiver = bus.receiver();
  const subscription = receiver.subscribe(
    {
      processMessage: async (m) => {
        seen.push([m.body, m.deliveryCount]);
        if (m.body === "dead") await receiver.deadLetterMessage(m);
        else if (m.deliveryCount < 2) throw new Error("not yet");
        else await receiver.completeMessage(m);
      },
      processError: async () => {},
    },
    { autoCompleteMessages: false },
  );
  await bus.send("retry", "dead");
  await until(() => seen.length === 4);
  await subscription.close();
  assert.deepEqual(seen.filter(([body]) => body === "retry"), [["retry", 0], ["retry", 1], ["retry", 2]]);
  assert.deepEqual(await bus.peek(), []);
  assert.deepEqual(bodies(await bus.peek({ subQueueType: "deadLetter" })), ["dead"]);
});

scenario("a loop over messages: SM-020", {}, async (bus) => {
  await bus.send("a", "b", "c");
  const receiver = bus.receiver();
  const seen = [];
  for await (const m of receiver.getMessageIterator({ maxWaitTimeInMs: 5000 })) {
    seen.push(m.body);
    await receiver.completeMessage(m);
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, ["a", "b", "c"]);
});

scenario("five receivers, five hundred messages: SM-023 SM-052 WP-103", {}, async (bus) => {
  const n = 500;
  await bus.send(...Array.from({ length: n }, (_, i) => `${i}`));
  const seen = [];
  await Promise.all(
    Array.from({ length: 5 }, async (_, i) => {
      const receiver = (i % 2 ? bus.client : bus.connect()).createReceiver(bus.queue);
      while (seen.length < n) {
        const some = await receiver.receiveMessages(50, { maxWaitTimeInMs: 200 });
        await Promise.all(some.map((m) => receiver.completeMessage(m)));
        seen.push(...bodies(some));
      }
    }),
  );
  assert.equal(seen.length, n);
  assert.equal(new Set(seen).size, n);
});

scenario("time to live: SM-060 SM-061 SM-111", { DeadLetteringOnMessageExpiration: true }, async (bus) => {
  await bus.client.createSender(bus.queue).sendMessages({ body: "old", timeToLive: 300 });
  const [m] = await bus.peek();
  assert.equal(m.timeToLive, 300);
  assert.equal(m.expiresAtUtc - m.enqueuedTimeUtc, 300);
  await new Promise((resolve) => setTimeout(resolve, m.expiresAtUtc - Date.now() + 10));
  await nothing(bus.receiver());
  const [dead] = await take(bus.dead(), 1);
  assert.equal(dead.deadLetterReason, "TTLExpiredException");
  assert.equal(dead.deadLetterErrorDescription, "The message expired and was dead lettered.");
});

scenario("unknown queue: SM-009 WP-048", {}, async (bus) => {
  await assert.rejects(bus.client.createSender("nowhere").sendMessages({ body: "a" }), { code: "MessagingEntityNotFound" });
  await assert.rejects(bus.client.createReceiver("nowhere").receiveMessages(1), { code: "MessagingEntityNotFound" });
  await assert.rejects(bus.client.createReceiver("nowhere").peekMessages(1), { code: "MessagingEntityNotFound" });
  await bus.send("the connection is as good as before");
});

scenario("wrong key: WP-049", {}, async (bus) => {
  const client = bus.connect(bus.broker.connectionString.replace("SAS_KEY_VALUE", "not-the-key"));
  await assert.rejects(client.createSender(bus.queue).sendMessages({ body: "a" }), { code: "UnauthorizedAccess" });
});

scenario("sessions, schedules, deferred receive: refused by name: SM-041", {}, async (bus) => {
  await bus.send("a");
  await assert.rejects(bus.client.acceptSession(bus.queue, "s"), /requested session 's'/); // the SDK's own words for any refusal
  await assert.rejects(bus.client.acceptNextSession(bus.queue), /[Ss]ession receivers/);
  const sender = bus.client.createSender(bus.queue);
  await assert.rejects(sender.scheduleMessages({ body: "b" }, new Date(Date.now() + 60_000)), /schedule-message/);
  const receiver = bus.receiver();
  const [m] = await take(receiver, 1);
  await receiver.deferMessage(m);
  await assert.rejects(receiver.receiveDeferredMessages(m.sequenceNumber), /receive-by-sequence-number/);
  assert.equal((await bus.peek()).length, 1);
});

describe("the JavaScript SDK", { concurrency: 8 }, () => {
  let broker;
  before(async () => {
    broker = await Broker.start(Object.fromEntries(scenarios.map((s) => [s.queue, s.properties])));
  });
  after(() => broker.close());
  for (const { name, queue, run } of scenarios) {
    test(name, { timeout: 60_000 }, async () => {
      const bus = new Bus(broker, queue);
      try {
        await run(bus);
      } finally {
        await bus.close();
      }
    });
  }
});

describe("a broker that is killed", () => {
  test("programs go on when it is back: SM-001 SM-030 SM-053 WP-222", { timeout: 90_000 }, async () => {
    const broker = await Broker.start({ orders: { ...plain, LockDuration: "PT5S", MaxDeliveryCount: 1000 } });
    const client = new ServiceBusClient(broker.connectionString, {
      retryOptions: { maxRetries: 50, retryDelayInMs: 50, maxRetryDelayInMs: 200, timeoutInMs: 5000 },
    });
    try {
      await killedUnderLoad(broker, client);
    } finally {
      await client.close();
      await broker.close();
    }
  });
});

/** Sends and receives while the broker is killed three times. */
async function killedUnderLoad(broker, client) {
  const sender = client.createSender("orders");
  const sent = new Set();
  const seen = new Set();
  const subscription = client.createReceiver("orders").subscribe(
    { processMessage: async (m) => void seen.add(m.body), processError: async () => {} },
    { maxConcurrentCalls: 5 },
  );
  for (let round = 0; round < 3; round++) {
    let back;
    for (let i = 0; i < 50; i++) {
      const body = `${round}-${i}`;
      if (i === 25) {
        await broker.end("SIGKILL");
        back = new Promise((resolve) => setTimeout(resolve, 100)).then(() => broker.run()); // while the program tries to send
      }
      await send(sender, { body });
      sent.add(body);
    }
    await back;
  }
  await until(() => [...sent].every((body) => seen.has(body)));
  await subscription.close();
}

/** Sends until it succeeds: the SDK does not try again by itself when a connection is refused. */
async function send(sender, message) {
  for (;;) {
    try {
      return await sender.sendMessages(message);
    } catch (error) {
      if (!/ECONNREFUSED/.test(`${error.message} ${error.errors}`)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
