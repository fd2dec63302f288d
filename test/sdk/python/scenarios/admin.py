"""Administration: entities and lists of them."""

import functools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from azure.servicebus.management import EntityStatus, SqlRuleFilter

from . import expect
from .bus import Bus, seconds
from .scenario import scenario

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
INFINITE = timedelta(days=10675199)  # and some hours, which are of no account

missing = functools.partial(expect.admin_error, "admin-missing")
exists = functools.partial(expect.admin_error, "admin-exists")
refused = functools.partial(expect.admin_error, "admin-bad-request")


def has(entity, what: str, **expected) -> None:
    """An entity has these properties. What is infinite is compared to the day; what is absent may be empty."""
    seen = {name: getattr(entity, name) for name in expected}
    for name, value in seen.items():
        if isinstance(value, timedelta) and value >= INFINITE:
            seen[name] = INFINITE
        if value == "":
            seen[name] = None
    expect.equal(seen, expected, what)


def ours(bus: Bus, entities) -> list[str]:
    """The names in a list of the namespace that begin with the scenario's."""
    return [e.name for e in entities if e.name.startswith(bus.name)]


def ten_at_a_time(call, names: list[str]) -> None:
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(call, names))


@scenario("admin-queue")
def queue(bus: Bus):
    admin = bus.admin
    plain = {
        "lock_duration": MINUTE, "max_size_in_megabytes": 1024, "requires_duplicate_detection": False,
        "requires_session": False, "default_message_time_to_live": INFINITE,
        "dead_lettering_on_message_expiration": False, "duplicate_detection_history_time_window": 10 * MINUTE,
        "max_delivery_count": 10, "enable_batched_operations": True, "status": EntityStatus.ACTIVE,
        "auto_delete_on_idle": INFINITE, "enable_partitioning": False, "forward_to": None,
        "forward_dead_lettered_messages_to": None, "user_metadata": None,
    }  # fmt: skip
    has(admin.create_queue("admin-queue-plain"), "plain, created", **plain)
    has(admin.get_queue("admin-queue-plain"), "plain", **plain)

    full = {
        "max_size_in_megabytes": 2048, "requires_duplicate_detection": True, "requires_session": True,
        "dead_lettering_on_message_expiration": True, "max_delivery_count": 5, "enable_batched_operations": False,
        "user_metadata": "a&b",
    }  # fmt: skip
    durations = {
        "lock_duration": "PT90S", "duplicate_detection_history_time_window": "PT60S",
        "default_message_time_to_live": "PT24H", "auto_delete_on_idle": "PT60M",
    }  # fmt: skip
    expected = {
        **full, "lock_duration": seconds(90), "duplicate_detection_history_time_window": MINUTE,
        "default_message_time_to_live": DAY, "auto_delete_on_idle": HOUR,
    }  # fmt: skip
    has(admin.create_queue("admin-queue-full", **full, **durations), "full, created", **expected)
    has(admin.get_queue("admin-queue-full"), "full", **expected)

    changes = {"lock_duration": seconds(30), "max_delivery_count": 2147483647, "user_metadata": "new"}
    infinite = admin.get_queue("admin-queue-plain").default_message_time_to_live
    admin.update_queue(admin.get_queue("admin-queue-full"), default_message_time_to_live=infinite, **changes)
    expected |= {"default_message_time_to_live": INFINITE, **changes}
    has(admin.get_queue("admin-queue-full"), "full, updated", **expected)

    for name in ("admin-queue-plain", "admin-queue-full"):
        admin.delete_queue(name)
        missing(admin.get_queue, name)
        missing(admin.delete_queue, name)


