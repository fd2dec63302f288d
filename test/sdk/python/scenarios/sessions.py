"""Sessions."""

import os

from . import expect
from .bus import Bus, SessionReceiver, Task, message, seconds, text, texts
from .scenario import scenario


@scenario("session-accept")
def accept(bus: Bus):
    session = bus.session("s")
    expect.equal(session.id, "s", "id")
    expect.near(session.locked_until, expect.now() + seconds(60), 2, "locked until")
    session.nothing()
    bus.send("A", session_id="s")
    bus.send("X", session_id="t")
    a = session.take("A", count=0)
    expect.equal(a.session_id, "s", "session id")
    session.complete(a)
    session.nothing()


@scenario("session-next", limit=120)
def next_available(bus: Bus):
    all_ids = [f"s{i}" for i in range(50)]
    bus.sender().send_batches([message(text, session_id=id) for id in all_ids for text in ("1", "2")])
    # Five calls at a time, because a receiver of this SDK takes a while: each has a connection of its own.
    accepting = [Task(lambda: [bus.next_session() for _ in range(10)]) for _ in range(5)]
    sessions = sum([task.result() for task in accepting], [])
    expect.equal(sorted(s.id for s in sessions), sorted(all_ids), "ids")
    received = [s.take("1", "2") for s in sessions]
    expect.error("no-session", bus.next_session, wait=2)
    for session, messages in zip(sessions, received):
        session.complete(*messages)
    bus.no_session_left()


@scenario("session-next-waits")
def next_waits(bus: Bus):
    began = expect.now()
    expect.error("no-session", bus.next_session, wait=2)
    expect.between(began + seconds(1), began + seconds(4), "the end of a wait of 2 s")

    other = bus.another().sender()
    other.sdk.__enter__()
    accepting = Task(bus.next_session, wait=10)
    expect.wait_until(expect.now() + seconds(1))
    other.send("A", session_id="s")
    sent = expect.now()
    session = accepting.result()
    expect.holds(accepting.ended - sent <= seconds(1), f"accepted {accepting.ended - sent} after the send")
    expect.equal(session.id, "s", "id")
    session.complete(session.take("A"))


@scenario("session-held")
def held(bus: Bus):
    bus.send("A", session_id="s")
    holder, other = bus.session("s"), bus.another()
    began = expect.now()
    expect.error("session-held", other.session, "s")
    expect.at_once(began, "the refusal")
    expect.error("no-session", other.next_session, wait=2)
    holder.complete(holder.take("A"))
    holder.close()
    expect.equal(other.session("s").id, "s", "id")


@scenario("session-fifo", limit=90)
def fifo(bus: Bus):
    bus.sender().send_batches([message(str(i), session_id=f"s{i % 4}") for i in range(100)], size=25)

    def receive_all(i: int):
        session = bus.session(f"s{i}")
        for n in range(25):  # one at a time, or the SDK would hold the fourth when the third is abandoned
            expected = str(4 * n + i)
            m = session.take(expected, count=0)
            if n == 2:
                session.abandon(m)
                m = session.take(expected, count=1)
            session.complete(m)

    for task in [Task(receive_all, i) for i in range(4)]:
        task.result()
    bus.no_session_left()


@scenario("session-renew")
def renew(bus: Bus):
    bus.send("A", session_id="s")
    session = bus.session("s")
    first = session.locked_until
    a = session.take("A")
    expect.wait_until(first - seconds(2.5))
    expect.near(session.renew_session(), expect.now() + seconds(5), 2, "renewed until")
    expect.outlive(first)
    expect.error("session-held", bus.another().session, "s")
    session.complete(a)
    bus.no_session_left()


@scenario("session-lock-lost")
def lock_lost(bus: Bus):
    bus.sender().send_batch([message(text, session_id="s") for text in "AB"])
    old, other = bus.session("s"), bus.another()
    until = old.locked_until
    a, _ = old.take("A", "B")
    expect.wait_until(until)
    new = other.session("s")
    expect.at_once(until, "accepted again")
    again = new.take("A", "B", count=1)
    expect.error("session-lock-lost", old.complete, a)
    expect.error("session-lock-lost", old.renew_session)
    expect.error("session-lock-lost", old.state)
    new.complete(*again)
    bus.no_session_left()


@scenario("session-release")
def release(bus: Bus):
    bus.send("A", "B", session_id="s")
    session, other = bus.session("s"), bus.another()
    a, _ = session.take("A", "B")
    session.complete(a)
    session.close()
    closed = expect.now()
    new = other.session("s")
    expect.at_once(closed, "accepted again")
    new.complete(new.take("B", count=0))
    new.nothing()


