package ledgerbus;

import static java.util.Map.entry;

import com.azure.core.util.CoreUtils;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.MessagingSku;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.SubscriptionRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The group admin: entities and lists of them. What is done to messages is in {@link Administering}. */
final class Entities {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("admin-queue", Entities::queue),
            entry("admin-topic", Entities::topic),
            entry("admin-subscription", Entities::subscription),
            entry("admin-all-queues", Entities::allQueues),
            entry("admin-lists", Entities::lists),
            entry("admin-exists", Entities::exists),
            entry("admin-missing", Entities::missing),
            entry("admin-limits", Entities::limits),
            entry("admin-names", Entities::names),
            entry("admin-namespace", Entities::namespace));

    static final String INFINITE = "infinite";
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration HOUR = Duration.ofHours(1);
    private static final Duration DAY = Duration.ofDays(1);

    /** The duplicate window that the SDK sends where none is given. */
    private static final Duration SDK_WINDOW = MINUTE;

    private Entities() {}

    /** What is infinite is compared to the day; what is absent may be empty. */
    private static Object plain(Object value) {
        if (value instanceof Duration d && d.toDays() >= 10675199) {
            return INFINITE;
        }
        return value == null || "".equals(value) ? "none" : value;
    }

    static Map<String, Object> shown(QueueProperties q) {
        Map<String, Object> all = new TreeMap<>();
        all.put("name", q.getName());
        all.put("lock", q.getLockDuration());
        all.put("size", q.getMaxSizeInMegabytes());
        all.put("duplicates", q.isDuplicateDetectionRequired());
        all.put("sessions", q.isSessionRequired());
        all.put("ttl", q.getDefaultMessageTimeToLive());
        all.put("dead-letter expired", q.isDeadLetteringOnMessageExpiration());
        all.put("window", q.getDuplicateDetectionHistoryTimeWindow());
        all.put("deliveries", q.getMaxDeliveryCount());
        all.put("batched", q.isBatchedOperationsEnabled());
        all.put("status", q.getStatus());
        all.put("idle", q.getAutoDeleteOnIdle());
        all.put("partitioned", q.isPartitioningEnabled());
        all.put("forward", q.getForwardTo());
        all.put("forward dead letters", q.getForwardDeadLetteredMessagesTo());
        all.put("metadata", q.getUserMetadata());
        all.replaceAll((name, value) -> plain(value));
        return all;
    }

    static Map<String, Object> shown(TopicProperties t) {
        Map<String, Object> all = new TreeMap<>();
        all.put("name", t.getName());
        all.put("size", t.getMaxSizeInMegabytes());
        all.put("duplicates", t.isDuplicateDetectionRequired());
        all.put("ttl", t.getDefaultMessageTimeToLive());
        all.put("window", t.getDuplicateDetectionHistoryTimeWindow());
        all.put("batched", t.isBatchedOperationsEnabled());
        all.put("status", t.getStatus());
        all.put("idle", t.getAutoDeleteOnIdle());
        all.put("partitioned", t.isPartitioningEnabled());
        all.put("metadata", t.getUserMetadata());
        all.replaceAll((name, value) -> plain(value));
        return all;
    }

    static Map<String, Object> shown(SubscriptionProperties s) {
        Map<String, Object> all = new TreeMap<>();
        all.put("topic", s.getTopicName());
        all.put("name", s.getSubscriptionName());
        all.put("lock", s.getLockDuration());
        all.put("sessions", s.isSessionRequired());
        all.put("ttl", s.getDefaultMessageTimeToLive());
        all.put("dead-letter expired", s.isDeadLetteringOnMessageExpiration());
        all.put("dead-letter filter errors", s.isDeadLetteringOnFilterEvaluationExceptions());
        all.put("deliveries", s.getMaxDeliveryCount());
        all.put("batched", s.isBatchedOperationsEnabled());
        all.put("status", s.getStatus());
        all.put("idle", s.getAutoDeleteOnIdle());
        all.put("forward", s.getForwardTo());
        all.put("forward dead letters", s.getForwardDeadLetteredMessagesTo());
        all.put("metadata", s.getUserMetadata());
        all.replaceAll((name, value) -> plain(value));
        return all;
    }

    /** A map of what was said before, with what is different. */
    private static Map<String, Object> with(Map<String, Object> before, Map<String, Object> changes) {
        Map<String, Object> all = new TreeMap<>(before);
        all.putAll(changes);
        return all;
    }

    private static void missing(Expect.Action call) {
        Expect.error(Kind.ADMIN_MISSING, call);
    }

    private static void queue(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        Map<String, Object> plain = Map.ofEntries(entry("name", "admin-queue-plain"), entry("lock", MINUTE), entry("size", 1024L),
                entry("duplicates", false), entry("sessions", false), entry("ttl", INFINITE), entry("dead-letter expired", false),
                entry("window", SDK_WINDOW), entry("deliveries", 10), entry("batched", true), entry("status", EntityStatus.ACTIVE),
                entry("idle", INFINITE), entry("partitioned", false), entry("forward", "none"), entry("forward dead letters", "none"),
                entry("metadata", "none"));
        Expect.equal(plain, shown(admin.createQueue("admin-queue-plain")), "plain, created");
        Expect.equal(plain, shown(admin.getQueue("admin-queue-plain")), "plain");
        Expect.that(admin.getQueueExists("admin-queue-plain"), "plain does not exist");

        Map<String, Object> full = with(plain, Map.ofEntries(entry("name", "admin-queue-full"), entry("lock", Duration.ofSeconds(90)),
                entry("size", 2048L), entry("duplicates", true), entry("window", MINUTE), entry("sessions", true), entry("ttl", DAY),
                entry("dead-letter expired", true), entry("deliveries", 5), entry("batched", false), entry("idle", HOUR), entry("metadata", "a&b")));
        CreateQueueOptions options = new CreateQueueOptions().setLockDuration(Duration.parse("PT90S")).setMaxSizeInMegabytes(2048)
                .setDuplicateDetectionRequired(true).setDuplicateDetectionHistoryTimeWindow(Duration.parse("PT60S")).setSessionRequired(true)
                .setDefaultMessageTimeToLive(Duration.parse("PT24H")).setDeadLetteringOnMessageExpiration(true).setMaxDeliveryCount(5)
                .setBatchedOperationsEnabled(false).setAutoDeleteOnIdle(Duration.parse("PT60M")).setUserMetadata("a&b");
        Expect.equal(full, shown(admin.createQueue("admin-queue-full", options)), "full, created");
        Expect.equal(full, shown(admin.getQueue("admin-queue-full")), "full");

        Duration infinite = new CreateQueueOptions().getDefaultMessageTimeToLive();
        admin.updateQueue(admin.getQueue("admin-queue-full").setLockDuration(Duration.ofSeconds(30)).setDefaultMessageTimeToLive(infinite)
                .setMaxDeliveryCount(Integer.MAX_VALUE).setUserMetadata("new"));
        Map<String, Object> changes = Map.of("lock", Duration.ofSeconds(30), "ttl", INFINITE, "deliveries", Integer.MAX_VALUE, "metadata", "new");
        Expect.equal(with(full, changes), shown(admin.getQueue("admin-queue-full")), "full, updated");

        for (String name : List.of("admin-queue-plain", "admin-queue-full")) {
            admin.deleteQueue(name);
            missing(() -> admin.getQueue(name));
            Expect.that(!admin.getQueueExists(name), "%s exists", name);
            missing(() -> admin.deleteQueue(name));
        }
    }

    private static void topic(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        Map<String, Object> plain = Map.ofEntries(entry("name", "admin-topic-plain"), entry("size", 1024L), entry("duplicates", false),
                entry("ttl", INFINITE), entry("window", SDK_WINDOW), entry("batched", true), entry("status", EntityStatus.ACTIVE),
                entry("idle", INFINITE), entry("partitioned", false), entry("metadata", "none"));
        Expect.equal(plain, shown(admin.createTopic("admin-topic-plain")), "plain, created");
        Expect.equal(plain, shown(admin.getTopic("admin-topic-plain")), "plain");
        hasSubscriptions(admin, "admin-topic-plain", 0);

        String name = "admin-topic-full";
        Map<String, Object> full = with(plain, Map.of("name", name, "size", 3072L, "duplicates", true, "window", MINUTE, "ttl", DAY,
                "idle", HOUR, "metadata", "topic"));
        CreateTopicOptions options = new CreateTopicOptions().setMaxSizeInMegabytes(3072).setDuplicateDetectionRequired(true)
                .setDuplicateDetectionHistoryTimeWindow(MINUTE).setDefaultMessageTimeToLive(DAY).setAutoDeleteOnIdle(HOUR).setUserMetadata("topic");
        Expect.equal(full, shown(admin.createTopic(name, options)), "full, created");
        Expect.equal(full, shown(admin.getTopic(name)), "full");
        admin.updateTopic(admin.getTopic(name).setDefaultMessageTimeToLive(DAY.multipliedBy(2))
                .setDuplicateDetectionHistoryTimeWindow(MINUTE.multipliedBy(2)).setUserMetadata("new"));
        Map<String, Object> changes = Map.of("ttl", DAY.multipliedBy(2), "window", MINUTE.multipliedBy(2), "metadata", "new");
        Expect.equal(with(full, changes), shown(admin.getTopic(name)), "full, updated");

        admin.createSubscription(name, "a");
        admin.createSubscription(name, "b");
        hasSubscriptions(admin, name, 2);
        admin.deleteSubscription(name, "a");
        hasSubscriptions(admin, name, 1);
        bus.client().newTopicSender(name).sendMessage(Bus.message("M"));
        admin.deleteTopic(name);
        missing(() -> admin.getTopic(name));
        missing(() -> admin.getSubscription(name, "b"));
        bus.client().subscription(name, "b").fails(Kind.ENTITY_NOT_FOUND);
        admin.createTopic(name);
        hasSubscriptions(admin, name, 0);
        admin.deleteTopic("admin-topic-plain");
        admin.deleteTopic(name);
    }

    private static void hasSubscriptions(ServiceBusAdministrationClient admin, String topic, int n) {
        Expect.equal(n, admin.getTopicRuntimeProperties(topic).getSubscriptionCount(), "subscriptions of " + topic);
    }

    private static void subscription(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String topic = "admin-subscription-topic";
        admin.createTopic(topic);
        Map<String, Object> plain = Map.ofEntries(entry("topic", topic), entry("name", "plain"), entry("lock", MINUTE), entry("sessions", false),
                entry("ttl", INFINITE), entry("dead-letter expired", false), entry("dead-letter filter errors", true), entry("deliveries", 10),
                entry("batched", true), entry("status", EntityStatus.ACTIVE), entry("idle", INFINITE), entry("forward", "none"),
                entry("forward dead letters", "none"), entry("metadata", "none"));
        Expect.equal(plain, shown(admin.createSubscription(topic, "plain")), "plain, created");
        Expect.equal(plain, shown(admin.getSubscription(topic, "plain")), "plain");

        Map<String, Object> full = with(plain, Map.of("name", "full", "lock", Duration.ofSeconds(30), "sessions", true, "ttl", HOUR,
                "dead-letter expired", true, "dead-letter filter errors", false, "deliveries", 3, "idle", MINUTE.multipliedBy(10), "metadata", "sub"));
        CreateSubscriptionOptions options = new CreateSubscriptionOptions().setLockDuration(Duration.ofSeconds(30)).setSessionRequired(true)
                .setDefaultMessageTimeToLive(HOUR).setDeadLetteringOnMessageExpiration(true)
                .setEnableDeadLetteringOnFilterEvaluationExceptions(false).setMaxDeliveryCount(3)
                .setAutoDeleteOnIdle(MINUTE.multipliedBy(10)).setUserMetadata("sub");
        Expect.equal(full, shown(admin.createSubscription(topic, "full", options)), "full, created");
        Expect.equal(full, shown(admin.getSubscription(topic, "full")), "full");
        admin.updateSubscription(admin.getSubscription(topic, "full").setLockDuration(MINUTE).setMaxDeliveryCount(4).setUserMetadata("new"));
        // The SDK leaves the time to live out of every update of a subscription.
        Map<String, Object> changes = Map.of("lock", MINUTE, "deliveries", 4, "metadata", "new", "ttl", INFINITE);
        Expect.equal(with(full, changes), shown(admin.getSubscription(topic, "full")), "full, updated");

        admin.deleteSubscription(topic, "full");
        missing(() -> admin.getSubscription(topic, "full"));
        missing(() -> admin.deleteSubscription(topic, "full"));
        Expect.equal(List.of("plain"), admin.listSubscriptions(topic).stream().map(SubscriptionProperties::getSubscriptionName).toList(), "subscriptions");
        admin.deleteTopic(topic);
    }

    /** Names with three digits. */
    private static List<String> numbered(String prefix, int n) {
        return IntStream.range(0, n).mapToObj(i -> String.format("%s%03d", prefix, i)).toList();
    }

    private static void tenAtATime(List<String> names, Consumer<String> call) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(10);
        try {
            for (Future<Void> result : pool.invokeAll(names.stream().<Callable<Void>>map(name -> () -> {
                call.accept(name);
                return null;
            }).toList())) {
                result.get();
            }
        } finally {
            pool.shutdown();
        }
    }

    private static Stream<QueueProperties> queues(Bus bus) {
        return bus.admin().listQueues().stream().filter(q -> q.getName().startsWith(bus.queue));
    }

    private static Stream<TopicProperties> topics(Bus bus) {
        return bus.admin().listTopics().stream().filter(t -> t.getName().startsWith(bus.queue));
    }

    private static void allQueues(Bus bus) throws Exception {
        List<String> names = numbered("admin-all-queues-", 250);
        tenAtATime(names, bus.admin()::createQueue);
        List<QueueProperties> listed = queues(bus).toList();
        Expect.equal(names, listed.stream().map(QueueProperties::getName).toList(), "queues");
        List<QueueRuntimeProperties> runtimes = listed.stream().map(QueueRuntimeProperties::new).toList();
        Expect.equal(names, runtimes.stream().map(QueueRuntimeProperties::getName).toList(), "runtime properties");
        Expect.equal(0L, runtimes.stream().mapToLong(QueueRuntimeProperties::getTotalMessageCount).sum(), "messages");
        tenAtATime(names, bus.admin()::deleteQueue);
        Expect.equal(0L, queues(bus).count(), "queues that are left");
    }

    private static void lists(Bus bus) throws Exception {
        ServiceBusAdministrationClient admin = bus.admin();
        List.of("admin-lists-a", "admin-lists-B", "admin-lists-c").forEach(admin::createTopic);
        List<String> names = List.of("admin-lists-a", "admin-lists-b", "admin-lists-c"); // as they are shown
        Expect.equal(names, topics(bus).map(TopicProperties::getName).toList(), "topics");
        Expect.equal(names, topics(bus).map(TopicRuntimeProperties::new).map(TopicRuntimeProperties::getName).toList(), "runtime properties of topics");
        String a = names.get(0);
        Expect.equal(0L, admin.listSubscriptions(a).stream().count(), "subscriptions");

        List<String> subscriptions = numbered("s", 120);
        tenAtATime(subscriptions, name -> admin.createSubscription(a, name));
        List<SubscriptionProperties> listed = admin.listSubscriptions(a).stream().toList();
        Expect.equal(subscriptions, listed.stream().map(SubscriptionProperties::getSubscriptionName).toList(), "subscriptions");
        Expect.equal(subscriptions, listed.stream().map(SubscriptionRuntimeProperties::new).map(SubscriptionRuntimeProperties::getSubscriptionName).toList(),
                "runtime properties of subscriptions");
        List<String> rules = numbered("r", 105);
        tenAtATime(rules, name -> admin.createRule(a, name, "s000", Rules.sql("1=0")));
        List<String> all = admin.listRules(a, "s000").stream().map(RuleProperties::getName).toList();
        Expect.equal("$Default", all.get(0), "first rule");
        Expect.equal(rules, all.subList(1, all.size()), "rules");
        names.forEach(admin::deleteTopic);
        Expect.equal(0L, topics(bus).count(), "topics that are left");
    }

    private static void exists(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String topic = "admin-exists-topic";
        admin.createQueue("admin-exists-Queue");
        twice(() -> admin.createQueue("ADMIN-exists-queue"));
        twice(() -> admin.createTopic("admin-exists-queue"));
        Expect.equal("admin-exists-queue", admin.getQueue("admin-EXISTS-queue").getName(), "name");

        admin.createTopic("admin-exists-Topic");
        admin.createSubscription(topic, "Sub");
        Expect.equal(List.of(topic), topics(bus).map(TopicProperties::getName).toList(), "topics");
        twice(() -> admin.createTopic(topic));
        twice(() -> admin.createQueue(topic));
        twice(() -> admin.createSubscription(topic, "sub"));
        twice(() -> admin.createRule(topic, "$default", "sub", new CreateRuleOptions()));
        admin.deleteQueue("admin-exists-Queue");
        admin.deleteTopic(topic);
    }

    private static void twice(Expect.Action call) {
        Expect.error(Kind.ADMIN_EXISTS, call);
    }

    private static void missing(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String x = "admin-missing-x";
        missing(() -> admin.getQueue(x));
        missing(() -> admin.getQueueRuntimeProperties(x));
        missing(() -> admin.getTopic(x));
        missing(() -> admin.getTopicRuntimeProperties(x));
        missing(() -> admin.getSubscription(x, "s"));
        missing(() -> admin.getSubscriptionRuntimeProperties(x, "s"));
        Expect.that(!admin.getQueueExists(x) && !admin.getTopicExists(x), "one of them exists");
        missing(() -> admin.getSubscriptionExists(x, "s")); // which it says with the error

        QueueProperties queue = admin.createQueue(x); // properties have no name to set
        admin.deleteQueue(x);
        TopicProperties there = admin.createTopic(x);
        SubscriptionProperties subscription = admin.createSubscription(x, "s");
        admin.deleteTopic(x);
        missing(() -> admin.updateQueue(queue));
        missing(() -> admin.updateTopic(there));
        missing(() -> admin.updateSubscription(subscription));
        missing(() -> admin.createSubscription(x, "s"));
        missing(() -> admin.deleteQueue(x));
        missing(() -> admin.deleteTopic(x));
        missing(() -> admin.deleteSubscription(x, "s"));

        String topic = "admin-missing-topic";
        admin.createTopic(topic);
        admin.createSubscription(topic, "one");
        missing(() -> admin.getSubscription(topic, "two"));
        missing(() -> admin.getRule(topic, "one", "missing"));
        missing(() -> admin.createRule(topic, "rule", "two", new CreateRuleOptions()));
        admin.deleteTopic(topic);
    }

    private static CreateQueueOptions window(Duration window) {
        return new CreateQueueOptions().setDuplicateDetectionRequired(true).setDuplicateDetectionHistoryTimeWindow(window);
    }

    private static void limits(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        for (CreateQueueOptions bad : List.of(
                new CreateQueueOptions().setLockDuration(Duration.ofSeconds(4)),
                new CreateQueueOptions().setLockDuration(Duration.ofSeconds(301)),
                new CreateQueueOptions().setAutoDeleteOnIdle(Duration.ofSeconds(299)),
                window(Duration.ofSeconds(19)),
                window(DAY.multipliedBy(7).plusSeconds(1)),
                new CreateQueueOptions().setMaxDeliveryCount(0),
                new CreateQueueOptions().setMaxSizeInMegabytes(16384),
                new CreateQueueOptions().setDefaultMessageTimeToLive(Duration.ZERO),
                new CreateQueueOptions().setUserMetadata("x".repeat(1025)))) {
            Expect.error(Kind.ADMIN_BAD_REQUEST, () -> admin.createQueue("admin-limits-x", bad));
        }
        missing(() -> admin.getQueue("admin-limits-x"));

        admin.createQueue("admin-limits-a", window(Duration.ofSeconds(20)).setLockDuration(Duration.ofSeconds(5))
                .setAutoDeleteOnIdle(MINUTE.multipliedBy(5)).setMaxDeliveryCount(1).setUserMetadata("x".repeat(1024)));
        Map<String, Object> a = Map.of("window", Duration.ofSeconds(20), "lock", Duration.ofSeconds(5), "idle", MINUTE.multipliedBy(5),
                "deliveries", 1, "metadata", "x".repeat(1024));
        hasAndGoes(admin, "admin-limits-a", a);
        admin.createQueue("admin-limits-b", window(DAY.multipliedBy(7)).setLockDuration(MINUTE.multipliedBy(5))
                .setMaxDeliveryCount(Integer.MAX_VALUE).setMaxSizeInMegabytes(5120));
        Map<String, Object> b = Map.of("window", DAY.multipliedBy(7), "lock", MINUTE.multipliedBy(5), "deliveries", Integer.MAX_VALUE, "size", 5120L);
        hasAndGoes(admin, "admin-limits-b", b);
    }

    /** A queue has these properties; then it is deleted. */
    private static void hasAndGoes(ServiceBusAdministrationClient admin, String queue, Map<String, Object> expected) {
        Map<String, Object> seen = shown(admin.getQueue(queue));
        seen.keySet().retainAll(expected.keySet());
        Expect.equal(expected, seen, queue);
        admin.deleteQueue(queue);
    }

    private static void names(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String queue = "admin-names/of.some_kind/a-1";
        String topic = "admin-names/topic";
        admin.createQueue(queue);
        Expect.equal(queue, admin.getQueue(queue).getName(), "name");
        bus.client().sender(queue).sendMessage(Bus.message("A"));
        bus.client().queue(queue).consume("A");
        admin.createTopic(topic);
        admin.createSubscription(topic, "a.b_c-D");
        Expect.equal(topic, admin.getTopic(topic).getName(), "name");
        Expect.equal(List.of(topic), topics(bus).map(TopicProperties::getName).toList(), "topics");
        Expect.equal("a.b_c-D", admin.getSubscription(topic, "a.b_c-D").getSubscriptionName(), "name");
        bus.client().newTopicSender(topic).sendMessage(Bus.message("B"));
        bus.client().subscription(topic, "a.b_c-D").consume("B");
        admin.deleteQueue(queue);
        admin.deleteTopic(topic);

        String other = "admin-names-topic";
        String longest = "admin-names-" + "x".repeat(248);
        String fifty = "s".repeat(50);
        admin.createTopic(other);
        Expect.error(Kind.ADMIN_BAD_REQUEST, () -> admin.createQueue(longest + "x"));
        Expect.error(Kind.ADMIN_BAD_REQUEST, () -> admin.createSubscription(other, fifty + "s"));
        admin.createQueue(longest);
        admin.createSubscription(other, fifty);
        Expect.equal(longest, admin.getQueue(longest).getName(), "name");
        Expect.equal(fifty, admin.getSubscription(other, fifty).getSubscriptionName(), "name");
        admin.deleteQueue(longest);
        admin.deleteTopic(other);
    }

    private static void namespace(Bus bus) {
        NamespaceProperties about = bus.admin().getNamespaceProperties();
        Expect.that(!CoreUtils.isNullOrEmpty(about.getName()), "no name");
        Expect.equal(MessagingSku.STANDARD, about.getMessagingSku(), "tier");
        Expect.equal(null, about.getMessagingUnits(), "messaging units");
        for (OffsetDateTime time : List.of(about.getCreatedTime(), about.getModifiedTime())) {
            Expect.that(time.isBefore(OffsetDateTime.now()), "created or modified at %s", time);
        }
    }
}
