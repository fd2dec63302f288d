package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.util.List;
import java.util.Map;

final class Settling {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("settle-twice", Settling::twice),
            entry("settle-four-ways", Settling::fourWays),
            entry("settle-properties", Settling::properties),
            entry("settle-survives-kill", Settling::survivesKill));

    private Settling() {}

    private static void twice(Bus bus) {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        receiver.complete(a);
        Expect.error(Kind.SETTLED, () -> receiver.complete(a));
        Expect.error(Kind.SETTLED, () -> receiver.abandon(a));
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void fourWays(Bus bus) {
        bus.send("A", "B", "C", "D", "E");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 4);
        Expect.equal(List.of("A active 0", "B active 0", "C active 0", "D active 0"), Bus.states(all), "received");
        receiver.deadLetter(all.get(3));
        receiver.defer(all.get(2));
        receiver.abandon(all.get(1));
        receiver.complete(all.get(0));

        ServiceBusReceivedMessage b = Bus.receive(receiver, "B", 1);
        Expect.equal(all.get(1).getSequenceNumber(), b.getSequenceNumber(), "number");
        ServiceBusReceivedMessage e = Bus.receive(receiver, "E", 0);
        receiver.abandon(b);
        receiver.abandon(e);

        Expect.equal(List.of("B active 2", "C deferred 1", "E active 1"), Bus.states(bus.peekAll()), "peek all");
        Bus.receive(bus.deadLetters(), "D", 0);
    }

    private static void properties(Bus bus) {
        ServiceBusMessage message = Bus.message("A");
        message.getApplicationProperties().putAll(Map.of("colour", "red", "size", 1));
        bus.send(message);
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.abandon(Bus.receive(receiver, "A"), new AbandonOptions().setPropertiesToModify(Map.of("size", 2, "why", "again")));

        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.equal(Map.of("colour", "red", "size", 2, "why", "again"), a.getApplicationProperties(), "properties after abandon");
        receiver.defer(a, new DeferOptions().setPropertiesToModify(Map.of("why", "later")));

        a = Bus.receiveDeferred(receiver, "A", a.getSequenceNumber());
        Expect.equal(Map.of("colour", "red", "size", 2, "why", "later"), a.getApplicationProperties(), "properties after defer");
        receiver.deadLetter(a, new DeadLetterOptions().setDeadLetterReason("reason").setDeadLetterErrorDescription("description")
                .setPropertiesToModify(Map.of("why", "last", "added", 3)));

        a = Bus.receive(bus.deadLetters(), "A");
        Expect.equal("reason", a.getDeadLetterReason(), "reason");
        Expect.equal("description", a.getDeadLetterErrorDescription(), "description");
        Expect.equal(Map.of("colour", "red", "size", 2, "why", "last", "added", 3, "DeadLetterReason", "reason",
                "DeadLetterErrorDescription", "description"), a.getApplicationProperties(), "properties after dead-letter");
    }

    private static void survivesKill(Bus bus) {
        bus.stubborn();
        for (String text : List.of("A", "B", "C", "D", "E")) {
            ServiceBusMessage message = Bus.message(text);
            message.getApplicationProperties().put("own", text);
            bus.send(message);
        }
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 4);
        Expect.equal(List.of("A", "B", "C", "D"), Bus.texts(all), "received");
        receiver.complete(all.get(0));
        receiver.abandon(all.get(1));
        receiver.defer(all.get(2));
        receiver.deadLetter(all.get(3), new DeadLetterOptions().setDeadLetterReason("reason"));
        List<ServiceBusReceivedMessage> before = bus.peekAll();
        bus.control.kill();

        List<ServiceBusReceivedMessage> after = bus.peekAll();
        Expect.equal(List.of("B active 1", "C deferred 1", "E active 0"), Bus.states(after), "peek all");
        Expect.equal(before.stream().map(Settling::identity).toList(), after.stream().map(Settling::identity).toList(), "peek all before and after");
        ServiceBusReceivedMessage d = Bus.receive(bus.deadLetters(), "D");
        Expect.equal("reason", d.getDeadLetterReason(), "reason");

        receiver.complete(Bus.receive(receiver, "B"));
        receiver.complete(Bus.receive(receiver, "E"));
        receiver.complete(Bus.receiveDeferred(receiver, "C", all.get(2).getSequenceNumber()));
        bus.peeks();
        bus.control.kill();
        bus.peeks();
    }

    /** The parts of a message that must survive. */
    private static List<Object> identity(ServiceBusReceivedMessage m) {
        return List.of(Bus.text(m), m.getState(), m.getDeliveryCount(), m.getSequenceNumber(), m.getEnqueuedTime(), m.getMessageId(),
                m.getApplicationProperties());
    }
}
