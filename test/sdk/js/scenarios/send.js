// Sending: what a receiver sees of what was sent, batches, sizes.
import { randomBytes } from "node:crypto";
import { bodies, complete, lowPart, nothing, number, one, peek, receive, take, texts } from "../bus.js";
import { about, between, fails, has, holds, same } from "../check.js";

export default {
  async "send-receive-complete"(bus) {
    await bus.send("hello");
    await bus.send("again");
    const receiver = bus.receiver();
    const hello = await one(receiver, "hello");
    has("hello", hello, { deliveryCount: 0, state: "active" });
    holds("number at least 1", number(hello) >= 1, number(hello));
    holds("a lock token", hello.lockToken, hello.lockToken);
    holds("a message id", hello.messageId, hello.messageId);
    about("enqueued", hello.enqueuedTimeUtc, Date.now(), 2000);
    about("locked until", hello.lockedUntilUtc, Date.now() + 60_000, 2000);
    same("header ttl", hello._rawAmqpMessage.header.timeToLive, undefined);
    same("absolute-expiry-time", hello._rawAmqpMessage.properties.absoluteExpiryTime, undefined);
    const again = await one(receiver, "again");
    holds("a higher number", number(again) > number(hello), [number(hello), number(again)]);
    holds("another message id", again.messageId !== hello.messageId, again.messageId);
    await complete(receiver, [hello, again]);
    await nothing(receiver);
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "send-all-properties"(bus) {
    const sent = {
      contentType: "application/json", correlationId: "correlation", messageId: "id", partitionKey: "group", sessionId: "group",
      replyTo: "reply-to", replyToSessionId: "reply-group", subject: "subject", to: "to", applicationProperties: { colour: "red" },
    };
    const hour = 3_600_000;
    const check = (m) => {
      has("message", m, sent);
      // The SDK shows absolute-expiry-time - creation-time. The one is the broker's, the other was set by the SDK as it sent.
      between("time to live", m.timeToLive, hour, hour + 1000);
    };
    for (let i = 0; i < 2; i++) await bus.send("body", { ...sent, timeToLive: hour });
    const receiver = bus.receiver();
    const [first, second] = await take(receiver, "body", "body");
    check(first);
    check(second);
    await receiver.completeMessage(second);
    await receiver.abandonMessage(first);
    const again = await one(receiver, "body");
    check(again);
    same("number", number(again), number(first));
    same("count", again.deliveryCount, 1);
  },

  async "send-again"(bus) {
    const sent = { partitionKey: "group", subject: "subject" };
    const received = async (receiver) => {
      const m = await one(receiver, "A");
      has("message", m, sent);
      same("colour", m.applicationProperties.colour, "red");
      return m;
    };
    await bus.send("A", { ...sent, applicationProperties: { colour: "red" } });
    const [receiver, dead] = [bus.receiver(), bus.deadLetters()];
    const first = await received(receiver);
    await bus.sender.sendMessages(first);
    await receiver.completeMessage(first);
    const second = await received(receiver);
    holds("another number", number(second) > number(first), [number(first), number(second)]);
    await receiver.deadLetterMessage(second);
    const letter = await received(dead);
    await bus.sender.sendMessages(letter);
    await dead.completeMessage(letter);
    await receiver.completeMessage(await received(receiver));
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "send-property-types"(bus) {
    // The SDK takes every number without a fraction for an integer, and can write none of those beyond 2^53.
    const sent = {
      zero: 0, one: 1, byte: 255, negative: -128, int: 2 ** 31 - 1, "least int": -(2 ** 31), long: 2 ** 31,
      "great long": 2 ** 53 - 1, "least long": -(2 ** 53 - 1),
      fraction: 1.5, "negative fraction": -0.1, "great fraction": 2 ** 51 + 0.5, least: Number.MIN_VALUE,
      yes: true, no: false, empty: "", umlaut: "ä", text: "x".repeat(1000), null: null,
    };
    const dates = { now: new Date(), old: new Date(0), "before 1970": new Date(-1), late: new Date(253402300799999) };
    await bus.send("a", { applicationProperties: { ...sent, ...dates } });
    const m = await one(bus.receiver(), "a");
    const milliseconds = Object.fromEntries(Object.entries(dates).map(([name, date]) => [name, date.getTime()]));
    same("application properties", m.applicationProperties, { ...sent, ...milliseconds });
  },

  async "send-raw"(bus) {
    const kinds = [
      { bodyType: "data", body: Buffer.from([0x00, 0xff]) },
      { bodyType: "data", body: Buffer.alloc(0) },
      { bodyType: "value", body: "a value" },
      { bodyType: "value", body: -7 },
      { bodyType: "value", body: { a: "x" } },
      { bodyType: "sequence", body: ["a", 1] },
    ];
    const past = new Date(Date.UTC(2000, 0, 1));
    for (const kind of kinds) {
      await bus.sender.sendMessages({
        ...kind,
        header: { durable: true, priority: 7 },
        messageAnnotations: {
          "x-mine": "kept", "x-opt-sequence-number": 777777, "x-opt-enqueued-time": past, "x-opt-locked-until": past,
        },
        deliveryAnnotations: { "x-hop": "kept too" },
        footer: { foot: "note" },
      });
    }
    // Bodies are left as they are: the SDK would take the bytes of a data section for JSON if they happened to be some.
    const all = await receive(bus.receiver({ skipParsingBodyAsJson: true }), kinds.length);
    all.forEach((m, i) => {
      const raw = m._rawAmqpMessage;
      same("kind of body", raw.bodyType, kinds[i].bodyType);
      same("body", sequence(raw.bodyType, m.body), kinds[i].body);
      has("header", raw.header, { durable: true, priority: 7 });
      same("x-mine", raw.messageAnnotations["x-mine"], "kept");
      same("x-hop", raw.deliveryAnnotations?.["x-hop"], "kept too");
      same("footer", raw.footer, { foot: "note" });
      holds("number under 777777", lowPart(number(m)) < 777777, number(m));
      about("enqueued", m.enqueuedTimeUtc, Date.now(), 5000);
      holds("locked until later than now", m.lockedUntilUtc > new Date(), m.lockedUntilUtc);
    });
  },

  async "send-batch"(bus) {
    const batch = await bus.sender.createMessageBatch();
    for (let i = 0; i < 100; i++) {
      holds("room in the batch", batch.tryAddMessage({ body: `${i}`, messageId: `id${i}`, applicationProperties: { i } }), i);
    }
    await bus.sender.sendMessages(batch);
    const all = await take(bus.receiver(), ...texts(100));
    all.forEach((m, i) => {
      has(`message ${i}`, m, { messageId: `id${i}`, applicationProperties: { i } });
      same(`number of ${i}`, number(m), number(all[0]) + i);
    });
  },

  async "send-batch-1mib"(bus) {
    const batch = await bus.sender.createMessageBatch();
    const sent = [];
    for (let body = randomBytes(4000); batch.tryAddMessage({ body }); body = randomBytes(4000)) sent.push(body);
    holds("at least 240 messages in the batch", sent.length >= 240, sent.length);
    await bus.sender.sendMessages(batch);
    const receiver = bus.receiver({ skipParsingBodyAsJson: true });
    const all = await receive(receiver, sent.length);
    all.forEach((m, i) => holds(`bytes of message ${i} as sent`, sent[i].equals(m.body), m.body));
    await complete(receiver, all);
    await bus.peekIsEmpty();
  },

  async "send-batch-refused"(bus) {
    await fails(
      "not-allowed",
      bus.sender.sendMessages([{ body: "A", sessionId: "s" }, { body: "B" }]), // an array is sent as one batch
      bus.partitioned
        ? "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled"
        : "The SessionId was not set on a message",
    );
    await bus.send("C", { sessionId: "s" });
    const session = await bus.accept("s");
    await session.completeMessage(await one(session, "C"));
    await nothing(session);
  },

  async "send-large"(bus) {
    const body = randomBytes(204_800);
    await bus.send(body);
    const receiver = bus.receiver({ skipParsingBodyAsJson: true });
    const [m] = await receive(receiver, 1);
    holds("the bytes as sent", body.equals(m.body), m.body.length);
    await receiver.completeMessage(m);
    await bus.peekIsEmpty();
  },

  async "send-many-at-once"(bus) {
    const all = texts(1500);
    // The SDK counts the timeout of each send from the call on, while it waits behind the others: the scenario's limit comes before.
    const sender = bus.connect({ timeoutInMs: 120_000 }).createSender(bus.queue);
    await Promise.all(all.map((body) => sender.sendMessages({ body })));
    const receiver = bus.remover();
    const got = bodies(await receive(receiver, all.length));
    same("texts, sorted", got.sort(), all.sort());
    await nothing(receiver);
  },

  async "send-unknown-queue"(bus) {
    const missing = `${bus.queue}-missing`;
    const receiver = bus.client.createReceiver(missing);
    await fails("entity-not-found", bus.client.createSender(missing).sendMessages({ body: "A" }));
    await fails("entity-not-found", receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }));
    await fails("entity-not-found", peek(receiver, 0, 1));
    await bus.send("B");
    await one(bus.receiver(), "B");
    await fails("entity-not-found", receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }));
  },
};

/** A body as it was sent: the SDK shows a sequence as the list of its sections. */
function sequence(bodyType, body) {
  return bodyType === "sequence" && Array.isArray(body[0]) ? body.flat() : body;
}
