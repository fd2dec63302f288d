"""Duplicate detection."""

from . import expect
from .bus import Bus, message, seconds, texts
from .scenario import scenario


def send(bus: Bus, *messages: tuple[str, str]) -> None:
    """Sends pairs of text and message id, one after another."""
    for text, id in messages:
        bus.send(text, message_id=id)


@scenario("duplicate-dropped")
def dropped(bus: Bus):
    send(bus, ("A", "1"))
    bus.send("X", message_id="1", application_properties={"colour": "red"})
    send(bus, ("B", "2"))
    expect.equal(bus.peek_texts(), ["A", "B"], "peek all")
    receiver = bus.receiver()
    receiver.complete(receiver.take("A"))
    receiver.dead_letter(receiver.take("B"))
    batch = [message(text, message_id=id) for text, id in (("Y", "1"), ("C", "3"), ("Z", "2"), ("W", "3"))]
    bus.sender().send_batch(batch)
    send(bus, ("V", "3"))
    receiver.take("C")
    receiver.nothing()
    expect.equal(bus.peek_texts(), ["C"], "peek all")
    expect.equal(texts(bus.peek_all(dead_letters=True)), ["B"], "dead letters")


@scenario("duplicate-scheduled")
def scheduled(bus: Bus):
    sender, receiver = bus.sender(), bus.receiver()
    bus.warm_up(receiver)
    at = expect.now() + seconds(4)
    sender.schedule(at, "A", message_id="1")
    send(bus, ("X", "1"), ("B", "2"))
    sender.schedule(at, "Y", message_id="2")
    receiver.take("B", "A")
    receiver.nothing()
    expect.equal(sorted(bus.peek_texts()), ["A", "B"], "peek all")


@scenario("duplicate-window", limit=80)
def window(bus: Bus):
    send(bus, ("A", "1"))
    first = expect.now()
    expect.wait_until(first + seconds(10))
    send(bus, ("X", "1"))
    expect.equal(bus.peek_texts(), ["A"], "peek all")
    expect.wait_until(first + seconds(21))
    send(bus, ("B", "1"))
    expect.equal(bus.peek_texts(), ["A", "B"], "peek all")


@scenario("duplicate-survives-kill", limit=90)
def survives_kill(bus: Bus):
    send(bus, ("A", "1"), ("B", "2"))
    receiver = bus.receiver()
    receiver.complete(receiver.take("A"))
    bus.kill()
    send(bus, ("X", "1"), ("Y", "2"), ("C", "3"))
    expect.equal(bus.peek_texts(), ["B", "C"], "peek all")
