"""Credit, drain and prefetch."""

from . import expect
from .bus import Bus, Client, Task, message, seconds, text, texts
from .scenario import scenario


@scenario("credit-drain-on-close")
def drain_on_close(bus: Bus):
    receiver = bus.receiver()
    began = expect.now()
    expect.equal(texts(receiver.receive_some(10, 0.2)), [], "received")
    expect.at_once(began, "the end of a wait of 200 ms")
    bus.send("A", "B", "C")
    for count in range(5):
        received = []
        while len(received) < 3:
            some = receiver.receive_some(10, 1)
            expect.holds(some, f"expected A, B, C, saw {texts(received)}")
            received += some
        # In no particular order: credit that is left over brings back at once what was abandoned, and the SDK releases it.
        received.sort(key=text)
        expect.equal(texts(received), ["A", "B", "C"], "received")
        expect.equal([m.delivery_count for m in received], [count] * 3, "counts")
        receiver.abandon(*reversed(received))
    received = receiver.receive(3)
    expect.equal(sorted(texts(received)), ["A", "B", "C"], "received")
    receiver.complete(*received)
    expect.equal(texts(receiver.receive_some(10, 0.3)), [], "received")
    other = bus.receiver()
    receiver.close()
    bus.send("D")
    sent = expect.now()
    d = other.take("D", count=0)
    expect.at_once(sent, "D")
    other.complete(d)
    bus.empty()


@scenario("credit-between-calls", limit=120)
def between_calls(bus: Bus):
    first, second = bus.receiver(), bus.receiver()
    for i in range(3):
        expect.equal(texts(first.receive_some(10, 0.2)), [], "received by the first")
        bus.send(str(i))
        sent = expect.now()
        m = second.take(str(i), count=0)
        expect.within(7, sent, f"message {i}")
        second.complete(m)
    bus.empty()


@scenario("credit-prefetch")
def prefetch(bus: Bus):
    sent = [str(i) for i in range(100)]
    bus.sender().send_batch([message(text) for text in sent])
    first = bus.receiver(prefetch_count=50)
    ten = first.receive(10)
    first.complete(*ten)
    first.close()
    second, rest = bus.receiver(), []
    while len(rest) < 90:
        for m in second.receive(1):
            expect.holds(m.delivery_count in (0, 1), f"count {m.delivery_count}")
            second.complete(m)
            rest.append(m)
    expect.equal(sorted(texts(ten + rest), key=int), sent, "received")
    bus.empty()
    bus.no_dead_letters()


@scenario("credit-ten-receivers", limit=120)
def ten_receivers(bus: Bus):
    sent = [str(i) for i in range(1000)]
    bus.sender().send_batches([message(text) for text in sent])
    completed = []

    def receive(client: Client):
        receiver = client.receiver()
        while len(completed) < 1000:
            for m in receiver.receive_some(25, 1):
                receiver.complete(m)
                completed.append((text(m), m.delivery_count))

    for task in [Task(receive, client) for client in [bus] * 5 + [bus.another() for _ in range(5)]]:
        task.result(90)
    expect.equal(sorted(completed, key=lambda c: int(c[0])), [(text, 0) for text in sent], "texts and counts")
    bus.empty()


@scenario("credit-streaming", limit=90)
def streaming(bus: Bus):
    handled = []
    receiver = bus.receiver(max_wait_time=3)  # which is when the loop ends

    def loop():
        for m in receiver.sdk:
            receiver.complete(m)
            handled.append(text(m))

    running = Task(loop)
    sent = [str(i) for i in range(500)]
    bus.sender().send_batches([message(text) for text in sent])
    deadline = expect.now() + seconds(30)
    while len(handled) < 500 and running.is_alive() and expect.now() < deadline:
        expect.wait_until(expect.now() + seconds(0.02))
    running.result(5)
    receiver.close()
    expect.equal(sorted(handled, key=int), sent, "handled")
    bus.empty()
    bus.send("A")
    bus.receiver().take("A", count=0)
