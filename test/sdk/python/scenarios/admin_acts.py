"""Administration: what it does to messages and those who have keys, and what it knows of them."""

from urllib.parse import urlparse

from azure.servicebus.management import AccessRights, AuthorizationRule, EntityStatus, SqlRuleFilter

from . import expect
from .admin import HOUR, INFINITE, MINUTE, has, missing, refused
from .bus import Bus, Source, seconds
from .scenario import scenario

MANAGE, SEND, LISTEN = AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN


def key(name: str, *rights: AccessRights) -> AuthorizationRule:
    """An authorization rule whose keys have the 44 characters of base64 of 32 bytes."""
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule", claim_type="SharedAccessKey", claim_value="None", rights=list(rights),
        key_name=name, primary_key=f"{name}Primary".ljust(43, "A") + "=",
        secondary_key=f"{name}Secondary".ljust(43, "B") + "=",
    )  # fmt: skip


SENDER, READER, OWNER = key("sender", SEND), key("reader", LISTEN), key("owner", MANAGE, SEND, LISTEN)


def keys(entity) -> list[tuple]:
    return [(r.key_name, r.rights, r.primary_key, r.secondary_key) for r in entity.authorization_rules]


def unauthorized(call, *args, **kwargs) -> None:
    expect.admin_error("admin-unauthorized", call, *args, **kwargs)


def not_received(source: Source, kind: str) -> None:
    expect.error(kind, lambda: source.receiver().receive_some(1, 5))


@scenario("admin-keys")
def access_keys(bus: Bus):
    admin, one, two, topic = bus.admin, "admin-keys-one", "admin-keys-two", "admin-keys-topic"
    rules = [SENDER, READER, OWNER]
    as_given = [(r.key_name, r.rights, r.primary_key, r.secondary_key) for r in rules]
    admin.create_queue(one, authorization_rules=rules)
    admin.create_queue(two)
    expect.equal(keys(admin.get_queue(one)), as_given, "authorization rules")

    sender = bus.with_key("sender", SENDER.primary_key)
    sender.sender(one).send("A")
    not_received(sender.queue(one), "unauthorized")
    expect.error("unauthorized", sender.sender(two).send, "A")
    reader = bus.with_key("reader", READER.primary_key)
    reader.queue(one).consume("A")
    expect.error("unauthorized", reader.sender(one).send, "A")
    bus.with_key("sender", SENDER.secondary_key).sender(one).send("B")

    admin.update_queue(admin.get_queue(one), authorization_rules=[READER, OWNER])
    expect.error("unauthorized", bus.with_key("sender", SENDER.primary_key).sender(one).send, "C")
    admin.create_topic(topic, authorization_rules=[READER])
    admin.create_subscription(topic, "one")
    expect.equal(keys(admin.get_topic(topic)), as_given[1:2], "authorization rules of the topic")
    bus.topic_sender(topic).send("C")
    reader.subscription("one", topic).consume("C")
    refused(admin.create_queue, "admin-keys-x", authorization_rules=[key("manager", MANAGE)])
    admin.delete_queue(one)
    admin.delete_queue(two)
    admin.delete_topic(topic)


@scenario("admin-rights")
def rights(bus: Bus):
    name = "admin-rights-queue"
    bus.admin.create_queue(name, authorization_rules=[READER, OWNER])
    there = bus.admin.get_queue(name)
    reader = bus.admin_with_key("reader", READER.primary_key)
    unauthorized(reader.get_queue, name)
    unauthorized(reader.update_queue, there)
    unauthorized(reader.delete_queue, name)
    unauthorized(reader.create_queue, "admin-rights-x")

    owner = bus.admin_with_key("owner", OWNER.primary_key)
    expect.equal(owner.get_queue(name).name, name, "name")
    owner.update_queue(owner.get_queue(name), lock_duration=seconds(30))
    has(owner.get_queue(name), "the queue", lock_duration=seconds(30))
    unauthorized(lambda: list(owner.list_queues()))
    unauthorized(bus.admin_with_key("RootManageSharedAccessKey", OWNER.primary_key).get_queue, name)
    bus.admin.delete_queue(name)


