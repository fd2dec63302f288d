"""Settlement."""

from azure.servicebus.exceptions import MessageAlreadySettled

from . import expect
from .bus import Bus, properties, states, text, texts
from .scenario import scenario


@scenario("settle-twice")
def twice(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    a = receiver.take("A")
    receiver.complete(a)
    expect.failure(MessageAlreadySettled, receiver.complete, a)
    expect.failure(MessageAlreadySettled, receiver.abandon, a)
    bus.empty()
    bus.no_dead_letters()


@scenario("settle-four-ways")
def four_ways(bus: Bus):
    bus.send("A", "B", "C", "D", "E")
    receiver = bus.receiver()
    a, b, c, d = receiver.take("A", "B", "C", "D", count=0)
    receiver.dead_letter(d)
    receiver.defer(c)
    receiver.abandon(b)
    receiver.complete(a)
    again = receiver.take("B", count=1)
    expect.equal(again.sequence_number, b.sequence_number, "number")
    receiver.abandon(again, receiver.take("E", count=0))
    peeked = bus.peek_all()
    expect.equal(states(peeked), ["B active", "C deferred", "E active"], "peek all")
    expect.equal([m.delivery_count for m in peeked], [2, 1, 1], "counts")
    bus.dead_letters().take("D", count=0)


@scenario("settle-survives-kill", limit=90)
def survives_kill(bus: Bus):
    def all_of(m):
        return text(m), m.state, m.delivery_count, m.sequence_number, m.enqueued_time_utc, m.message_id, properties(m)

    for own in "ABCDE":
        bus.send(own, application_properties={"own": own})
    receiver = bus.receiver()
    a, b, c, d = receiver.take("A", "B", "C", "D")
    receiver.complete(a)
    receiver.abandon(b)
    receiver.defer(c)
    receiver.dead_letter(d, "reason")
    before = bus.peek_all()
    bus.kill()
    after = bus.peek_all()
    expect.equal(states(after), ["B active", "C deferred", "E active"], "peek all")
    expect.equal([properties(m) for m in after], [{"own": own} for own in "BCE"], "application properties")
    expect.equal(after[0].delivery_count, 1, "count of B")
    expect.equal([all_of(m) for m in after], [all_of(m) for m in before], "after the kill")
    expect.equal(bus.dead_letters().take("D").dead_letter_reason, "reason", "reason")
    receiver = bus.receiver()
    b, e = receiver.take("B"), receiver.take("E")
    (c,) = receiver.take_deferred(c.sequence_number)
    expect.equal(texts([c]), ["C"], "received by number")
    receiver.complete(b, e, c)
    bus.empty()
    bus.kill()
    bus.empty()
