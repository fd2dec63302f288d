"""Sending."""

import os
import uuid
from datetime import datetime, timedelta, timezone

from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import MessageSizeExceededError

from . import expect
from .bus import Bus, content, low_part, message, numbers, properties, text, texts
from .scenario import scenario


@scenario("send-receive-complete")
def receive_complete(bus: Bus):
    bus.send("hello", "again")
    receiver = bus.receiver()
    hello = receiver.take("hello", count=0)
    expect.holds(hello.sequence_number >= 1, f"number {hello.sequence_number}")
    expect.equal(hello.state.name, "ACTIVE", "state")
    expect.holds(hello.lock_token, "no lock token")
    expect.near(hello.enqueued_time_utc, expect.now(), 2, "enqueued")
    expect.near(hello.locked_until_utc, expect.now() + timedelta(seconds=60), 2, "locked until")
    expect.holds(hello.message_id, "no message id")
    expect.equal(hello.raw_amqp_message.header.time_to_live, None, "ttl")
    expect.equal(hello.raw_amqp_message.properties.absolute_expiry_time, None, "absolute-expiry-time")
    again = receiver.take("again", count=0)
    expect.holds(again.sequence_number > hello.sequence_number, f"numbers {numbers([hello, again])}")
    expect.holds(again.message_id != hello.message_id, f"both have the id {again.message_id}")
    receiver.complete(hello, again)
    receiver.nothing()
    bus.empty()
    bus.no_dead_letters()


@scenario("send-all-properties")
def all_properties(bus: Bus):
    sent = {
        "content_type": "application/json", "correlation_id": "correlation", "message_id": "id",
        "partition_key": "group", "session_id": "group", "reply_to": "reply-to", "reply_to_session_id": "reply-group",
        "subject": "subject", "to": "to", "time_to_live": timedelta(hours=1),
    }  # fmt: skip

    def as_sent(m):
        expect.equal(text(m), "body", "body")
        expect.equal({name: getattr(m, name) for name in sent}, sent, "properties")
        expect.equal(properties(m), {"colour": "red"}, "application properties")

    for _ in range(2):
        bus.send("body", application_properties={"colour": "red"}, **sent)
    receiver = bus.receiver()
    first, second = receiver.receive(2)
    as_sent(first)
    as_sent(second)
    receiver.complete(second)
    receiver.abandon(first)
    again = receiver.take("body", count=1)
    as_sent(again)
    expect.equal(again.sequence_number, first.sequence_number, "number")


@scenario("send-again")
def again(bus: Bus):
    def received(receiver):
        m = receiver.take("A")
        expect.equal((m.partition_key, m.subject), ("group", "subject"), "partition key and subject")
        expect.equal(properties(m)["colour"], "red", "colour")
        return m

    bus.send("A", partition_key="group", subject="subject", application_properties={"colour": "red"})
    receiver, dead = bus.receiver(), bus.dead_letters()
    first = received(receiver)
    bus.send_message(first)
    receiver.complete(first)
    second = received(receiver)
    expect.holds(second.sequence_number > first.sequence_number, f"numbers {numbers([first, second])}")
    receiver.dead_letter(second)
    letter = received(dead)
    bus.send_message(letter)
    dead.complete(letter)
    receiver.complete(received(receiver))
    bus.empty()
    bus.no_dead_letters()


@scenario("send-property-types")
def property_types(bus: Bus):
    sent = {
        "zero": 0, "most": 2**31 - 1, "least": -(2**31),  # the SDK writes an int of 32 bits
        "half": 0.5, "huge": 1.7976931348623157e308, "tiny": 5e-324, "negative": -1.5, "endless": float("inf"),
        "true": True, "false": False, "empty": "", "umlaut": "ä", "long": "x" * 1000, "bytes": b"bytes",
        "uuid": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "none": None,
    }  # fmt: skip
    bus.send("a", application_properties=dict(sent))
    received = bus.receiver().take("a")
    as_bytes = lambda v: v.encode() if isinstance(v, str) else v
    expected = {as_bytes(name): as_bytes(value) for name, value in sent.items()}
    seen = received.application_properties
    expect.equal(seen, expected, "application properties")
    expect.equal([type(seen[n]) for n in expected], [type(v) for v in expected.values()], "types")


