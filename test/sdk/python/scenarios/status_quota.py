"""Status, quotas and limits."""

import os

from azure.servicebus.exceptions import ServiceBusError

from . import expect
from .bus import Bus, properties
from .scenario import scenario


def receive_disabled(bus: Bus) -> None:
    expect.error("disabled", lambda: bus.receiver().receive_some(1, 5))


def peek_disabled(bus: Bus) -> None:
    expect.error("disabled", lambda: bus.receiver().peek(1))


def dead_letters_disabled(bus: Bus) -> None:
    expect.error("disabled", lambda: bus.dead_letters().receive_some(1, 5))


@scenario("status-send-disabled")
def send_disabled(bus: Bus):
    expect.error("disabled", bus.send, "A")
    bus.nothing()
    bus.empty()


@scenario("status-receive-disabled")
def receiving_disabled(bus: Bus):
    bus.send("A")
    receive_disabled(bus)
    peek_disabled(bus)
    dead_letters_disabled(bus)


@scenario("status-change", limit=180)
def change(bus: Bus):
    # A stubborn client tries what is disabled again, because the SDK says that another try may help; so those that are to
    # be refused belong to clients that try once.
    def once():
        return bus.another(stubborn=False)

    def set_status(status: str):
        bus.kill({"status-change": {"Status": status}})

    bus.send("A", "B")
    set_status("ReceiveDisabled")
    bus.send("C")
    receive_disabled(once())
    peek_disabled(once())
    dead_letters_disabled(once())

    set_status("SendDisabled")
    expect.error("disabled", once().send, "D")
    receiver = bus.receiver()
    receiver.complete(receiver.take("A"))
    expect.equal(bus.peek_texts(), ["B", "C"], "peek all")

    set_status("Disabled")
    expect.error("disabled", once().send, "E")
    receive_disabled(once())
    peek_disabled(once())

    set_status("Active")
    receiver = bus.receiver()
    receiver.complete(*receiver.take("B", "C"))
    bus.send("F")
    receiver.take("F")


@scenario("quota-message-size")
def message_size(bus: Bus):
    for _ in range(2):
        expect.error("too-large", bus.send, os.urandom(300_000))
        bus.send("small")
    receiver = bus.receiver()
    receiver.take("small", "small")
    receiver.nothing()


@scenario("quota-queue-full")
def queue_full(bus: Bus):
    body = os.urandom(200_000)

    def refused():
        expect.error(
            "queue-full", bus.send, body, text="The maximum entity size has been reached or exceeded for Queue"
        )
        expect.error("queue-full", bus.send, body, text="Max entity size in bytes")

    accepted = 0
    try:
        while accepted < 10:
            bus.send(body)
            accepted += 1
    except ServiceBusError:
        refused()
    expect.holds(4 <= accepted <= 7, f"{accepted} messages were accepted")
    receiver = bus.receiver()
    receiver.dead_letter(*receiver.receive(1))
    refused()
    for _ in range(accepted - 1):
        receiver.complete(*receiver.receive(1))
    dead = bus.dead_letters()
    dead.complete(*dead.receive(1))
    began = expect.now()
    bus.send(body)
    expect.within(5, began, "the send")


@scenario("quota-ids")
def ids(bus: Bus):
    longest = "x" * 128
    sent = {name: longest for name in ("message_id", "session_id", "partition_key", "reply_to_session_id")}
    bus.send("A", **sent)
    for name in sent:
        expect.failure(ValueError, bus.send, "A", **{name: longest + "x"})  # the SDK looks at the length itself
    receiver = bus.receiver()
    a = receiver.take("A")
    expect.equal({name: getattr(a, name) for name in sent}, sent, "ids")
    receiver.nothing()


@scenario("quota-header")
def header(bus: Bus):
    three = {name: name * 16_000 for name in "abc"}
    bus.send("A", application_properties=three)
    expect.error("argument", bus.send, "B", application_properties={"a": "a" * 33_000})
    five = {name: name * 16_000 for name in "abcde"}
    text = "The size quota for this stream (65536) has been exceeded"
    expect.error("too-large", bus.send, "C", text=text, application_properties=five)
    receiver = bus.receiver()
    expect.equal(properties(receiver.take("A")), three, "application properties")
    receiver.nothing()