@scenario("admin-topic")
def topic(bus: Bus):
    admin = bus.admin
    plain = {
        "max_size_in_megabytes": 1024, "requires_duplicate_detection": False, "default_message_time_to_live": INFINITE,
        "duplicate_detection_history_time_window": 10 * MINUTE, "enable_batched_operations": True,
        "status": EntityStatus.ACTIVE, "auto_delete_on_idle": INFINITE, "enable_partitioning": False,
    }  # fmt: skip
    subscriptions = lambda name: admin.get_topic_runtime_properties(name).subscription_count
    has(admin.create_topic("admin-topic-plain"), "plain, created", **plain)
    has(admin.get_topic("admin-topic-plain"), "plain", **plain)
    expect.equal(subscriptions("admin-topic-plain"), 0, "subscriptions of plain")

    name = "admin-topic-full"
    full = {
        "max_size_in_megabytes": 3072, "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": MINUTE, "default_message_time_to_live": DAY,
        "auto_delete_on_idle": HOUR, "user_metadata": "topic",
    }  # fmt: skip
    has(admin.create_topic(name, **full), "full, created", **full)
    has(admin.get_topic(name), "full", **full)
    changes = {
        "default_message_time_to_live": 2 * DAY, "duplicate_detection_history_time_window": 2 * MINUTE,
        "user_metadata": "new",
    }  # fmt: skip
    admin.update_topic(admin.get_topic(name), **changes)
    has(admin.get_topic(name), "full, updated", **full | changes)

    for subscription in "ab":
        admin.create_subscription(name, subscription)
    expect.equal(subscriptions(name), 2, "subscriptions")
    admin.delete_subscription(name, "a")
    expect.equal(subscriptions(name), 1, "subscriptions")
    bus.topic_sender(name).send("M")
    admin.delete_topic(name)
    missing(admin.get_topic, name)
    missing(admin.get_subscription, name, "b")
    expect.error("entity-not-found", lambda: bus.subscription("b", name).receiver().receive_some(1, 5))
    admin.create_topic(name)
    expect.equal(subscriptions(name), 0, "subscriptions of the new one")
    for name in ("admin-topic-plain", "admin-topic-full"):
        admin.delete_topic(name)


@scenario("admin-subscription")
def subscription(bus: Bus):
    admin, name = bus.admin, "admin-subscription-topic"
    admin.create_topic(name)
    plain = {
        "name": "plain", "lock_duration": MINUTE, "requires_session": False, "default_message_time_to_live": INFINITE,
        "dead_lettering_on_message_expiration": False, "dead_lettering_on_filter_evaluation_exceptions": True,
        "max_delivery_count": 10, "enable_batched_operations": True, "status": EntityStatus.ACTIVE,
        "auto_delete_on_idle": INFINITE, "forward_to": None, "forward_dead_lettered_messages_to": None,
    }  # fmt: skip
    has(admin.create_subscription(name, "plain"), "plain, created", **plain)
    has(admin.get_subscription(name, "plain"), "plain", **plain)

    full = {
        "lock_duration": seconds(30), "requires_session": True, "default_message_time_to_live": HOUR,
        "dead_lettering_on_message_expiration": True, "dead_lettering_on_filter_evaluation_exceptions": False,
        "max_delivery_count": 3, "auto_delete_on_idle": 10 * MINUTE, "user_metadata": "sub",
    }  # fmt: skip
    has(admin.create_subscription(name, "full", **full), "full, created", **full)
    has(admin.get_subscription(name, "full"), "full", **full)
    changes = {"lock_duration": MINUTE, "max_delivery_count": 4, "user_metadata": "new"}
    admin.update_subscription(name, admin.get_subscription(name, "full"), **changes)
    has(admin.get_subscription(name, "full"), "full, updated", **full | changes)

    admin.delete_subscription(name, "full")
    missing(admin.get_subscription, name, "full")
    missing(admin.delete_subscription, name, "full")
    expect.equal([s.name for s in admin.list_subscriptions(name)], ["plain"], "subscriptions")
    admin.delete_topic(name)


@scenario("admin-all-queues", limit=120)
def all_queues(bus: Bus):
    names = [f"admin-all-queues-{i:03}" for i in range(250)]
    ten_at_a_time(bus.admin.create_queue, names)
    expect.equal(ours(bus, bus.admin.list_queues()), names, "queues")
    runtimes = [r for r in bus.admin.list_queues_runtime_properties() if r.name.startswith(bus.name)]
    expect.equal([(r.name, r.total_message_count) for r in runtimes], [(n, 0) for n in names], "runtime properties")
    ten_at_a_time(bus.admin.delete_queue, names)
    expect.equal(ours(bus, bus.admin.list_queues()), [], "queues")