@scenario("send-raw")
def raw(bus: Bus):
    data, value, sequence = AmqpMessageBodyType.DATA, AmqpMessageBodyType.VALUE, AmqpMessageBodyType.SEQUENCE
    bodies = [  # the argument of the message, and the kind and content that come back: texts are bytes
        ({"data_body": b"\x00\xff"}, data, [b"\x00\xff"]),
        ({"data_body": b""}, data, [b""]),
        ({"value_body": "a value"}, value, b"a value"),
        ({"value_body": -7}, value, -7),
        ({"value_body": {"a": "x"}}, value, {b"a": b"x"}),
        ({"sequence_body": ["a", 1]}, sequence, [[b"a", 1]]),
        ({"data_body": ["one", "", "three"]}, data, [b"one", b"", b"three"]),
    ]
    year_2000 = int(datetime(2000, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
    for body, _, _ in bodies:
        bus_only = {
            b"x-opt-sequence-number": 777777,
            b"x-opt-enqueued-time": year_2000,
            b"x-opt-locked-until": year_2000,
        }
        bus.send_message(
            AmqpAnnotatedMessage(
                header={"durable": True, "priority": 7},
                annotations={b"x-mine": "kept", **bus_only},
                delivery_annotations={b"x-hop": "kept too"},
                footer={b"foot": "note"},
                **body,
            )
        )
    for m, (_, kind, expected) in zip(bus.receiver().receive(len(bodies)), bodies):
        expect.equal(m.body_type, kind, "kind of body")
        expect.equal(m.body if kind == value else list(m.body), expected, "body")
        amqp = m.raw_amqp_message
        expect.equal(amqp.annotations.get(b"x-mine"), b"kept", "x-mine")
        expect.equal((amqp.delivery_annotations or {}).get(b"x-hop"), b"kept too", "x-hop")
        expect.equal((amqp.footer or {}).get(b"foot"), b"note", "foot")
        expect.equal((amqp.header.durable, amqp.header.priority), (True, 7), "durable and priority")
        expect.holds(low_part(m.sequence_number) < 777777, f"number {m.sequence_number}")
        expect.near(m.enqueued_time_utc, expect.now(), 5, "enqueued")
        expect.holds(m.locked_until_utc > expect.now(), f"locked until {m.locked_until_utc}")


@scenario("send-batch")
def batch(bus: Bus):
    bus.sender().send_batch([message(str(i), message_id=f"id{i}", application_properties={"i": i}) for i in range(100)])
    received = bus.receiver().receive(100)
    expect.equal(texts(received), [str(i) for i in range(100)], "texts")
    expect.equal([m.message_id for m in received], [f"id{i}" for i in range(100)], "ids")
    expect.equal([properties(m) for m in received], [{"i": i} for i in range(100)], "application properties")
    first = received[0].sequence_number
    expect.equal(numbers(received), list(range(first, first + 100)), "numbers")


@scenario("send-batch-1mib")
def batch_1mib(bus: Bus):
    sender = bus.sender()
    batch = sender.sdk.create_message_batch()
    sent = []
    while True:
        body = os.urandom(4000)
        try:
            batch.add_message(sender.keyed(message(body)))
        except MessageSizeExceededError:
            break
        sent.append(body)
    expect.holds(len(sent) >= 240, f"the batch holds {len(sent)} messages")
    sender.send_message(batch)
    receiver = bus.receiver()
    received = receiver.receive(len(sent))
    expect.holds([content(m) for m in received] == sent, "the messages are not those sent, in their order")
    receiver.complete(*received)
    bus.empty()


@scenario("send-batch-refused")
def batch_refused(bus: Bus):
    sender, text = bus.sender(), "The SessionId was not set on a message"
    if bus.key is not None:
        text = "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled"
    expect.error("not-allowed", sender.send_batch, [message("A", session_id="s"), message("B")], text=text)
    sender.send("C", session_id="s")
    session = bus.session("s")
    session.complete(session.take("C"))
    session.nothing()


@scenario("send-large")
def large(bus: Bus):
    sent = os.urandom(204_800)
    bus.send(sent)
    receiver = bus.receiver()
    (received,) = receiver.receive(1)
    expect.holds(content(received) == sent, "the bytes are not those sent")
    receiver.complete(received)
    bus.empty()


@scenario("send-many-at-once", limit=90)
def many_at_once(bus: Bus):
    all_texts = [str(i) for i in range(1500)]
    bus.send(*all_texts)  # one after another: the SDK's sender has one send under way at a time
    receiver = bus.deleting()
    expect.equal(sorted(texts(receiver.receive(1500)), key=int), all_texts, "received")
    receiver.nothing()


@scenario("send-unknown-queue")
def unknown_queue(bus: Bus):
    missing = "send-unknown-queue-missing"
    expect.error("entity-not-found", bus.sender(missing).send, "A")
    expect.error("entity-not-found", lambda: bus.queue(missing).receiver().receive_some(1, 5))
    expect.error("entity-not-found", lambda: bus.queue(missing).receiver().peek(1))
    bus.send("B")
    bus.receiver().take("B")
    expect.error("entity-not-found", lambda: bus.queue(missing).receiver().receive_some(1, 5))
