// What scenarios are made of: clients of a broker and its queues, and the words of scenarios.json (its terms) as functions.
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import Long from "long";
import WebSocket from "ws";
import { describe, fail, same } from "./check.js";
import { keyed, together } from "./keys.js";

export { sleep };

const noRetries = { maxRetries: 0, timeoutInMs: 10_000 };
// A settlement under way when its connection breaks is given up only after this timeout.
const stubborn = { maxRetries: 100, retryDelayInMs: 20, maxRetryDelayInMs: 200, timeoutInMs: 5000 };

/** How long a receive may take that must succeed, in milliseconds. */
const patience = 20_000;

/** A scenario's queue or topic, its client, and all other clients that it makes. */
export class Bus {
  /** lab has the connection strings and the URL of the control API. Either all queues and topics are partitioned, or none. */
  constructor(lab, queue, { persistent = false, partitioned = false } = {}) {
    Object.assign(this, { lab, queue, partitioned, retryOptions: persistent ? stubborn : noRetries, clients: [], sender: undefined });
    this.key = partitioned ? queue : undefined; // of messages that have none
    this.subscription = undefined; // from which it receives; undefined: from the queue
    this.client = this.connect();
    this.sender = this.client.createSender(queue);
  }

  /** The scenario on another queue or topic, with a new sender, of another client if one is given. */
  at(queue, client = this.client) {
    const other = Object.assign(Object.create(this), { queue, client, subscription: undefined });
    other.sender = client.createSender(queue);
    return other;
  }

  /** The scenario on a subscription of its topic: it receives from that. */
  on(subscription) {
    return Object.assign(Object.create(this), { subscription });
  }

  /** The scenario on another entity with the key of an authorization rule. */
  as(rule, queue, key = rule.primaryKey) {
    return this.at(queue, this.connect({}, withKey(this.lab.connectionString, rule.keyName, key)));
  }

  /** The scenario with a client that speaks TLS. NODE_EXTRA_CA_CERTS says whose certificate it trusts. */
  overTLS(options = {}) {
    return this.at(this.queue, this.connect({}, this.lab.tlsConnectionString, options));
  }

  /** The scenario with a client that speaks AMQP in a WebSocket in TLS. */
  overWebSocket() {
    return this.overTLS({ webSocketOptions: { webSocket: WebSocket } });
  }

  /** An administration client. NODE_EXTRA_CA_CERTS says whose certificate it trusts. */
  admin(connectionString = this.lab.tlsConnectionString) {
    const admin = new ServiceBusAdministrationClient(connectionString, { retryOptions: { maxRetries: 0 } });
    if (this.partitioned) {
      for (const make of ["createQueue", "createTopic"]) {
        const plain = admin[make].bind(admin);
        admin[make] = (name, options) => plain(name, { enablePartitioning: true, ...options });
      }
    }
    return admin;
  }

  /** Another client, with a connection of its own. */
  connect(retryOptions = {}, connectionString = this.lab.connectionString, options = {}) {
    const client = new ServiceBusClient(connectionString, { retryOptions: { ...this.retryOptions, ...retryOptions }, ...options });
    this.clients.push(client);
    return this.key === undefined ? client : keyed(client, this.key);
  }

  /** Sends one message and waits for the acknowledgement. */
  async send(body, properties = {}) {
    await this.sender.sendMessages({ body, ...properties });
  }

  /** Sends messages in as many batches as they need, in their order. */
  async sendAll(messages) {
    let batch = await this.sender.createMessageBatch();
    let previous = messages[0];
    for (const message of messages) {
      const fits = !this.partitioned || together(previous, message);
      previous = message;
      if (fits && batch.tryAddMessage(message)) continue;
      await this.sender.sendMessages(batch);
      batch = await this.sender.createMessageBatch();
      if (!batch.tryAddMessage(message)) throw new Error("a message is larger than a batch");
    }
    await this.sender.sendMessages(batch);
  }

  /** Schedules messages for a time and returns their numbers. */
  async schedule(time, ...messages) {
    const numbers = await this.sender.scheduleMessages(messages, new Date(time));
    return numbers.map(Number);
  }

