package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** The group status-quota. */
final class Limits {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("status-send-disabled", Limits::sendDisabled),
            entry("status-receive-disabled", Limits::receiveDisabled),
            entry("status-change", Limits::statusChange),
            entry("quota-message-size", Limits::messageSize),
            entry("quota-queue-full", Limits::queueFull),
            entry("quota-ids", Limits::ids),
            entry("quota-header", Limits::header));

    private Limits() {}

    private static void sendDisabled(Bus bus) {
        Expect.error(Kind.DISABLED, () -> bus.send("A"));
        Bus.nothing(bus.receiver());
        bus.peeks();
    }

    private static void receiveDisabled(Bus bus) {
        bus.send("A");
        Expect.error(Kind.DISABLED, () -> Bus.receive(bus.receiver(), 1));
        Expect.error(Kind.DISABLED, bus::peekAll);
        Expect.error(Kind.DISABLED, () -> Bus.receive(bus.deadLetters(), 1));
    }

    private static void statusChange(Bus bus) {
        bus.stubborn();
        bus.send("A", "B");
        bus.control.kill(bus.queue, "ReceiveDisabled");
        bus.send("C");
        Expect.error(Kind.DISABLED, () -> Bus.receive(bus.receiver(), 1));
        Expect.error(Kind.DISABLED, bus::peekAll);
        Expect.error(Kind.DISABLED, () -> Bus.receive(bus.deadLetters(), 1));

        bus.control.kill(bus.queue, "SendDisabled");
        Expect.error(Kind.DISABLED, () -> bus.send("D"));
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.complete(Bus.receive(receiver, "A"));
        bus.peeks("B", "C");

        bus.control.kill(bus.queue, "Disabled");
        Expect.error(Kind.DISABLED, () -> bus.send("E"));
        Expect.error(Kind.DISABLED, () -> Bus.receive(bus.receiver(), 1));
        Expect.error(Kind.DISABLED, bus::peekAll);

        bus.control.kill(bus.queue, "Active");
        ServiceBusReceiverClient again = bus.receiver(); // the first ended with its refusal
        again.complete(Bus.receive(again, "B"));
        again.complete(Bus.receive(again, "C"));
        bus.send("F");
        Bus.receive(again, "F");
    }

    private static void messageSize(Bus bus) {
        for (int i = 0; i < 2; i++) {
            Expect.error(Kind.TOO_LARGE, () -> bus.send(new ServiceBusMessage(new byte[300_000])));
            bus.send("small");
        }
        ServiceBusReceiverClient receiver = bus.receiver();
        Expect.equal(List.of("small", "small"), Bus.texts(Bus.receive(receiver, 2)), "received");
        Bus.nothing(receiver);
    }

    private static void queueFull(Bus bus) throws Exception {
        int accepted = 0;
        try {
            for (; accepted < 10; accepted++) {
                sendLarge(bus);
            }
        } catch (ServiceBusException e) {
            isFull(e);
        }
        Expect.between(4, 7, accepted, "messages accepted");

        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.deadLetter(Bus.receive(receiver, 1).get(0));
        try {
            sendLarge(bus);
            throw new Failure("a full queue takes a message");
        } catch (ServiceBusException e) {
            isFull(e);
        }

        Bus.receive(receiver, accepted - 1).forEach(receiver::complete);
        ServiceBusReceiverClient dead = bus.deadLetters();
        dead.complete(Bus.receive(dead, 1).get(0));
        Instant end = Instant.now().plusSeconds(5);
        while (true) {
            try {
                sendLarge(bus);
                return;
            } catch (RuntimeException e) {
                Expect.that(Kind.QUEUE_FULL.test(e) && Instant.now().isBefore(end), "a queue that was emptied takes nothing: %s", e);
                Bus.sleep(Duration.ofMillis(100));
            }
        }
    }

    private static void isFull(ServiceBusException error) {
        for (String text : List.of("The maximum entity size has been reached or exceeded for Queue", "Max entity size in bytes")) {
            Expect.error(Kind.QUEUE_FULL, text, () -> {
                throw error;
            });
        }
    }

    private static void sendLarge(Bus bus) {
        bus.send(new ServiceBusMessage(new byte[200_000]));
    }

    private static void ids(Bus bus) {
        String longest = "i".repeat(128);
        String longer = "i".repeat(129);
        bus.send(Bus.message("A").setMessageId(longest).setSessionId(longest).setPartitionKey(longest).setReplyToSessionId(longest));
        Expect.error(Kind.ARGUMENT, () -> bus.send(Bus.message("B").setMessageId(longer)));
        Expect.error(Kind.ARGUMENT, () -> bus.send(Bus.message("B").setSessionId(longer)));
        Expect.error(Kind.ARGUMENT, () -> bus.send(Bus.message("B").setPartitionKey(longer)));
        Expect.error(Kind.ARGUMENT, () -> bus.send(Bus.message("B").setReplyToSessionId(longer)));

        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.equal(List.of(longest, longest, longest, longest),
                List.of(a.getMessageId(), a.getSessionId(), a.getPartitionKey(), a.getReplyToSessionId()), "ids");
        Bus.nothing(receiver);
    }

    private static void header(Bus bus) {
        bus.send(withProperties("A", 3, 16_000));
        Expect.error(Kind.ARGUMENT, () -> bus.send(withProperties("B", 1, 33_000)));
        Expect.error(Kind.TOO_LARGE, "The size quota for this stream (65536) has been exceeded", () -> bus.send(withProperties("C", 5, 16_000)));

        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.equal(withProperties("A", 3, 16_000).getApplicationProperties(), a.getApplicationProperties(), "application properties");
        Bus.nothing(receiver);
    }

    private static ServiceBusMessage withProperties(String text, int n, int letters) {
        ServiceBusMessage message = Bus.message(text);
        for (int i = 0; i < n; i++) {
            message.getApplicationProperties().put("p" + i, "x".repeat(letters));
        }
        return message;
    }
}
