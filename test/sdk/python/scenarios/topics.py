"""Topics and subscriptions."""

from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import EntityStatus, SqlRuleFilter

from . import expect
from .bus import Bus, Source, Task, low_part, low_parts, message, properties, seconds, states, text, texts
from .scenario import scenario

RED = {"application_properties": {"colour": "red"}}
BLUE = {"application_properties": {"colour": "blue"}}


@scenario("topic-fan-out")
def fan_out(bus: Bus):
    sent = {
        "subject": "subject", "correlation_id": "correlation", "content_type": "text/plain", "to": "to",
        "reply_to": "reply-to", "reply_to_session_id": "reply-group", "session_id": "group",
        "time_to_live": seconds(3600),
    }  # fmt: skip

    def receive(source: Source) -> list:
        receiver = source.receiver()
        received = receiver.take("A", "B", count=0)
        for m in received:
            expect.equal({name: getattr(m, name) for name in sent}, sent, f"properties of {text(m)}")
            expect.equal((m.message_id, properties(m)), (f"id-{text(m)}", {"colour": "red"}), "id and properties")
            expect.near(m.enqueued_time_utc, expect.now(), 5, "enqueued")
        expect.equal(low_parts(received), [1, 2], "numbers")
        receiver.complete(*received)
        receiver.nothing()
        return [(m.enqueued_time_utc, m.enqueued_sequence_number) for m in received]

    for body in "AB":
        bus.send(body, message_id=f"id-{body}", **RED, **sent)
    one, two = bus.subscription("one"), bus.subscription("two")
    stamps = receive(one)
    expect.holds(stamps[0][1] < stamps[1][1], f"enqueued sequence numbers {stamps}")
    expect.equal(receive(two), stamps, "enqueued times and sequence numbers of two")
    for source in (one, two):
        source.empty()
        source.no_dead_letters()


@scenario("topic-batch")
def batch(bus: Bus):
    bus.sender().send_batch([message(str(i), message_id=f"id{i}") for i in range(100)])
    for source in (bus.subscription("one"), bus.subscription("two")):
        receiver = source.receiver()
        received = receiver.receive(100)
        seen = [(text(m), m.message_id, low_part(m.sequence_number)) for m in received]
        expect.equal(seen, [(str(i), f"id{i}", i + 1) for i in range(100)], "texts, ids and numbers")
        receiver.complete(*received)
        source.empty()


@scenario("topic-no-subscription")
def no_subscription(bus: Bus):
    bus.send("A")
    bus.admin.create_subscription(bus.name, "late")
    late = bus.subscription("late")
    late.nothing()
    late.empty()
    bus.send("B")
    receiver = late.receiver()
    b = receiver.take("B")
    expect.equal(low_part(b.sequence_number), 1, "number")
    receiver.complete(b)
    receiver.nothing()
    runtime = bus.admin.get_topic_runtime_properties(bus.name)
    expect.equal((runtime.size_in_bytes, runtime.subscription_count), (0, 1), "size and subscriptions")


@scenario("topic-independent")
def independent(bus: Bus):
    bus.send("A", "B", "C", "D")
    one, two = bus.subscription("one"), bus.subscription("two")
    receiver = one.receiver()
    a, b, c, d = receiver.take("A", "B", "C", "D")
    receiver.complete(a)
    receiver.abandon(b)
    receiver.defer(c)
    receiver.dead_letter(d)
    peeked = two.peek_all()
    expect.equal(states(peeked), [f"{body} active" for body in "ABCD"], "peek all of two")
    expect.equal([m.delivery_count for m in peeked], [0] * 4, "counts in two")
    peeked = one.peek_all()
    expect.equal(states(peeked), ["B active", "C deferred"], "peek all of one")
    expect.equal(peeked[0].delivery_count, 1, "count of B in one")
    two.consume("A", "B", "C", "D", count=0)
    two.empty()
    two.no_dead_letters()
    receiver.complete(receiver.take("B", count=1))
    (c,) = receiver.take_deferred(c.sequence_number)
    expect.equal(text(c), "C", "received by number")
    receiver.complete(c)
    dead = one.dead_letters()
    dead.complete(dead.take("D"))
    one.empty()
    one.no_dead_letters()


