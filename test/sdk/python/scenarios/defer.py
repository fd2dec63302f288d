"""Deferral."""

from . import expect
from .bus import Bus, numbers, seconds, states, texts
from .scenario import scenario


@scenario("defer-receive")
def receive(bus: Bus):
    bus.send("A", "B", "C", "D")
    receiver = bus.receiver()
    received = receiver.take("A", "B", "C", "D")
    a, _, c, d = numbers(received)
    for m in received:
        receiver.defer(m)
    receiver.nothing()
    expect.equal(states(bus.peek_all()), [f"{text} deferred" for text in "ABCD"], "peek all")
    again = receiver.take_deferred(c, a)
    expect.equal(texts(again), ["C", "A"], "received by number")
    for m in again:
        expect.holds(m.lock_token, "no lock token")
        expect.near(m.locked_until_utc, expect.now() + seconds(60), 2, "locked until")
        expect.equal(m.delivery_count, 1, "count")
    receiver.complete(*again)
    deleting = bus.deleting()
    expect.equal(texts(deleting.take_deferred(d)), ["D"], "received by number, for good")
    expect.error("message-not-found", deleting.take_deferred, d)
    expect.equal(states(bus.peek_all()), ["B deferred"], "peek all")


@scenario("defer-not-found")
def not_found(bus: Bus):
    bus.send("A", "B", "C")
    receiver = bus.receiver()
    a, b = receiver.take("A", "B")
    receiver.defer(a)
    (c,) = [m for m in bus.peek_all() if texts([m]) == ["C"]]
    number = a.sequence_number
    for wanted in ([999999], [b.sequence_number], [c.sequence_number], [number, 999999]):
        expect.error("message-not-found", receiver.take_deferred, *wanted)
    again = receiver.take_deferred(number)
    expect.equal(texts(again), ["A"], "received by number")
    expect.error("message-not-found", receiver.take_deferred, number)
    receiver.complete(*again)


@scenario("defer-settle")
def settle(bus: Bus):
    def peeked(*expected):
        messages = bus.peek_all()
        seen = [f"{state} {m.delivery_count}" for state, m in zip(states(messages), messages)]
        expect.equal(seen, list(expected), "peek all")
        return messages

    bus.send("A", "B")
    receiver = bus.receiver()
    for m in receiver.take("A", "B"):
        receiver.defer(m)
    a, b = numbers(peeked("A deferred 1", "B deferred 1"))
    receiver.abandon(*receiver.take_deferred(a))
    peeked("A deferred 2", "B deferred 1")
    receiver.nothing()
    (again,) = receiver.take_deferred(a)
    expect.equal(again.delivery_count, 2, "count")
    receiver.defer(again)
    peeked("A deferred 3", "B deferred 1")
    both = receiver.take_deferred(a, b)
    for m in both:
        before = m.locked_until_utc
        renewed = receiver.renew(m)
        expect.holds(renewed >= before, f"locked until {before}, renewed until {renewed}")
    receiver.dead_letter(both[0], "reason")
    receiver.complete(both[1])
    bus.empty()
    expect.equal(bus.dead_letters().take("A", count=3).dead_letter_reason, "reason", "reason")


@scenario("defer-lock-expiry")
def lock_expiry(bus: Bus):
    bus.send("A")
    receiver, other = bus.receiver(), bus.receiver()
    a = receiver.take("A")
    receiver.defer(a)
    (again,) = receiver.take_deferred(a.sequence_number)
    until = again.locked_until_utc
    waited = other.receive_some(1, (until - expect.now()).total_seconds() + 0.1)
    expect.equal(texts(waited), [], "the other receiver")
    expect.outlive(until)
    expect.error("lock-lost", receiver.complete, again)
    (peeked,) = bus.peek_all()
    expect.equal((states([peeked]), peeked.delivery_count), (["A deferred"], 2), "peek all")
    receiver.complete(*receiver.take_deferred(a.sequence_number))
    bus.empty()
