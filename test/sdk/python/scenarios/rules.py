"""Rules: filters and actions."""

from datetime import datetime, timezone

from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from . import expect
from .bus import Bus, Source, low_parts, properties, text, texts
from .scenario import scenario

EVERYTHING = "$Default: true"


def create(bus: Bus, subscription: str, name: str, sql: str, action: str | None = None, topic: str | None = None):
    action = SqlRuleAction(action) if action else None
    bus.admin.create_rule(topic or bus.name, subscription, name, filter=SqlRuleFilter(sql), action=action)


def listed(bus: Bus, subscription: str, topic: str | None = None) -> list[str]:
    return [shown(rule) for rule in bus.admin.list_rules(topic or bus.name, subscription)]


def shown(rule: RuleProperties) -> str:
    """A rule in the words of the steps: "red: colour = 'red' -> SET mark = 'm'"."""
    action = f" -> {rule.action.sql_expression}" if rule.action else ""
    match rule.filter:
        case TrueRuleFilter():
            return f"{rule.name}: true{action}"
        case FalseRuleFilter():
            return f"{rule.name}: false{action}"
        case CorrelationRuleFilter():
            fields = {name: value for name, value in vars(rule.filter).items() if value}
            return f"{rule.name}: {correlation(**fields)}{action}"
        case _:
            return f"{rule.name}: {rule.filter.sql_expression}{action}"


def correlation(**fields) -> str:
    return repr(sorted((name, dict(value) if name == "properties" else value) for name, value in fields.items()))


def send(bus: Bus, **colours: str) -> None:
    """Sends messages, each a text with the colour it has: send(bus, A="red")."""
    for body, colour in colours.items():
        bus.send(body, application_properties={"colour": colour})


def marked(source: Source, body: str, mark: str) -> None:
    (m,) = source.consume(body)
    expect.equal(properties(m).get("mark"), mark, f"mark of {body}")


@scenario("rule-default")
def default(bus: Bus):
    expect.equal(listed(bus, "one"), [EVERYTHING], "rules of one")
    bus.admin.create_subscription(bus.name, "two")
    expect.equal(listed(bus, "two"), [EVERYTHING], "rules of two")
    bus.admin.create_subscription(bus.name, "three")
    bus.admin.delete_rule(bus.name, "three", "$Default")
    create(bus, "three", "first", "colour = 'red'", "SET mark = 'm'")
    expect.equal(listed(bus, "three"), ["first: colour = 'red' -> SET mark = 'm'"], "rules of three")
    send(bus, A="red", B="blue")
    for name in ("one", "two"):
        bus.subscription(name).consume("A", "B")
    three = bus.subscription("three")
    marked(three, "A", "m")
    three.nothing()


@scenario("rule-none")
def none(bus: Bus):
    bare, one = bus.subscription("bare"), bus.subscription("one")
    bus.admin.delete_rule(bus.name, "bare", "$Default")
    expect.equal(listed(bus, "bare"), [], "rules of bare")
    bus.send("A")
    bare.nothing()
    one.consume("A")
    bus.admin.delete_rule(bus.name, "one", "$Default")
    bus.send("B")
    one.nothing()
    one.empty()
    create(bus, "one", "again", "1=1")
    bus.send("C")
    one.consume("C")
    bare.empty()


def each(bus: Bus, expected: dict[str, list[str]]) -> None:
    """Each subscription has these messages."""
    for name, bodies in expected.items():
        source = bus.subscription(name)
        expect.equal(texts(source.sorted(source.peek_all())), bodies, f"peek all of {name}")


@scenario("rule-sql", limit=90)
def sql(bus: Bus):
    rows = [
        ("1", "id-1", "order", {"colour": "blue", "qty": 5, "price": 2.5}),
        ("2", "id-2", "order", {"colour": "Blue", "qty": 12, "price": 1.5}),
        ("3", "other", "note", None),
        ("4", "other", "note", {"colour": "red", "qty": 12, "price": 10.5}),
    ]
    for body, id, subject, application_properties in rows:
        bus.send(body, message_id=id, subject=subject, application_properties=application_properties)
    expected = {
        "equal": ["1"], "not": ["2", "4"], "compare": ["2"], "precedence": ["4"], "parentheses": ["1", "4"],
        "arithmetic": ["2", "4"], "in": ["1", "4"], "not-in": ["2"], "null": ["3"], "not-null": ["1", "2", "4"],
        "exists": ["1", "2", "4"], "like": ["1"], "like-one": ["4"], "system": ["1", "2"], "property": ["4"],
        "quoted": ["4"], "number": ["2", "4"], "true": ["1", "2", "3", "4"], "false": [],
    }  # fmt: skip
    each(bus, expected)
    for name in expected:
        bus.subscription(name).no_dead_letters()