@scenario("topic-dead-letter")
def dead_letter(bus: Bus):
    bus.send("A", message_id="id", **RED)
    one, two = bus.subscription("one"), bus.subscription("two")
    receiver = one.receiver()
    a = receiver.take("A")
    receiver.dead_letter(a, "reason", "description")
    receiver.nothing()
    dead = one.dead_letters()
    letter = dead.take("A")
    expect.equal(
        (letter.dead_letter_reason, letter.dead_letter_error_description, properties(letter)["colour"]),
        ("reason", "description", "red"), "reason, description, colour",
    )  # fmt: skip
    expect.equal(letter.sequence_number, a.sequence_number, "number")
    two.no_dead_letters()
    two.consume("A")

    bus.send(text(letter), message_id=letter.message_id)
    dead.complete(letter)
    for source in (one, two):
        (again,) = source.consume("A", count=0)
        expect.equal((again.message_id, again.dead_letter_reason), ("id", None), "id and reason")
    one.no_dead_letters()


@scenario("topic-max-delivery")
def max_delivery(bus: Bus):
    bus.send("A")
    few, many = bus.subscription("few"), bus.subscription("many")
    receiver = few.receiver()
    for count in (0, 1):
        receiver.abandon(receiver.take("A", count=count))
    receiver.nothing()
    few.empty()
    letter = few.dead_letters().take("A", count=2)
    expect.equal(
        (letter.dead_letter_reason, letter.dead_letter_error_description),
        ("MaxDeliveryCountExceeded", "Message could not be consumed after 2 delivery attempts."),
        "reason and description",
    )
    receiver = many.receiver()
    for count in (0, 1, 2):
        receiver.abandon(receiver.take("A", count=count))
    receiver.complete(receiver.take("A", count=3))
    many.no_dead_letters()


@scenario("topic-lock")
def lock(bus: Bus):
    bus.send("A", "B")
    short, long = bus.subscription("short"), bus.subscription("long")
    receiver, patient = short.receiver(), long.receiver()
    a, b = receiver.take("A", "B")
    for m in (a, b):
        expect.near(m.locked_until_utc, expect.now() + seconds(5), 2, "locked until in short")
    until = b.locked_until_utc
    received = patient.take("A", "B")
    for m in received:
        expect.near(m.locked_until_utc, expect.now() + seconds(60), 2, "locked until in long")
    patient.complete(*received)

    before = a.locked_until_utc
    renewed = receiver.renew(a)
    expect.holds(renewed > before, f"locked until {before}, renewed until {renewed}")
    receiver.complete(a)
    other = short.receiver()
    again = other.take("B", count=1)
    expect.at_once(until, "B")
    expect.error("lock-lost", receiver.complete, b)
    other.complete(again)


@scenario("topic-sessions")
def sessions(bus: Bus):
    ids = {"A": "s", "B": "s", "C": "t", "D": None}
    for body, id in ids.items():
        bus.send(body, session_id=id)
    grouped, plain = bus.subscription("grouped"), bus.subscription("plain")
    s = grouped.session("s")
    received = s.take("A", "B")
    s.set_state(b"state")
    expect.equal(bytes(s.state()), b"state", "state")
    s.complete(*received)
    s.nothing()
    t = grouped.session("t")
    t.complete(t.take("C"))
    dead = grouped.dead_letters()
    d = dead.take("D")
    expect.equal(
        (d.dead_letter_reason, d.dead_letter_error_description),
        ("Session id is null.", "Session enabled entity doesn't allow a message whose session identifier is null."),
        "reason and description",
    )
    dead.complete(d)
    bus.no_session_left("grouped")
    receiver = plain.receiver()
    received = plain.sorted(receiver.receive(4))
    receiver.is_taken(received, ["A", "B", "C", "D"], 0)
    receiver.complete(*received)
    expect.equal({text(m): m.session_id for m in received}, ids, "session ids")


