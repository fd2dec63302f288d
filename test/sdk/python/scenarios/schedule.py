"""Scheduling."""

from . import expect
from .bus import Bus, numbers, seconds, states, texts
from .scenario import scenario


@scenario("schedule-property")
def by_property(bus: Bus):
    receiver, peeker, sender = bus.receiver(), bus.receiver(), bus.sender()
    bus.warm_up(receiver)
    at, hour_ago = expect.now() + seconds(4), expect.now() - seconds(3600)
    bus.send("A", scheduled_enqueue_time_utc=at)
    bus.send("B", scheduled_enqueue_time_utc=hour_ago)
    sender.schedule(hour_ago, "C")
    sent = expect.now()
    received = receiver.take("B", "C")
    expect.at_once(sent, "B and C")
    expect.equal(states(received), ["B active", "C active"], "received")
    receiver.nothing()
    peeked = peeker.peek_all()
    expect.equal(sorted(states(peeked)), ["A scheduled", "B active", "C active"], "peek all")
    a = receiver.take("A")
    expect.at_once(at, "A")
    expect.holds(a.enqueued_time_utc >= milliseconds(at), f"enqueued at {a.enqueued_time_utc}, scheduled for {at}")
    expect.equal(a.state.name, "SCHEDULED", "state")


def milliseconds(at):
    """The time as the wire has it: without the microseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@scenario("schedule-call")
def by_call(bus: Bus):
    receiver, peeker, sender = bus.receiver(), bus.receiver(), bus.sender()
    bus.warm_up(receiver)
    at = expect.now() + seconds(4)
    first, second = sender.schedule(at, "A", "B")
    expect.holds(first < second, f"numbers {first}, {second}")
    peeked = peeker.peek_all()
    expect.equal(states(peeked), ["A scheduled", "B scheduled"], "peek all")
    expect.equal(numbers(peeked), [first, second], "numbers")
    receiver.nothing()
    a, b = receiver.take("A", "B")
    expect.at_once(at, "A and B")
    for m in (a, b):
        expect.holds(m.sequence_number > second, f"number {m.sequence_number} after {second}")
        expect.holds(m.enqueued_time_utc >= milliseconds(at), f"enqueued at {m.enqueued_time_utc}, scheduled for {at}")


@scenario("schedule-cancel")
def cancel(bus: Bus):
    receiver, peeker, sender = bus.receiver(), bus.receiver(), bus.sender()
    bus.warm_up(receiver)
    at = expect.now() + seconds(4)
    a, b = sender.schedule(at, "A", "B")
    sender.cancel(a)
    expect.equal(texts(peeker.peek_all()), ["B"], "peek all")
    expect.error("message-not-found", sender.cancel, a)
    expect.error("message-not-found", sender.cancel, 999999)
    receiver.take("B")
    receiver.nothing()
    expect.error("message-not-found", sender.cancel, b)


@scenario("schedule-time-to-live")
def time_to_live(bus: Bus):
    receiver = bus.receiver()
    bus.warm_up(receiver)
    at = expect.now() + seconds(4)
    bus.send("A", scheduled_enqueue_time_utc=at, time_to_live=seconds(1))
    a = receiver.take("A")
    expect.holds(a.enqueued_time_utc >= milliseconds(at), f"enqueued at {a.enqueued_time_utc}, scheduled for {at}")
    expect.equal(a.expires_at_utc, a.enqueued_time_utc + seconds(1), "expires")
    receiver.complete(a)
    bus.no_dead_letters()


@scenario("schedule-survives-kill", limit=90)
def survives_kill(bus: Bus):
    sender = bus.sender()
    sender.sdk.__enter__()  # so that the times are not spent on connecting
    begin = expect.now()
    sender.schedule(begin + seconds(6), "B")
    (x,) = sender.schedule(begin + seconds(6), "X")
    sender.schedule(begin + seconds(1), "A")
    sender.cancel(x)
    bus.kill()
    receiver = bus.receiver()
    receiver.take("A", "B")
    expect.at_once(begin + seconds(6), "B")
    receiver.nothing()
    expect.equal(bus.peek_texts(), ["A", "B"], "peek all")