  async cancel(number) {
    await this.sender.cancelScheduledMessages(Long.fromNumber(number));
  }

  /** A receiver of the queue. It renews no lock by itself: the SDK does that for five minutes unless it is told otherwise. */
  receiver({ client = this.client, ...options } = {}) {
    return client.createReceiver(...source(this), { maxAutoLockRenewalDurationInMs: 0, ...options });
  }

  /** A receiver of the queue on another client. */
  elsewhere(options) {
    return this.receiver({ client: this.connect(), ...options });
  }

  /** A receiver of the queue that removes what it gets. */
  remover(options) {
    return this.receiver({ receiveMode: "receiveAndDelete", ...options });
  }

  /** A receiver of the dead-letter queue. */
  deadLetters(options) {
    return this.receiver({ subQueueType: "deadLetter", ...options });
  }

  /** A receiver of a session. */
  accept(session, client = this.client) {
    return client.acceptSession(...source(this), session, { maxAutoLockRenewalDurationInMs: 0 });
  }

  /** A receiver of the next session, for which it waits. How long it waits is a setting of the client, so it has a client of its own. */
  acceptNext(wait) {
    const client = wait === undefined ? this.client : this.connect({ timeoutInMs: wait });
    return client.acceptNextSession(...source(this), { maxAutoLockRenewalDurationInMs: 0 });
  }

  /** Everything that can be peeked, from the first number. */
  peekAll(options) {
    return peekFrom(this.receiver(options), 0, 100);
  }

  async peekIsEmpty(options) {
    same("peek all", bodies(await this.peekAll(options)), []);
  }

  async deadLettersAreEmpty() {
    same("peek all of the dead letters", bodies(await this.peekAll({ subQueueType: "deadLetter" })), []);
  }

  /** Ends the broker without a warning and starts it again, with changes of queues; answers when it serves. */
  kill(changes = {}) {
    return ask(this.lab, "/kill", JSON.stringify(changes));
  }

  /** Stops the broker in order and starts it again, with settings until its next start; answers when it serves. */
  restart(settings = {}) {
    return ask(this.lab, "/restart", JSON.stringify(settings));
  }

  /** Has another SDK receive a message from a queue and send it to another one as it was received. */
  relay(from, to) {
    return ask(this.lab, "/relay", JSON.stringify({ from, to }));
  }

  /** Resets all connections and answers how many there were. */
  async cut() {
    return (await ask(this.lab, "/cut")).connections;
  }

  /** Messages in the order in which they were sent: where entities are partitioned, only those of one session, or only those of none, are received in that order. */
  sorted(messages, order = (m) => m.body) {
    return this.partitioned ? messages.toSorted((a, b) => (order(a) < order(b) ? -1 : Number(order(a) > order(b)))) : messages;
  }

  async close() {
    await Promise.all(this.clients.map((client) => client.close()));
  }
}

/** What a bus receives from, as the SDK's calls take it. */
const source = ({ queue, subscription }) => (subscription === undefined ? [queue] : [queue, subscription]);

