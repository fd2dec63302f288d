// Sessions. An open receiver of a session is its lock.
import { randomBytes } from "node:crypto";
import {
  again, bodies, complete, deferred, nothing, number, one, outlive, peek, peekFrom, sleepUntil, take, texts,
} from "../bus.js";
import { about, atOnce, between, fails, has, holds, promptly, same } from "../check.js";

const s = { sessionId: "s" };

/** What takes the place of an empty peek in queues with sessions, once all receivers of sessions are closed. */
async function noSessionLeft(bus) {
  await fails("no-session", bus.acceptNext(1000));
}

export default {
  async "session-accept"(bus) {
    const session = await bus.accept("s");
    same("session id", session.sessionId, "s");
    about("locked until", session.sessionLockedUntilUtc, Date.now() + 60_000, 2000);
    await nothing(session);
    await bus.send("A", s);
    await bus.send("X", { sessionId: "t" });
    const a = await one(session, "A");
    has("A", a, { sessionId: "s", deliveryCount: 0 });
    await session.completeMessage(a);
    await nothing(session);
  },

  async "session-next"(bus) {
    const ids = texts(50).map((i) => `s${i}`);
    await bus.sendAll(ids.flatMap((sessionId) => [{ body: "1", sessionId }, { body: "2", sessionId }]));
    const sessions = [];
    for (const _ of ids) sessions.push(await bus.acceptNext());
    same("session ids, sorted", sessions.map((session) => session.sessionId).sort(), ids.toSorted());
    const got = await Promise.all(sessions.map((session) => take(session, "1", "2")));
    await fails("no-session", bus.acceptNext(2000));
    await Promise.all(sessions.map((session, i) => complete(session, got[i])));
    await Promise.all(sessions.map((session) => session.close()));
    await noSessionLeft(bus);
  },

  async "session-next-waits"(bus) {
    const began = Date.now();
    await fails("no-session", bus.acceptNext(2000));
    between("milliseconds until no session", Date.now() - began, 1000, 4000);
    const accepted = bus.acceptNext(10_000).then((session) => ({ session, at: Date.now() }));
    accepted.catch(() => {}); // if the send fails
    await sleepUntil(Date.now() + 1000);
    await bus.connect().createSender(bus.queue).sendMessages({ body: "A", ...s });
    const sent = Date.now();
    const { session, at } = await accepted;
    atOnce("the time of the session", at, sent);
    same("session id", session.sessionId, "s");
    await session.completeMessage(await one(session, "A"));
  },

  async "session-held"(bus) {
    await bus.send("A", s);
    const holder = await bus.accept("s");
    const began = Date.now();
    const other = bus.connect();
    await fails("session-held", bus.accept("s", other));
    atOnce("the time of the refusal", Date.now(), began);
    await fails("no-session", bus.acceptNext(2000));
    await holder.completeMessage(await one(holder, "A"));
    await holder.close();
    same("session id", (await bus.accept("s", other)).sessionId, "s");
  },

  async "session-fifo"(bus) {
    await bus.sendAll(texts(100).map((body, i) => ({ body, sessionId: `s${i % 4}` })));
    await Promise.all([0, 1, 2, 3].map(async (n) => {
      const session = await bus.accept(`s${n}`);
      const expected = texts(25).map((i) => `${4 * i + n}`);
      await complete(session, await take(session, ...expected.slice(0, 2)));
      const third = await one(session, expected[2]);
      await session.abandonMessage(third);
      const again = await one(session, expected[2]);
      same("count", again.deliveryCount, 1);
      await complete(session, [again, ...(await take(session, ...expected.slice(3)))]);
      await session.close();
    }));
    await noSessionLeft(bus);
  },

  async "session-renew"(bus) {
    await bus.send("A", s);
    const session = await bus.accept("s");
    const first = session.sessionLockedUntilUtc;
    const a = await one(session, "A");
    await sleepUntil(Date.now() + 2500);
    about("renewed until", await session.renewSessionLock(), Date.now() + 5000, 2000);
    await outlive(first);
    await fails("session-held", bus.accept("s", bus.connect()));
    await session.completeMessage(a);
    await session.close();
    await noSessionLeft(bus);
  },

  async "session-lock-lost"(bus) {
    for (const body of "AB") await bus.send(body, s);
    const old = await bus.accept("s");
    const end = old.sessionLockedUntilUtc;
    const [a] = await take(old, "A", "B");
    await sleepUntil(end);
    const session = await acceptFreed(bus, "s", end);
    const got = await take(session, "A", "B");
    for (const m of got) same(`count of ${m.body}`, m.deliveryCount, 1);
    await fails("session-lock-lost", old.completeMessage(a));
    await fails("session-lock-lost", old.renewSessionLock());
    await fails("session-lock-lost", old.getSessionState());
    await complete(session, got);
    await session.close();
    await noSessionLeft(bus);
  },

  async "session-release"(bus) {
    for (const body of "AB") await bus.send(body, s);
    const first = await bus.accept("s");
    const [a] = await take(first, "A", "B");
    await first.completeMessage(a);
    await first.close();
    const session = await bus.accept("s", bus.connect());
    const b = await one(session, "B");
    same("count", b.deliveryCount, 0);
    await session.completeMessage(b);
    await nothing(session);
  },

  async "session-state"(bus) {
    const [small, large] = [Buffer.from([0x00, 0x01, 0xff]), randomBytes(10_000)];
    await bus.send("A", s);
    const session = await bus.accept("s");
    same("state", await session.getSessionState(), null);
    for (const state of [small, large]) {
      await session.setSessionState(state);
      holds("the state as set", state.equals(await session.getSessionState()), state);
    }
    await session.completeMessage(await one(session, "A"));
    await session.close();
    const other = bus.connect();
    const second = await bus.accept("s", other);
    holds("the state as set", large.equals(await second.getSessionState()), large);
    await second.setSessionState(null); // the SDK sends the JSON text null, and reads it as null
    same("state", await second.getSessionState(), null);
    await second.close();
    same("state", await (await bus.accept("s", other)).getSessionState(), null);
  },

  async "session-required"(bus) {
    const text = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.";
    await fails("not-allowed", bus.receiver().receiveMessages(1, { maxWaitTimeInMs: 500 }), text);
    await fails("not-allowed", bus.send("A"), "The SessionId was not set on a message");
    await bus.send("B", s);
    const session = await bus.accept("s");
    await one(session, "B");
    await nothing(session);
  },

  async "session-not-required"(bus) {
    await fails("session-held", bus.accept("s")); // the SDK's word for any refusal of a named session
    await fails("not-allowed", bus.acceptNext());
    await bus.send("A", s);
    const receiver = bus.receiver();
    const a = await one(receiver, "A");
    same("session id", a.sessionId, "s");
    // With a session id the SDK settles on the link alone, session or not.
    await receiver.completeMessage(a);
  },

  async "session-dead-letter"(bus) {
    for (const body of "AB") await bus.send(body, s);
    const session = await bus.accept("s");
    for (const count of [0, 1]) {
      const a = await one(session, "A");
      same("count of A", a.deliveryCount, count);
      await session.abandonMessage(a);
    }
    const b = await one(session, "B");
    same("count of B", b.deliveryCount, 0);
    await session.completeMessage(b);
    await nothing(session);
    const dlq = bus.deadLetters();
    const dead = await one(dlq, "A");
    has("dead letter", dead, { sessionId: "s", deadLetterReason: "MaxDeliveryCountExceeded", deliveryCount: 2 });
    await dlq.completeMessage(dead);
  },

  async "session-deferred"(bus) {
    await bus.send("A", s);
    const first = await bus.accept("s");
    const a = await one(first, "A");
    await first.deferMessage(a);
    await first.close();
    const other = await bus.accept("t");
    await fails("message-not-found", deferred(other, number(a)));
    await other.close();
    const session = await bus.accept("s");
    const got = await deferred(session, number(a));
    same("received by number", got.map((m) => [m.body, m.sessionId]), [["A", "s"]]);
    await complete(session, got);
    await fails("message-not-found", deferred(session, number(a)));
  },

  async "session-peek"(bus) {
    for (const [body, sessionId] of ["As", "Bt", "Cs"]) await bus.send(body, { sessionId });
    const session = await bus.accept("s");
    const all = await peekFrom(session, 0, 100);
    same("peek through the session", bodies(all), ["A", "C"]);
    same("peek behind the last", bodies(await peek(session, number(all.at(-1)) + 1, 1)), []);
    same("peek without a session", bodies(bus.sorted(await bus.peekAll())), ["A", "B", "C"]);
  },

  async "session-survives-kill"(bus) {
    for (const body of "AB") await bus.send(body, s);
    const first = await bus.accept("s");
    await first.setSessionState("state");
    await first.abandonMessage(await one(first, "A"));
    await take(first, "A", "B");
    await bus.kill();
    const killed = Date.now();
    const session = await acceptFreed(bus, "s", killed, 5000);
    same("state", await session.getSessionState(), "state");
    const [a, b] = await take(session, "A", "B");
    same("count of A", a.deliveryCount, 1);
    same("count of B", b.deliveryCount, 0);
    await complete(session, [a, b]);
    await session.close();
    await again(() => noSessionLeft(bus));
  },

  async "session-cut"(bus) {
    await bus.send("A", s);
    const client = bus.connect();
    await one(await bus.accept("s", client), "A");
    await bus.cut();
    const cut = Date.now();
    await client.close();
    const session = await acceptFreed(bus, "s", cut, 5000);
    const a = await one(session, "A");
    same("count", a.deliveryCount, 0);
    await session.completeMessage(a);
  },
};

/** Another client accepts a session that becomes free at a time, or within that many milliseconds after it. */
async function acceptFreed(bus, id, time, ms = promptly) {
  const client = bus.connect();
  for (;;) {
    try {
      return await again(() => bus.accept(id, client));
    } catch (error) {
      if (error.code !== "SessionCannotBeLocked" || Date.now() > Number(time) + ms) throw error;
    }
    await sleepUntil(Date.now() + 50);
  }
}