@scenario("admin-lists", limit=120)
def lists(bus: Bus):
    admin, topics = bus.admin, [f"admin-lists-{letter}" for letter in "aBc"]
    for name in topics:
        admin.create_topic(name)
    topics[1] = "admin-lists-b"  # names of topics are shown in lower case
    expect.equal(ours(bus, admin.list_topics()), topics, "topics")
    expect.equal(ours(bus, admin.list_topics_runtime_properties()), topics, "runtime properties of topics")
    a = topics[0]
    expect.equal(list(admin.list_subscriptions(a)), [], "subscriptions")

    subscriptions = [f"s{i:03}" for i in range(120)]
    ten_at_a_time(functools.partial(admin.create_subscription, a), subscriptions)
    expect.equal([s.name for s in admin.list_subscriptions(a)], subscriptions, "subscriptions")
    runtimes = admin.list_subscriptions_runtime_properties(a)
    expect.equal([s.name for s in runtimes], subscriptions, "runtime properties of subscriptions")
    rules = [f"r{i:03}" for i in range(105)]
    ten_at_a_time(functools.partial(admin.create_rule, a, "s000", filter=SqlRuleFilter("1=0")), rules)
    expect.equal([r.name for r in admin.list_rules(a, "s000")], ["$Default", *rules], "rules")

    for name in topics:
        admin.delete_topic(name)
    expect.equal(ours(bus, admin.list_topics()), [], "topics")


@scenario("admin-exists")
def not_twice(bus: Bus):
    admin = bus.admin
    admin.create_queue("admin-exists-Queue")
    exists(admin.create_queue, "ADMIN-exists-queue")
    exists(admin.create_topic, "admin-exists-queue")
    expect.holds(admin.get_queue("admin-EXISTS-queue"), "no queue")  # the SDK names it as it was asked for

    topic = "admin-exists-topic"
    admin.create_topic("admin-exists-Topic")
    admin.create_subscription(topic, "Sub")
    expect.equal(ours(bus, admin.list_topics()), [topic], "topics")
    exists(admin.create_topic, topic)
    exists(admin.create_queue, topic)
    exists(admin.create_subscription, topic, "sub")
    exists(admin.create_rule, topic, "sub", "$default")
    admin.delete_queue("admin-exists-Queue")
    admin.delete_topic(topic)


@scenario("admin-missing")
def not_there(bus: Bus):
    admin, x = bus.admin, "admin-missing-x"
    for call in (
        admin.get_queue, admin.get_queue_runtime_properties, admin.get_topic, admin.get_topic_runtime_properties,
    ):  # fmt: skip
        missing(call, x)
    missing(admin.get_subscription, x, "s")
    missing(admin.get_subscription_runtime_properties, x, "s")

    topic = "admin-missing-topic"
    queue = admin.create_queue("admin-missing-queue")
    there = admin.create_topic(topic)
    one = admin.create_subscription(topic, "one")
    queue.name, there.name, one.name = x, x, "s"
    missing(admin.update_queue, queue)
    missing(admin.update_topic, there)
    missing(admin.update_subscription, x, one)
    missing(admin.create_subscription, x, "s")
    missing(admin.delete_queue, x)
    missing(admin.delete_topic, x)
    missing(admin.delete_subscription, x, "s")

    missing(admin.get_subscription, topic, "two")
    missing(admin.get_rule, topic, "one", "missing")
    missing(admin.create_rule, topic, "two", "rule")
    admin.delete_topic(topic)
    admin.delete_queue("admin-missing-queue")