async function ask(lab, path, body) {
  const response = await fetch(lab.control + path, { method: "POST", body });
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** A connection string with another name and key. */
export const withKey = (connectionString, name, key) =>
  connectionString
    .replace(/SharedAccessKeyName=[^;]*/, `SharedAccessKeyName=${name}`)
    .replace(/SharedAccessKey=[^;]*/, `SharedAccessKey=${key}`);

export const bodies = (messages) => messages.map((m) => m.body);
export const number = (message) => message.sequenceNumber.toNumber();
/** A number without its partition, which is none on a plain entity: what counts from 1 (semantics.md 10.3). */
export const lowPart = (n) => Number(n) % 2 ** 48;
export const texts = (n, first = 0) => Array.from({ length: n }, (_, i) => `${first + i}`);

/** Receives n messages, in as many calls as it takes. */
export async function receive(receiver, n) {
  const all = [];
  for (const end = Date.now() + patience; all.length < n; ) {
    const rest = end - Date.now();
    if (rest <= 0) fail("receive", `${n} messages within ${patience / 1000} s`, `${all.length}`);
    all.push(...(await receiver.receiveMessages(n - all.length, { maxWaitTimeInMs: rest })));
  }
  same("messages received", all.length, n); // more than asked for would be a fault too
  return all;
}

/** Receives messages that have these bodies, in this order. */
export async function take(receiver, ...expected) {
  const all = await receive(receiver, expected.length);
  same("receive", bodies(all), expected);
  return all;
}

/** Receives one message that has this body. */
export async function one(receiver, expected) {
  return (await take(receiver, expected))[0];
}

/** A receive call that gets nothing. */
export async function nothing(receiver, ms = 500) {
  same("receive", bodies(await receiver.receiveMessages(1, { maxWaitTimeInMs: ms })), []);
}

/** A receive call of one message that goes on beside: what it got, and when; end is settled when it is over. */
export function waiting(receiver, ms = patience) {
  const call = { got: [], at: undefined };
  call.end = receiver.receiveMessages(1, { maxWaitTimeInMs: ms }).then((got) => {
    Object.assign(call, { got, at: Date.now() });
    return got;
  });
  call.end.catch(() => {}); // if the scenario fails before it asks
  return call;
}

/** Receives messages that have these bodies, in this order, and completes them. */
export async function remove(receiver, ...expected) {
  const all = await take(receiver, ...expected);
  await complete(receiver, all);
  return all;
}

/** Everything that a list of the administration client goes through. */
export async function listed(pages) {
  const all = [];
  for await (const item of pages) all.push(item);
  return all;
}

/** Completes messages, all at once. */
export async function complete(receiver, messages) {
  await Promise.all(messages.map((m) => receiver.completeMessage(m)));
}

/**
 * Peeks from a number up, page by page, until a page is empty. The number is always given: without one the SDK goes on where
 * the last peek of any receiver of that queue and client ended.
 */
export async function peekFrom(receiver, from, size) {
  return (await peekPages(receiver, from, size)).flat();
}

export async function peekPages(receiver, from, size) {
  const pages = [];
  for (;;) {
    const page = await peek(receiver, from, size);
    if (page.length === 0) return pages;
    pages.push(page);
    from = number(page.at(-1)) + 1;
  }
}

export function peek(receiver, from, size) {
  return receiver.peekMessages(size, { fromSequenceNumber: Long.fromNumber(from) });
}

/** Receives deferred messages by their numbers. */
export function deferred(receiver, ...numbers) {
  return receiver.receiveDeferredMessages(numbers.map((n) => Long.fromNumber(n)));
}

/** Waits until 100 ms after a time. */
export const outlive = (time) => sleepUntil(Number(time) + 100);

export async function sleepUntil(time) {
  await sleep(Math.max(0, Number(time) - Date.now()));
}

/** Opens the links of a receiver and the sender before the clock runs. */
export async function warmUp(bus, receiver) {
  await bus.send("O");
  await receiver.completeMessage(await one(receiver, "O"));
}

/** Makes a call again that fails for want of a connection, for as long as one may be patient. Other errors are the scenario's. */
export async function again(call, ms = patience) {
  for (const end = Date.now() + ms; ; ) {
    try {
      return await call();
    } catch (error) {
      if (!isConnection(error) || Date.now() > end) throw error;
      await sleep(20);
    }
  }
}

/**
 * Whether an error says that there is no connection, not that the broker refused. The SDK has many ways to say so: "Unknown error
 * encountered" is a link that was being opened when the socket closed, for which rhea-promise has no error to pass on.
 */
export function isConnection(error) {
  if (error instanceof AggregateError) return error.errors.every(isConnection);
  return (
    error.retryable === true ||
    ["ServiceCommunicationProblem", "ServiceTimeout"].includes(error.code) ||
    /ECONNREFUSED|ECONNRESET|EPIPE|Unknown error (encountered|occurred on the AMQP connection)/.test(describe(error))
  );
}
