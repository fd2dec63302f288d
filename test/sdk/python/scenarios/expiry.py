"""Expiry."""

from datetime import datetime, timedelta, timezone

from azure.servicebus.amqp import AmqpAnnotatedMessage

from . import expect
from .bus import Bus, Task, seconds, states, text, texts
from .scenario import scenario


def absolute_expiry(m) -> datetime | None:
    """The raw property of that name; the SDK's expires_at_utc is the sum of two others."""
    milliseconds = m.raw_amqp_message.properties.absolute_expiry_time
    return milliseconds and datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def lives(m, time_to_live: timedelta | None) -> None:
    """The message shows that time to live, and that it expires then."""
    expect.equal(m.time_to_live, time_to_live, f"time to live of {text(m)}")
    expires = time_to_live and m.enqueued_time_utc + time_to_live
    expect.equal((m.expires_at_utc, absolute_expiry(m)), (expires, expires), f"{text(m)} expires")


def expired(m) -> None:
    expect.equal(m.dead_letter_reason, "TTLExpiredException", "reason")


@scenario("expiry-dropped")
def dropped(bus: Bus):
    receiver = bus.receiver()
    bus.send("A", time_to_live=seconds(1))
    expect.outlive(expect.now() + seconds(1))
    receiver.nothing()
    bus.empty()
    bus.no_dead_letters()


@scenario("expiry-lazy")
def lazy(bus: Bus):
    dead = bus.dead_letters()
    waiting = Task(dead.receive, 1)
    bus.send("A", time_to_live=seconds(1))
    bus.send("B")
    a, b = bus.peek_all()
    expect.equal(texts([a, b]), ["A", "B"], "peek all")
    lives(a, seconds(1))
    expect.outlive(a.expires_at_utc + seconds(1))
    expect.equal(bus.peek_texts(), ["A", "B"], "peek all")
    expect.holds(waiting.is_alive(), "the receiver of the dead letters has got something")
    receiver = bus.receiver()
    asked = expect.now()
    receiver.take("B")
    receiver.nothing()
    (a,) = waiting.result()
    expect.at_once(asked, "the dead letter", at=waiting.ended)
    expect.equal(text(a), "A", "dead letter")
    expired(a)
    description = "The message expired and was dead lettered."
    expect.equal(a.dead_letter_error_description, description, "description")
    expect.equal(bus.peek_texts(), ["B"], "peek all")


@scenario("expiry-queue-default")
def queue_default(bus: Bus):
    receiver = bus.receiver()
    bus.warm_up(receiver)
    bus.send("A", "C")
    bus.send("B", time_to_live=timedelta(hours=1))
    peeked = bus.peek_all()
    expect.equal(texts(peeked), ["A", "C", "B"], "peek all")
    lives(peeked[0], None)
    lives(peeked[1], None)
    lives(peeked[2], seconds(3))
    a = receiver.take("A")
    lives(a, seconds(3))
    receiver.complete(a)
    expect.outlive(peeked[2].expires_at_utc)
    receiver.nothing()
    dead = bus.dead_letters().receive(2)
    expect.equal(sorted(texts(dead)), ["B", "C"], "dead letters")
    for m in dead:
        expired(m)


@scenario("expiry-locked")
def locked(bus: Bus):
    receiver, other = bus.receiver(), bus.another().receiver()
    bus.warm_up(receiver)
    bus.send("A", "B", time_to_live=seconds(2))
    a, b = receiver.take("A", "B")
    end = b.expires_at_utc + seconds(1)
    seen = other.receive_some(1, (end - expect.now()).total_seconds())
    expect.equal(texts(seen), [], "the other receiver")
    other.close()
    expect.outlive(end)
    receiver.complete(a)
    receiver.abandon(b)
    bus.empty()
    dead = bus.dead_letters()
    b = dead.take("B")
    expired(b)
    dead.abandon(b)
    expect.wait_until(expect.now() + seconds(1.5))
    dead.complete(dead.take("B"))
    bus.no_dead_letters()


@scenario("expiry-lock-end")
def lock_end(bus: Bus):
    receiver, dead = bus.receiver(), bus.dead_letters()
    bus.warm_up(receiver)
    bus.send("A", time_to_live=seconds(2))
    until = receiver.take("A").locked_until_utc
    a = dead.take("A")
    expect.at_once(until, "the dead letter")
    expired(a)
    bus.empty()


@scenario("expiry-deferred")
def deferred(bus: Bus):
    receiver = bus.receiver()
    bus.warm_up(receiver)
    bus.send("A", time_to_live=seconds(2))
    a = receiver.take("A")
    receiver.defer(a)
    expect.equal(texts(receiver.receive_some(1, 3)), [], "received past the time")
    expect.outlive(a.expires_at_utc)
    expect.equal(states(bus.peek_all()), ["A deferred"], "peek all")
    bus.no_dead_letters()
    expect.error("message-not-found", receiver.take_deferred, a.sequence_number)
    expired(bus.dead_letters().take("A"))
    bus.empty()


@scenario("expiry-milliseconds")
def milliseconds(bus: Bus):
    times = {"A": 1, "B": 20, "C": 333}
    for body, time_to_live in times.items():  # a ServiceBusMessage has whole seconds
        bus.send_message(AmqpAnnotatedMessage(data_body=body, header={"time_to_live": time_to_live}))
    peeked = bus.peek_all()
    expect.equal(texts(peeked), ["A", "B", "C"], "peek all")
    for m in peeked:
        lives(m, timedelta(milliseconds=times[text(m)]))
    expect.outlive(peeked[2].expires_at_utc)
    bus.receiver().nothing()
    dead = bus.dead_letters().take("A", "B", "C")
    for m in dead:
        expired(m)
    bus.empty()


@scenario("expiry-32-bits")
def more_than_32_bits(bus: Bus):
    created = int(expect.now().timestamp())
    # Without a ttl, so nothing limits the message. With one of 32 bits the SDK would replace the two times, and it sends no longer one.
    times = {"creation_time": created * 1000, "absolute_expiry_time": (created + 60 * 86400) * 1000}
    bus.send_message(AmqpAnnotatedMessage(data_body="A", properties=times))
    peeked = bus.peek_all()
    expect.equal(texts(peeked), ["A"], "peek all")
    for m in (*peeked, bus.receiver().take("A")):
        raw = m.raw_amqp_message.properties
        expect.equal(m.time_to_live, None, "time to live")
        expect.equal({"creation_time": raw.creation_time, "absolute_expiry_time": raw.absolute_expiry_time}, times, "times")
