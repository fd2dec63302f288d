package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

final class Deferring {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("defer-receive", Deferring::receive),
            entry("defer-not-found", Deferring::notFound),
            entry("defer-settle", Deferring::settle),
            entry("defer-lock-expiry", Deferring::lockExpiry));

    private Deferring() {}

    private static void receive(Bus bus) {
        bus.send("A", "B", "C", "D");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 4);
        all.forEach(receiver::defer);
        Bus.nothing(receiver);
        Expect.equal(List.of("A deferred 1", "B deferred 1", "C deferred 1", "D deferred 1"), Bus.states(bus.peekAll()), "peek all");

        List<Long> numbers = Bus.sequenceNumbers(all);
        List<ServiceBusReceivedMessage> both = Bus.receiveDeferred(receiver, numbers.get(2), numbers.get(0));
        Expect.equal(List.of("C", "A"), Bus.texts(both), "received by number");
        for (ServiceBusReceivedMessage message : both) {
            Expect.equal(1L, message.getDeliveryCount(), "delivery count of " + Bus.text(message));
            Expect.that(message.getLockToken() != null, "no lock token");
            Expect.near(Instant.now().plusSeconds(60), message.getLockedUntil(), Duration.ofSeconds(2), "locked until");
        }
        both.forEach(receiver::complete);

        ServiceBusReceiverClient deleting = bus.client().deleting();
        Bus.receiveDeferred(deleting, "D", numbers.get(3));
        Bus.notFound(deleting, numbers.get(3));
        Expect.equal(List.of("B deferred 1"), Bus.states(bus.peekAll()), "peek all");
    }

    private static void notFound(Bus bus) {
        bus.send("A", "B", "C");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        long a = both.get(0).getSequenceNumber();
        long b = both.get(1).getSequenceNumber();
        long c = bus.peekAll().get(2).getSequenceNumber();
        receiver.defer(both.get(0));

        Bus.notFound(receiver, 999_999);
        Bus.notFound(receiver, b);
        Bus.notFound(receiver, c);
        Bus.notFound(receiver, a, 999_999);
        ServiceBusReceivedMessage received = Bus.receiveDeferred(receiver, "A", a);
        Bus.notFound(receiver, a);
        receiver.complete(received);
    }

    private static void settle(Bus bus) {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        both.forEach(receiver::defer);
        Expect.equal(List.of("A deferred 1", "B deferred 1"), Bus.states(bus.peekAll()), "peek all");
        long a = both.get(0).getSequenceNumber();
        long b = both.get(1).getSequenceNumber();

        receiver.abandon(Bus.receiveDeferred(receiver, "A", a));
        Expect.equal(List.of("A deferred 2", "B deferred 1"), Bus.states(bus.peekAll()), "peek all after abandon");
        Bus.nothing(receiver);

        ServiceBusReceivedMessage again = Bus.receiveDeferred(receiver, "A", a);
        Expect.equal(2L, again.getDeliveryCount(), "delivery count");
        receiver.defer(again);
        Expect.equal(List.of("A deferred 3", "B deferred 1"), Bus.states(bus.peekAll()), "peek all after defer");

        both = Bus.receiveDeferred(receiver, a, b);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received by number");
        for (ServiceBusReceivedMessage message : both) {
            Expect.notBefore(message.getLockedUntil(), receiver.renewMessageLock(message).toInstant(), "renewed until");
        }
        receiver.deadLetter(both.get(0), new DeadLetterOptions().setDeadLetterReason("reason"));
        receiver.complete(both.get(1));
        bus.peeks();
        ServiceBusReceivedMessage letter = Bus.receive(bus.deadLetters(), "A", 3);
        Expect.equal("reason", letter.getDeadLetterReason(), "reason");
    }

    private static void lockExpiry(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        receiver.defer(a);
        ServiceBusReceivedMessage locked = Bus.receiveDeferred(receiver, "A", a.getSequenceNumber());
        Duration past = Duration.between(Instant.now(), locked.getLockedUntil().toInstant().plusMillis(100));
        Expect.equal(List.of(), Bus.texts(Bus.call(bus.receiver(), 1, past)), "received by a receiver of the queue");

        Expect.error(Kind.LOCK_LOST, () -> receiver.complete(locked));
        Expect.equal(List.of("A deferred 2"), Bus.states(bus.peekAll()), "peek all");
        receiver.complete(Bus.receiveDeferred(receiver, "A", a.getSequenceNumber()));
        bus.peeks();
    }
}