@scenario("admin-forwarding")
def forwarding(bus: Bus):
    admin = bus.admin
    target, source, topic = "admin-forwarding-target", "admin-forwarding-source", "admin-forwarding-topic"

    def forwards(entity) -> None:
        url = urlparse(entity.forward_dead_lettered_messages_to)
        expect.holds(url.scheme and url.netloc and url.path == f"/{target}", f"forwards to {url.geturl()}")

    admin.create_queue(target)
    admin.create_queue(source, forward_dead_lettered_messages_to=target)
    forwards(admin.get_queue(source))
    admin.update_queue(admin.get_queue(source), user_metadata="new")
    forwards(admin.get_queue(source))
    admin.create_topic(topic)
    admin.create_subscription(topic, "one", forward_dead_lettered_messages_to=target)
    forwards(admin.get_subscription(topic, "one"))
    refused(
        admin.create_queue, "admin-forwarding-x", forward_dead_lettered_messages_to="admin-forwarding-missing",
        text="auto forwarding destination entity doesn't exist",
    )  # fmt: skip
    missing(admin.get_queue, "admin-forwarding-x")
    admin.delete_queue(source)
    admin.delete_topic(topic)
    admin.delete_queue(target)


@scenario("admin-status")
def status(bus: Bus):
    admin, name = bus.admin, "admin-status-queue"
    queue = bus.queue(name)

    def becomes(status: EntityStatus) -> None:
        admin.update_queue(admin.get_queue(name), status=status)
        expect.equal(admin.get_queue(name).status, status, "status")

    def send_disabled() -> None:
        expect.error("disabled", bus.sender(name).send, "X")

    admin.create_queue(name)
    bus.sender(name).send("A", "B")
    becomes(EntityStatus.RECEIVE_DISABLED)
    bus.sender(name).send("C")
    not_received(queue, "disabled")
    expect.error("disabled", lambda: queue.receiver().peek(1))
    becomes(EntityStatus.SEND_DISABLED)
    send_disabled()
    queue.consume("A")
    becomes(EntityStatus.DISABLED)
    send_disabled()
    not_received(queue, "disabled")
    becomes(EntityStatus.ACTIVE)
    queue.consume("B", "C")
    admin.delete_queue(name)


@scenario("admin-update-acts")
def update_acts(bus: Bus):
    admin, name = bus.admin, "admin-update-acts-queue"
    queue = bus.queue(name)
    admin.create_queue(name)
    bus.sender(name).send("A", "B")
    a = queue.receiver().take("A")
    expect.near(a.locked_until_utc, expect.now() + seconds(60), 2, "A locked until")
    admin.update_queue(
        admin.get_queue(name), lock_duration=seconds(10), max_delivery_count=1, default_message_time_to_live=HOUR
    )
    receiver = queue.receiver()
    b = receiver.take("B")
    expect.near(b.locked_until_utc, expect.now() + seconds(10), 2, "B locked until")
    receiver.abandon(b)
    letter = queue.dead_letters().take("B")
    expect.equal(letter.dead_letter_reason, "MaxDeliveryCountExceeded", "reason")

    bus.sender(name).send("C")
    receiver = queue.receiver()
    c = receiver.take("C")
    expect.equal(c.time_to_live, HOUR, "time to live of C")
    receiver.complete(c)
    admin.delete_queue(name)
    not_received(queue, "entity-not-found")


