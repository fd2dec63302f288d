// Credit: messages that a receiver asked for, did not ask for, or asked for and left.
import { bodies, complete, nothing, one, receive, sleep, take, texts } from "../bus.js";
import { atOnce, between, same } from "../check.js";

export default {
  async "credit-drain-on-close"(bus) {
    const receiver = bus.receiver();
    const began = Date.now();
    same("receive", bodies(await receiver.receiveMessages(10, { maxWaitTimeInMs: 200 })), []);
    atOnce("the time of nothing", Date.now(), began);
    for (const body of "ABC") await bus.send(body);
    for (let count = 0; count < 5; count++) {
      const got = [];
      for (const end = Date.now() + 20_000; got.length < 3 && Date.now() < end; ) {
        got.push(...(await receiver.receiveMessages(10, { maxWaitTimeInMs: 1000 })));
      }
      same("receive", got.map((m) => [m.body, m.deliveryCount]), [["A", count], ["B", count], ["C", count]]);
      for (const m of got.reverse()) await receiver.abandonMessage(m);
    }
    await complete(receiver, await take(receiver, "A", "B", "C"));
    same("receive", bodies(await receiver.receiveMessages(10, { maxWaitTimeInMs: 300 })), []);
    await receiver.close();
    await bus.send("D");
    const sent = Date.now();
    const second = bus.receiver();
    const d = await one(second, "D");
    atOnce("the time of D", Date.now(), sent);
    same("count of D", d.deliveryCount, 0);
    await second.completeMessage(d);
    await bus.peekIsEmpty();
  },

  async "credit-between-calls"(bus) {
    const [first, second] = [bus.receiver(), bus.receiver()];
    for (const body of texts(10)) {
      same("receive", bodies(await first.receiveMessages(10, { maxWaitTimeInMs: 200 })), []);
      await bus.send(body);
      const sent = Date.now();
      const m = await one(second, body);
      between("the time of the message", Date.now(), 0, sent + 7000);
      same("count", m.deliveryCount, 0);
      await second.completeMessage(m);
    }
    await bus.peekIsEmpty();
  },

  async "credit-prefetch"(bus) {
    const all = texts(100);
    await bus.sender.sendMessages(all.map((body) => ({ body }))); // an array is sent as one batch
    const first = bus.receiver();
    const ten = (await receive(first, 50)).slice(0, 10);
    await complete(first, ten);
    await first.close();
    const second = bus.receiver();
    const rest = [];
    for (const end = Date.now() + 20_000; rest.length < 90 && Date.now() < end; ) {
      const some = await second.receiveMessages(90 - rest.length, { maxWaitTimeInMs: 1000 });
      for (const m of some) between(`count of ${m.body}`, m.deliveryCount, 0, 1);
      await complete(second, some); // each before its lock ends, which is when the last of the others come
      rest.push(...some);
    }
    same("texts, sorted", bodies([...ten, ...rest]).sort(), all.toSorted());
    await bus.peekIsEmpty();
    await bus.deadLettersAreEmpty();
  },

  async "credit-ten-receivers"(bus) {
    const all = texts(1000);
    await bus.sendAll(all.map((body) => ({ body })));
    const receivers = all.slice(0, 10).map((_, i) => (i < 5 ? bus.receiver() : bus.elsewhere()));
    const seen = [];
    const end = Date.now() + 40_000;
    await Promise.all(receivers.map(async (receiver) => {
      while (seen.length < all.length && Date.now() < end) {
        const some = await receiver.receiveMessages(25, { maxWaitTimeInMs: 1000 });
        for (const m of some) same(`count of ${m.body}`, m.deliveryCount, 0);
        await complete(receiver, some);
        seen.push(...bodies(some));
      }
    }));
    same("texts, sorted", seen.sort(), all.sort());
    await bus.peekIsEmpty();
  },

  async "credit-streaming"(bus) {
    const all = texts(500);
    const [seen, errors] = [[], []];
    const loop = bus.receiver().subscribe(
      { processMessage: async (m) => void seen.push(m.body), processError: async ({ error }) => void errors.push(error.message) },
      { maxConcurrentCalls: 20 }, // and completes each by itself
    );
    await bus.sendAll(all.map((body) => ({ body })));
    for (const end = Date.now() + 20_000; seen.length < all.length && Date.now() < end; ) await sleep(10);
    const began = Date.now();
    await loop.close();
    between("milliseconds until closed", Date.now() - began, 0, 5000);
    same("texts, sorted", seen.sort(), all.sort());
    same("errors", errors, []);
    await bus.peekIsEmpty();
    await bus.send("A");
    same("count of A", (await one(bus.receiver(), "A")).deliveryCount, 0);
  },
};
