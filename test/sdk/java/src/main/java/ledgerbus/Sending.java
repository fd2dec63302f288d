package ledgerbus;

import static java.util.Map.entry;

import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.qpid.proton.amqp.Symbol;
import reactor.core.publisher.Flux;

final class Sending {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("send-receive-complete", Sending::receiveComplete),
            entry("send-all-properties", Sending::allProperties),
            entry("send-again", Sending::again),
            entry("send-property-types", Sending::propertyTypes),
            entry("send-raw", Sending::raw),
            entry("send-batch", Sending::batch),
            entry("send-batch-1mib", Sending::batchOfAMebibyte),
            entry("send-batch-refused", Sending::batchRefused),
            entry("send-large", Sending::large),
            entry("send-many-at-once", Sending::manyAtOnce),
            entry("send-unknown-queue", Sending::unknownQueue));

    private Sending() {}

    private static void receiveComplete(Bus bus) {
        bus.send("hello", "again");
        ServiceBusReceiverClient receiver = bus.receiver();

        ServiceBusReceivedMessage hello = Bus.receive(receiver, "hello", 0);
        Expect.above(0, hello.getSequenceNumber(), "number");
        Expect.equal(ServiceBusMessageState.ACTIVE, hello.getState(), "state");
        Expect.that(hello.getLockToken() != null, "no lock token");
        Expect.near(Instant.now(), hello.getEnqueuedTime(), Duration.ofSeconds(2), "enqueued");
        Expect.near(Instant.now().plusSeconds(60), hello.getLockedUntil(), Duration.ofSeconds(2), "locked until");
        Expect.that(hello.getMessageId() != null && !hello.getMessageId().isEmpty(), "no message id");
        Expect.equal(Duration.ZERO, hello.getRawAmqpMessage().getHeader().getTimeToLive(), "ttl"); // the SDK's word for none
        Expect.equal(null, hello.getRawAmqpMessage().getProperties().getAbsoluteExpiryTime(), "absolute-expiry-time");

        ServiceBusReceivedMessage again = Bus.receive(receiver, "again");
        Expect.above(hello.getSequenceNumber(), again.getSequenceNumber(), "number");
        Expect.different(hello.getMessageId(), again.getMessageId(), "message id");

        receiver.complete(hello);
        receiver.complete(again);
        Bus.nothing(receiver);
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void allProperties(Bus bus) {
        for (int i = 0; i < 2; i++) {
            ServiceBusMessage message = Bus.message("body")
                    .setContentType("application/json").setCorrelationId("correlation").setMessageId("id")
                    .setSessionId("group").setPartitionKey("group").setReplyTo("reply-to").setReplyToSessionId("reply-group")
                    .setSubject("subject").setTo("to").setTimeToLive(Duration.ofHours(1));
            message.getApplicationProperties().put("colour", "red");
            bus.send(message);
        }
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        both.forEach(Sending::hasAllProperties);
        receiver.complete(both.get(1));
        receiver.abandon(both.get(0));

        ServiceBusReceivedMessage again = Bus.receive(receiver, "body", 1);
        hasAllProperties(again);
        Expect.equal(both.get(0).getSequenceNumber(), again.getSequenceNumber(), "number");
    }

    private static void hasAllProperties(ServiceBusReceivedMessage message) {
        Expect.equal("body", Bus.text(message), "body");
        Expect.equal("application/json", message.getContentType(), "content type");
        Expect.equal("correlation", message.getCorrelationId(), "correlation id");
        Expect.equal("id", message.getMessageId(), "message id");
        Expect.equal("group", message.getSessionId(), "session id");
        Expect.equal("group", message.getPartitionKey(), "partition key");
        Expect.equal("reply-to", message.getReplyTo(), "reply-to");
        Expect.equal("reply-group", message.getReplyToSessionId(), "reply-to session id");
        Expect.equal("subject", message.getSubject(), "subject");
        Expect.equal("to", message.getTo(), "to");
        Expect.equal(Duration.ofHours(1), message.getTimeToLive(), "time to live");
        Expect.equal(Map.of("colour", "red"), message.getApplicationProperties(), "application properties");
    }

    private static void again(Bus bus) {
        ServiceBusMessage message = Bus.message("A").setPartitionKey("group").setSubject("subject");
        message.getApplicationProperties().put("colour", "red");
        bus.send(message);
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage first = receiveAsSent(receiver);
        bus.send(new ServiceBusMessage(first));
        receiver.complete(first);
        ServiceBusReceivedMessage second = receiveAsSent(receiver);
        Expect.above(first.getSequenceNumber(), second.getSequenceNumber(), "number");
        receiver.deadLetter(second);
        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage letter = receiveAsSent(dead);
        bus.send(new ServiceBusMessage(letter));
        dead.complete(letter);
        receiver.complete(receiveAsSent(receiver));
        bus.peeks();
        bus.noDeadLetters();
    }

    private static ServiceBusReceivedMessage receiveAsSent(ServiceBusReceiverClient receiver) {
        ServiceBusReceivedMessage message = Bus.receive(receiver, "A");
        Expect.equal("group", message.getPartitionKey(), "partition key");
        Expect.equal("subject", message.getSubject(), "subject");
        Expect.equal("red", message.getApplicationProperties().get("colour"), "colour");
        return message;
    }

    private static void propertyTypes(Bus bus) {
        Map<String, Object> properties = new LinkedHashMap<>();
        properties.put("byte least", Byte.MIN_VALUE);
        properties.put("byte most", Byte.MAX_VALUE);
        properties.put("short least", Short.MIN_VALUE);
        properties.put("short most", Short.MAX_VALUE);
        properties.put("int least", Integer.MIN_VALUE);
        properties.put("int most", Integer.MAX_VALUE);
        properties.put("int", -7);
        properties.put("long least", Long.MIN_VALUE);
        properties.put("long most", Long.MAX_VALUE);
        properties.put("float", Float.MIN_VALUE);
        properties.put("float most", Float.MAX_VALUE);
        properties.put("double", -1.5);
        properties.put("double most", Double.MAX_VALUE);
        properties.put("double infinite", Double.NEGATIVE_INFINITY);
        properties.put("true", true);
        properties.put("false", false);
        properties.put("char", 'ä');
        properties.put("empty", "");
        properties.put("text", "ä €");
        properties.put("long text", "x".repeat(1000));
        properties.put("uuid", UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"));
        properties.put("date", new Date(1_700_000_000_123L));
        properties.put("date early", new Date(-1));
        properties.put("time", OffsetDateTime.of(2026, 2, 28, 23, 59, 59, 123_456_700, ZoneOffset.UTC)); // in steps of 100 ns
        properties.put("duration", Duration.ofDays(3).plusNanos(100));
        properties.put("uri", URI.create("https://example.com/a?b=c"));
        ServiceBusMessage message = Bus.message("a");
        message.getApplicationProperties().putAll(properties); // some of which the SDK replaces when it sends
        bus.send(message);

        Map<String, Object> received = Bus.receive(bus.receiver(), "a").getApplicationProperties();
        Expect.equal(properties.keySet(), received.keySet(), "names");
        properties.forEach((name, value) -> {
            Expect.equal(value.getClass(), received.get(name).getClass(), "type of " + name);
            Expect.equal(value, received.get(name), name);
        });
    }

    private static void raw(Bus bus) {
        List<AmqpMessageBody> bodies = List.of(
                AmqpMessageBody.fromData(new byte[] {0, (byte) 0xff}),
                AmqpMessageBody.fromData(new byte[0]),
                AmqpMessageBody.fromValue("a value"),
                AmqpMessageBody.fromValue(-7),
                AmqpMessageBody.fromValue(Map.of("a", "x")),
                AmqpMessageBody.fromSequence(List.of("a", 1)));
        Date early = new Date(946_684_800_000L);
        for (AmqpMessageBody body : bodies) {
            ServiceBusMessage message = new ServiceBusMessage(body);
            AmqpAnnotatedMessage raw = message.getRawAmqpMessage();
            raw.getHeader().setDurable(true).setPriority((short) 7);
            raw.getMessageAnnotations().putAll(Map.of("x-mine", "kept", "x-opt-sequence-number", 777_777L, "x-opt-enqueued-time", early,
                    "x-opt-locked-until", early));
            raw.getDeliveryAnnotations().put("x-hop", "kept too");
            footer(raw).put(Symbol.valueOf("foot"), "note");
            bus.send(message);
        }
        List<ServiceBusReceivedMessage> all = Bus.receive(bus.receiver(), bodies.size());
        for (int i = 0; i < bodies.size(); i++) {
            AmqpAnnotatedMessage raw = all.get(i).getRawAmqpMessage();
            hasBody(bodies.get(i), raw.getBody());
            // The SDK does not send the message annotations of a raw message; of the list's four none can come back.
            Expect.equal("kept too", raw.getDeliveryAnnotations().get("x-hop"), "x-hop");
            Expect.equal("note", raw.getFooter().get("foot"), "foot");
            Expect.equal(true, raw.getHeader().isDurable(), "durable");
            Expect.equal((short) 7, raw.getHeader().getPriority(), "priority");
            Expect.between(1, 777_776, Bus.lowPart(all.get(i).getSequenceNumber()), "number");
            Expect.near(Instant.now(), all.get(i).getEnqueuedTime(), Duration.ofSeconds(5), "enqueued");
            Expect.that(all.get(i).getLockedUntil().toInstant().isAfter(Instant.now()), "locked until %s", all.get(i).getLockedUntil());
        }
    }

    /** The SDK sends the footer's keys as they are, and can receive symbols only, as AMQP has it; its map is declared with texts. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<Object, Object> footer(AmqpAnnotatedMessage raw) {
        return (Map) raw.getFooter();
    }

    private static void hasBody(AmqpMessageBody want, AmqpMessageBody got) {
        Expect.equal(want.getBodyType(), got.getBodyType(), "kind of body");
        if (want.getBodyType() == AmqpMessageBodyType.DATA) {
            Expect.equal(want.getFirstData(), got.getFirstData(), "data");
        } else if (want.getBodyType() == AmqpMessageBodyType.VALUE) {
            Expect.equal(want.getValue(), got.getValue(), "value");
        } else {
            Expect.equal(want.getSequence(), got.getSequence(), "sequence");
        }
    }

    private static void batch(Bus bus) {
        bus.sendBatch(IntStream.range(0, 100).mapToObj(i -> {
            ServiceBusMessage message = Bus.message("" + i).setMessageId("id" + i);
            message.getApplicationProperties().put("i", i);
            return message;
        }).toArray(ServiceBusMessage[]::new));

        List<ServiceBusReceivedMessage> all = Bus.receive(bus.receiver(), 100);
        Expect.equal(Bus.numbers(100), Bus.texts(all), "order");
        for (int i = 0; i < 100; i++) {
            Expect.equal("id" + i, all.get(i).getMessageId(), "message id");
            Expect.equal(i, all.get(i).getApplicationProperties().get("i"), "i");
            Expect.equal(all.get(0).getSequenceNumber() + i, all.get(i).getSequenceNumber(), "number");
        }
    }

    private static void batchOfAMebibyte(Bus bus) {
        List<byte[]> bodies = new ArrayList<>();
        ServiceBusMessageBatch batch = bus.client().sender().createMessageBatch();
        for (byte[] body = random(4000); bus.client().sender().tryAddMessage(batch, new ServiceBusMessage(body)); body = random(4000)) {
            bodies.add(body);
        }
        Expect.above(239, batch.getCount(), "messages in a batch");
        bus.client().sender().sendMessages(batch);

        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, bodies.size());
        for (int i = 0; i < bodies.size(); i++) {
            Expect.equal(bodies.get(i), all.get(i).getBody().toBytes(), "body " + i);
            receiver.complete(all.get(i));
        }
        bus.peeks();
    }

    private static void batchRefused(Bus bus) {
        String text = bus.partitioned()
                ? "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled"
                : "The SessionId was not set on a message";
        Expect.error(Kind.NOT_ALLOWED, text, () -> bus.sendBatch(Bus.inSession("A", "s"), Bus.message("B")));
        bus.send(Bus.inSession("C", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        session.complete(Bus.receive(session, "C"));
        Bus.nothing(session);
    }

    private static void large(Bus bus) {
        byte[] body = random(204_800);
        bus.send(new ServiceBusMessage(body));
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage message = Bus.receive(receiver, 1).get(0);
        Expect.equal(body, message.getBody().toBytes(), "body");
        receiver.complete(message);
        bus.peeks();
    }

    private static void manyAtOnce(Bus bus) {
        List<String> texts = Bus.numbers(1500);
        Client client = bus.unhurried(); // the last send waits in the SDK for the link and for all the others
        ServiceBusSenderAsyncClient sender = client.asyncSender();
        Flux.fromIterable(texts).flatMap(text -> sender.sendMessage(bus.keyed(Bus.message(text))), texts.size()).blockLast();

        ServiceBusReceiverClient receiver = client.deleting();
        List<String> received = Bus.texts(Bus.receive(receiver, texts.size()));
        Expect.equal(new TreeSet<>(texts), new TreeSet<>(received), "texts");
        Bus.nothing(receiver);
    }

    private static void unknownQueue(Bus bus) {
        String missing = bus.queue + "-missing";
        Expect.error(Kind.ENTITY_NOT_FOUND, () -> bus.client().sender(missing).sendMessage(Bus.message("A")));
        Expect.error(Kind.ENTITY_NOT_FOUND, () -> Bus.receive(bus.client().queue(missing).receiver(), 1));
        Expect.error(Kind.ENTITY_NOT_FOUND, () -> Bus.peekAll(bus.client().queue(missing).receiver()));
        bus.send("B");
        Bus.receive(bus.receiver(), "B");
        Expect.error(Kind.ENTITY_NOT_FOUND, () -> Bus.receive(bus.client().queue(missing).receiver(), 1));
    }

    static byte[] random(int size) {
        byte[] bytes = new byte[size];
        new Random().nextBytes(bytes);
        return bytes;
    }
}
