// Ways to the broker other than AMQP over plain TCP.
import { deferred, nothing, number, one, remove, take } from "../bus.js";
import { has, holds, onTime, same } from "../check.js";

const session = { sessionId: "s" };
const hour = 3_600_000;

export default {
  "connection-tls": (bus) => everything(bus.overTLS()),
  "connection-websocket": (bus) => everything(bus.overWebSocket()),
};

async function everything(bus) {
  const [first, grouped] = [bus.on("one"), bus.on("grouped")];
  await bus.send("A", { ...session, applicationProperties: { colour: "red" } });
  await bus.sendAll([..."BCDE"].map((body) => ({ body, ...session })));
  const receiver = first.receiver();
  const [a, b, c, d] = await take(receiver, "A", "B", "C", "D");
  await receiver.completeMessage(a);
  await receiver.abandonMessage(b);
  await receiver.deferMessage(c);
  await receiver.deadLetterMessage(d, { deadLetterReason: "reason" });
  const again = await one(receiver, "B");
  same("count of B", again.deliveryCount, 1);
  const e = await one(receiver, "E");
  const before = e.lockedUntilUtc;
  const renewed = await receiver.renewMessageLock(e);
  holds("locked until later", renewed > before, [before, renewed]);
  for (const m of [again, e]) await receiver.completeMessage(m);

  same("peek all", (await first.peekAll()).map((m) => [m.body, m.state]), [["C", "deferred"]]);
  const [byNumber] = await deferred(receiver, number(c));
  same("received by number", byNumber.body, "C");
  await receiver.completeMessage(byNumber);
  const [dead] = await remove(first.deadLetters(), "D");
  has("D", dead, { deadLetterReason: "reason" });
  await first.peekIsEmpty();

  const [x] = await bus.schedule(Date.now() + hour, { body: "X", ...session });
  await bus.cancel(x);
  const time = Date.now() + 2000;
  await bus.schedule(time, { body: "F", ...session });
  const f = await one(receiver, "F");
  onTime("the delivery of F", Date.now(), time);
  await receiver.completeMessage(f);
  const large = "L".repeat(200_000);
  await bus.send(large, session);
  await remove(receiver, large);
  await first.peekIsEmpty();

  const s = await grouped.accept("s");
  await s.setSessionState("state");
  same("state", await s.getSessionState(), "state");
  await remove(s, ..."ABCDEF", large);
  await nothing(s);

  const red = bus.on("red").receiver();
  await remove(red, "A");
  await nothing(red);
}