@scenario("session-state")
def state(bus: Bus):
    def is_state(session: SessionReceiver, expected: bytes | None):
        seen = session.state()
        expect.equal(seen if seen is None else bytes(seen), expected, "state")

    large = os.urandom(10_000)
    bus.send("A", session_id="s")
    session = bus.session("s")
    is_state(session, None)
    for value in (b"\x00\x01\xff", large):
        session.set_state(value)
        is_state(session, value)
    session.complete(session.take("A"))
    session.close()
    other = bus.another()
    session = other.session("s")
    is_state(session, large)
    session.set_state(None)
    is_state(session, None)
    session.close()
    is_state(other.session("s"), None)


@scenario("session-list")
def list_sessions(bus: Bus):
    def listed(**options):
        return sorted(bus.sdk.list_queue_sessions(bus.name, **options))

    all_ids = [f"s{i:03}" for i in range(120)]
    bus.sender().send_batches([message("A", session_id=id) for id in all_ids])
    expect.equal(listed(), all_ids, "all sessions")
    t0 = expect.now()
    session = bus.session("stateful")
    session.set_state(b"state")
    session.close()
    t1 = expect.now() + seconds(1)
    expect.wait_until(t1)
    expect.equal(listed(), all_ids + ["stateful"], "all sessions")
    expect.equal(listed(state_updated_after=t0 - seconds(1)), ["stateful"], "those updated after T0 - 1 s")
    expect.equal(listed(state_updated_after=t1), [], "those updated after T1")


@scenario("session-empty-id")
def empty_id(bus: Bus):
    bus.send("A", session_id="")
    bus.send("B", session_id="b")
    session = bus.session("")
    expect.equal(session.id, "", "id")
    a = session.take("A")
    expect.equal(a.session_id, "", "session id")
    session.complete(a)
    session.nothing()


@scenario("session-required")
def required(bus: Bus):
    receiver = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
    expect.error("not-allowed", lambda: bus.receiver().receive_some(1, 5), text=receiver)
    expect.error("not-allowed", bus.send, "A", text="The SessionId was not set on a message")
    bus.send("B", session_id="s")
    session = bus.session("s")
    session.take("B")
    session.nothing()


@scenario("session-not-required")
def not_required(bus: Bus):
    expect.error("not-allowed", bus.session, "s")
    expect.error("not-allowed", bus.next_session)
    bus.send("A", session_id="s")
    receiver = bus.receiver()
    a = receiver.take("A")
    expect.equal(a.session_id, "s", "session id")
    receiver.complete(a)


@scenario("session-dead-letter")
def dead_letter(bus: Bus):
    bus.send("A", "B", session_id="s")
    session = bus.session("s")
    for count in (0, 1):
        session.abandon(session.take("A", count=count))
    session.complete(session.take("B", count=0))
    session.nothing()
    dead = bus.dead_letters()
    a = dead.take("A", count=2)
    expect.equal((a.session_id, a.dead_letter_reason), ("s", "MaxDeliveryCountExceeded"), "session id and reason")
    dead.complete(a)


@scenario("session-deferred")
def deferred(bus: Bus):
    bus.send("A", session_id="s")
    session = bus.session("s")
    a = session.take("A")
    number = a.sequence_number
    session.defer(a)
    session.close()
    session = bus.session("t")
    expect.error("message-not-found", session.take_deferred, number)
    session.close()
    session = bus.session("s")
    (a,) = session.take_deferred(number)
    expect.equal((text(a), a.session_id), ("A", "s"), "received by number")
    session.complete(a)
    expect.error("message-not-found", session.take_deferred, number)


@scenario("session-peek")
def peek(bus: Bus):
    for body, id in (("A", "s"), ("B", "t"), ("C", "s")):
        bus.send(body, session_id=id)
    session = bus.session("s")
    peeked = session.peek(10, number=1)
    expect.equal(texts(peeked), ["A", "C"], "peeked")
    expect.equal(texts(session.peek(10, number=peeked[-1].sequence_number + 1)), [], "peeked behind the last")


@scenario("session-survives-kill", limit=90)
def survives_kill(bus: Bus):
    bus.send("A", "B", session_id="s")
    session = bus.session("s")
    session.set_state(b"state")
    session.abandon(session.take("A"))
    session.take("A", "B")
    bus.kill()
    began = expect.now()
    session = bus.another().session("s")
    expect.within(5, began, "accepted again")
    expect.equal(bytes(session.state()), b"state", "state")
    a, b = session.take("A", "B")
    expect.equal((a.delivery_count, b.delivery_count), (1, 0), "counts")
    session.complete(a, b)
    bus.no_session_left()


@scenario("session-cut", limit=90)
def cut(bus: Bus):
    bus.send("A", session_id="s")
    holder, other = bus.another(), bus.another()
    holder.session("s").take("A")
    bus.cut()
    began = expect.now()
    closing = Task(holder.close)
    session = other.session("s")
    expect.within(5, began, "accepted again")
    session.complete(session.take("A", count=0))
    closing.result()