@scenario("topic-ttl")
def ttl(bus: Bus):
    short, long = bus.subscription("short"), bus.subscription("long")
    for source in (short, long):
        source.empty()
    bus.send("A")
    bus.send("B", time_to_live=seconds(3600))
    for source, lives in ((short, seconds(3)), (long, seconds(3600))):
        peeked = source.peek_all()
        expect.equal(texts(peeked), ["A", "B"], "peek all")
        expect.equal([m.time_to_live for m in peeked], [None, lives], "times to live of A and B")
    enqueued = peeked[1].enqueued_time_utc

    capped = "topic-ttl-capped"
    bus.admin.create_topic(capped, default_message_time_to_live=seconds(3))
    bus.admin.create_subscription(
        capped, "long", default_message_time_to_live=seconds(3600), dead_lettering_on_message_expiration=True
    )
    bus.topic_sender(capped).send("C", time_to_live=seconds(3600))
    below = bus.subscription("long", capped)
    (c,) = below.peek_all()
    expect.equal((text(c), c.time_to_live), ("C", seconds(3)), "text and time to live of C")

    expect.outlive(max(enqueued, c.enqueued_time_utc) + seconds(3))
    short.nothing()
    letters = short.peek_all(dead_letters=True)
    expect.equal(texts(letters), ["A", "B"], "dead letters of short")
    expect.equal([m.dead_letter_reason for m in letters], ["TTLExpiredException"] * 2, "reasons")
    expect.equal([m.time_to_live for m in long.consume("A", "B")], [seconds(3600)] * 2, "times to live received")
    below.nothing()
    expect.equal(texts(below.peek_all(dead_letters=True)), ["C"], "dead letters of topic-ttl-capped")


@scenario("topic-schedule")
def schedule(bus: Bus):
    sources = [bus.subscription("one"), bus.subscription("two")]
    receivers = [source.receiver() for source in sources]
    bus.warm_up(*receivers)
    sender, at = bus.sender(), expect.now() + seconds(4)
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)  # as the wire has it
    first = sender.schedule(at, "A", "B")
    (x,) = sender.schedule(at, "X")
    expect.equal(len({*first, x}), 3, "different numbers")
    sender.cancel(x)
    bus.send("C", scheduled_enqueue_time_utc=at)
    for source in sources:
        source.empty()
    expect.equal(bus.admin.get_topic_runtime_properties(bus.name).scheduled_message_count, 3, "scheduled")
    runtime = bus.admin.get_subscription_runtime_properties(bus.name, "one")
    expect.equal((runtime.active_message_count, runtime.total_message_count), (0, 0), "active and in total, of one")

    def receive(receiver):
        received = receiver.receive(3)
        expect.at_once(at, "received")
        return received

    for receiver, waiting in [(r, Task(receive, r)) for r in receivers]:
        received = waiting.result()
        expect.equal(sorted(texts(received)), ["A", "B", "C"], "received")
        expect.holds(all(m.enqueued_time_utc >= at for m in received), "enqueued before its time")
        receiver.complete(*received)
        receiver.nothing()
    expect.equal(bus.admin.get_topic_runtime_properties(bus.name).scheduled_message_count, 0, "scheduled")


@scenario("topic-schedule-rules")
def schedule_rules(bus: Bus):
    sender = bus.sender()
    bus.admin.get_rule(bus.name, "one", "red")  # has its connection before the clock runs
    sender.sdk.__enter__()  # so has the sender
    at = expect.now() + seconds(4)
    sender.schedule(at, "A", **RED)
    sender.schedule(at, "B", **BLUE)
    bus.admin.delete_rule(bus.name, "one", "red")
    bus.admin.create_rule(bus.name, "one", "blue", filter=SqlRuleFilter("colour = 'blue'"))
    one = bus.subscription("one")
    one.consume("B")
    one.nothing()
    one.empty()
    one.no_dead_letters()


@scenario("topic-duplicates")
def duplicates(bus: Bus):
    for body, id in (("A", "1"), ("X", "1"), ("B", "2")):
        bus.send(body, message_id=id)
    one = bus.subscription("one")
    expect.equal([m.message_id for m in one.consume("A", "B")], ["1", "2"], "ids in one")
    bus.send("Y", message_id="2")
    one.nothing()
    renamed = bus.subscription("renamed")
    expect.equal([m.message_id for m in renamed.consume("A", "B")], ["same", "same"], "ids in renamed")
    renamed.nothing()


@scenario("topic-refused")
def refused(bus: Bus):
    expect.error("not-allowed", lambda: bus.receiver().receive_some(1, 5))
    expect.error("not-allowed", bus.sender("topic-refused/Subscriptions/one").send, "A")
    missing = bus.subscription("missing")
    expect.error("entity-not-found", lambda: missing.receiver().receive_some(1, 5))
    expect.error("entity-not-found", lambda: missing.receiver().peek(1))
    bus.send("B")
    one = bus.subscription("one")
    one.consume("B")
    one.empty()


