package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.FalseRuleFilter;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The group rules. */
final class Rules {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("rule-default", Rules::byDefault),
            entry("rule-none", Rules::none),
            entry("rule-sql", Rules::bySql),
            entry("rule-correlation", Rules::byCorrelation),
            entry("rule-action", Rules::action),
            entry("rule-evaluation-error", Rules::evaluationError),
            entry("rule-change", Rules::change),
            entry("rule-refused", Rules::refused),
            entry("rule-round-trip", Rules::roundTrip),
            entry("rule-manager", Rules::manager),
            entry("rule-before-publishing", Rules::beforePublishing),
            entry("rule-survives-kill", Rules::survivesKill));

    private static final String EVERYTHING = "$Default: true";

    private Rules() {}

    static CreateRuleOptions sql(String expression) {
        return new CreateRuleOptions(new SqlRuleFilter(expression));
    }

    private static CreateRuleOptions sql(String expression, String action) {
        return sql(expression).setAction(new SqlRuleAction(action));
    }

    static void create(Bus bus, String subscription, String name, CreateRuleOptions options) {
        bus.admin().createRule(bus.queue, name, subscription, options); // in this order, alone of all calls of the SDK
    }

    private static List<String> listed(Bus bus, String subscription) {
        return bus.admin().listRules(bus.queue, subscription).stream().map(Rules::shown).toList();
    }

    /** A rule in the words of the steps: "red: colour = 'red' -> SET mark = 'm'". */
    static String shown(RuleProperties rule) {
        String action = rule.getAction() instanceof SqlRuleAction sql ? " -> " + sql.getSqlExpression() : "";
        if (rule.getFilter() instanceof TrueRuleFilter) {
            return rule.getName() + ": true" + action;
        }
        if (rule.getFilter() instanceof FalseRuleFilter) {
            return rule.getName() + ": false" + action;
        }
        if (rule.getFilter() instanceof CorrelationRuleFilter filter) {
            return rule.getName() + ": " + shown(filter) + action;
        }
        return rule.getName() + ": " + ((SqlRuleFilter) rule.getFilter()).getSqlExpression() + action;
    }

    /** What a filter names. Values are texts, as the SDK has them. */
    private static String shown(CorrelationRuleFilter filter) {
        Map<String, Object> fields = new TreeMap<>();
        fields.put("correlation id", filter.getCorrelationId());
        fields.put("message id", filter.getMessageId());
        fields.put("to", filter.getTo());
        fields.put("reply-to", filter.getReplyTo());
        fields.put("subject", filter.getLabel());
        fields.put("session id", filter.getSessionId());
        fields.put("reply-to session id", filter.getReplyToSessionId());
        fields.put("content type", filter.getContentType());
        filter.getProperties().forEach((name, value) -> fields.put("property " + name, value.toString()));
        fields.values().removeIf(value -> value == null || "".equals(value));
        return fields.toString();
    }

    private static void marked(Source source, String text, String mark) {
        Expect.equal(mark, source.consume(text).get(0).getApplicationProperties().get("mark"), "mark of " + text);
    }

    private static void byDefault(Bus bus) {
        Expect.equal(List.of(EVERYTHING), listed(bus, "one"), "rules of one");
        bus.admin().createSubscription(bus.queue, "two");
        Expect.equal(List.of(EVERYTHING), listed(bus, "two"), "rules of two");
        bus.admin().createSubscription(bus.queue, "three", "first", new CreateSubscriptionOptions(), sql("colour = 'red'", "SET mark = 'm'"));
        Expect.equal(List.of("first: colour = 'red' -> SET mark = 'm'"), listed(bus, "three"), "rules of three");
        bus.send(Topics.coloured("A", "red"), Topics.coloured("B", "blue"));
        bus.subscription("one").consume("A", "B");
        bus.subscription("two").consume("A", "B");
        Source three = bus.subscription("three");
        marked(three, "A", "m");
        three.nothing();
    }

    private static void none(Bus bus) {
        Source bare = bus.subscription("bare");
        Source one = bus.subscription("one");
        bus.admin().deleteRule(bus.queue, "bare", "$Default");
        Expect.equal(List.of(), listed(bus, "bare"), "rules of bare");
        bus.send("A");
        bare.nothing();
        one.consume("A");
        bus.admin().deleteRule(bus.queue, "one", "$Default");
        bus.send("B");
        one.nothing();
        one.peeks();
        create(bus, "one", "again", sql("1=1"));
        bus.send("C");
        one.consume("C");
        bare.peeks();
    }

    /** Each subscription has these messages. */
    private static void each(Bus bus, Map<String, List<String>> expected) {
        expected.forEach((name, texts) -> Expect.equal(texts, Bus.texts(bus.sorted(bus.subscription(name).peekAll())), "peek all of " + name));
    }

    private static ServiceBusMessage row(String text, String id, String subject, Map<String, Object> properties) {
        ServiceBusMessage message = Bus.message(text).setMessageId(id).setSubject(subject);
        message.getApplicationProperties().putAll(properties);
        return message;
    }

    private static void bySql(Bus bus) {
        bus.send(row("1", "id-1", "order", Map.of("colour", "blue", "qty", 5, "price", 2.5)),
                row("2", "id-2", "order", Map.of("colour", "Blue", "qty", 12, "price", 1.5)),
                row("3", "other", "note", Map.of()),
                row("4", "other", "note", Map.of("colour", "red", "qty", 12, "price", 10.5)));
        Map<String, List<String>> expected = new LinkedHashMap<>();
        expected.put("equal", List.of("1"));
        expected.put("not", List.of("2", "4"));
        expected.put("compare", List.of("2"));
        expected.put("precedence", List.of("4"));
        expected.put("parentheses", List.of("1", "4"));
        expected.put("arithmetic", List.of("2", "4"));
        expected.put("in", List.of("1", "4"));
        expected.put("not-in", List.of("2"));
        expected.put("null", List.of("3"));
        expected.put("not-null", List.of("1", "2", "4"));
        expected.put("exists", List.of("1", "2", "4"));
        expected.put("like", List.of("1"));
        expected.put("like-one", List.of("4"));
        expected.put("system", List.of("1", "2"));
        expected.put("property", List.of("4"));
        expected.put("quoted", List.of("4"));
        expected.put("number", List.of("2", "4"));
        expected.put("true", List.of("1", "2", "3", "4"));
        expected.put("false", List.of());
        each(bus, expected);
        expected.keySet().forEach(name -> bus.subscription(name).peeksDeadLetters());
    }

    private static void byCorrelation(Bus bus) {
        bus.send(row("1", "id", "order", Map.of("colour", "red", "qty", 5)).setCorrelationId("correlation").setTo("to").setReplyTo("reply-to")
                        .setSessionId("group").setReplyToSessionId("reply-group").setContentType("text/plain"),
                Topics.coloured("2", "Red").setSubject("order"),
                Bus.message("3"));
        each(bus, Map.of("all", List.of("1"), "label", List.of("1", "2"), "label-case", List.of(), "property", List.of("1"),
                "number", List.of("1"), "both", List.of("2")));
    }

    private static void action(Bus bus) {
        Map<String, Object> sent = Map.of("colour", "red", "priority", "low", "qty", 5);
        Map<String, Object> marked = Map.of("RuleName", "mark", "priority", "high", "qty", 5);
        Map<String, Object> counted = Map.of("RuleName", "count", "colour", "red", "priority", "low", "qty", 6, "note", "was red");
        bus.send(row("A", "id", "order", sent));
        Source one = bus.subscription("one");
        ServiceBusReceiverClient receiver = one.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 3);
        Expect.equal(List.of("A active 0", "A active 0", "A active 0"), Bus.states(all), "received");
        Expect.equal(List.of(1L, 2L, 3L), Bus.lowParts(all), "numbers");
        has(all.get(0), "order", sent);
        has(all.get(1), "marked", marked);
        has(all.get(2), "order", counted);
        receiver.complete(all.get(0));
        receiver.abandon(all.get(2));
        List<ServiceBusReceivedMessage> peeked = one.peekAll();
        Expect.equal(List.of(marked, counted), peeked.stream().map(ServiceBusReceivedMessage::getApplicationProperties).toList(), "peek all");
        has(bus.subscription("other").consume("A").get(0), "order", sent);
    }

    private static void has(ServiceBusReceivedMessage message, String subject, Map<String, Object> properties) {
        Expect.equal("id", message.getMessageId(), "id");
        Expect.equal(subject, message.getSubject(), "subject");
        Expect.equal(properties, message.getApplicationProperties(), "application properties");
    }

    private static void evaluationError(Bus bus) {
        bus.send(Topics.coloured("A", "red"));
        Source strict = bus.subscription("strict");
        Source lenient = bus.subscription("lenient");
        Source acting = bus.subscription("acting");
        Source other = bus.subscription("other");
        strict.consume("A");
        hasLetter(strict, "FilterException");
        lenient.nothing();
        lenient.peeks();
        lenient.noDeadLetters();
        acting.nothing();
        hasLetter(acting, "RuleActionException");
        other.consume("A");
        other.noDeadLetters();
    }

    private static void hasLetter(Source source, String reason) {
        List<ServiceBusReceivedMessage> letters = source.peekAllDeadLetters();
        Expect.equal(List.of("A"), Bus.texts(letters), "dead letters");
        Expect.equal(reason, letters.get(0).getDeadLetterReason(), "reason");
        String description = letters.get(0).getDeadLetterErrorDescription();
        Expect.that(description != null && !description.isEmpty(), "no description");
    }

    private static void change(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        bus.send(Topics.coloured("A", "red"));
        create(bus, "one", "blue", sql("colour = 'blue'"));
        bus.send(Topics.coloured("B", "blue"), Topics.coloured("C", "green"));
        RuleProperties red = admin.getRule(bus.queue, "one", "red");
        admin.deleteRule(bus.queue, "one", "red");
        bus.send(Topics.coloured("D", "red"), Topics.coloured("E", "blue"));
        RuleProperties blue = admin.getRule(bus.queue, "one", "blue").setFilter(new SqlRuleFilter("colour = 'green'"));
        admin.updateRule(bus.queue, "one", blue);
        bus.send(Topics.coloured("F", "green"), Topics.coloured("G", "blue"));
        Source one = bus.subscription("one");
        one.consume("A", "B", "E", "F");
        one.nothing();

        Expect.error(Kind.ADMIN_EXISTS, () -> create(bus, "one", "BLUE", sql("1=1")));
        Expect.error(Kind.ADMIN_MISSING, () -> admin.deleteRule(bus.queue, "one", "red"));
        Expect.error(Kind.ADMIN_MISSING, () -> admin.getRule(bus.queue, "one", "red"));
        Expect.error(Kind.ADMIN_MISSING, () -> admin.updateRule(bus.queue, "one", red));
        Expect.equal(List.of("blue: colour = 'green'"), listed(bus, "one"), "rules");
    }

    private static void refused(Bus bus) {
        String tooLong = "colour = '" + "x".repeat(1014) + "'";
        Expect.equal(1025, tooLong.length(), "characters");
        List<CreateRuleOptions> bad = new ArrayList<>();
        for (String text : List.of("colour =", "colour = 'red", "AND", "1", "colour LIKE", "qty = 99999999999999999999", tooLong)) {
            bad.add(sql(text));
        }
        bad.add(sql("1=1", "SET colour"));
        bad.add(new CreateRuleOptions(new CorrelationRuleFilter()));
        bad.forEach(options -> Expect.error(Kind.ADMIN_BAD_REQUEST, () -> create(bus, "one", "bad", options)));
        Expect.equal(List.of(EVERYTHING), listed(bus, "one"), "rules");
        bus.send("A");
        bus.subscription("one").consume("A");
    }

    private static void roundTrip(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        CorrelationRuleFilter all = new CorrelationRuleFilter("c").setMessageId("m").setTo("t").setReplyTo("r").setLabel("l").setSessionId("s")
                .setReplyToSessionId("rs").setContentType("ct");
        all.getProperties().putAll(Map.of("text", "x", "whole", 7, "half", 0.5, "yes", true));
        create(bus, "one", "b-correlation", new CreateRuleOptions(all));
        create(bus, "one", "a-sql", sql("qty > 5 AND colour <> 'a&b<c>'", "SET colour = 'a&b<c>'; REMOVE qty"));
        create(bus, "one", "c-true", new CreateRuleOptions(new TrueRuleFilter()));
        create(bus, "one", "d-false", new CreateRuleOptions(new FalseRuleFilter()));
        List<String> expected = List.of(EVERYTHING, "a-sql: qty > 5 AND colour <> 'a&b<c>' -> SET colour = 'a&b<c>'; REMOVE qty",
                "b-correlation: " + shown(all), "c-true: true", "d-false: false");
        List<String> names = expected.stream().map(rule -> rule.substring(0, rule.indexOf(':'))).toList();
        Expect.equal(expected, names.stream().map(name -> shown(admin.getRule(bus.queue, "one", name))).toList(), "rules, one by one");
        Expect.equal(expected, listed(bus, "one"), "rules");

        CorrelationRuleFilter order = new CorrelationRuleFilter().setLabel("order");
        admin.updateRule(bus.queue, "one", admin.getRule(bus.queue, "one", "a-sql").setFilter(order).setAction(null));
        Expect.equal("a-sql: " + shown(order), shown(admin.getRule(bus.queue, "one", "a-sql")), "a-sql");
        names.forEach(name -> admin.deleteRule(bus.queue, "one", name));
        Expect.equal(List.of(), listed(bus, "one"), "rules");
    }

    private static void manager(Bus bus) {
        CorrelationRuleFilter order = new CorrelationRuleFilter().setLabel("order");
        order.getProperties().put("qty", 5);
        ServiceBusRuleManagerClient rules = bus.client().ruleManager(bus.queue, "one");
        Expect.equal(List.of(EVERYTHING), managed(rules), "rules");
        rules.createRule("red", sql("colour = 'red'", "SET mark = 'm'"));
        rules.createRule("order", new CreateRuleOptions(order));
        Expect.error(Kind.RULE_EXISTS, () -> rules.createRule("red", sql("1=1")));
        Expect.error(Kind.ARGUMENT, () -> rules.createRule("broken", sql("colour =")));
        rules.deleteRule("$Default");
        Expect.error(Kind.RULE_MISSING, () -> rules.deleteRule("missing"));

        Expect.equal(List.of("order: " + shown(order), "red: colour = 'red' -> SET mark = 'm'"), listed(bus, "one"), "rules as admin lists them");
        create(bus, "one", "green", sql("colour = 'green'"));
        bus.admin().deleteRule(bus.queue, "one", "order");
        Expect.equal(List.of("green: colour = 'green'", "red: colour = 'red' -> SET mark = 'm'"), managed(rules), "rules");
        bus.send(Topics.coloured("A", "red"), Topics.coloured("B", "green"), row("C", "id", "order", Map.of("qty", 5)));
        Source one = bus.subscription("one");
        List<ServiceBusReceivedMessage> both = one.consume("A", "B");
        Expect.equal("m", both.get(0).getApplicationProperties().get("mark"), "mark of A");
        one.nothing();
    }

    private static List<String> managed(ServiceBusRuleManagerClient rules) {
        return rules.listRules().stream().map(Rules::shown).sorted().toList();
    }

    private static void beforePublishing(Bus bus) {
        bus.send(Topics.coloured("A", "red"));
        Expect.error(Kind.NO_MATCH, () -> bus.send(Topics.coloured("B", "blue")));
        Source one = bus.subscription("one");
        one.consume("A");
        one.nothing();
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        ServiceBusAdministrationClient admin = bus.admin();
        String topic = "rule-survives-kill-made";
        bus.createTopic(topic);
        admin.createSubscription(topic, "one");
        admin.createRule(topic, "red", "one", sql("colour = 'red'", "SET id = newid(); SET mark = 'm'"));
        admin.deleteRule(topic, "one", "$Default");
        Sender sender = bus.client().newTopicSender(topic);
        sender.sendMessage(Topics.coloured("A", "red"));
        Source one = bus.client().subscription(topic, "one");
        Object id = one.peekAll().get(0).getApplicationProperties().get("id");
        Expect.that(id != null, "no id");
        bus.control.kill();

        List<String> listed = admin.listRules(topic, "one").stream().map(Rules::shown).toList();
        Expect.equal(List.of("red: colour = 'red' -> SET id = newid(); SET mark = 'm'"), listed, "rules");
        Map<String, Object> properties = Bus.insist(() -> one.consume("A")).get(0).getApplicationProperties();
        Expect.equal(id, properties.get("id"), "id of A");
        Expect.equal("m", properties.get("mark"), "mark of A");
        Bus.insist(() -> sender.sendMessage(Topics.coloured("B", "blue")));
        Bus.insist(() -> sender.sendMessage(Topics.coloured("C", "red")));
        properties = one.consume("C").get(0).getApplicationProperties();
        Expect.equal("m", properties.get("mark"), "mark of C");
        Expect.different(id, properties.get("id"), "id of C");
        one.nothing();
    }
}
