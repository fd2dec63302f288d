"""Locks."""

import time

from azure.servicebus import AutoLockRenewer

from . import expect
from .bus import Bus, Task, seconds, states, text
from .scenario import scenario


@scenario("lock-renew")
def renew(bus: Bus):
    def is_5_s(locked_until):
        expect.near(locked_until, expect.now() + seconds(5), 2, "locked until")

    bus.send("A")
    receiver = bus.receiver()
    a = receiver.take("A")
    first = a.locked_until_utc
    is_5_s(first)
    other = bus.another().receiver()
    expect.wait_until(first - seconds(2.5))
    is_5_s(receiver.renew(a))
    expect.wait_until(first - seconds(0.5))
    other.nothing()
    is_5_s(other.renew(a))
    expect.outlive(first)
    bus.another().nothing()
    receiver.complete(a)
    bus.empty()


@scenario("lock-auto-renew")
def auto_renew(bus: Bus):
    bus.send("A")
    other = bus.another().receiver()
    with AutoLockRenewer(max_lock_renewal_duration=60) as renewer:
        receiver = bus.receiver(auto_lock_renewer=renewer)
        a = receiver.take("A")
        seen = Task(other.receive_some, 1, 6.5)
        time.sleep(7)
        receiver.complete(a)
    expect.equal([text(m) for m in seen.result()], [], "the other client received")
    bus.empty()


@scenario("lock-expiry")
def expiry(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    a = receiver.take("A")
    until = a.locked_until_utc
    other = bus.another().receiver()
    again = other.take("A", count=1)
    expect.at_once(until, "delivered again")
    expect.equal(again.sequence_number, a.sequence_number, "number")
    expect.holds(again.lock_token != a.lock_token, "both deliveries have the same token")
    # The SDK refuses to settle by its own clock; renewal asks the broker.
    for settle in (receiver.complete, receiver.abandon, receiver.defer, receiver.dead_letter, receiver.renew):
        expect.error("lock-lost", settle, a)
    other.complete(again)
    bus.empty()
    bus.no_dead_letters()


@scenario("lock-closed-receiver")
def closed_receiver(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    a = receiver.take("A")
    until = a.locked_until_utc
    closing = Task(receiver.close)
    other = bus.another().receiver()
    closing.result()
    other.nothing()
    again = other.take("A", count=1)
    expect.at_once(until, "delivered again")
    expect.error("lock-lost", other.complete, a)
    other.complete(again)
    bus.empty()


@scenario("lock-token-elsewhere")
def token_elsewhere(bus: Bus):
    bus.send("A", "B", "C", "D")
    first = bus.another()
    a, b, c, d = first.receiver().take("A", "B", "C", "D")
    first.close()
    receiver = bus.another().receiver()
    receiver.nothing()
    # A link does not know the delivery of another; then the SDK settles by the token, over the link for management.
    receiver.complete(a)
    receiver.abandon(b)
    receiver.defer(c)
    receiver.dead_letter(d, "reason")
    receiver.take("B", count=1)
    expect.equal(states(bus.peek_all()), ["B active", "C deferred"], "peek all")
    expect.equal(bus.dead_letters().take("D").dead_letter_reason, "reason", "reason")


@scenario("lock-max-delivery")
def max_delivery(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    for count in range(3):
        receiver.abandon(receiver.take("A", count=count))
    receiver.nothing()
    bus.empty()
    dead = bus.dead_letters().take("A", count=3)
    expect.equal(dead.dead_letter_reason, "MaxDeliveryCountExceeded", "reason")
    description = "Message could not be consumed after 3 delivery attempts."
    expect.equal(dead.dead_letter_error_description, description, "description")
