package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.SubscriptionRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** The group topics. */
final class Topics {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("topic-fan-out", Topics::fanOut),
            entry("topic-batch", Topics::batch),
            entry("topic-no-subscription", Topics::noSubscription),
            entry("topic-independent", Topics::independent),
            entry("topic-dead-letter", Topics::deadLetter),
            entry("topic-max-delivery", Topics::maxDelivery),
            entry("topic-lock", Topics::lock),
            entry("topic-sessions", Topics::sessions),
            entry("topic-ttl", Topics::timeToLive),
            entry("topic-schedule", Topics::schedule),
            entry("topic-schedule-rules", Topics::scheduleRules),
            entry("topic-duplicates", Topics::duplicates),
            entry("topic-refused", Topics::refused),
            entry("topic-browse", Topics::browse),
            entry("topic-status", Topics::status),
            entry("topic-survives-kill", Topics::survivesKill),
            entry("topic-kill-fan-out", Topics::killFanOut));

    private Topics() {}

    /** A message with a colour. */
    static ServiceBusMessage coloured(String text, String colour) {
        ServiceBusMessage message = Bus.message(text);
        message.getApplicationProperties().put("colour", colour);
        return message;
    }

    private static void isDeadLetter(ServiceBusReceivedMessage letter, String text, String reason, String description) {
        Expect.equal(List.of(text, reason, description),
                List.of(Bus.text(letter), letter.getDeadLetterReason(), letter.getDeadLetterErrorDescription()), "dead letter, reason, description");
    }

    private static void fanOut(Bus bus) {
        for (String text : List.of("A", "B")) {
            bus.send(coloured(text, "red").setMessageId("id-" + text).setSubject("subject").setCorrelationId("correlation")
                    .setContentType("text/plain").setTo("to").setReplyTo("reply-to").setReplyToSessionId("reply-group").setSessionId("group")
                    .setTimeToLive(Duration.ofHours(1)));
        }
        Source one = bus.subscription("one");
        Source two = bus.subscription("two");
        List<ServiceBusReceivedMessage> first = receiveWhole(one);
        Expect.above(first.get(0).getEnqueuedSequenceNumber(), first.get(1).getEnqueuedSequenceNumber(), "enqueued sequence number of B");
        List<ServiceBusReceivedMessage> second = receiveWhole(two);
        for (int i = 0; i < 2; i++) {
            Expect.equal(first.get(i).getEnqueuedTime(), second.get(i).getEnqueuedTime(), "enqueued time in two");
            Expect.equal(first.get(i).getEnqueuedSequenceNumber(), second.get(i).getEnqueuedSequenceNumber(), "enqueued sequence number in two");
        }
        for (Source source : List.of(one, two)) {
            source.peeks();
            source.noDeadLetters();
        }
    }

    private static List<ServiceBusReceivedMessage> receiveWhole(Source source) {
        ServiceBusReceiverClient receiver = source.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A active 0", "B active 0"), Bus.states(both), "received");
        Expect.equal(List.of(1L, 2L), Bus.lowParts(both), "numbers");
        for (ServiceBusReceivedMessage m : both) {
            Expect.equal(
                    List.of("id-" + Bus.text(m), "subject", "correlation", "text/plain", "to", "reply-to", "reply-group", "group", Duration.ofHours(1)),
                    List.of(m.getMessageId(), m.getSubject(), m.getCorrelationId(), m.getContentType(), m.getTo(), m.getReplyTo(),
                            m.getReplyToSessionId(), m.getSessionId(), m.getTimeToLive()),
                    "properties");
            Expect.equal(Map.of("colour", "red"), m.getApplicationProperties(), "application properties");
            Expect.near(Instant.now(), m.getEnqueuedTime(), Duration.ofSeconds(5), "enqueued");
        }
        both.forEach(receiver::complete);
        Bus.nothing(receiver);
        return both;
    }

    private static void batch(Bus bus) {
        bus.sendBatch(Bus.numbers(100).stream().map(n -> Bus.message(n).setMessageId("id" + n)).toArray(ServiceBusMessage[]::new));
        for (String name : List.of("one", "two")) {
            ServiceBusReceiverClient receiver = bus.subscription(name).receiver();
            List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 100);
            Expect.equal(Bus.numbers(100), Bus.texts(all), "received");
            Expect.equal(Bus.numbers(100).stream().map(n -> "id" + n).toList(), all.stream().map(ServiceBusReceivedMessage::getMessageId).toList(), "ids");
            Expect.equal(LongStream.rangeClosed(1, 100).boxed().toList(), Bus.lowParts(all), "numbers");
            all.forEach(receiver::complete);
            bus.subscription(name).peeks();
        }
    }

    private static void noSubscription(Bus bus) {
        bus.send("A");
        bus.admin().createSubscription(bus.queue, "late");
        Source late = bus.subscription("late");
        late.nothing();
        late.peeks();
        bus.send("B");
        Expect.equal(List.of(1L), Bus.lowParts(late.consume("B")), "number");
        late.nothing();
        TopicRuntimeProperties runtime = bus.admin().getTopicRuntimeProperties(bus.queue);
        Expect.equal(0L, runtime.getSizeInBytes(), "size");
        Expect.equal(1, runtime.getSubscriptionCount(), "subscriptions");
    }

    private static void independent(Bus bus) {
        bus.send("A", "B", "C", "D");
        Source one = bus.subscription("one");
        Source two = bus.subscription("two");
        ServiceBusReceiverClient receiver = one.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 4);
        Expect.equal(List.of("A", "B", "C", "D"), Bus.texts(all), "received");
        receiver.complete(all.get(0));
        receiver.abandon(all.get(1));
        receiver.defer(all.get(2));
        receiver.deadLetter(all.get(3));
        List<String> untouched = List.of("A active 0", "B active 0", "C active 0", "D active 0");
        Expect.equal(untouched, Bus.states(two.peekAll()), "peek all of two");
        Expect.equal(List.of("B active 1", "C deferred 1"), Bus.states(one.peekAll()), "peek all of one");

        Expect.equal(untouched, Bus.states(two.consume("A", "B", "C", "D")), "received from two");
        two.peeks();
        two.noDeadLetters();
        receiver.complete(Bus.receive(receiver, "B", 1));
        receiver.complete(Bus.receiveDeferred(receiver, "C", all.get(2).getSequenceNumber()));
        ServiceBusReceiverClient dead = one.deadLetters();
        dead.complete(Bus.receive(dead, "D"));
        one.peeks();
    }

    private static void deadLetter(Bus bus) {
        bus.send(coloured("A", "red").setMessageId("id"));
        Source one = bus.subscription("one");
        Source two = bus.subscription("two");
        ServiceBusReceiverClient receiver = one.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        receiver.deadLetter(a, new DeadLetterOptions().setDeadLetterReason("reason").setDeadLetterErrorDescription("description"));
        Bus.nothing(receiver);
        ServiceBusReceiverClient dead = one.deadLetters();
        ServiceBusReceivedMessage letter = Bus.receive(dead, "A");
        isDeadLetter(letter, "A", "reason", "description");
        Expect.equal("red", letter.getApplicationProperties().get("colour"), "colour");
        Expect.equal(a.getSequenceNumber(), letter.getSequenceNumber(), "number");
        two.noDeadLetters();
        two.consume("A");

        bus.send(Bus.message(Bus.text(letter)).setMessageId(letter.getMessageId()));
        dead.complete(letter);
        for (Source source : List.of(one, two)) {
            ServiceBusReceivedMessage again = source.consume("A").get(0);
            Expect.equal("id", again.getMessageId(), "id");
            Expect.equal(0L, again.getDeliveryCount(), "count");
            Expect.equal(null, again.getDeadLetterReason(), "reason");
        }
        one.noDeadLetters();
    }

    private static void maxDelivery(Bus bus) {
        bus.send("A");
        Source few = bus.subscription("few");
        ServiceBusReceiverClient receiver = few.receiver();
        for (int count = 0; count < 2; count++) {
            receiver.abandon(Bus.receive(receiver, "A", count));
        }
        Bus.nothing(receiver);
        few.peeks();
        ServiceBusReceivedMessage letter = Bus.receive(few.deadLetters(), "A", 2);
        isDeadLetter(letter, "A", "MaxDeliveryCountExceeded", "Message could not be consumed after 2 delivery attempts.");

        Source many = bus.subscription("many");
        ServiceBusReceiverClient patient = many.receiver();
        for (int count = 0; count < 3; count++) {
            patient.abandon(Bus.receive(patient, "A", count));
        }
        patient.complete(Bus.receive(patient, "A", 3));
        many.noDeadLetters();
    }

    private static void lock(Bus bus) {
        bus.send("A", "B");
        Source brief = bus.subscription("short");
        ServiceBusReceiverClient receiver = brief.receiver();
        ServiceBusReceiverClient patient = bus.subscription("long").receiver();
        List<ServiceBusReceivedMessage> both = receiveLocked(receiver, Duration.ofSeconds(5));
        receiveLocked(patient, Duration.ofSeconds(60)).forEach(patient::complete);

        ServiceBusReceivedMessage a = both.get(0);
        ServiceBusReceivedMessage b = both.get(1);
        OffsetDateTime renewed = receiver.renewMessageLock(a);
        Expect.that(renewed.isAfter(a.getLockedUntil()), "renewed until %s, which is not later", renewed);
        receiver.complete(a);
        ServiceBusReceiverClient other = brief.receiver();
        ServiceBusReceivedMessage again = Bus.receive(other, "B", 1);
        Expect.at(b.getLockedUntil(), Instant.now(), "received again");
        Expect.error(Kind.LOCK_LOST, () -> receiver.complete(b));
        other.complete(again);
    }

    private static List<ServiceBusReceivedMessage> receiveLocked(ServiceBusReceiverClient receiver, Duration lock) {
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        both.forEach(m -> Expect.near(Instant.now().plus(lock), m.getLockedUntil(), Duration.ofSeconds(2), "locked until"));
        return both;
    }

    private static void sessions(Bus bus) {
        bus.send(Bus.inSession("A", "s"), Bus.inSession("B", "s"), Bus.inSession("C", "t"), Bus.message("D"));
        Source grouped = bus.subscription("grouped");
        try (ServiceBusReceiverClient s = grouped.accept("s"); ServiceBusReceiverClient t = grouped.accept("t")) {
            List<ServiceBusReceivedMessage> both = Bus.receive(s, 2);
            Expect.equal(List.of("A", "B"), Bus.texts(both), "received from s");
            s.setSessionState("state".getBytes());
            Expect.equal("state", new String(s.getSessionState()), "state");
            both.forEach(s::complete);
            Bus.nothing(s);
            t.complete(Bus.receive(t, "C"));
        }
        ServiceBusReceiverClient dead = grouped.deadLetters();
        ServiceBusReceivedMessage d = Bus.receive(dead, "D");
        isDeadLetter(d, "D", "Session id is null.", "Session enabled entity doesn't allow a message whose session identifier is null.");
        dead.complete(d);
        bus.waiting(Duration.ofSeconds(1)).subscription(bus.queue, "grouped").noSessionLeft();
        ServiceBusReceiverClient plain = bus.subscription("plain").receiver();
        List<ServiceBusReceivedMessage> all = bus.sorted(Bus.receive(plain, 4));
        Expect.equal(List.of("A", "B", "C", "D"), Bus.texts(all), "received from plain");
        all.forEach(plain::complete);
        List<String> ids = all.stream().map(m -> String.valueOf(m.getSessionId())).toList();
        Expect.equal(List.of("s", "s", "t", "null"), ids, "session ids");
    }

    private static void timeToLive(Bus bus) throws Exception {
        Source brief = bus.subscription("short");
        Source lasting = bus.subscription("long");
        brief.peeks();
        lasting.peeks();
        bus.send(Bus.message("A"), Bus.message("B").setTimeToLive(Duration.ofHours(1)));
        List<ServiceBusReceivedMessage> peeked = brief.peekAll();
        Expect.equal(List.of("A", "B"), Bus.texts(peeked), "peek all of short");
        Expect.equal(Duration.ZERO, peeked.get(0).getTimeToLive(), "time to live of A in short"); // the SDK's word for none
        Expect.equal(Duration.ofSeconds(3), peeked.get(1).getTimeToLive(), "time to live of B in short");
        Instant last = peeked.get(1).getEnqueuedTime().toInstant();
        peeked = lasting.peekAll();
        Expect.equal(List.of("A", "B"), Bus.texts(peeked), "peek all of long");
        Expect.equal(Duration.ZERO, peeked.get(0).getTimeToLive(), "time to live of A in long");
        Expect.equal(Duration.ofHours(1), peeked.get(1).getTimeToLive(), "time to live of B in long");

        String capped = "topic-ttl-capped";
        bus.createTopic(capped, new CreateTopicOptions().setDefaultMessageTimeToLive(Duration.ofSeconds(3)));
        bus.admin().createSubscription(capped, "long",
                new CreateSubscriptionOptions().setDefaultMessageTimeToLive(Duration.ofHours(1)).setDeadLetteringOnMessageExpiration(true));
        bus.client().newTopicSender(capped).sendMessage(Bus.message("C").setTimeToLive(Duration.ofHours(1)));
        Source below = bus.client().subscription(capped, "long");
        ServiceBusReceivedMessage c = below.peekAll().get(0);
        Expect.equal("C", Bus.text(c), "peeked");
        Expect.equal(Duration.ofSeconds(3), c.getTimeToLive(), "time to live of C");

        Bus.outlive(last.plusSeconds(3));
        Bus.outlive(c.getEnqueuedTime().plusSeconds(3));
        brief.nothing();
        List<ServiceBusReceivedMessage> letters = brief.peekAllDeadLetters();
        Expect.equal(List.of("A", "B"), Bus.texts(letters), "dead letters of short");
        letters.forEach(m -> Expect.equal("TTLExpiredException", m.getDeadLetterReason(), "reason"));
        lasting.consume("A", "B").forEach(m -> Expect.equal(Duration.ofHours(1), m.getTimeToLive(), "time to live received from long"));
        below.nothing();
        below.peeksDeadLetters("C");
    }

    private static void schedule(Bus bus) throws Exception {
        List<Source> sources = List.of(bus.subscription("one"), bus.subscription("two"));
        List<ServiceBusReceiverClient> receivers = sources.stream().map(Source::receiver).toList();
        bus.warmUp(receivers.toArray(ServiceBusReceiverClient[]::new));
        Sender sender = bus.client().sender();
        OffsetDateTime t = Scheduling.in(Duration.ofSeconds(4));
        Set<Long> numbers = new HashSet<>();
        sender.scheduleMessages(List.of(Bus.message("A"), Bus.message("B")), t).forEach(numbers::add);
        long x = sender.scheduleMessage(Bus.message("X"), t);
        numbers.add(x);
        Expect.equal(3, numbers.size(), "different numbers");
        sender.cancelScheduledMessage(x);
        bus.send(Bus.message("C").setScheduledEnqueueTime(t));

        List<List<ServiceBusReceivedMessage>> early = sources.stream().map(Source::peekAll).toList();
        int scheduled = bus.admin().getTopicRuntimeProperties(bus.queue).getScheduledMessageCount();
        SubscriptionRuntimeProperties runtime = bus.admin().getSubscriptionRuntimeProperties(bus.queue, "one");
        if (Instant.now().isBefore(t.toInstant())) { // on a busy machine it may be later by now, and nothing follows
            early.forEach(all -> Expect.equal(List.of(), Bus.texts(all), "peeked early"));
            Expect.equal(3, scheduled, "scheduled");
            Expect.equal(0, runtime.getActiveMessageCount(), "active in one");
            Expect.equal(0L, runtime.getTotalMessageCount(), "in total in one");
        }

        List<Future<List<ServiceBusReceivedMessage>>> waiting = new ArrayList<>();
        for (ServiceBusReceiverClient receiver : receivers) {
            waiting.add(bus.meanwhile(() -> {
                List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 3);
                Expect.at(t, Instant.now(), "received");
                return all;
            }));
        }
        for (int i = 0; i < 2; i++) {
            List<ServiceBusReceivedMessage> all = waiting.get(i).get();
            Expect.equal(List.of("A", "B", "C"), Bus.texts(all).stream().sorted().toList(), "received");
            all.forEach(m -> Expect.notBefore(t, m.getEnqueuedTime().toInstant(), "enqueued"));
            all.forEach(receivers.get(i)::complete);
            Bus.nothing(receivers.get(i));
        }
        Expect.equal(0, bus.admin().getTopicRuntimeProperties(bus.queue).getScheduledMessageCount(), "scheduled");
    }

    private static void scheduleRules(Bus bus) {
        Sender sender = bus.client().sender();
        bus.admin().getRule(bus.queue, "one", "red"); // has its connection before the clock runs
        sender.createMessageBatch(); // so has the sender
        OffsetDateTime t = Scheduling.in(Duration.ofSeconds(4));
        sender.scheduleMessage(coloured("A", "red"), t);
        sender.scheduleMessage(coloured("B", "blue"), t);
        bus.admin().deleteRule(bus.queue, "one", "red");
        Rules.create(bus, "one", "blue", Rules.sql("colour = 'blue'"));
        Source one = bus.subscription("one");
        one.consume("B");
        one.nothing();
        one.peeks();
        one.noDeadLetters();
    }

    private static void duplicates(Bus bus) {
        bus.send(Bus.message("A").setMessageId("1"), Bus.message("X").setMessageId("1"), Bus.message("B").setMessageId("2"));
        Source one = bus.subscription("one");
        Expect.equal(List.of("1", "2"), ids(one.consume("A", "B")), "ids in one");
        bus.send(Bus.message("Y").setMessageId("2"));
        one.nothing();
        Source renamed = bus.subscription("renamed");
        Expect.equal(List.of("same", "same"), ids(renamed.consume("A", "B")), "ids in renamed");
        renamed.nothing();
    }

    private static List<String> ids(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(ServiceBusReceivedMessage::getMessageId).toList();
    }

    private static void refused(Bus bus) {
        bus.client().queue().fails(Kind.NOT_ALLOWED);
        Expect.error(Kind.NOT_ALLOWED, () -> bus.client().sender("topic-refused/Subscriptions/one").sendMessage(Bus.message("A")));
        Source missing = bus.subscription("missing");
        missing.fails(Kind.ENTITY_NOT_FOUND);
        Expect.error(Kind.ENTITY_NOT_FOUND, missing::peekAll);
        bus.send("B");
        Source one = bus.subscription("one");
        one.consume("B");
        one.peeks();
    }

    private static void browse(Bus bus) {
        bus.send("L", "D", "A");
        Source one = bus.subscription("one");
        ServiceBusReceiverClient receiver = one.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("L", "D"), Bus.texts(both), "received");
        receiver.defer(both.get(1));
        Source other = bus.client().subscription("TOPIC-BROWSE", "ONE");
        for (Source source : List.of(one, one, other)) {
            List<ServiceBusReceivedMessage> peeked = source.peekAll();
            Expect.equal(List.of("L active 0", "D deferred 1", "A active 0"), Bus.states(peeked), "peek all");
            Expect.equal(List.of(1L, 2L, 3L), Bus.lowParts(peeked), "numbers");
        }
        ServiceBusReceiverClient second = other.receiver();
        second.complete(Bus.receiveDeferred(second, "D", both.get(1).getSequenceNumber()));
        receiver.complete(both.get(0));
        receiver.complete(Bus.receive(receiver, "A", 0));
        one.peeks();
    }

    private static void status(Bus bus) {
        bus.send("A");
        Source closed = bus.subscription("closed");
        Source open = bus.subscription("open");
        closed.fails(Kind.DISABLED);
        Expect.error(Kind.DISABLED, closed::peekAll);
        open.consume("A");

        becomes(bus, EntityStatus.SEND_DISABLED);
        Expect.error(Kind.DISABLED, () -> bus.client().newTopicSender(bus.queue).sendMessage(Bus.message("B")));
        becomes(bus, EntityStatus.ACTIVE);
        bus.client().newTopicSender(bus.queue).sendMessage(Bus.message("C"));

        bus.admin().updateSubscription(bus.admin().getSubscription(bus.queue, "closed").setStatus(EntityStatus.ACTIVE));
        closed.consume("A", "C");
        open.consume("C");
    }

    private static void becomes(Bus bus, EntityStatus status) {
        bus.admin().updateTopic(bus.admin().getTopic(bus.queue).setStatus(status));
        Expect.equal(status, bus.admin().getTopic(bus.queue).getStatus(), "status");
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        Source one = bus.subscription("one");
        Source two = bus.subscription("two");
        bus.send("A", "B", "C");
        ServiceBusReceiverClient first = one.receiver();
        first.complete(Bus.receive(first, "A"));
        first.deadLetter(Bus.receive(first, "B"), new DeadLetterOptions().setDeadLetterReason("reason"));
        ServiceBusReceiverClient second = two.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(second, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received from two");
        second.defer(both.get(0));
        second.abandon(both.get(1));
        bus.control.kill();

        List<ServiceBusReceivedMessage> peeked = Bus.insist(one::peekAll);
        Expect.equal(List.of("C active 0"), Bus.states(peeked), "peek all of one");
        Expect.equal(List.of(3L), Bus.lowParts(peeked), "numbers in one");
        List<ServiceBusReceivedMessage> letters = one.peekAllDeadLetters();
        Expect.equal(List.of("B"), Bus.texts(letters), "dead letters of one");
        Expect.equal("reason", letters.get(0).getDeadLetterReason(), "reason");
        peeked = two.peekAll();
        Expect.equal(List.of("A deferred 1", "B active 1", "C active 0"), Bus.states(peeked), "peek all of two");
        Expect.equal(List.of(1L, 2L, 3L), Bus.lowParts(peeked), "numbers in two");

        one.consume("C");
        two.consume("B", "C");
        ServiceBusReceiverClient third = two.receiver();
        third.complete(Bus.receiveDeferred(third, "A", both.get(0).getSequenceNumber()));
        bus.control.kill();
        Bus.insist(() -> one.peeks());
        two.peeks();
        one.peeksDeadLetters("B");
        Bus.insist(() -> bus.send("D"));
        for (Source source : List.of(one, two)) {
            Expect.equal(List.of(4L), Bus.lowParts(source.consume("D")), "number of D");
        }
    }

    private static void killFanOut(Bus bus) throws Exception {
        ConcurrentLinkedQueue<String> acknowledged = new ConcurrentLinkedQueue<>();
        List<Future<Void>> sending = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            // One that retries would make sends that nobody counts.
            Sender sender = bus.another().sender();
            sending.add(bus.meanwhile(() -> {
                for (String text : IntStream.range(0, 200).mapToObj(i -> name + i).toList()) {
                    Bus.insist(() -> sender.sendMessage(Bus.message(text)));
                    acknowledged.add(text);
                }
                return null;
            }));
        }
        for (int at : List.of(100, 250)) {
            while (acknowledged.size() < at && sending.stream().anyMatch(f -> !f.isDone())) {
                Bus.sleep(Duration.ofMillis(10));
            }
            bus.control.kill();
        }
        for (Future<Void> future : sending) {
            future.get();
        }
        bus.stubborn();
        Client stubborn = bus.another();
        List<List<String>> received = new ArrayList<>();
        for (String name : List.of("one", "two", "three")) {
            Source source = stubborn.subscription(bus.queue, name);
            received.add(drain(source.deleting()));
            source.noDeadLetters();
        }
        Expect.equal(received.get(0), received.get(1), "received from two");
        Expect.equal(received.get(0), received.get(2), "received from three");
        Set<String> lost = acknowledged.stream().filter(text -> !received.get(0).contains(text)).collect(Collectors.toSet());
        Expect.equal(Set.of(), lost, "acknowledged and not received");
    }

    /** Receives until a second passes without a message; the texts are in the order of the alphabet. */
    private static List<String> drain(ServiceBusReceiverClient receiver) {
        List<String> all = new ArrayList<>();
        List<ServiceBusReceivedMessage> some;
        do {
            some = Bus.call(receiver, 100, Duration.ofSeconds(1));
            all.addAll(Bus.texts(some));
        } while (!some.isEmpty());
        Collections.sort(all);
        return all;
    }
}
