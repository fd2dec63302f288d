"""Dead-letter queues."""

from . import expect
from .bus import Bus, properties, states, texts
from .scenario import scenario


@scenario("dead-letter-reason")
def reason(bus: Bus):
    bus.send("A", message_id="id", application_properties={"colour": "red"})
    bus.send("B")
    receiver = bus.receiver()
    a, b = receiver.take("A", "B")
    receiver.dead_letter(a, "reason", "description")
    receiver.dead_letter(b)
    receiver.nothing()
    receiver.close()
    bus.empty()

    dead = bus.dead_letters()
    dead_a, dead_b = dead.take("A", "B", count=0)
    expect.equal((dead_a.dead_letter_reason, dead_a.dead_letter_error_description), ("reason", "description"), "reason")
    as_properties = {"DeadLetterReason": "reason", "DeadLetterErrorDescription": "description"}
    expect.equal(properties(dead_a), {"colour": "red", **as_properties}, "application properties")
    same = lambda m: (m.message_id, m.sequence_number, m.enqueued_time_utc)
    expect.equal(same(dead_a), same(a), "id, number, enqueued time")
    expect.equal(dead_a.message_id, "id", "id")
    expect.equal(properties(dead_b), {}, "application properties of B")
    expect.equal((dead_b.dead_letter_reason, dead_b.dead_letter_error_description), (None, None), "reason of B")

    bus.send("A", message_id="id")
    dead.complete(dead_a, dead_b)
    bus.no_dead_letters()
    again = bus.receiver().take("A", count=0)
    expect.equal((again.message_id, again.dead_letter_reason), ("id", None), "id and reason")
    expect.holds(again.sequence_number > b.sequence_number, f"number {again.sequence_number}")


@scenario("dead-letter-count-frozen")
def count_frozen(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    receiver.abandon(receiver.take("A", count=0))
    receiver.dead_letter(receiver.take("A", count=1))
    dead = bus.dead_letters()
    for _ in range(4):
        dead.abandon(dead.take("A", count=1))
    until = dead.take("A", count=1).locked_until_utc
    second = bus.dead_letters()
    again = second.take("A", count=1)
    expect.at_once(until, "delivered again")
    second.complete(again)


@scenario("dead-letter-not-twice")
def not_twice(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    receiver.dead_letter(receiver.take("A"))
    dead = bus.dead_letters()
    expect.error("not-allowed", dead.dead_letter, dead.take("A"))
    expect.equal(texts(bus.peek_all(dead_letters=True)), ["A"], "peek all of the dead letters")
    bus.dead_letters().nothing()


@scenario("dead-letter-defer")
def defer(bus: Bus):
    def peeked(*expected):
        messages = bus.peek_all(dead_letters=True)
        expect.equal(states(messages), list(expected), "peek all of the dead letters")
        expect.equal([m.delivery_count for m in messages], [0, 0], "counts")

    bus.send("A", "B")
    receiver = bus.receiver()
    for m in receiver.take("A", "B"):
        receiver.dead_letter(m)
    peeked("A active", "B active")
    dead = bus.dead_letters()
    a = dead.take("A")
    before = a.locked_until_utc
    renewed = dead.renew(a)
    expect.holds(renewed > before, f"locked until {before}, renewed until {renewed}")
    dead.defer(a)
    b = dead.take("B")
    peeked("A deferred", "B active")
    (again,) = dead.take_deferred(a.sequence_number)
    expect.equal(texts([again]), ["A"], "received by number")
    dead.complete(again, b)
    bus.no_dead_letters()


@scenario("dead-letter-paths")
def paths(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    receiver.dead_letter(receiver.take("A"))
    for path in ("dead-letter-paths/$DeadLetterQueue", "DEAD-LETTER-PATHS/$deadletterqueue"):
        dead = bus.queue(path).receiver()
        dead.abandon(dead.take("A"))
    expect.error("not-allowed", bus.sender("dead-letter-paths/$DeadLetterQueue").send, "B")
    expect.equal(texts(bus.peek_all(dead_letters=True)), ["A"], "peek all of the dead letters")
