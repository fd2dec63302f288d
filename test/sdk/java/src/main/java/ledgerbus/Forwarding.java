package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.IntSupplier;
import java.util.function.Predicate;

/** The group forwarding. The scenario's queue is where messages end; those that forward have its name and more. */
final class Forwarding {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("forward-queue", Forwarding::queue),
            entry("forward-properties", Forwarding::properties),
            entry("forward-existing", Forwarding::existing),
            entry("forward-topics", Forwarding::topics),
            entry("forward-chain", Forwarding::chainAndLoop),
            entry("forward-refused", Forwarding::refused),
            entry("forward-unable", Forwarding::unableToTake),
            entry("forward-transfer-dead-letter", Forwarding::transferDeadLetter),
            entry("forward-dead-letters", Forwarding::deadLetters),
            entry("forward-dead-letters-stay", Forwarding::deadLettersStay),
            entry("forward-dead-letters-full", Forwarding::deadLettersFull),
            entry("forward-door", Forwarding::door),
            entry("forward-other-sdk", Forwarding::otherSdk),
            entry("forward-survives-kill", Forwarding::survivesKill));

    private static final String HOP_LIMIT = "MaxTransferHopCountExceeded";
    private static final String FORWARDING = "auto-forwarding enabled";

    /** A body so large that few fit into the smallest queue. */
    static final byte[] LARGE = new byte[200_000];

    private Forwarding() {}

    /** Makes a queue whose name ends like that, and which forwards to another one. */
    private static String forwarder(Bus bus, String end, String target) {
        bus.createQueue(bus.queue + end, new CreateQueueOptions().setForwardTo(target));
        return bus.queue + end;
    }

    /** Makes five queues, each of which forwards to the next and the last to the scenario's. */
    private static List<String> chain(Bus bus) {
        List<String> links = new ArrayList<>(List.of(bus.queue));
        for (int i = 5; i > 0; i--) {
            links.add(0, forwarder(bus, "-" + i, links.get(0)));
        }
        return links.subList(0, 5);
    }

    /** Makes a queue that takes nothing, and one that forwards to it. */
    private static String unable(Bus bus) {
        bus.createQueue(bus.queue + "-off", new CreateQueueOptions().setStatus(EntityStatus.SEND_DISABLED));
        return forwarder(bus, "-to-off", bus.queue + "-off");
    }

    private static void send(Bus bus, String queue, ServiceBusMessage... messages) {
        for (ServiceBusMessage message : messages) {
            bus.client().sender(queue).sendMessage(message);
        }
    }

    /** Sends large messages to a queue until it is full. */
    static void fill(Bus bus, String queue) {
        Expect.error(Kind.QUEUE_FULL, () -> {
            for (int i = 0; i < 10; i++) {
                send(bus, queue, new ServiceBusMessage(LARGE));
            }
        });
    }

    /** Receives and completes one message after another until one is the awaited, which is the last. */
    static ServiceBusReceivedMessage last(ServiceBusReceiverClient receiver, Predicate<ServiceBusReceivedMessage> awaited) {
        while (true) {
            ServiceBusReceivedMessage message = Bus.receive(receiver, 1).get(0);
            receiver.complete(message);
            if (awaited.test(message)) {
                Bus.nothing(receiver);
                return message;
            }
        }
    }

    /** Receives a message of a sub-queue, which has the body and the reason. */
    private static ServiceBusReceivedMessage dead(ServiceBusReceiverClient receiver, byte[] body, String reason) {
        ServiceBusReceivedMessage letter = Bus.receive(receiver, 1).get(0);
        Expect.that(Arrays.equals(body, letter.getBody().toBytes()), "another body in %s", receiver.getEntityPath());
        Expect.equal(reason, letter.getDeadLetterReason(), "reason in " + receiver.getEntityPath());
        receiver.complete(letter);
        return letter;
    }

    /** Waits until an entity has no message of any kind. */
    private static void drained(String what, IntSupplier messages) throws InterruptedException {
        Instant end = Instant.now().plus(Expect.AT_ONCE);
        while (messages.getAsInt() > 0) {
            Expect.that(Instant.now().isBefore(end), "%s still has %d messages", what, messages.getAsInt());
            Thread.sleep(50);
        }
    }

    static void queueDrained(Bus bus, String name) throws InterruptedException {
        drained(name, () -> {
            var runtime = bus.admin().getQueueRuntimeProperties(name);
            return (int) runtime.getTotalMessageCount() + runtime.getTransferMessageCount();
        });
    }

    private static ServiceBusMessage coloured(String text, String colour) {
        ServiceBusMessage message = Bus.message(text);
        message.getApplicationProperties().put("colour", colour);
        return message;
    }

    private static void queue(Bus bus) throws Exception {
        String source = forwarder(bus, "-source", bus.queue);
        List<String> texts = Bus.numbers(100);
        Bus.sendBatches(bus.client().sender(source), Bus.messages(texts));
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 100);
        Expect.equal(texts, Bus.texts(all), "received");
        for (ServiceBusReceivedMessage message : all) {
            Expect.equal(0L, message.getDeliveryCount(), "delivery count of " + Bus.text(message));
            receiver.complete(message);
        }
        Bus.nothing(receiver);
        queueDrained(bus, source);
        Expect.error(Kind.NOT_ALLOWED, FORWARDING, () -> Bus.call(bus.client().queue(source).receiver(), 1, Duration.ofSeconds(5)));
    }

    private static void properties(Bus bus) {
        String source = forwarder(bus, "-source", bus.queue);
        bus.send("X");
        send(bus, source, Bus.message("B"), coloured("A", "red")
                .setContentType("application/json").setCorrelationId("correlation").setMessageId("id").setSessionId("group").setPartitionKey("group")
                .setReplyTo("reply-to").setReplyToSessionId("reply-group").setSubject("subject").setTo("to").setTimeToLive(Duration.ofHours(1)));
        List<ServiceBusReceivedMessage> all = Bus.receive(bus.receiver(), 3);
        boolean alone = bus.partitioned(); // A has a session, and with it a partition of its own
        if (alone) {
            all = all.stream().sorted(Comparator.comparing(Bus::text).reversed()).toList();
        }
        Expect.equal(List.of("X", "B", "A"), Bus.texts(all), "received");
        Expect.equal(List.of(1L, 2L, alone ? 1L : 3L), Bus.lowParts(all), "numbers");
        ServiceBusReceivedMessage a = all.get(2);
        Expect.equal(
                List.of("application/json", "correlation", "id", "group", "group", "reply-to", "reply-group", "subject", "to", Duration.ofHours(1)),
                List.of(a.getContentType(), a.getCorrelationId(), a.getMessageId(), a.getSessionId(), a.getPartitionKey(), a.getReplyTo(),
                        a.getReplyToSessionId(), a.getSubject(), a.getTo(), a.getTimeToLive()),
                "properties");
        Expect.equal(Map.of("colour", "red"), a.getApplicationProperties(), "application properties");
        Expect.equal(alone ? 1L : 2L, Bus.lowPart(a.getEnqueuedSequenceNumber()), "enqueued sequence number");
        Expect.equal(null, a.getDeadLetterSource(), "dead-letter source");
        Expect.equal(a.getEnqueuedTime().plusHours(1), a.getExpiresAt(), "expires");
    }

    private static void existing(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String source = bus.queue + "-source";
        bus.createQueue(source);
        send(bus, source, Bus.message("A"), Bus.message("B"), Bus.message("C"));
        admin.updateQueue(admin.getQueue(source).setForwardTo(bus.queue));
        bus.client().queue().consume("A", "B", "C");
        admin.updateQueue(admin.getQueue(source).setForwardTo(null));
        Client after = bus.another();
        after.sender(source).sendMessage(Bus.message("D"));
        after.queue(source).consume("D");
        bus.client().queue().nothing();
    }

    private static void topics(Bus bus) {
        ServiceBusAdministrationClient admin = bus.admin();
        String one = bus.queue + "-one";
        String two = bus.queue + "-two";
        bus.createTopic(two);
        admin.createSubscription(two, "all");
        admin.createSubscription(two, "red", "red", new CreateSubscriptionOptions().setForwardTo(bus.queue),
                new CreateRuleOptions(new SqlRuleFilter("colour = 'red'")));
        bus.createTopic(one);
        admin.createSubscription(one, "on", new CreateSubscriptionOptions().setForwardTo(two));
        String source = forwarder(bus, "-source", one);
        send(bus, source, coloured("A", "blue"), coloured("B", "red"));
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage b = Bus.receive(receiver, "B");
        Expect.equal(Map.of("colour", "red"), b.getApplicationProperties(), "application properties");
        receiver.complete(b);
        Bus.nothing(receiver);
        List<String> all = new ArrayList<>(Bus.texts(Bus.receive(bus.client().subscription(two, "all").receiver(), 2)));
        all.sort(null);
        Expect.equal(List.of("A", "B"), all, "all");
    }

    private static void chainAndLoop(Bus bus) {
        List<String> links = chain(bus);
        send(bus, links.get(0), Bus.message("A"));
        send(bus, links.get(1), Bus.message("B"));
        bus.client().queue().consume("B");
        bus.client().queue().nothing();
        ServiceBusReceivedMessage letter = dead(bus.client().queue(links.get(4)).deadLetters(), "A".getBytes(), HOP_LIMIT);
        Expect.equal("The maximum number of allowed hops when forwarding between queues has been exceeded.", letter.getDeadLetterErrorDescription(),
                "description");

        String first = bus.queue + "-a";
        bus.createQueue(first);
        String second = forwarder(bus, "-b", first);
        bus.admin().updateQueue(bus.admin().getQueue(first).setForwardTo(second));
        send(bus, first, Bus.message("C"));
        dead(bus.client().queue(first).deadLetters(), "C".getBytes(), HOP_LIMIT);
    }

    private static void refused(Bus bus) {
        String source = forwarder(bus, "-source", bus.queue);
        send(bus, source, Bus.message("A"), Bus.inSession("B", "s"), Bus.inSession("C", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        session.complete(Bus.receive(session, "B"));
        session.complete(Bus.receive(session, "C"));
        ServiceBusReceiverClient letters = bus.client().queue(source).deadLetters();
        ServiceBusReceivedMessage a = Bus.receive(letters, "A");
        Expect.that(a.getDeadLetterErrorDescription().contains("The SessionId was not set on a message"), "description %s", a.getDeadLetterErrorDescription());
        letters.complete(a);
    }

    private static void unableToTake(Bus bus) {
        String gone = bus.queue + "-gone";
        bus.createQueue(gone);
        List<String> sources = List.of(unable(bus), forwarder(bus, "-to-gone", gone), forwarder(bus, "-to-full", bus.queue));
        bus.admin().deleteQueue(gone);
        fill(bus, bus.queue);
        sources.forEach(source -> send(bus, source, new ServiceBusMessage(LARGE)));
        List<String> reasons = List.of("MessagingEntityDisabledException", "MessagingEntityNotFoundException", "QuotaExceededException");
        for (int i = 0; i < reasons.size(); i++) {
            dead(bus.client().queue(sources.get(i)).deadLetters(), LARGE, reasons.get(i));
        }
    }

    private static void transferDeadLetter(Bus bus) {
        bus.stubborn();
        bus.control.restart("{\"forwarding\": {\"failures-to\": \"transfer-dead-letter\"}}");
        List<String> links = chain(bus);
        String off = unable(bus);
        String full = forwarder(bus, "-to-full", bus.queue);
        fill(bus, bus.queue);
        for (String source : List.of(links.get(0), off, full)) {
            send(bus, source, new ServiceBusMessage(LARGE));
        }
        dead(bus.client().queue(links.get(4)).transferDeadLetters(), LARGE, HOP_LIMIT);
        dead(bus.client().queue(off).transferDeadLetters(), LARGE, "MessagingEntityDisabledException");
        dead(bus.client().queue(full).transferDeadLetters(), LARGE, "QuotaExceededException");
        Bus.nothing(bus.client().queue(links.get(4)).deadLetters());
        bus.control.kill();
    }

    private static void deadLetters(Bus bus) {
        String source = bus.queue + "-source";
        bus.createQueue(source, new CreateQueueOptions().setForwardDeadLetteredMessagesTo(bus.queue));
        send(bus, source, coloured("A", "red"));
        ServiceBusReceiverClient there = bus.client().queue(source).receiver();
        there.deadLetter(Bus.receive(there, "A"), new DeadLetterOptions().setDeadLetterReason("reason"));
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A", 0);
        Expect.equal("red", a.getApplicationProperties().get("colour"), "colour");
        Expect.equal("reason", a.getDeadLetterReason(), "reason");
        Expect.equal(source, a.getDeadLetterSource(), "dead-letter source");
        receiver.complete(a);
        Bus.nothing(receiver);
        Expect.error(Kind.NOT_ALLOWED, FORWARDING, () -> Bus.call(bus.client().queue(source).deadLetters(), 1, Duration.ofSeconds(5)));
    }

    private static void deadLettersStay(Bus bus) throws InterruptedException {
        ServiceBusAdministrationClient admin = bus.admin();
        String first = bus.queue + "-a";
        bus.createQueue(first, new CreateQueueOptions().setForwardDeadLetteredMessagesTo(bus.queue));
        String second = forwarder(bus, "-b", first);
        admin.updateQueue(admin.getQueue(first).setForwardTo(second));
        send(bus, first, Bus.message("C"));
        drained(first + ", which is to have one dead letter,", () -> {
            var runtime = admin.getQueueRuntimeProperties(first);
            return runtime.getTotalMessageCount() == 1 && runtime.getDeadLetterMessageCount() == 1 ? runtime.getTransferMessageCount() : 1;
        });
        bus.client().queue().nothing();
        admin.updateQueue(admin.getQueue(first).setForwardDeadLetteredMessagesTo(null));
        dead(bus.client().queue(first).deadLetters(), "C".getBytes(), HOP_LIMIT);
    }

    private static void deadLettersFull(Bus bus) throws InterruptedException {
        String source = bus.queue + "-source";
        bus.createQueue(source, new CreateQueueOptions().setForwardDeadLetteredMessagesTo(bus.queue));
        fill(bus, bus.queue);
        send(bus, source, new ServiceBusMessage(LARGE));
        ServiceBusReceiverClient there = bus.client().queue(source).receiver();
        there.deadLetter(Bus.receive(there, 1).get(0), new DeadLetterOptions().setDeadLetterReason("reason"));
        Expect.equal(1L, bus.admin().getQueueRuntimeProperties(source).getTotalMessageCount(), "messages of " + source);
        ServiceBusReceivedMessage late = last(bus.receiver(), message -> message.getDeadLetterSource() != null);
        Expect.equal(source, late.getDeadLetterSource(), "dead-letter source");
        Expect.equal("reason", late.getDeadLetterReason(), "reason");
        queueDrained(bus, source);
    }

    private static void door(Bus bus) {
        String source = forwarder(bus, "-source", bus.queue);
        send(bus, source, Bus.message("O").setMessageId("0"));
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.complete(Bus.receive(receiver, "O"));
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(4);
        bus.client().sender(source).scheduleMessage(Bus.message("C").setMessageId("3"), due);
        send(bus, source, Bus.message("A").setMessageId("1"), Bus.message("X").setMessageId("1"),
                Bus.message("B").setMessageId("2").setTimeToLive(Duration.ofHours(1)));
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        Expect.equal(both.get(1).getEnqueuedTime().plusHours(1), both.get(1).getExpiresAt(), "expires");
        Bus.receive(receiver, "C");
        Expect.notBefore(due, Instant.now(), "C received");
        Bus.nothing(receiver);
    }

    private static void otherSdk(Bus bus) {
        String read = bus.queue + "-read";
        bus.createQueue(read);
        String there = forwarder(bus, "-out", read);
        String back = forwarder(bus, "-in", bus.queue);
        ServiceBusMessage message = coloured("A", "red").setContentType("text/plain").setCorrelationId("correlation").setMessageId("id")
                .setSubject("subject").setTimeToLive(Duration.ofHours(1));
        message.getApplicationProperties().put("size", 7);
        send(bus, there, message);
        bus.control.relay(read, back);
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.equal(List.of("text/plain", "correlation", "id", "subject", Duration.ofHours(1)),
                List.of(a.getContentType(), a.getCorrelationId(), a.getMessageId(), a.getSubject(), a.getTimeToLive()), "properties");
        Expect.equal(Map.of("colour", "red", "size", 7), a.getApplicationProperties(), "application properties");
        Expect.equal(1L, Bus.lowPart(a.getEnqueuedSequenceNumber()), "enqueued sequence number");
        receiver.complete(a);
        Bus.nothing(receiver);
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        String topic = bus.queue + "-topic";
        bus.createTopic(topic);
        bus.admin().createSubscription(topic, "on", new CreateSubscriptionOptions().setForwardTo(bus.queue));
        String source = forwarder(bus, "-source", topic);
        List<String> all = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            String of = round + " ";
            List<String> some = Bus.numbers(100).stream().map(text -> of + text).toList();
            Bus.sendBatches(bus.another().sender(source), Bus.messages(some));
            all.addAll(some);
            bus.control.kill();
        }
        ServiceBusReceiverClient receiver = bus.another().deleting();
        List<String> got = new ArrayList<>(Bus.texts(Bus.receive(receiver, all.size())));
        got.sort(null);
        all.sort(null);
        Expect.equal(all, got, "received");
        Bus.nothing(receiver);
        queueDrained(bus, source);
        drained(topic, () -> (int) bus.admin().getSubscriptionRuntimeProperties(topic, "on").getTotalMessageCount());
    }
}
