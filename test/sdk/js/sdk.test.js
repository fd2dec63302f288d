// What the JavaScript SDK has and the scenarios of all SDKs have not: bodies as JSON, and its loops over messages. What the
// broker does for all SDKs is shown by ./scenarios. Each test has a queue of its own and names the statements of semantics.md
// (SM) and wire-protocol.md (WP) it is about.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Broker } from "./broker.js";
import { Bus, bodies, isConnection, receive, sleep } from "./bus.js";

const properties = { LockDuration: "PT1M", MaxDeliveryCount: 10, DefaultMessageTimeToLive: "P1D" };

/** Waits until a condition holds. */
async function until(condition) {
  for (const end = Date.now() + 20_000; !condition(); await sleep(10)) assert.ok(Date.now() < end, "it never happened");
}

describe("the JavaScript SDK", { concurrency: 4 }, () => {
  const queues = [];
  let broker;
  before(async () => {
    broker = await Broker.start(Object.fromEntries(queues.map((queue) => [queue, properties])));
  });
  after(() => broker.close());

  function onQueue(queue, name, run) {
    queues.push(queue);
    test(name, { timeout: 60_000 }, async () => {
      const bus = new Bus({ connectionString: broker.connectionString }, queue);
      try {
        await run(bus);
      } finally {
        await bus.close();
      }
    });
  }

  onQueue("bodies", "kinds of bodies: SM-015 WP-080", async (bus) => {
    const kinds = ["text", { a: [1, null, "x"] }, [1, 2], 7, true, null];
    for (const body of kinds) await bus.send(body);
    const receiver = bus.remover();
    assert.deepEqual(bodies(await receive(receiver, kinds.length)), kinds);
    await bus.send([[1, "a"]], { bodyType: "sequence" });
    const [sequence] = await receive(receiver, 1);
    assert.equal(sequence._rawAmqpMessage.bodyType, "sequence");
    assert.deepEqual(sequence.body, [[1, "a"]]);
  });

  onQueue("handlers", "subscribe, settling oneself; a failing handler abandons: SM-032 WP-109", async (bus) => {
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
    await bus.send("retry");
    await bus.send("dead");
    await until(() => seen.length === 4);
    await subscription.close();
    assert.deepEqual(seen.filter(([body]) => body === "retry"), [["retry", 0], ["retry", 1], ["retry", 2]]);
    await bus.peekIsEmpty();
    assert.deepEqual(bodies(await bus.peekAll({ subQueueType: "deadLetter" })), ["dead"]);
  });

  onQueue("iterator", "a loop over messages: SM-020", async (bus) => {
    for (const body of "abc") await bus.send(body);
    const receiver = bus.receiver();
    const seen = [];
    for await (const m of receiver.getMessageIterator({ maxWaitTimeInMs: 5000 })) {
      seen.push(m.body);
      await receiver.completeMessage(m);
      if (seen.length === 3) break;
    }
    assert.deepEqual(seen, ["a", "b", "c"]);
  });
});

// The scenarios have a proxy before the broker, which takes connections at all times. Here connections are refused while the broker is down.
describe("a broker that is killed", () => {
  test("a subscription goes on when it is back: SM-001 SM-030 SM-053 WP-222", { timeout: 90_000 }, async () => {
    const broker = await Broker.start({ orders: { ...properties, LockDuration: "PT5S", MaxDeliveryCount: 1000 } });
    const bus = new Bus({ connectionString: broker.connectionString }, "orders", { persistent: true });
    try {
      await killedUnderLoad(broker, bus);
    } finally {
      await bus.close();
      await broker.close();
    }
  });
});

/** Sends and receives while the broker is killed three times. */
async function killedUnderLoad(broker, bus) {
  const sent = new Set();
  const seen = new Set();
  const subscription = bus.receiver().subscribe(
    { processMessage: async (m) => void seen.add(m.body), processError: async () => {} },
    { maxConcurrentCalls: 5 },
  );
  for (let round = 0; round < 3; round++) {
    let back;
    for (let i = 0; i < 50; i++) {
      const body = `${round}-${i}`;
      if (i === 25) {
        await broker.end("SIGKILL");
        back = sleep(100).then(() => broker.run()); // while the program tries to send
      }
      await send(bus, body);
      sent.add(body);
    }
    await back;
  }
  await until(() => [...sent].every((body) => seen.has(body)));
  await subscription.close();
}

/** Sends until it succeeds: the SDK does not try again by itself when a connection is refused. */
async function send(bus, body) {
  for (;;) {
    try {
      return await bus.send(body);
    } catch (error) {
      if (!isConnection(error)) throw error;
      await sleep(20);
    }
  }
}
