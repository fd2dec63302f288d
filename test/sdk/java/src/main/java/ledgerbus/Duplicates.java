package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

final class Duplicates {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("duplicate-dropped", Duplicates::dropped),
            entry("duplicate-scheduled", Duplicates::scheduled),
            entry("duplicate-window", Duplicates::window),
            entry("duplicate-survives-kill", Duplicates::survivesKill));

    private Duplicates() {}

    private static ServiceBusMessage message(String text, String id) {
        return Bus.message(text).setMessageId(id);
    }

    private static void dropped(Bus bus) {
        ServiceBusMessage x = message("X", "1");
        x.getApplicationProperties().put("colour", "red");
        bus.send(message("A", "1"), x, message("B", "2"));
        bus.peeks("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.complete(Bus.receive(receiver, "A"));
        receiver.deadLetter(Bus.receive(receiver, "B"));

        bus.sendBatch(message("Y", "1"), message("C", "3"), message("Z", "2"), message("W", "3"));
        bus.send(message("V", "3"));
        Bus.receive(receiver, "C");
        Bus.nothing(receiver);
        bus.peeks("C");
        ServiceBusReceiverClient dead = bus.deadLetters();
        Bus.receive(dead, "B");
        Bus.nothing(dead);
    }

    private static void scheduled(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        OffsetDateTime t = Scheduling.in(Duration.ofSeconds(4));
        sender.scheduleMessage(message("A", "1"), t);
        sender.sendMessage(message("X", "1"));
        sender.sendMessage(message("B", "2"));
        sender.scheduleMessage(message("Y", "2"), t);

        Bus.receive(receiver, "B");
        Bus.receive(receiver, "A");
        Bus.nothing(receiver);
        bus.peeks("B", "A"); // A has got its number when it became active
    }

    private static void window(Bus bus) throws Exception {
        bus.send(message("A", "1"));
        Instant first = Instant.now();
        Bus.sleep(Duration.ofSeconds(10));
        bus.send(message("X", "1"));
        bus.peeks("A");
        Bus.sleep(Duration.between(Instant.now(), first.plusSeconds(21)));
        bus.send(message("B", "1"));
        bus.peeks("A", "B");
    }

    private static void survivesKill(Bus bus) {
        bus.stubborn();
        bus.send(message("A", "1"), message("B", "2"));
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.complete(Bus.receive(receiver, "A"));
        bus.control.kill();
        bus.send(message("X", "1"), message("Y", "2"), message("C", "3"));
        bus.peeks("B", "C");
    }
}
