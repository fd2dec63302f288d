"""Connections."""

import threading
import typing

from azure.servicebus.exceptions import ServiceBusError

from . import expect
from .bus import Bus, Client, Receiver, Task, message, seconds, text, texts
from .scenario import scenario


@scenario("connection-wrong-key")
def wrong_key(bus: Bus):
    wrong = bus.with_key("RootManageSharedAccessKey", "d3Jvbmc=")
    expect.error("unauthorized", wrong.send, "A")
    expect.error("unauthorized", lambda: wrong.receiver().receive_some(1, 5))
    expect.error("unauthorized", lambda: wrong.receiver().peek(1))
    bus.send("B")
    receiver = bus.receiver()
    receiver.take("B")
    receiver.nothing()


@scenario("connection-idle", limit=180)
def idle(bus: Bus):
    receiver = bus.receiver()
    bus.send("A")
    receiver.complete(receiver.take("A"))
    expect.equal(texts(receiver.receive_some(1, 65)), [], "received")
    waiting = Task(receiver.receive_some, 1, 20)
    bus.send("B")
    sent = expect.now()
    (b,) = waiting.result()
    expect.holds(waiting.ended - sent <= expect.AT_ONCE, f"received {waiting.ended - sent} after the send")
    expect.equal((text(b), b.delivery_count), ("B", 0), "text and count")
    receiver.complete(b)


def go_on(bus: Bus, receiver: Receiver, peeker: Receiver, body: str, detached: bool = False):
    """Has a sender, a receiver and a peek do something, whatever became of their links."""
    bus.send(body)
    receiver.complete(receiver.take(body))
    try:
        peeked = peeker.peek(1)
    except ServiceBusError as e:  # only by this error does the SDK notice that its link to $management is gone; it opens it again next time
        expect.holds(detached and "Management Operation error occurred" in str(e), f"peek: {e!r}")
        peeked = peeker.peek(1)
    expect.equal(texts(peeked), [], "peeked")


@scenario("connection-idle-links", limit=90)
def idle_links(bus: Bus):
    bus.restart({"limits": {"link-idle": "2s", "no-links": "2s"}})
    receiver, peeker = bus.receiver(), bus.receiver()
    go_on(bus, receiver, peeker, "A")
    expect.wait_until(expect.now() + seconds(3))  # without links
    go_on(bus, receiver, peeker, "B", detached=True)
    expect.wait_until(expect.now() + seconds(10))  # without a connection; the SDK does not answer the close, which is waited for
    expect.equal(bus.cut(), 0, "connections")
    go_on(bus, receiver, peeker, "C")
    bus.kill()  # which takes the settings back


@scenario("connection-detached", limit=120)
def detached(bus: Bus):
    def update(count: int):
        queue = bus.admin.get_queue(bus.name)
        queue.max_delivery_count = count
        bus.admin.update_queue(queue)

    receiver, peeker = bus.receiver(), bus.receiver()
    go_on(bus, receiver, peeker, "A")
    update(20)
    go_on(bus, receiver, peeker, "B")
    bus.restart()
    go_on(bus, receiver, peeker, "C", detached=True)
    wait_through(receiver, lambda: update(30), bus, "D")
    wait_through(receiver, bus.restart, bus, "E")
    bus.empty()


def wait_through(receiver: Receiver, happens: typing.Callable, sender: Client, body: str):
    """Has a receiver wait while something happens, which costs it its link or connection. It gets what is sent then."""
    waiting = Task(receiver.receive, 1)
    expect.wait_until(expect.now() + seconds(0.5))
    happens()
    since = expect.now()
    sender.send(body)
    (m,) = waiting.result()
    expect.equal(text(m), body, "received")
    expect.within(20, since, body)
    receiver.complete(m)


@scenario("connection-cut-send", limit=120)
def cut_send(bus: Bus):
    for i in range(300):
        bus.send(str(i))
        if i in (99, 199):
            bus.cut()
    receiver, received = bus.deleting(), set()
    while some := receiver.receive_some(50, 2):
        received.update(texts(some))
    expect.equal(sorted(received, key=int), [str(i) for i in range(300)], "received")


