package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

final class Locks {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("lock-renew", Locks::renew),
            entry("lock-auto-renew", Locks::autoRenew),
            entry("lock-expiry", Locks::expiry),
            entry("lock-closed-receiver", Locks::closedReceiver),
            entry("lock-token-elsewhere", Locks::tokenElsewhere),
            entry("lock-max-delivery", Locks::maxDelivery));

    private static final Duration LOCK = Duration.ofSeconds(5);
    private static final Duration TOLERANCE = Duration.ofSeconds(2);

    private Locks() {}

    private static void renew(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient first = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(first, "A");
        Instant received = Instant.now();
        OffsetDateTime t1 = a.getLockedUntil();
        Expect.near(received.plus(LOCK), t1, TOLERANCE, "locked until");

        Bus.sleep(Duration.ofMillis(2500));
        Expect.near(Instant.now().plus(LOCK), first.renewMessageLock(a), TOLERANCE, "renewed until");

        Bus.sleep(Duration.ofMillis(2500));
        Client another = bus.another();
        Expect.near(Instant.now().plus(LOCK), another.receiver().renewMessageLock(a), TOLERANCE, "renewed elsewhere until");

        Bus.outlive(t1);
        Bus.nothing(another.receiver());
        first.complete(a);
        bus.peeks();
    }

    private static void autoRenew(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.client().renewing(Duration.ofMinutes(1));
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        List<ServiceBusReceivedMessage> elsewhere = Bus.call(bus.another().receiver(), 1, Duration.ofSeconds(7));
        receiver.complete(a);
        Expect.equal(List.of(), Bus.texts(elsewhere), "received by another client");
        bus.peeks();
    }

    private static void expiry(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient first = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(first, "A");

        ServiceBusReceiverClient second = bus.another().receiver();
        ServiceBusReceivedMessage again = Bus.receive(second, "A", 1);
        Expect.at(a.getLockedUntil(), Instant.now(), "received again");
        Expect.equal(a.getSequenceNumber(), again.getSequenceNumber(), "number");
        Expect.different(a.getLockToken(), again.getLockToken(), "lock token");

        Expect.error(Kind.LOCK_LOST, () -> first.complete(a)); // once: while the SDK forgets the delivery it sends nothing more for it, and waits
        Expect.error(Kind.LOCK_LOST, () -> first.renewMessageLock(a));

        second.complete(again);
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void closedReceiver(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient first = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(first, "A");
        first.close();

        ServiceBusReceiverClient other = bus.another().receiver();
        Bus.nothing(other);
        ServiceBusReceivedMessage again = Bus.receive(other, "A", 1);
        Expect.at(a.getLockedUntil(), Instant.now(), "received again");

        Expect.error(Kind.LOCK_LOST, () -> other.complete(a));
        other.complete(again);
        bus.peeks();
    }

    private static void tokenElsewhere(Bus bus) {
        Client holder = bus.another();
        bus.send("A", "B", "C", "D");
        ServiceBusReceiverClient first = holder.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(first, 4);
        Expect.equal(List.of("A", "B", "C", "D"), Bus.texts(all), "received");
        first.close();
        holder.close();

        ServiceBusReceiverClient other = bus.another().receiver();
        bus.warmUp(other); // else it may have no link yet to settle on
        Bus.nothing(other);
        other.complete(all.get(0));
        other.abandon(all.get(1));
        other.defer(all.get(2));
        other.deadLetter(all.get(3), new DeadLetterOptions().setDeadLetterReason("reason"));

        Bus.receive(other, "B", 1);
        Expect.equal(List.of("B active 1", "C deferred 1"), Bus.states(bus.peekAll()), "peek all");
        ServiceBusReceivedMessage d = Bus.receive(bus.deadLetters(), "D");
        Expect.equal("reason", d.getDeadLetterReason(), "reason");
    }

    private static void maxDelivery(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        for (int count = 0; count < 3; count++) {
            receiver.abandon(Bus.receive(receiver, "A", count));
        }
        Bus.nothing(receiver);
        bus.peeks();

        ServiceBusReceivedMessage a = Bus.receive(bus.deadLetters(), "A", 3);
        Expect.equal("MaxDeliveryCountExceeded", a.getDeadLetterReason(), "reason");
        Expect.equal("Message could not be consumed after 3 delivery attempts.", a.getDeadLetterErrorDescription(), "description");
    }
}