@scenario("rule-correlation")
def by_correlation(bus: Bus):
    bus.send(
        "1", correlation_id="correlation", message_id="id", to="to", reply_to="reply-to", subject="order",
        session_id="group", reply_to_session_id="reply-group", content_type="text/plain",
        application_properties={"colour": "red", "qty": 5},
    )  # fmt: skip
    bus.send("2", subject="order", application_properties={"colour": "Red"})
    bus.send("3")
    each(
        bus,
        {"all": ["1"], "label": ["1", "2"], "label-case": [], "property": ["1"], "number": ["1"], "both": ["2"]},
    )


@scenario("rule-action")
def action(bus: Bus):
    def has(m, subject: str, expected: dict) -> None:
        expect.equal((m.message_id, m.delivery_count), ("id", 0), "id and count")
        expect.equal((m.subject, properties(m)), (subject, expected), "subject and application properties")

    as_sent = {"colour": "red", "priority": "low", "qty": 5}
    counted = {"RuleName": "count", **as_sent, "qty": 6, "note": "was red"}
    bus.send("A", message_id="id", subject="order", application_properties=as_sent)
    one = bus.subscription("one")
    receiver = one.receiver()
    first, second, third = receiver.take("A", "A", "A")
    has(first, "order", as_sent)
    has(second, "marked", {"RuleName": "mark", "priority": "high", "qty": 5})
    has(third, "order", counted)
    expect.equal(low_parts([first, second, third]), [1, 2, 3], "numbers")
    receiver.complete(first)
    receiver.abandon(third)
    peeked = one.peek_all()
    expect.equal([properties(m) for m in peeked], [properties(second), counted], "peek all: application properties")
    (copy,) = bus.subscription("other").consume("A")
    has(copy, "order", as_sent)


@scenario("rule-evaluation-error")
def evaluation_error(bus: Bus):
    def is_letter(source: Source, reason: str) -> None:
        (letter,) = source.peek_all(dead_letters=True)
        expect.equal((text(letter), letter.dead_letter_reason), ("A", reason), "dead letter and reason")
        expect.holds(letter.dead_letter_error_description, "no description")

    send(bus, A="red")
    strict, lenient, acting, other = (bus.subscription(n) for n in ("strict", "lenient", "acting", "other"))
    strict.consume("A")
    is_letter(strict, "FilterException")
    lenient.nothing()
    lenient.empty()
    lenient.no_dead_letters()
    acting.nothing()
    is_letter(acting, "RuleActionException")
    other.consume("A")
    other.no_dead_letters()


@scenario("rule-change")
def change(bus: Bus):
    send(bus, A="red")
    create(bus, "one", "blue", "colour = 'blue'")
    send(bus, B="blue", C="green")
    bus.admin.delete_rule(bus.name, "one", "red")
    send(bus, D="red", E="blue")
    blue = bus.admin.get_rule(bus.name, "one", "blue")
    bus.admin.update_rule(bus.name, "one", blue, filter=SqlRuleFilter("colour = 'green'"))
    send(bus, F="green", G="blue")
    one = bus.subscription("one")
    one.consume("A", "B", "E", "F")
    one.nothing()

    expect.admin_error("admin-exists", create, bus, "one", "BLUE", "1=1")
    expect.admin_error("admin-missing", bus.admin.delete_rule, bus.name, "one", "red")
    expect.admin_error("admin-missing", bus.admin.get_rule, bus.name, "one", "red")
    red = RuleProperties("red", filter=TrueRuleFilter(), action=None, created_at_utc=None)
    expect.admin_error("admin-missing", bus.admin.update_rule, bus.name, "one", red)
    expect.equal(listed(bus, "one"), ["blue: colour = 'green'"], "rules")


@scenario("rule-refused")
def refused(bus: Bus):
    too_long = "colour = '" + "x" * 1014 + "'"
    expect.equal(len(too_long), 1025, "characters")
    for sql in ("colour =", "colour = 'red", "AND", "1", "colour LIKE", "qty = 99999999999999999999", too_long):
        expect.admin_error("admin-bad-request", create, bus, "one", "bad", sql)
    expect.admin_error("admin-bad-request", create, bus, "one", "bad", "1=1", "SET colour")
    expect.admin_error(
        "admin-bad-request", bus.admin.create_rule, bus.name, "one", "bad", filter=CorrelationRuleFilter()
    )
    expect.equal(listed(bus, "one"), [EVERYTHING], "rules")
    bus.send("A")
    bus.subscription("one").consume("A")