@scenario("admin-counters")
def counters(bus: Bus):
    admin, queue, topic = bus.admin, "admin-counters-queue", "admin-counters-topic"

    def counts(runtime, *expected: int) -> None:
        seen = (
            runtime.active_message_count, runtime.dead_letter_message_count, runtime.scheduled_message_count,
            runtime.transfer_message_count, runtime.transfer_dead_letter_message_count, runtime.total_message_count,
        )  # fmt: skip
        expect.equal(seen, expected, "active, dead-lettered, scheduled, in transfer, its dead letters, in total")

    admin.create_queue(queue)
    runtime = admin.get_queue_runtime_properties(queue)
    counts(runtime, 0, 0, 0, 0, 0, 0)
    expect.equal(runtime.size_in_bytes, 0, "size")
    sender, receiver = bus.sender(queue), bus.queue(queue).receiver()
    sender.send("A", "B")
    (number,) = sender.schedule(expect.now() + HOUR, "C")
    receiver.dead_letter(receiver.take("A"))
    b = receiver.take("B")
    runtime = admin.get_queue_runtime_properties(queue)
    counts(runtime, 1, 1, 1, 0, 0, 3)
    expect.holds(runtime.size_in_bytes > 0, f"size {runtime.size_in_bytes}")

    admin.create_topic(topic)
    for name in ("one", "two"):
        admin.create_subscription(topic, name)
    to_topic = bus.topic_sender(topic)
    to_topic.send("A", "B")
    to_topic.schedule(expect.now() + HOUR, "C")
    one = bus.subscription("one", topic).receiver()
    one.dead_letter(one.take("A"))
    for name, expected in (("one", (1, 1, 2)), ("two", (2, 0, 2))):
        runtime = admin.get_subscription_runtime_properties(topic, name)
        seen = (runtime.active_message_count, runtime.dead_letter_message_count, runtime.total_message_count)
        expect.equal(seen, expected, f"active, dead-lettered, in total, of {name}")
    runtime = admin.get_topic_runtime_properties(topic)
    expect.equal((runtime.scheduled_message_count, runtime.subscription_count), (1, 2), "scheduled, subscriptions")
    expect.holds(runtime.size_in_bytes > 0, f"size {runtime.size_in_bytes} of the topic")

    receiver.complete(b)
    dead = bus.queue(queue).dead_letters()
    dead.complete(dead.take("A"))
    sender.cancel(number)
    runtime = admin.get_queue_runtime_properties(queue)
    counts(runtime, 0, 0, 0, 0, 0, 0)
    expect.equal(runtime.size_in_bytes, 0, "size")
    admin.delete_queue(queue)
    admin.delete_topic(topic)


def later():
    """Waits for a later instant of the broker's, which are whole milliseconds: two requests can come in one."""
    expect.wait_until(expect.now() + seconds(0.002))


@scenario("admin-times")
def times(bus: Bus):
    admin, queue, topic = bus.admin, "admin-times-queue", "admin-times-topic"

    def accessed(get):
        """Runtime properties, once they show an access."""
        end = expect.now() + seconds(5)
        while (runtime := get()).accessed_at_utc <= runtime.updated_at_utc and expect.now() < end:
            expect.wait_until(expect.now() + seconds(0.1))
        seen = (runtime.created_at_utc, runtime.updated_at_utc, runtime.accessed_at_utc)
        expect.holds(seen[0] < seen[1] < seen[2], f"created, updated, accessed at {', '.join(map(str, seen))}")
        return seen

    admin.create_queue(queue)
    runtime = admin.get_queue_runtime_properties(queue)
    expect.near(runtime.created_at_utc, expect.now(), 5, "created")
    expect.equal(runtime.accessed_at_utc.year, 1, "year of access")
    later()
    admin.update_queue(admin.get_queue(queue), user_metadata="new")
    runtime = admin.get_queue_runtime_properties(queue)
    expect.holds(runtime.updated_at_utc > runtime.created_at_utc, "updated no later than created")
    bus.sender(queue).send("A")
    bus.queue(queue).consume("A")
    accessed(lambda: admin.get_queue_runtime_properties(queue))

    admin.create_topic(topic)
    admin.create_subscription(topic, "one")
    later()
    admin.update_subscription(topic, admin.get_subscription(topic, "one"), user_metadata="new")
    bus.topic_sender(topic).send("B")
    bus.subscription("one", topic).consume("B")
    for time in accessed(lambda: admin.get_subscription_runtime_properties(topic, "one")):
        expect.near(time, expect.now(), 30, "time")
    admin.delete_queue(queue)
    admin.delete_topic(topic)