@scenario("connection-cut-waiting", limit=90)
def cut_waiting(bus: Bus):
    wait_through(bus.receiver(), bus.cut, bus.another(), "A")
    bus.empty()


@scenario("connection-cut-lock", limit=90)
def cut_lock(bus: Bus):
    bus.send("A")
    receiver = bus.receiver()
    a = receiver.take("A")
    bus.cut()
    bus.another().nothing()
    began = expect.now()
    receiver.complete(a)
    expect.within(20, began, "complete")
    bus.empty()
    bus.no_dead_letters()


@scenario("connection-cut-receive-and-delete", limit=120)
def cut_receive_and_delete(bus: Bus):
    bus.sender().send_batches([message(str(i)) for i in range(500)])
    receiver, received = bus.deleting(), []
    cuts = [100, 200, 300]
    while True:
        call = Task(receiver.receive_some, 50, 2)
        if cuts and len(received) >= cuts[0]:
            cuts.pop(0)
            bus.cut()
        some = call.result()
        if not some:
            break
        received += texts(some)
    expect.equal(cuts, [], "cuts that were to come")
    expect.equal(len(received), len(set(received)), "messages, and different ones among them")
    bus.empty()


@scenario("connection-kill-between-calls", limit=120)
def kill_between_calls(bus: Bus):
    receiver, peeker = bus.receiver(), bus.receiver()
    go_on(bus, receiver, peeker, "A")
    for body in ("B", "C"):
        bus.kill()
        go_on(bus, receiver, peeker, body)


@scenario("connection-kill-locks", limit=90)
def kill_locks(bus: Bus):
    bus.send("A", "B")
    receiver = bus.receiver()
    a, b = receiver.take("A", "B")
    until = b.locked_until_utc
    bus.kill()
    bus.another().nothing()
    receiver.complete(a)
    expect.holds(expect.now() < until, "A was completed too late")
    other = bus.receiver()
    b = other.take("B", count=1)
    expect.at_once(until, "B")
    other.complete(b)
    bus.empty()
    bus.no_dead_letters()


@scenario("connection-kill-under-load", limit=180)
def kill_under_load(bus: Bus):
    lock = threading.Lock()
    sends: dict[str, int] = {}  # how often each text was sent
    received, completed, again = set(), set(), []
    acknowledged, over = 0, False

    def send(name: str):
        nonlocal acknowledged
        sender = bus.another(stubborn=False).sender()  # a retry of the SDK's would be a second send that nobody counts
        for i in range(200):
            body, sent = f"{name}{i}", False
            while not sent:
                sends[body] = sends.get(body, 0) + 1
                try:
                    sender.send(body)
                    sent = True
                except ServiceBusError:
                    expect.wait_until(expect.now() + seconds(0.1))
            with lock:
                acknowledged += 1

    def receive(client: Client):
        receiver = client.receiver()
        while not over:
            for m in receiver.receive_some(10, 1):
                body = text(m)
                received.add(body)
                if body in completed and sends[body] == 1:
                    again.append(body)
                try:
                    receiver.sdk.complete_message(m)
                    completed.add(body)
                except (ServiceBusError, ValueError):  # ValueError: the SDK has closed the link and not opened it again
                    pass  # the message comes back

    clients = [bus.another(), bus.another()]
    tasks = [Task(send, "a"), Task(send, "b")]
    receiving = [Task(receive, client) for client in clients]
    for kill_at in (100, 250):
        while acknowledged < kill_at and any(t.is_alive() for t in tasks):
            expect.wait_until(expect.now() + seconds(0.01))
        bus.kill()
    for task in tasks:
        task.result(60)
    end = expect.now() + seconds(60)
    while left := bus.peek_texts():
        expect.holds(expect.now() < end, f"{len(left)} messages are left: {left[:10]}")
        expect.wait_until(expect.now() + seconds(0.2))
    over = True
    for task in receiving:
        task.result()
    expect.equal(sorted(set(sends) - received), [], "acknowledged and not received")
    expect.equal(again, [], "received again after they were completed")
    bus.no_dead_letters()
