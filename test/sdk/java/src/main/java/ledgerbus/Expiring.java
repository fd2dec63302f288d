package ledgerbus;

import static java.util.Map.entry;

import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

final class Expiring {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("expiry-dropped", Expiring::dropped),
            entry("expiry-lazy", Expiring::lazy),
            entry("expiry-queue-default", Expiring::queueDefault),
            entry("expiry-locked", Expiring::locked),
            entry("expiry-lock-end", Expiring::lockEnd),
            entry("expiry-deferred", Expiring::deferred),
            entry("expiry-milliseconds", Expiring::milliseconds),
            entry("expiry-32-bits", Expiring::beyond32Bits));

    private Expiring() {}

    private static ServiceBusMessage living(String text, Duration timeToLive) {
        return Bus.message(text).setTimeToLive(timeToLive);
    }

    private static void expired(ServiceBusReceivedMessage message) {
        Expect.equal("TTLExpiredException", message.getDeadLetterReason(), "reason of " + Bus.text(message));
    }

    private static void dropped(Bus bus) throws Exception {
        bus.send(living("A", Duration.ofSeconds(1)));
        Bus.outlive(Instant.now().plusSeconds(1));
        Bus.nothing(bus.receiver());
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void lazy(Bus bus) throws Exception {
        ServiceBusReceiverClient dead = bus.deadLetters();
        Future<ServiceBusReceivedMessage> letter = bus.meanwhile(() -> Bus.receive(dead, "A"));
        bus.send(living("A", Duration.ofSeconds(1)), Bus.message("B"));
        ServiceBusReceivedMessage a = bus.peekAll().get(0);
        Expect.equal(Duration.ofSeconds(1), a.getTimeToLive(), "time to live");
        Expect.equal(a.getEnqueuedTime().plusSeconds(1), a.getExpiresAt(), "expires");
        Expect.near(a.getEnqueuedTime().plusSeconds(1).toInstant(), a.getRawAmqpMessage().getProperties().getAbsoluteExpiryTime(), Duration.ZERO,
                "absolute-expiry-time");
        Bus.outlive(a.getExpiresAt().plusSeconds(1));
        bus.peeks("A", "B");
        Expect.that(!letter.isDone(), "a dead letter although nobody received");

        ServiceBusReceiverClient receiver = bus.receiver();
        Bus.receive(receiver, "B");
        Bus.nothing(receiver);
        a = Expect.atOnce("dead letter", letter::get);
        expired(a);
        Expect.equal("The message expired and was dead lettered.", a.getDeadLetterErrorDescription(), "description");
        bus.peeks("B");
    }

    private static void queueDefault(Bus bus) throws Exception {
        Duration limit = Duration.ofSeconds(3);
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        bus.send(Bus.message("A"), Bus.message("C"), living("B", Duration.ofHours(1)));
        List<ServiceBusReceivedMessage> all = bus.peekAll();
        Expect.equal(List.of("A", "C", "B"), Bus.texts(all), "peek all");
        Expect.equal(Duration.ZERO, all.get(0).getTimeToLive(), "time to live of A"); // the SDK's word for none
        Expect.equal(Duration.ZERO, all.get(1).getTimeToLive(), "time to live of C");
        ServiceBusReceivedMessage b = all.get(2);
        Expect.equal(limit, b.getTimeToLive(), "time to live of B");
        Expect.equal(b.getEnqueuedTime().plus(limit), b.getExpiresAt(), "expiry of B");

        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.equal(limit, a.getTimeToLive(), "time to live of A");
        Expect.equal(a.getEnqueuedTime().plus(limit), a.getExpiresAt(), "expiry of A");
        receiver.complete(a);

        Bus.outlive(b.getExpiresAt());
        Bus.nothing(receiver);
        List<ServiceBusReceivedMessage> letters = Bus.receive(bus.deadLetters(), 2);
        Expect.equal(List.of("C", "B"), Bus.texts(letters), "dead letters");
        letters.forEach(Expiring::expired);
    }

    private static void locked(Bus bus) throws Exception {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        bus.send(living("A", Duration.ofSeconds(2)), living("B", Duration.ofSeconds(2)));
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        Duration past = Duration.between(Instant.now(), both.get(1).getExpiresAt().toInstant().plusSeconds(1));
        Expect.equal(List.of(), Bus.texts(Bus.call(bus.receiver(), 1, past)), "received by another receiver");

        receiver.complete(both.get(0));
        receiver.abandon(both.get(1));
        bus.peeks();
        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage b = Bus.receive(dead, "B");
        expired(b);
        dead.abandon(b);
        Bus.sleep(Duration.ofMillis(1500));
        dead.complete(Bus.receive(dead, "B"));
        bus.noDeadLetters();
    }

    private static void lockEnd(Bus bus) {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        bus.send(living("A", Duration.ofSeconds(2)));
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        ServiceBusReceivedMessage letter = Bus.receive(bus.deadLetters(), "A");
        Expect.at(a.getLockedUntil(), Instant.now(), "dead letter received");
        expired(letter);
        bus.peeks();
    }

    private static void deferred(Bus bus) {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        bus.send(living("A", Duration.ofSeconds(2)));
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        receiver.defer(a);
        Duration past = Duration.between(Instant.now(), a.getExpiresAt().toInstant().plusMillis(100));
        Expect.equal(List.of(), Bus.texts(Bus.call(bus.receiver(), 1, past)), "received by a receiver of the queue");

        Expect.equal(List.of("A deferred 1"), Bus.states(bus.peekAll()), "peek all");
        bus.noDeadLetters();
        Bus.notFound(receiver, a.getSequenceNumber());
        expired(Bus.receive(bus.deadLetters(), "A"));
        bus.peeks();
    }

    private static void milliseconds(Bus bus) throws Exception {
        List<Duration> lives = List.of(Duration.ofMillis(1), Duration.ofMillis(20), Duration.ofMillis(333));
        bus.send(living("A", lives.get(0)), living("B", lives.get(1)), living("C", lives.get(2)));
        List<ServiceBusReceivedMessage> all = bus.peekAll();
        Expect.equal(List.of("A", "B", "C"), Bus.texts(all), "peek all");
        for (int i = 0; i < 3; i++) {
            ServiceBusReceivedMessage message = all.get(i);
            Expect.equal(lives.get(i), message.getTimeToLive(), "time to live of " + Bus.text(message));
            Expect.near(message.getEnqueuedTime().plus(lives.get(i)).toInstant(), message.getRawAmqpMessage().getProperties().getAbsoluteExpiryTime(),
                    Duration.ZERO, "absolute-expiry-time of " + Bus.text(message));
        }
        Bus.outlive(all.get(2).getExpiresAt());
        Bus.nothing(bus.receiver());
        List<ServiceBusReceivedMessage> letters = Bus.receive(bus.deadLetters(), 3);
        Expect.equal(List.of("A", "B", "C"), Bus.texts(letters), "dead letters");
        letters.forEach(Expiring::expired);
        bus.peeks();
    }

    private static void beyond32Bits(Bus bus) {
        ServiceBusMessage message = Bus.message("A");
        AmqpAnnotatedMessage raw = message.getRawAmqpMessage();
        OffsetDateTime now = OffsetDateTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.SECONDS);
        raw.getProperties().setCreationTime(now).setAbsoluteExpiryTime(now.plusDays(60));
        raw.getHeader().setTimeToLive(Duration.ofMillis(4_294_967_295L));
        bus.send(message);

        List<ServiceBusReceivedMessage> peeked = bus.peekAll();
        Expect.equal(List.of("A"), Bus.texts(peeked), "peek all");
        livesSixtyDays(peeked.get(0));
        livesSixtyDays(Bus.receive(bus.receiver(), "A"));
    }

    private static void livesSixtyDays(ServiceBusReceivedMessage message) {
        Expect.near(message.getEnqueuedTime().plusDays(60).toInstant(), message.getRawAmqpMessage().getProperties().getAbsoluteExpiryTime(),
                Duration.ofSeconds(1), "absolute-expiry-time");
    }
}