@scenario("admin-recreate")
def recreate(bus: Bus):
    admin, x = bus.admin, "admin-recreate-x"

    def is_new(source: Source) -> None:
        source.empty()
        source.no_dead_letters()

    def consume_first(source: Source, body: str) -> None:
        (m,) = source.consume(body)
        expect.equal(m.sequence_number, 1, f"number of {body}")

    queue, one = bus.queue(x), bus.subscription("one", x)
    admin.create_queue(x)
    bus.sender(x).send("A", "B")
    receiver = queue.receiver()
    receiver.dead_letter(receiver.take("A"))
    admin.delete_queue(x)
    expect.error("entity-not-found", bus.sender(x).send, "C")
    not_received(queue, "entity-not-found")

    admin.create_topic(x)
    admin.create_subscription(x, "one")
    is_new(one)
    bus.topic_sender(x).send("C")
    consume_first(one, "C")
    admin.delete_topic(x)

    admin.create_queue(x)
    has(admin.get_queue(x), "the queue", lock_duration=MINUTE, default_message_time_to_live=INFINITE)
    is_new(queue)
    runtime = admin.get_queue_runtime_properties(x)
    expect.equal((runtime.total_message_count, runtime.size_in_bytes), (0, 0), "messages and size")
    bus.sender(x).send("D")
    consume_first(queue, "D")
    admin.delete_queue(x)


@scenario("admin-survives-kill", limit=120)
def survives_kill(bus: Bus):
    admin = bus.admin
    queue, topic, gone = (f"admin-survives-kill-{name}" for name in ("queue", "topic", "gone"))
    admin.create_queue(queue, lock_duration=seconds(30), authorization_rules=[SENDER], user_metadata="meta")
    admin.create_topic(topic)
    admin.create_subscription(topic, "one", max_delivery_count=3)
    admin.create_rule(topic, "one", "red", filter=SqlRuleFilter("colour = 'red'"))
    admin.create_queue(gone)
    admin.update_queue(admin.get_queue(queue), max_delivery_count=7)
    admin.delete_queue(gone)
    sender, receiver = bus.sender(queue), bus.queue(queue).receiver()
    sender.send("A", "B")
    receiver.dead_letter(receiver.take("A"))
    sender.schedule(expect.now() + HOUR, "C")

    def everything() -> dict:
        """What is to be the same after the kill."""
        runtime, rule = admin.get_queue_runtime_properties(queue), admin.get_rule(topic, "one", "red")
        return {
            "queue": {n: str(v) for n, v in admin.get_queue(queue).items() if n != "authorization_rules"},
            "keys": keys(admin.get_queue(queue)),
            "topic": {n: str(v) for n, v in admin.get_topic(topic).items()},
            "subscription": {n: str(v) for n, v in admin.get_subscription(topic, "one").items()},
            "rule": (rule.filter.sql_expression, rule.created_at_utc),
            "created": [
                r.created_at_utc for r in (
                    runtime, admin.get_topic_runtime_properties(topic),
                    admin.get_subscription_runtime_properties(topic, "one"),
                )
            ],
            "messages": (
                runtime.active_message_count, runtime.dead_letter_message_count, runtime.scheduled_message_count
            ),
        }  # fmt: skip

    before = everything()
    expect.equal(before["messages"], (1, 1, 1), "active, dead-lettered, scheduled")
    has(admin.get_queue(queue), "the queue", max_delivery_count=7, lock_duration=seconds(30), user_metadata="meta")
    bus.kill()
    for what, after in everything().items():
        expect.equal(after, before[what], what)
    missing(admin.get_queue, gone)
    receiver = bus.queue(queue).receiver()
    b = receiver.take("B")
    expect.near(b.locked_until_utc, expect.now() + seconds(30), 2, "locked until")
    receiver.complete(b)

    admin.delete_queue(queue)
    admin.delete_topic(topic)
    bus.kill()
    missing(admin.get_queue, queue)
    missing(admin.get_topic, topic)
