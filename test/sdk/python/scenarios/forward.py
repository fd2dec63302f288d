"""Forwarding. The scenario's queue is where messages end; those that forward have its name and more."""

import time

from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.management import EntityStatus, SqlRuleFilter

from . import expect
from .bus import Bus, low_part, low_parts, message, properties, seconds, text, texts
from .scenario import scenario

HOP_LIMIT = "MaxTransferHopCountExceeded"
LARGE = bytes(200_000)  # so large that few fit into the smallest queue
FORWARDING = "auto-forwarding enabled"


def forwarder(bus: Bus, end: str, target: str) -> str:
    """Makes a queue whose name ends like that, and which forwards to another one."""
    bus.admin.create_queue(bus.name + end, forward_to=target)
    return bus.name + end


def chain(bus: Bus) -> list[str]:
    """Makes five queues, each of which forwards to the next and the last to the scenario's."""
    links = [bus.name]
    for i in range(5, 0, -1):
        links.insert(0, forwarder(bus, f"-{i}", links[0]))
    return links[:5]


def unable(bus: Bus) -> str:
    """Makes a queue that takes nothing, and one that forwards to it."""
    bus.admin.create_queue(f"{bus.name}-off", status=EntityStatus.SEND_DISABLED)
    return forwarder(bus, "-to-off", f"{bus.name}-off")


def fill(bus: Bus) -> None:
    """Sends large messages until the queue is full."""
    sender = bus.sender()

    def send_all():
        for _ in range(10):
            sender.send(LARGE)

    expect.error("queue-full", send_all)


def dead(bus: Bus, name: str, body, reason: str, sub_queue=ServiceBusSubQueue.DEAD_LETTER):
    """Receives a message of a sub-queue, which has the body and the reason."""
    receiver = bus.queue(name).receiver(sub_queue=sub_queue)
    (letter,) = receiver.receive(1)
    expect.holds(b"".join(letter.body) == (body if isinstance(body, bytes) else body.encode()), f"another body in {name}")
    expect.equal(letter.dead_letter_reason, reason, f"reason in {name}")
    receiver.complete(letter)
    return letter


def counted(runtime, what: str, reached) -> None:
    """Waits until the counters of an entity are as they should be."""
    end = time.monotonic() + expect.AT_ONCE.total_seconds()
    while not reached(left := runtime()):
        expect.holds(time.monotonic() < end, f"{left.name} {what}")
        time.sleep(0.05)


def drained(bus: Bus, runtime) -> None:
    """Waits until an entity has no message of any kind."""
    counted(runtime, "still has messages", lambda r: not r.total_message_count and not r.transfer_message_count)


@scenario("forward-queue")
def queue(bus: Bus):
    source = forwarder(bus, "-source", bus.name)
    all = [str(i) for i in range(100)]
    bus.sender(source).send_batches([message(t) for t in all])
    receiver = bus.receiver()
    receiver.complete(*receiver.take(*all, count=0))
    receiver.nothing()
    drained(bus, lambda: bus.admin.get_queue_runtime_properties(source))
    expect.error("not-allowed", bus.queue(source).receiver, text=FORWARDING)


@scenario("forward-properties")
def all_properties(bus: Bus):
    source = bus.sender(forwarder(bus, "-source", bus.name))
    sent = dict(
        content_type="application/json", correlation_id="correlation", message_id="id", partition_key="group", session_id="group",
        reply_to="reply-to", reply_to_session_id="reply-group", subject="subject", to="to", time_to_live=seconds(3600),
    )  # fmt: skip
    bus.send("X")
    source.send("B")
    source.send("A", application_properties={"colour": "red"}, **sent)
    got = bus.sorted(bus.receiver().receive(3), lambda m: -ord(text(m)))
    alone = bus.key is not None  # A has a session, and with it a partition of its own
    expect.equal(sorted(texts(got)), ["A", "B", "X"], "received")
    expect.equal(low_parts(got), [1, 2, 1 if alone else 3], "numbers")
    a = got[2]
    expect.equal(text(a), "A", "the last")
    expect.equal({name: getattr(a, name) for name in sent}, sent, "properties")
    expect.equal(properties(a), {"colour": "red"}, "application properties")
    expect.equal((low_part(a.enqueued_sequence_number), a.dead_letter_source), (1 if alone else 2, None), "enqueued sequence number, dead-letter source")
    expect.equal(a.expires_at_utc, a.enqueued_time_utc + seconds(3600), "expires")


