"""Receiving."""

import time

from . import expect
from .bus import Bus, Task, texts
from .scenario import scenario


@scenario("receive-and-delete")
def receive_and_delete(bus: Bus):
    bus.send("A", "B", "C")
    receiver = bus.deleting()
    received = receiver.take("A", "B", "C")
    for m in received:
        locked_until = (m.raw_amqp_message.annotations or {}).get(b"x-opt-locked-until")
        expect.equal((m.lock_token, m.locked_until_utc, locked_until), (None, None, None), "lock")
    bus.empty()
    expect.failure(ValueError, receiver.complete, received[0])
    bus.send("D")
    receiver.take("D")


@scenario("receive-waiting")
def waiting(bus: Bus):
    receivers = [bus.receiver() for _ in range(4)]
    for receiver in receivers:
        bus.warm_up(receiver)
    calls = []
    for receiver in receivers:
        calls.append(Task(receiver.receive_some, 1, 15))
        time.sleep(0.5)  # so that its credit is the next to arrive
    bus.send("0", "1", "2", "3")
    sent = expect.now()
    received = [call.result() for call in calls]
    expect.equal([texts(some) for some in received], [["0"], ["1"], ["2"], ["3"]], "received, by receiver")
    for call in calls:
        expect.holds(call.ended <= sent + expect.AT_ONCE, f"a message came {call.ended - sent} after the last send")
    for receiver, (m,) in zip(receivers, received):
        receiver.complete(m)
    bus.empty()
