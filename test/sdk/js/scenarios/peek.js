// Peek: what can be seen without receiving it.
import { randomBytes } from "node:crypto";
import { bodies, number, one, peek, peekPages, take, texts } from "../bus.js";
import { holds, same } from "../check.js";

export default {
  async "peek-states"(bus) {
    await bus.peekIsEmpty();
    for (const body of "LDA") await bus.send(body);
    await bus.schedule(Date.now() + 3_600_000, { body: "S" });
    const receiver = bus.receiver();
    const [l, d] = await take(receiver, "L", "D");
    await receiver.deferMessage(d);
    for (let i = 0; i < 2; i++) {
      const all = await bus.peekAll();
      same("peek all", all.map((m) => [m.body, m.state, m.deliveryCount, m.lockToken, m.lockedUntilUtc]), [
        ["L", "active", 0, undefined, undefined], ["D", "deferred", 1, undefined, undefined],
        ["A", "active", 0, undefined, undefined], ["S", "scheduled", 0, undefined, undefined],
      ]);
      const numbers = all.map(number);
      same("numbers, rising", numbers, numbers.toSorted((a, b) => a - b));
    }
    await receiver.completeMessage(l);
    same("count of A", (await one(receiver, "A")).deliveryCount, 0);
  },

  async "peek-pages"(bus) {
    await bus.sendAll(texts(230).map((body) => ({ body })));
    const receiver = bus.receiver();
    const pages = [];
    // Without a number the SDK goes on where it was.
    for (let page = await receiver.peekMessages(50); page.length > 0; page = await receiver.peekMessages(50)) {
      holds("at most 50 messages a page", page.length <= 50, page.length);
      pages.push(page);
    }
    const all = pages.flat();
    same("peeked", bodies(all), texts(230));
    same("two from 100", bodies(await peek(receiver, number(all[100]), 2)), ["100", "101"]);
    same("two from behind 229", bodies(await peek(receiver, number(all[229]) + 1, 2)), []);
  },

  async "peek-large"(bus) {
    const sent = Array.from({ length: 12 }, () => randomBytes(204_800));
    for (const [i, body] of sent.entries()) await bus.send(body, { subject: `${i}` });
    const pages = await peekPages(bus.receiver({ skipParsingBodyAsJson: true }), 0, 100);
    const all = pages.flat();
    same("subjects", all.map((m) => m.subject), texts(12));
    all.forEach((m, i) => holds(`the bytes of ${i} as sent`, sent[i].equals(m.body), m.body.length));
    holds("fewer than 12 on the first page", pages[0].length < 12, pages[0].length);
  },
};