@scenario("forward-existing")
def existing(bus: Bus):
    source = f"{bus.name}-source"
    bus.admin.create_queue(source)
    bus.sender(source).send("A", "B", "C")
    made = bus.admin.get_queue(source)
    made.forward_to = bus.name
    bus.admin.update_queue(made)
    bus.consume("A", "B", "C")
    made = bus.admin.get_queue(source)
    made.forward_to = None
    bus.admin.update_queue(made)
    bus.sender(source).send("D")
    bus.queue(source).consume("D")
    bus.nothing()


@scenario("forward-topics")
def topics(bus: Bus):
    one, two, admin = f"{bus.name}-one", f"{bus.name}-two", bus.admin
    admin.create_topic(two)
    admin.create_subscription(two, "all")
    admin.create_subscription(two, "red", forward_to=bus.name)
    admin.delete_rule(two, "red", "$Default")
    admin.create_rule(two, "red", "red", filter=SqlRuleFilter("colour = 'red'"))
    admin.create_topic(one)
    admin.create_subscription(one, "on", forward_to=two)
    source = bus.sender(forwarder(bus, "-source", one))
    source.send("A", application_properties={"colour": "blue"})
    source.send("B", application_properties={"colour": "red"})
    receiver = bus.receiver()
    b = receiver.take("B")
    expect.equal(properties(b), {"colour": "red"}, "application properties")
    receiver.complete(b)
    receiver.nothing()
    expect.equal(sorted(texts(bus.subscription("all", two).receiver().receive(2))), ["A", "B"], "all")


@scenario("forward-chain")
def chain_and_loop(bus: Bus):
    links = chain(bus)
    bus.sender(links[0]).send("A")
    bus.sender(links[1]).send("B")
    bus.consume("B")
    bus.nothing()
    letter = dead(bus, links[4], "A", HOP_LIMIT)
    description = "The maximum number of allowed hops when forwarding between queues has been exceeded."
    expect.equal(letter.dead_letter_error_description, description, "description")

    first, admin = f"{bus.name}-a", bus.admin
    admin.create_queue(first)
    second = forwarder(bus, "-b", first)
    made = admin.get_queue(first)
    made.forward_to = second
    admin.update_queue(made)
    bus.sender(first).send("C")
    dead(bus, first, "C", HOP_LIMIT)


@scenario("forward-refused")
def refused(bus: Bus):
    source = forwarder(bus, "-source", bus.name)
    sender = bus.sender(source)
    sender.send("A")
    sender.send("B", "C", session_id="s")
    session = bus.session("s")
    session.complete(*session.take("B", "C"))
    letters = bus.queue(source).dead_letters()
    a = letters.take("A")
    expect.holds("The SessionId was not set on a message" in a.dead_letter_error_description, f"description {a.dead_letter_error_description}")
    letters.complete(a)


@scenario("forward-unable")
def unable_to_take(bus: Bus):
    bus.admin.create_queue(f"{bus.name}-gone")
    off, gone, full = unable(bus), forwarder(bus, "-to-gone", f"{bus.name}-gone"), forwarder(bus, "-to-full", bus.name)
    bus.admin.delete_queue(f"{bus.name}-gone")
    fill(bus)
    for source in (off, gone, full):
        bus.sender(source).send(LARGE)
    dead(bus, off, LARGE, "MessagingEntityDisabledException")
    dead(bus, gone, LARGE, "MessagingEntityNotFoundException")
    dead(bus, full, LARGE, "QuotaExceededException")


@scenario("forward-transfer-dead-letter")
def transfer_dead_letter(bus: Bus):
    bus.restart({"forwarding": {"failures-to": "transfer-dead-letter"}})
    links, off, full = chain(bus), unable(bus), forwarder(bus, "-to-full", bus.name)
    fill(bus)
    for source in (links[0], off, full):
        bus.sender(source).send(LARGE)
    transfer = ServiceBusSubQueue.TRANSFER_DEAD_LETTER
    dead(bus, links[4], LARGE, HOP_LIMIT, transfer)
    dead(bus, off, LARGE, "MessagingEntityDisabledException", transfer)
    dead(bus, full, LARGE, "QuotaExceededException", transfer)
    bus.queue(links[4]).dead_letters().nothing()
    bus.kill()


