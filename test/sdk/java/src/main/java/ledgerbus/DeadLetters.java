package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Instant;
import java.util.List;
import java.util.Map;

final class DeadLetters {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("dead-letter-reason", DeadLetters::reason),
            entry("dead-letter-count-frozen", DeadLetters::countFrozen),
            entry("dead-letter-not-twice", DeadLetters::notTwice),
            entry("dead-letter-defer", DeadLetters::defer),
            entry("dead-letter-paths", DeadLetters::paths));

    private DeadLetters() {}

    private static void reason(Bus bus) {
        ServiceBusMessage message = Bus.message("A").setMessageId("id");
        message.getApplicationProperties().put("colour", "red");
        bus.send(message, Bus.message("B"));
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        receiver.deadLetter(both.get(0), new DeadLetterOptions().setDeadLetterReason("reason").setDeadLetterErrorDescription("description"));
        receiver.deadLetter(both.get(1));
        Bus.nothing(receiver);
        bus.peeks();

        ServiceBusReceiverClient dead = bus.deadLetters();
        List<ServiceBusReceivedMessage> letters = Bus.receive(dead, 2);
        Expect.equal(List.of("A active 0", "B active 0"), Bus.states(letters), "dead letters");
        ServiceBusReceivedMessage a = letters.get(0);
        Expect.equal("reason", a.getDeadLetterReason(), "reason of A");
        Expect.equal("description", a.getDeadLetterErrorDescription(), "description of A");
        Expect.equal(Map.of("colour", "red", "DeadLetterReason", "reason", "DeadLetterErrorDescription", "description"),
                a.getApplicationProperties(), "application properties of A");
        Expect.equal("id", a.getMessageId(), "message id of A");
        Expect.equal(both.get(0).getSequenceNumber(), a.getSequenceNumber(), "number of A");
        Expect.equal(both.get(0).getEnqueuedTime(), a.getEnqueuedTime(), "enqueued time of A");
        ServiceBusReceivedMessage b = letters.get(1);
        Expect.equal(Map.of(), b.getApplicationProperties(), "application properties of B");
        Expect.equal(null, b.getDeadLetterReason(), "reason of B");
        Expect.equal(null, b.getDeadLetterErrorDescription(), "description of B");

        bus.send(Bus.message(Bus.text(a)).setMessageId(a.getMessageId()));
        letters.forEach(dead::complete);
        bus.noDeadLetters();

        ServiceBusReceivedMessage again = Bus.receive(receiver, "A", 0);
        Expect.equal("id", again.getMessageId(), "message id of the copy");
        Expect.above(a.getSequenceNumber(), again.getSequenceNumber(), "number of the copy");
        Expect.equal(null, again.getDeadLetterReason(), "reason of the copy");
    }

    private static void countFrozen(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.abandon(Bus.receive(receiver, "A"));
        receiver.deadLetter(Bus.receive(receiver, "A"));

        ServiceBusReceiverClient dead = bus.deadLetters();
        for (int i = 0; i < 4; i++) {
            dead.abandon(Bus.receive(dead, "A", 1));
        }
        ServiceBusReceivedMessage a = Bus.receive(dead, "A", 1);
        ServiceBusReceiverClient second = bus.deadLetters();
        ServiceBusReceivedMessage again = Bus.receive(second, "A", 1);
        Expect.at(a.getLockedUntil(), Instant.now(), "received again");
        second.complete(again);
    }

    private static void notTwice(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage a = Bus.receive(dead, "A");
        // On its own link the SDK takes any rejection for the outcome that it asked for; another receiver is told what it really was.
        Expect.error(Kind.NOT_ALLOWED, () -> bus.deadLetters().deadLetter(a));
        dead.deadLetter(a);
        bus.peeksDeadLetters("A");
        Bus.nothing(bus.deadLetters());
    }

    private static void defer(Bus bus) {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        Bus.receive(receiver, 2).forEach(receiver::deadLetter);
        Expect.equal(List.of("A active 0", "B active 0"), Bus.states(bus.peekAllDeadLetters()), "peek all of the dead letters");

        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage a = Bus.receive(dead, "A");
        Expect.that(dead.renewMessageLock(a).isAfter(a.getLockedUntil()), "renewed until no later than %s", a.getLockedUntil());
        dead.defer(a);
        ServiceBusReceivedMessage b = Bus.receive(dead, "B");
        Expect.equal(List.of("A deferred 0", "B active 0"), Bus.states(bus.peekAllDeadLetters()), "peek all of the dead letters");

        dead.complete(Bus.receiveDeferred(dead, "A", a.getSequenceNumber()));
        dead.complete(b);
        bus.peeksDeadLetters();
    }

    private static void paths(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        for (String path : List.of("dead-letter-paths/$DeadLetterQueue", "DEAD-LETTER-PATHS/$deadletterqueue")) {
            ServiceBusReceiverClient dead = bus.client().queue(path).receiver();
            dead.abandon(Bus.receive(dead, "A"));
        }
        Expect.error(Kind.NOT_ALLOWED, () -> bus.client().sender("dead-letter-paths/$DeadLetterQueue").sendMessage(Bus.message("B")));
        bus.peeksDeadLetters("A");
    }
}