@scenario("rule-parameters")
def parameters(bus: Bus):
    sql = "colour = @colour AND qty >= @qty AND price < @price AND active = @active AND sys.EnqueuedTimeUtc > @since"
    since = datetime(2020, 1, 2, 3, 4, 5, 678000, timezone.utc)
    given = {"@colour": "red", "@qty": 5, "@price": 2.5, "@active": True, "@since": since}
    filter, action = SqlRuleFilter(sql, given), SqlRuleAction("SET mark = @mark", {"@mark": "done"})
    bus.admin.create_rule(bus.name, "one", "typed", filter=filter, action=action)
    bus.admin.delete_rule(bus.name, "one", "$Default")

    typed = bus.admin.get_rule(bus.name, "one", "typed")
    expect.equal((typed.filter.sql_expression, typed.action.sql_expression), (sql, "SET mark = @mark"), "texts")
    kept = {**given, "@since": since.replace(microsecond=0)}  # the SDK writes whole seconds
    expect.equal(dict(typed.filter.parameters), kept, "parameters of the filter")
    expect.equal(
        {name: type(value) for name, value in typed.filter.parameters.items()},
        {name: type(value) for name, value in kept.items()}, "types of the parameters",
    )  # fmt: skip
    expect.equal(dict(typed.action.parameters), {"@mark": "done"}, "parameters of the action")

    a = {"colour": "red", "qty": 5, "price": 2.0, "active": True}
    for body, differs in (("A", {}), ("B", {"qty": 4}), ("C", {"active": False})):
        bus.send(body, application_properties={**a, **differs})
    one = bus.subscription("one")
    marked(one, "A", "done")
    one.nothing()


@scenario("rule-round-trip")
def round_trip(bus: Bus):
    admin, here = bus.admin, (bus.name, "one")
    fields = {
        "correlation_id": "c", "message_id": "m", "to": "t", "reply_to": "r", "label": "l", "session_id": "s",
        "reply_to_session_id": "rs", "content_type": "ct",
        "properties": {"text": "x", "whole": 7, "half": 0.5, "yes": True},
    }  # fmt: skip
    admin.create_rule(*here, "b-correlation", filter=CorrelationRuleFilter(**fields))
    create(bus, "one", "a-sql", "qty > 5 AND colour <> 'a&b<c>'", "SET colour = 'a&b<c>'; REMOVE qty")
    admin.create_rule(*here, "c-true", filter=TrueRuleFilter())
    admin.create_rule(*here, "d-false", filter=FalseRuleFilter())
    expected = [
        EVERYTHING, "a-sql: qty > 5 AND colour <> 'a&b<c>' -> SET colour = 'a&b<c>'; REMOVE qty",
        f"b-correlation: {correlation(**fields)}", "c-true: true", "d-false: false",
    ]  # fmt: skip
    names = [rule.partition(":")[0] for rule in expected]
    expect.equal([shown(admin.get_rule(*here, name)) for name in names], expected, "rules, one by one")
    expect.equal(listed(bus, "one"), expected, "rules")

    rule = admin.get_rule(*here, "a-sql")
    rule.filter, rule.action = CorrelationRuleFilter(label="order"), None
    admin.update_rule(*here, rule)
    expect.equal(shown(admin.get_rule(*here, "a-sql")), f"a-sql: {correlation(label='order')}", "a-sql")
    for name in names:
        admin.delete_rule(*here, name)
    expect.equal(listed(bus, "one"), [], "rules")


@scenario("rule-before-publishing")
def before_publishing(bus: Bus):
    send(bus, A="red")
    expect.error("no-match", send, bus, B="blue")
    one = bus.subscription("one")
    one.consume("A")
    one.nothing()


@scenario("rule-survives-kill", limit=90)
def survives_kill(bus: Bus):
    topic = "rule-survives-kill-made"
    bus.admin.create_topic(topic)
    bus.admin.create_subscription(topic, "one")
    create(bus, "one", "red", "colour = 'red'", "SET id = newid(); SET mark = 'm'", topic)
    bus.admin.delete_rule(topic, "one", "$Default")
    bus.topic_sender(topic).send("A", application_properties={"colour": "red"})
    one = bus.subscription("one", topic)
    (a,) = one.peek_all()
    expect.holds(properties(a).get("id"), "no id")
    bus.kill()

    given = "red: colour = 'red' -> SET id = newid(); SET mark = 'm'"
    expect.equal(listed(bus, "one", topic), [given], "rules")
    (again,) = one.consume("A")
    expect.equal(properties(again), {**properties(a), "mark": "m"}, "application properties of A")
    sender = bus.topic_sender(topic)
    for body, colour in (("B", "blue"), ("C", "red")):
        sender.send(body, application_properties={"colour": colour})
    (c,) = one.consume("C")
    expect.equal(properties(c)["mark"], "m", "mark of C")
    expect.holds(properties(c)["id"] != properties(a)["id"], "the ids of A and C are the same")
    one.nothing()
