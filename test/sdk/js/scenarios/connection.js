// Connections: refused ones, silent ones, and what goes on when they are cut or the broker is killed.
import { again, bodies, complete, isConnection, nothing, one, peek, receive, sleep, texts, waiting } from "../bus.js";
import { atOnce, between, fails, holds, onTime, same } from "../check.js";

/** Scenarios that take longer than usual, in seconds. */
export const seconds = { "connection-idle": 100, "connection-kill-under-load": 90 };

export default {
  async "connection-wrong-key"(bus) {
    const client = bus.connect({}, bus.lab.connectionString.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=not-the-key"));
    await fails("unauthorized", client.createSender(bus.queue).sendMessages({ body: "A" }));
    await fails("unauthorized", bus.receiver({ client }).receiveMessages(1, { maxWaitTimeInMs: 500 }));
    await fails("unauthorized", peek(bus.receiver({ client }), 0, 1));
    await bus.send("B");
    const receiver = bus.receiver();
    await one(receiver, "B");
    await nothing(receiver);
  },

  async "connection-idle"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    await receiver.completeMessage(await one(receiver, "A"));
    await nothing(receiver, 65_000);
    await bus.send("B");
    const sent = Date.now();
    const b = await one(receiver, "B");
    atOnce("the time of B", Date.now(), sent);
    same("count of B", b.deliveryCount, 0);
    await receiver.completeMessage(b);
  },

  async "connection-idle-links"(bus) {
    await bus.restart({ limits: { "link-idle": "2s", "no-links": "2s" } });
    const [receiver, peeker] = [bus.receiver(), bus.receiver()];
    await goOn(bus, receiver, peeker, "A");
    await sleep(3000); // without links
    await goOn(bus, receiver, peeker, "B");
    await sleep(6000); // without a connection
    same("connections", await bus.cut(), 0);
    await goOn(bus, receiver, peeker, "C");
    await bus.kill(); // which takes the settings back
  },

  async "connection-detached"(bus) {
    const admin = bus.admin();
    const update = (maxDeliveryCount) => async () => {
      await admin.updateQueue({ ...(await admin.getQueue(bus.queue)), maxDeliveryCount });
    };
    const restart = () => bus.restart();
    const [receiver, peeker] = [bus.receiver(), bus.receiver()];
    await goOn(bus, receiver, peeker, "A");
    await update(20)();
    await goOn(bus, receiver, peeker, "B");
    await restart();
    await goOn(bus, receiver, peeker, "C");
    await waitThrough(receiver, update(30), () => bus.send("D"), "D");
    await waitThrough(receiver, restart, () => bus.send("E"), "E");
    await bus.peekIsEmpty();
  },

  async "connection-cut-send"(bus) {
    const all = texts(300);
    for (const [i, body] of all.entries()) {
      await again(() => bus.send(body));
      if (i === 99 || i === 199) await bus.cut();
    }
    const seen = await drain(bus.remover());
    same("texts, each once", [...new Set(seen)].sort(), all.sort());
  },

  async "connection-cut-waiting"(bus) {
    const sender = bus.connect().createSender(bus.queue);
    await waitThrough(bus.receiver(), () => bus.cut(), () => sender.sendMessages({ body: "A" }), "A");
    await bus.peekIsEmpty();
  },

  async "connection-cut-lock"(bus) {
    await bus.send("A");
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    await bus.cut();
    const cut = Date.now();
    await again(() => nothing(bus.elsewhere()));
    await again(() => receiver.completeMessage(a));
    between("the time of the completion", Date.now(), 0, cut + 20_000);
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "connection-cut-receive-and-delete"(bus) {
    await bus.sendAll(texts(500).map((body) => ({ body })));
    const receiver = bus.remover();
    const seen = [];
    const cuts = [100, 200, 300];
    for (let last = Date.now(); Date.now() < last + 2000; ) {
      const call = again(() => receiver.receiveMessages(50, { maxWaitTimeInMs: 500 }));
      call.catch(() => {}); // it is asked for after the cut
      if (seen.length >= cuts[0]) {
        cuts.shift();
        await bus.cut();
      }
      const some = await call;
      if (some.length > 0) last = Date.now();
      seen.push(...bodies(some));
    }
    same("cuts left", cuts, []);
    same("texts that came twice", seen.filter((body, i) => seen.indexOf(body) < i), []);
    await again(() => bus.peekIsEmpty());
  },

  async "connection-kill-between-calls"(bus) {
    const [receiver, peeker] = [bus.receiver(), bus.receiver()];
    await goOn(bus, receiver, peeker, "A");
    for (const body of "BC") {
      await bus.kill();
      await goOn(bus, receiver, peeker, body);
    }
  },

  async "connection-kill-locks"(bus) {
    for (const body of "AB") await bus.send(body);
    const receiver = bus.receiver();
    const [a, b] = await receive(receiver, 2);
    const end = b.lockedUntilUtc;
    await bus.kill();
    await again(() => nothing(bus.elsewhere()));
    await again(() => receiver.completeMessage(a));
    holds("completed before the lock's end", Date.now() < Number(end), Date.now());
    const second = bus.receiver();
    const call = waiting(second);
    same("receive", bodies(await call.end), ["B"]);
    onTime("the delivery of B", call.at, end);
    same("count of B", call.got[0].deliveryCount, 1);
    await second.completeMessage(call.got[0]);
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "connection-kill-under-load"(bus) {
    const load = new Load(bus);
    await Promise.all([load.send("a"), load.send("b"), load.kill([100, 250]), load.receive(), load.receive()]);
    load.check();
    await bus.deadLettersAreEmpty();
  },
};

/** Has a sender, a receiver and a peek do something, whatever became of their links. */
async function goOn(bus, receiver, peeker, body) {
  await again(() => bus.send(body));
  await receiver.completeMessage(await again(() => one(receiver, body)));
  same("peek", bodies(await again(() => peek(peeker, 0, 1))), []);
}

/** Has a receiver wait while something happens, which costs it its link or connection. It gets what is sent then. */
async function waitThrough(receiver, happens, send, body) {
  const call = waiting(receiver);
  await sleep(500);
  await happens();
  const since = Date.now();
  await again(send);
  const got = await call.end.catch((error) => {
    if (!isConnection(error)) throw error;
    return []; // so it is called again
  });
  const m = got[0] ?? (await again(() => one(receiver, body)));
  same("body", m.body, body);
  between(`the time of ${body}`, Date.now(), 0, since + 20_000);
  await receiver.completeMessage(m);
}

/** Receives until two seconds pass without a message, and returns the bodies. */
async function drain(receiver) {
  const seen = [];
  for (let last = Date.now(); Date.now() < last + 2000; ) {
    const some = await again(() => receiver.receiveMessages(100, { maxWaitTimeInMs: 500 }));
    if (some.length > 0) last = Date.now();
    seen.push(...bodies(some));
  }
  return seen;
}

/** Senders and receivers, and what they know of each text. */
export class Load {
  constructor(bus) {
    Object.assign(this, { bus, senders: 0, acknowledged: new Set(), twice: new Set(), received: new Set(), completed: new Set() });
    this.back = []; // texts that came again after their complete was acknowledged
    this.end = Date.now() + 60_000;
  }

  /** Sends 200 texts, one after another, each until it is acknowledged. */
  async send(name) {
    this.senders++;
    const sender = this.bus.connect({ maxRetries: 0 }).createSender(this.bus.queue); // so that a failed send is seen
    for (const body of texts(200).map((i) => `${name}${i}`)) {
      for (let tries = 1; !this.acknowledged.has(body); tries++) {
        if (tries > 1) this.twice.add(body);
        try {
          await sender.sendMessages({ body });
          this.acknowledged.add(body);
        } catch (error) {
          if (!isConnection(error) || Date.now() > this.end) throw error;
          await sleep(20);
        }
      }
    }
    this.senders--;
  }

  /** Kills the broker after that many acknowledged sends. */
  async kill(counts) {
    for (const count of counts) {
      while (this.acknowledged.size < count) await sleep(5);
      await this.bus.kill();
    }
  }

  /** Receives and completes until everything was sent and nothing is left. */
  async receive() {
    const receiver = this.bus.elsewhere();
    while (Date.now() < this.end) {
      const some = await again(() => receiver.receiveMessages(10, { maxWaitTimeInMs: 500 }));
      await Promise.all(some.map((m) => this.complete(receiver, m)));
      if (some.length === 0 && this.senders === 0 && (await again(() => this.bus.peekAll())).length === 0) return;
    }
    throw new Error("messages: expected none to be left within 60 s, saw some");
  }

  async complete(receiver, m) {
    this.received.add(m.body);
    if (this.completed.has(m.body) && !this.twice.has(m.body)) this.back.push(m.body);
    try {
      // When the link is gone the SDK completes by $management, and if the broker is killed again meanwhile it waits a minute for
      // an answer. Such a complete is left to itself.
      const left = sleep(10_000, false, { ref: false });
      if (await Promise.race([receiver.completeMessage(m).then(() => true), left])) this.completed.add(m.body);
    } catch (error) {
      // It comes back, unless the broker did it and only the answer was lost. The SDK may have noticed so by trying again.
      const last = error instanceof AggregateError ? error.errors.at(-1) : error;
      if (!isConnection(last) && last.code !== "MessageLockLost") throw error;
    }
  }

  check() {
    same("texts acknowledged", this.acknowledged.size, 400);
    same("texts acknowledged and not received", [...this.acknowledged].filter((body) => !this.received.has(body)), []);
    same("texts that came again after their complete", this.back, []);
  }
}