@scenario("topic-browse")
def browse(bus: Bus):
    def peeked(messages):
        expect.equal(states(messages), ["L active", "D deferred", "A active"], "peek all")
        expect.equal(low_parts(messages), [1, 2, 3], "numbers")

    bus.send("L", "D", "A")
    one = bus.subscription("one")
    receiver = one.receiver()
    locked, d = receiver.take("L", "D")
    receiver.defer(d)
    for _ in range(2):
        peeked(one.peek_all())
    other = bus.subscription("ONE", "TOPIC-BROWSE").receiver()
    peeked(other.peek_all())
    (again,) = other.take_deferred(d.sequence_number)
    expect.equal(text(again), "D", "received by number")
    other.complete(again)
    receiver.complete(locked)
    receiver.complete(receiver.take("A", count=0))
    one.empty()


@scenario("topic-status")
def status(bus: Bus):
    bus.send("A")
    closed, open = bus.subscription("closed"), bus.subscription("open")
    expect.error("disabled", lambda: closed.receiver().receive_some(1, 5))
    expect.error("disabled", lambda: closed.receiver().peek(1))
    open.consume("A")

    for status in (EntityStatus.SEND_DISABLED, EntityStatus.ACTIVE):
        bus.admin.update_topic(bus.admin.get_topic(bus.name), status=status)
        expect.equal(bus.admin.get_topic(bus.name).status, status, "status")
        if status == EntityStatus.SEND_DISABLED:
            expect.error("disabled", bus.sender().send, "B")
    bus.sender().send("C")

    bus.admin.update_subscription(
        bus.name, bus.admin.get_subscription(bus.name, "closed"), status=EntityStatus.ACTIVE
    )
    closed.consume("A", "C")
    open.consume("C")


@scenario("topic-survives-kill", limit=120)
def survives_kill(bus: Bus):
    one, two = bus.subscription("one"), bus.subscription("two")
    bus.send("A", "B", "C")
    receiver = one.receiver()
    a, b = receiver.take("A", "B")
    receiver.complete(a)
    receiver.dead_letter(b, "reason")
    receiver = two.receiver()
    deferred, b = receiver.take("A", "B")
    receiver.defer(deferred)
    receiver.abandon(b)
    bus.kill()

    peeked = one.peek_all()
    expect.equal([(text(m), low_part(m.sequence_number)) for m in peeked], [("C", 3)], "peek all of one")
    letters = one.peek_all(dead_letters=True)
    expect.equal([(text(m), m.dead_letter_reason) for m in letters], [("B", "reason")], "dead letters of one")
    peeked = two.peek_all()
    expect.equal(states(peeked), ["A deferred", "B active", "C active"], "peek all of two")
    expect.equal((peeked[1].delivery_count, low_parts(peeked)), (1, [1, 2, 3]), "count of B, and numbers")

    one.consume("C")
    two.consume("B", "C")
    receiver = two.receiver()
    (again,) = receiver.take_deferred(deferred.sequence_number)
    expect.equal(text(again), "A", "received by number")
    receiver.complete(again)
    bus.kill()
    for source in (one, two):
        source.empty()
    expect.equal(texts(one.peek_all(dead_letters=True)), ["B"], "dead letters of one")
    bus.send("D")
    for source in (one, two):
        (d,) = source.consume("D")
        expect.equal(low_part(d.sequence_number), 4, "number of D")


@scenario("topic-kill-fan-out", limit=180)
def kill_fan_out(bus: Bus):
    acknowledged: list[str] = []

    def send(name: str):
        sender = bus.another(stubborn=False).sender()  # a retry of the SDK's would be a second send of its own
        for i in range(200):
            body, sent = f"{name}{i}", False
            while not sent:
                try:
                    sender.send(body)
                    sent = True
                except ServiceBusError:
                    expect.wait_until(expect.now() + seconds(0.1))
            acknowledged.append(body)

    tasks = [Task(send, "a"), Task(send, "b")]
    for kill_at in (100, 250):
        while len(acknowledged) < kill_at and any(t.is_alive() for t in tasks):
            expect.wait_until(expect.now() + seconds(0.01))
        bus.kill()
    for task in tasks:
        task.result(60)

    def drain(source: Source) -> list[str]:
        receiver, received = source.deleting(), []
        while some := receiver.receive_some(100, 1):
            received += texts(some)
        return sorted(received)

    sources = [bus.subscription(name) for name in ("one", "two", "three")]
    first, *others = [drain(source) for source in sources]
    for other in others:
        expect.equal(other, first, "received from another subscription")
    expect.equal(sorted(set(acknowledged) - set(first)), [], "acknowledged and not received")
    for source in sources:
        source.no_dead_letters()