@scenario("admin-immutable")
def immutable(bus: Bus):
    admin, queue, topic = bus.admin, "admin-immutable-queue", "admin-immutable-topic"
    cannot = "The value for the {} property of an existing {} cannot be changed"
    admin.create_queue(queue)
    refused(
        admin.update_queue, admin.get_queue(queue), requires_session=True, lock_duration=seconds(30),
        text=cannot.format("RequiresSession", "Queue"),
    )  # fmt: skip
    refused(
        admin.update_queue, admin.get_queue(queue), requires_duplicate_detection=True,
        text=cannot.format("RequiresDuplicateDetection", "Queue"),
    )  # fmt: skip
    refused(admin.update_queue, admin.get_queue(queue), enable_partitioning=True)
    has(admin.get_queue(queue), "the queue", requires_session=False, lock_duration=MINUTE)

    admin.create_topic(topic)
    admin.create_subscription(topic, "one")
    refused(
        admin.update_topic, admin.get_topic(topic), enable_partitioning=True,
        text="Partitioning cannot be changed for Topic. ",
    )  # fmt: skip
    refused(
        admin.update_subscription, topic, admin.get_subscription(topic, "one"), requires_session=True,
        text=cannot.format("RequiresSession", "Subscription"),
    )  # fmt: skip
    admin.delete_queue(queue)
    admin.delete_topic(topic)


@scenario("admin-limits")
def limits(bus: Bus):
    admin, x = bus.admin, "admin-limits-x"
    window = functools.partial(dict, requires_duplicate_detection=True)
    for options in (
        {"lock_duration": seconds(4)}, {"lock_duration": seconds(301)}, {"auto_delete_on_idle": seconds(299)},
        window(duplicate_detection_history_time_window=seconds(19)),
        window(duplicate_detection_history_time_window=7 * DAY + seconds(1)),
        {"max_delivery_count": 0}, {"max_size_in_megabytes": 16384}, {"default_message_time_to_live": seconds(0)},
        {"user_metadata": "x" * 1025},
    ):  # fmt: skip
        refused(admin.create_queue, x, **options)
    missing(admin.get_queue, x)
    for name, options in {
        "admin-limits-a": window(
            lock_duration=seconds(5), auto_delete_on_idle=5 * MINUTE, max_delivery_count=1, user_metadata="x" * 1024,
            duplicate_detection_history_time_window=seconds(20),
        ),
        "admin-limits-b": window(
            lock_duration=5 * MINUTE, max_delivery_count=2147483647, max_size_in_megabytes=5120,
            duplicate_detection_history_time_window=7 * DAY,
        ),
    }.items():  # fmt: skip
        admin.create_queue(name, **options)
        has(admin.get_queue(name), name, **options)
        admin.delete_queue(name)


@scenario("admin-names")
def names(bus: Bus):
    admin, queue, topic = bus.admin, "admin-names/of.some_kind/a-1", "admin-names/topic"
    admin.create_queue(queue)
    expect.equal(admin.get_queue(queue).name, queue, "name")
    bus.sender(queue).send("A")
    bus.queue(queue).consume("A")
    admin.create_topic(topic)
    admin.create_subscription(topic, "a.b_c-D")
    expect.equal(ours(bus, admin.list_topics()), [topic], "topics")
    expect.equal([s.name for s in admin.list_subscriptions(topic)], ["a.b_c-D"], "subscriptions")
    expect.equal(admin.get_subscription(topic, "a.b_c-D").name, "a.b_c-D", "name of the subscription")
    bus.topic_sender(topic).send("B")
    bus.subscription("a.b_c-D", topic).consume("B")
    admin.delete_queue(queue)
    admin.delete_topic(topic)

    topic, longest = "admin-names-topic", "admin-names-".ljust(260, "x")
    admin.create_topic(topic)
    refused(admin.create_queue, longest + "x")
    refused(admin.create_subscription, topic, "s" * 51)
    admin.create_queue(longest)
    admin.create_subscription(topic, "s" * 50)
    expect.equal(admin.get_queue(longest).name, longest, "name")
    expect.equal(admin.get_subscription(topic, "s" * 50).name, "s" * 50, "name of the subscription")
    admin.delete_queue(longest)
    admin.delete_topic(topic)


@scenario("admin-namespace")
def namespace(bus: Bus):
    about = bus.admin.get_namespace_properties()
    expect.holds(about.name, "no name")
    expect.equal((about.messaging_sku, about.messaging_units), ("Standard", None), "tier and units")
    for time in (about.created_at_utc, about.modified_at_utc):
        expect.holds(time <= expect.now(), f"made or modified at {time}")