@scenario("forward-dead-letters")
def dead_letters(bus: Bus):
    source = f"{bus.name}-source"
    bus.admin.create_queue(source, forward_dead_lettered_messages_to=bus.name)
    bus.sender(source).send("A", application_properties={"colour": "red"})
    there = bus.queue(source).receiver()
    there.dead_letter(there.take("A"), "reason")
    receiver = bus.receiver()
    a = receiver.take("A", count=0)
    expect.equal(properties(a).get("colour"), "red", "colour")
    expect.equal((a.dead_letter_reason, a.dead_letter_source), ("reason", source), "reason, dead-letter source")
    receiver.complete(a)
    receiver.nothing()
    expect.error("not-allowed", bus.queue(source).dead_letters, text=FORWARDING)


@scenario("forward-dead-letters-stay")
def dead_letters_stay(bus: Bus):
    first, admin = f"{bus.name}-a", bus.admin
    admin.create_queue(first, forward_dead_lettered_messages_to=bus.name)
    second = forwarder(bus, "-b", first)
    made = admin.get_queue(first)
    made.forward_to = second
    admin.update_queue(made)
    bus.sender(first).send("C")
    counted(
        lambda: admin.get_queue_runtime_properties(first),
        "has more or less than one dead letter",
        lambda r: (r.total_message_count, r.dead_letter_message_count, r.transfer_message_count) == (1, 1, 0),
    )
    bus.nothing()
    made = admin.get_queue(first)
    made.forward_dead_lettered_messages_to = None
    admin.update_queue(made)
    dead(bus, first, "C", HOP_LIMIT)


@scenario("forward-dead-letters-full")
def dead_letters_full(bus: Bus):
    source = f"{bus.name}-source"
    bus.admin.create_queue(source, forward_dead_lettered_messages_to=bus.name)
    fill(bus)
    bus.sender(source).send(LARGE)
    there = bus.queue(source).receiver()
    there.dead_letter(there.receive(1)[0], "reason")

    def runtime():
        return bus.admin.get_queue_runtime_properties(source)

    counted(runtime, "has more or less than one message", lambda r: r.total_message_count == 1)
    receiver = bus.receiver()
    late = None
    while late is None:
        (m,) = receiver.receive(1)
        receiver.complete(m)
        late = m if m.dead_letter_source else None
    expect.equal((late.dead_letter_reason, late.dead_letter_source), ("reason", source), "reason, dead-letter source")
    receiver.nothing()
    drained(bus, runtime)


@scenario("forward-door")
def door(bus: Bus):
    source = bus.sender(forwarder(bus, "-source", bus.name))
    source.send("O", message_id="0")
    receiver = bus.receiver()
    receiver.complete(receiver.take("O"))
    due = expect.now() + seconds(4)
    source.schedule(due, "C", message_id="3")
    source.send("A", message_id="1")
    source.send("X", message_id="1")
    source.send("B", message_id="2", time_to_live=seconds(3600))
    a, b = receiver.take("A", "B")
    expect.equal(b.expires_at_utc, b.enqueued_time_utc + seconds(3600), "expires")
    receiver.take("C")
    expect.holds(expect.now() >= due, "C came early")
    receiver.nothing()


@scenario("forward-other-sdk")
def other_sdk(bus: Bus):
    bus.admin.create_queue(f"{bus.name}-read")
    there, back = forwarder(bus, "-out", f"{bus.name}-read"), forwarder(bus, "-in", bus.name)
    sent = dict(content_type="text/plain", correlation_id="correlation", message_id="id", subject="subject", time_to_live=seconds(3600))
    bus.sender(there).send("A", application_properties={"colour": "red", "size": 7}, **sent)
    bus.relay(f"{bus.name}-read", back)
    receiver = bus.receiver()
    a = receiver.take("A")
    expect.equal({name: getattr(a, name) for name in sent}, sent, "properties")
    expect.equal(properties(a), {"colour": "red", "size": 7}, "application properties")
    expect.equal(low_part(a.enqueued_sequence_number), 1, "enqueued sequence number")
    receiver.complete(a)
    receiver.nothing()


@scenario("forward-survives-kill", limit=100)
def survives_kill(bus: Bus):
    topic = f"{bus.name}-topic"
    bus.admin.create_topic(topic)
    bus.admin.create_subscription(topic, "on", forward_to=bus.name)
    source = forwarder(bus, "-source", topic)
    all: list[str] = []
    for round in range(4):
        some = [f"{round} {i}" for i in range(100)]
        bus.another().sender(source).send_batches([message(t) for t in some])
        all += some
        bus.kill()
    got = texts(bus.another().deleting().receive(len(all)))
    expect.equal(sorted(got), sorted(all), "received")
    bus.another().nothing()
    drained(bus, lambda: bus.admin.get_queue_runtime_properties(source))
    drained(bus, lambda: bus.admin.get_subscription_runtime_properties(topic, "on"))
