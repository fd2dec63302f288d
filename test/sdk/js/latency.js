// Measures how long calls of the SDK to $management take: the figure of docs/performance.md.
//
//	LEDGERBUS=../../../bin/ledgerbus node latency.js               against a broker of its own
//	node latency.js 'Endpoint=…' QUEUE [websocket]                 against a running one; NODE_EXTRA_CA_CERTS says whom to trust
import { ServiceBusClient } from "@azure/service-bus";
import Long from "long";
import WebSocket from "ws";
import { Broker } from "./broker.js";

const calls = 200;
const fromFirst = { fromSequenceNumber: Long.fromNumber(1) };

/** The times of calls made one after another, in ms and in rising order. The first ones, which open links, do not count. */
async function times(call) {
  const all = [];
  for (let i = -10; i < calls; i++) {
    const began = performance.now();
    await call();
    if (i >= 0) all.push(performance.now() - began);
  }
  return all.sort((a, b) => a - b);
}

async function measure(connectionString, queue, options) {
  const client = new ServiceBusClient(connectionString, options);
  try {
    await client.createSender(queue).sendMessages({ body: "hello" });
    const receiver = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
    const [locked] = await receiver.receiveMessages(1);
    const of = {
      "peek a message": () => receiver.peekMessages(1, fromFirst),
      "renew a lock": () => receiver.renewMessageLock(locked),
    };
    for (const [name, call] of Object.entries(of)) {
      const all = await times(call);
      const at = (share) => all[Math.ceil(share * calls) - 1].toFixed(2);
      console.log(`${name}, ${calls} times: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
    }
    await receiver.completeMessage(locked);
  } finally {
    await client.close();
  }
}

const [connectionString, queue, transport] = process.argv.slice(2);
if (connectionString !== undefined) {
  await measure(connectionString, queue, transport === "websocket" ? { webSocketOptions: { webSocket: WebSocket } } : {});
} else {
  const broker = await Broker.start({ latency: {} });
  try {
    await measure(broker.connectionString, "latency", {});
  } finally {
    await broker.close();
  }
}
