package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.AccessRights;
import com.azure.messaging.servicebus.administration.models.AuthorizationRule;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.SharedAccessAuthorizationRule;
import com.azure.messaging.servicebus.administration.models.SubscriptionRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** The group admin: what it does to messages and to those who have keys, and what it knows of them. */
final class Administering {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("admin-keys", Administering::keys),
            entry("admin-rights", Administering::rights),
            entry("admin-forwarding", Administering::forwarding),
            entry("admin-status", Administering::status),
            entry("admin-update-acts", Administering::updateActs),
            entry("admin-counters", Administering::counters),
            entry("admin-times", Administering::times),
            entry("admin-recreate", Administering::recreate),
            entry("admin-survives-kill", Administering::survivesKill));

    private static final AuthorizationRule SENDER = key("sender", AccessRights.SEND);
    private static final AuthorizationRule READER = key("reader", AccessRights.LISTEN);
    private static final AuthorizationRule OWNER = key("owner", AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN);

    private Administering() {}

    /** A rule with keys as long as 32 bytes in base64. */
    private static AuthorizationRule key(String name, AccessRights... rights) {
        return new SharedAccessAuthorizationRule(name, padded(name + "Primary"), padded(name + "Secondary"), List.of(rights));
    }

    private static String padded(String text) {
        return text + "A".repeat(43 - text.length()) + "=";
    }

    private static CreateQueueOptions withRules(AuthorizationRule... rules) {
        CreateQueueOptions options = new CreateQueueOptions();
        options.getAuthorizationRules().addAll(List.of(rules));
        return options;
    }

    private static List<String> shown(List<AuthorizationRule> rules) {
        return rules.stream().map(r -> r.getKeyName() + " " + r.getAccessRights() + " " + r.getPrimaryKey() + " " + r.getSecondaryKey()).toList();
    }

    private static void send(Bus bus, String queue, String... texts) {
        for (String text : texts) {
            bus.client().sender(queue).sendMessage(Bus.message(text));
        }
    }

    private static void cannotSend(Kind kind, Client client, String queue) {
        Expect.error(kind, () -> client.newSender(queue).sendMessage(Bus.message("X")));
    }

    private static void keys(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String one = "admin-keys-one";
        String two = "admin-keys-two";
        String topic = "admin-keys-topic";
        admin.createQueue(one, withRules(SENDER, READER, OWNER));
        admin.createQueue(two);
        Expect.equal(shown(List.of(SENDER, READER, OWNER)), shown(admin.getQueue(one).getAuthorizationRules()), "authorization rules");

        Client sender = bus.withKey("sender", SENDER.getPrimaryKey());
        sender.sender(one).sendMessage(Bus.message("A"));
        sender.queue(one).fails(Kind.UNAUTHORIZED);
        cannotSend(Kind.UNAUTHORIZED, sender, two);
        Client reader = bus.withKey("reader", READER.getPrimaryKey());
        reader.queue(one).consume("A");
        cannotSend(Kind.UNAUTHORIZED, reader, one);
        bus.withKey("sender", SENDER.getSecondaryKey()).sender(one).sendMessage(Bus.message("B"));

        QueueProperties queue = admin.getQueue(one);
        queue.getAuthorizationRules().removeIf(rule -> rule.getKeyName().equals("sender"));
        admin.updateQueue(queue);
        cannotSend(Kind.UNAUTHORIZED, bus.withKey("sender", SENDER.getPrimaryKey()), one);

        CreateTopicOptions options = new CreateTopicOptions();
        options.getAuthorizationRules().add(READER);
        admin.createTopic(topic, options);
        admin.createSubscription(topic, "one");
        Expect.equal(shown(List.of(READER)), shown(admin.getTopic(topic).getAuthorizationRules()), "authorization rules of the topic");
        bus.client().newTopicSender(topic).sendMessage(Bus.message("C"));
        reader.subscription(topic, "one").consume("C");
        Expect.error(Kind.ADMIN_BAD_REQUEST, () -> admin.createQueue("admin-keys-x", withRules(key("manager", AccessRights.MANAGE))));
        admin.deleteQueue(one);
        admin.deleteQueue(two);
        admin.deleteTopic(topic);
    }

    private static void rights(Bus bus) {
        String name = "admin-rights-queue";
        bus.admin().createQueue(name, withRules(READER, OWNER));
        QueueProperties queue = bus.admin().getQueue(name);
        ServiceBusAdministrationClient reader = bus.adminWithKey("reader", READER.getPrimaryKey());
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> reader.getQueue(name));
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> reader.updateQueue(queue));
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> reader.deleteQueue(name));
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> reader.createQueue("admin-rights-x"));

        ServiceBusAdministrationClient owner = bus.adminWithKey("owner", OWNER.getPrimaryKey());
        Expect.equal(name, owner.getQueue(name).getName(), "name");
        owner.updateQueue(owner.getQueue(name).setLockDuration(Duration.ofSeconds(30)));
        Expect.equal(Duration.ofSeconds(30), owner.getQueue(name).getLockDuration(), "lock duration");
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> owner.listQueues().stream().count());
        ServiceBusAdministrationClient wrong = bus.adminWithKey("RootManageSharedAccessKey", OWNER.getPrimaryKey());
        Expect.error(Kind.ADMIN_UNAUTHORIZED, () -> wrong.getQueue(name));
        bus.admin().deleteQueue(name);
    }

    private static void forwarding(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String target = "admin-forwarding-target";
        String source = "admin-forwarding-source";
        String topic = "admin-forwarding-topic";
        admin.createQueue(target);
        admin.createQueue(source, new CreateQueueOptions().setForwardDeadLetteredMessagesTo(target));
        isAddressOf(target, admin.getQueue(source).getForwardDeadLetteredMessagesTo());
        admin.updateQueue(admin.getQueue(source).setUserMetadata("new"));
        isAddressOf(target, admin.getQueue(source).getForwardDeadLetteredMessagesTo());
        admin.createTopic(topic);
        admin.createSubscription(topic, "one", new CreateSubscriptionOptions().setForwardDeadLetteredMessagesTo(target));
        isAddressOf(target, admin.getSubscription(topic, "one").getForwardDeadLetteredMessagesTo());

        CreateQueueOptions lost = new CreateQueueOptions().setForwardDeadLetteredMessagesTo("admin-forwarding-missing");
        Expect.error(Kind.ADMIN_BAD_REQUEST, "auto forwarding destination entity doesn't exist", () -> admin.createQueue("admin-forwarding-x", lost));
        Expect.error(Kind.ADMIN_MISSING, () -> admin.getQueue("admin-forwarding-x"));
        admin.deleteQueue(source);
        admin.deleteTopic(topic);
        admin.deleteQueue(target);
    }

    private static void isAddressOf(String target, String address) {
        URI uri = URI.create(address);
        Expect.that(uri.isAbsolute() && uri.getHost() != null && uri.getPath().equals("/" + target), "forwards to %s", address);
    }

    private static void status(Bus bus) {
        String name = "admin-status-queue";
        Source queue = bus.client().queue(name);
        bus.admin().createQueue(name);
        send(bus, name, "A", "B");
        becomes(bus, name, EntityStatus.RECEIVE_DISABLED);
        bus.client().newSender(name).sendMessage(Bus.message("C"));
        queue.fails(Kind.DISABLED);
        Expect.error(Kind.DISABLED, queue::peekAll);
        becomes(bus, name, EntityStatus.SEND_DISABLED);
        cannotSend(Kind.DISABLED, bus.client(), name);
        queue.consume("A");
        becomes(bus, name, EntityStatus.DISABLED);
        cannotSend(Kind.DISABLED, bus.client(), name);
        queue.fails(Kind.DISABLED);
        becomes(bus, name, EntityStatus.ACTIVE);
        queue.consume("B", "C");
        bus.admin().deleteQueue(name);
    }

    private static void becomes(Bus bus, String queue, EntityStatus status) {
        bus.admin().updateQueue(bus.admin().getQueue(queue).setStatus(status));
        Expect.equal(status, bus.admin().getQueue(queue).getStatus(), "status");
    }

    private static void updateActs(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String name = "admin-update-acts-queue";
        Source queue = bus.client().queue(name);
        admin.createQueue(name);
        send(bus, name, "A", "B");
        lockedFor(Duration.ofSeconds(60), Bus.receive(queue.receiver(), "A"));
        admin.updateQueue(admin.getQueue(name).setLockDuration(Duration.ofSeconds(10)).setMaxDeliveryCount(1).setDefaultMessageTimeToLive(Duration.ofHours(1)));
        ServiceBusReceiverClient receiver = queue.receiver();
        ServiceBusReceivedMessage b = Bus.receive(receiver, "B");
        lockedFor(Duration.ofSeconds(10), b);
        receiver.abandon(b);
        Expect.equal("MaxDeliveryCountExceeded", Bus.receive(queue.deadLetters(), "B").getDeadLetterReason(), "reason");

        bus.client().newSender(name).sendMessage(Bus.message("C"));
        Expect.equal(Duration.ofHours(1), queue.consume("C").get(0).getTimeToLive(), "time to live of C");
        admin.deleteQueue(name);
        queue.fails(Kind.ENTITY_NOT_FOUND);
    }

    private static void lockedFor(Duration lock, ServiceBusReceivedMessage message) {
        Expect.near(Instant.now().plus(lock), message.getLockedUntil(), Duration.ofSeconds(2), "locked until");
    }

    private static void counters(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String name = "admin-counters-queue";
        admin.createQueue(name);
        counts(admin.getQueueRuntimeProperties(name), 0, 0, 0, 0);
        send(bus, name, "A", "B");
        long number = bus.client().sender(name).scheduleMessage(Bus.message("C"), OffsetDateTime.now().plusHours(1));
        Source queue = bus.client().queue(name);
        ServiceBusReceiverClient receiver = queue.receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        ServiceBusReceivedMessage b = Bus.receive(receiver, "B");
        counts(admin.getQueueRuntimeProperties(name), 1, 1, 1, 3);
        topicCounters(bus);

        receiver.complete(b);
        ServiceBusReceiverClient dead = queue.deadLetters();
        dead.complete(Bus.receive(dead, "A"));
        bus.client().sender(name).cancelScheduledMessage(number);
        counts(admin.getQueueRuntimeProperties(name), 0, 0, 0, 0);
        admin.deleteQueue(name);
    }

    private static void counts(QueueRuntimeProperties runtime, long active, long dead, long scheduled, long total) {
        Expect.equal(List.of(active, dead, scheduled, 0L, 0L, total),
                List.of((long) runtime.getActiveMessageCount(), (long) runtime.getDeadLetterMessageCount(), (long) runtime.getScheduledMessageCount(),
                        (long) runtime.getTransferMessageCount(), (long) runtime.getTransferDeadLetterMessageCount(), runtime.getTotalMessageCount()),
                "active, dead-lettered, scheduled, in transfer, its dead letters, in total");
        Expect.that(total == 0 ? runtime.getSizeInBytes() == 0 : runtime.getSizeInBytes() > 0, "size %d", runtime.getSizeInBytes());
    }

    private static void topicCounters(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String topic = "admin-counters-topic";
        admin.createTopic(topic);
        admin.createSubscription(topic, "one");
        admin.createSubscription(topic, "two");
        Sender sender = bus.client().newTopicSender(topic);
        sender.sendMessage(Bus.message("A"));
        sender.sendMessage(Bus.message("B"));
        sender.scheduleMessage(Bus.message("C"), OffsetDateTime.now().plusHours(1));
        ServiceBusReceiverClient one = bus.client().subscription(topic, "one").receiver();
        one.deadLetter(Bus.receive(one, "A"));
        counts(admin.getSubscriptionRuntimeProperties(topic, "one"), 1, 1, 2);
        counts(admin.getSubscriptionRuntimeProperties(topic, "two"), 2, 0, 2);
        TopicRuntimeProperties runtime = admin.getTopicRuntimeProperties(topic);
        Expect.equal(List.of(1, 2), List.of(runtime.getScheduledMessageCount(), runtime.getSubscriptionCount()), "scheduled, subscriptions");
        Expect.above(0, runtime.getSizeInBytes(), "size of the topic");
        admin.deleteTopic(topic);
    }

    private static void counts(SubscriptionRuntimeProperties runtime, long active, long dead, long total) {
        Expect.equal(List.of(active, dead, total),
                List.of((long) runtime.getActiveMessageCount(), (long) runtime.getDeadLetterMessageCount(), runtime.getTotalMessageCount()),
                "active, dead-lettered, in total of " + runtime.getSubscriptionName());
    }

    /** The times of an entity. */
    private record Times(OffsetDateTime created, OffsetDateTime updated, OffsetDateTime accessed) {
        static Times of(QueueRuntimeProperties runtime) {
            return new Times(runtime.getCreatedAt(), runtime.getUpdatedAt(), runtime.getAccessedAt());
        }

        static Times of(SubscriptionRuntimeProperties runtime) {
            return new Times(runtime.getCreatedAt(), runtime.getUpdatedAt(), runtime.getAccessedAt());
        }
    }

    private static void times(Bus bus) throws Exception {
        ServiceBusAdministrationClient admin = bus.admin();
        String queue = "admin-times-queue";
        String topic = "admin-times-topic";
        admin.createQueue(queue);
        Times times = Times.of(admin.getQueueRuntimeProperties(queue));
        Expect.near(Instant.now(), times.created, Duration.ofSeconds(5), "created");
        Expect.equal(1, times.accessed.getYear(), "year of access");
        later();
        admin.updateQueue(admin.getQueue(queue).setUserMetadata("new"));
        times = Times.of(admin.getQueueRuntimeProperties(queue));
        Expect.that(times.updated.isAfter(times.created), "created at %s, updated at %s", times.created, times.updated);
        send(bus, queue, "A");
        bus.client().queue(queue).consume("A");
        accessed(() -> Times.of(admin.getQueueRuntimeProperties(queue)));

        admin.createTopic(topic);
        admin.createSubscription(topic, "one");
        later();
        admin.updateSubscription(admin.getSubscription(topic, "one").setUserMetadata("new"));
        bus.client().newTopicSender(topic).sendMessage(Bus.message("B"));
        bus.client().subscription(topic, "one").consume("B");
        times = accessed(() -> Times.of(admin.getSubscriptionRuntimeProperties(topic, "one")));
        for (OffsetDateTime time : List.of(times.created, times.updated, times.accessed)) {
            Expect.near(Instant.now(), time, Duration.ofSeconds(30), "time");
        }
        admin.deleteQueue(queue);
        admin.deleteTopic(topic);
    }

    /** Waits for a later instant of the broker's, which are whole milliseconds: two requests can come in one. */
    private static void later() throws InterruptedException {
        Bus.sleep(Duration.ofMillis(2));
    }

    /** The times of an entity, once they show an access. */
    private static Times accessed(Supplier<Times> get) throws InterruptedException {
        Instant end = Instant.now().plusSeconds(5);
        Times times = get.get();
        while (!times.accessed.isAfter(times.updated) && Instant.now().isBefore(end)) {
            Bus.sleep(Duration.ofMillis(100));
            times = get.get();
        }
        Expect.that(times.created.isBefore(times.updated) && times.updated.isBefore(times.accessed), "%s", times);
        return times;
    }

    private static void recreate(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String x = "admin-recreate-x";
        Source queue = bus.client().queue(x);
        Source one = bus.client().subscription(x, "one");
        admin.createQueue(x);
        send(bus, x, "A", "B");
        ServiceBusReceiverClient receiver = queue.receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        admin.deleteQueue(x);
        // On the connection that sent A the SDK may still be taking down the link that it shares among senders.
        cannotSend(Kind.ENTITY_NOT_FOUND, bus.another(), x);
        queue.fails(Kind.ENTITY_NOT_FOUND);

        admin.createTopic(x);
        admin.createSubscription(x, "one");
        one.peeks();
        one.noDeadLetters();
        bus.client().newTopicSender(x).sendMessage(Bus.message("C"));
        Expect.equal(List.of(1L), Bus.sequenceNumbers(one.consume("C")), "number of C");
        admin.deleteTopic(x);

        admin.createQueue(x);
        Expect.equal(Duration.ofMinutes(1), admin.getQueue(x).getLockDuration(), "lock duration of the queue");
        queue.peeks();
        queue.noDeadLetters();
        counts(admin.getQueueRuntimeProperties(x), 0, 0, 0, 0);
        bus.client().newSender(x).sendMessage(Bus.message("D"));
        Expect.equal(List.of(1L), Bus.sequenceNumbers(queue.consume("D")), "number of D");
        admin.deleteQueue(x);
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        ServiceBusAdministrationClient admin = bus.admin();
        String name = "admin-survives-kill-queue";
        String topic = "admin-survives-kill-topic";
        String gone = "admin-survives-kill-gone";
        admin.createQueue(name, withRules(SENDER).setLockDuration(Duration.ofSeconds(30)).setUserMetadata("meta"));
        admin.createTopic(topic);
        admin.createSubscription(topic, "one", new CreateSubscriptionOptions().setMaxDeliveryCount(3));
        admin.createRule(topic, "red", "one", Rules.sql("colour = 'red'"));
        admin.createQueue(gone);
        admin.updateQueue(admin.getQueue(name).setMaxDeliveryCount(7));
        admin.deleteQueue(gone);
        send(bus, name, "A", "B");
        ServiceBusReceiverClient receiver = bus.client().queue(name).receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        bus.client().sender(name).scheduleMessage(Bus.message("C"), OffsetDateTime.now().plusHours(1));

        Map<String, Object> before = everything(admin, name, topic);
        counts(admin.getQueueRuntimeProperties(name), 1, 1, 1, 3);
        Expect.equal(7, admin.getQueue(name).getMaxDeliveryCount(), "max delivery count");
        bus.control.kill();
        Map<String, Object> after = everything(admin, name, topic);
        before.forEach((what, value) -> Expect.equal(value, after.get(what), what));
        counts(admin.getQueueRuntimeProperties(name), 1, 1, 1, 3);
        Expect.error(Kind.ADMIN_MISSING, () -> admin.getQueue(gone));
        ServiceBusReceiverClient second = bus.client().queue(name).receiver();
        ServiceBusReceivedMessage b = Bus.insist(() -> Bus.receive(second, "B"));
        lockedFor(Duration.ofSeconds(30), b);
        second.complete(b);

        admin.deleteQueue(name);
        admin.deleteTopic(topic);
        bus.control.kill();
        Expect.error(Kind.ADMIN_MISSING, () -> admin.getQueue(name));
        Expect.error(Kind.ADMIN_MISSING, () -> admin.getTopic(topic));
    }

    /** What is to be the same after a kill. */
    private static Map<String, Object> everything(ServiceBusAdministrationClient admin, String queue, String topic) {
        return Map.of(
                "queue", Entities.shown(admin.getQueue(queue)),
                "keys", shown(admin.getQueue(queue).getAuthorizationRules()),
                "topic", Entities.shown(admin.getTopic(topic)),
                "subscription", Entities.shown(admin.getSubscription(topic, "one")),
                "rule", Rules.shown(admin.getRule(topic, "one", "red")),
                "created", List.of(admin.getQueueRuntimeProperties(queue).getCreatedAt(), admin.getTopicRuntimeProperties(topic).getCreatedAt(),
                        admin.getSubscriptionRuntimeProperties(topic, "one").getCreatedAt()));
    }
}
