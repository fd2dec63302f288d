package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

final class Peeking {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("peek-states", Peeking::states),
            entry("peek-pages", Peeking::pages),
            entry("peek-large", Peeking::large));

    private Peeking() {}

    private static void states(Bus bus) {
        bus.peeks();
        bus.send("L", "D", "A");
        bus.client().sender().scheduleMessage(Bus.message("S"), OffsetDateTime.now().plusHours(1));
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("L", "D"), Bus.texts(both), "received");
        receiver.defer(both.get(1));

        for (int i = 0; i < 2; i++) {
            List<ServiceBusReceivedMessage> all = bus.peekAll();
            Expect.equal(List.of("L active 0", "D deferred 1", "A active 0", "S scheduled 0"), Bus.states(all), "peek all");
            Expect.equal(Bus.sequenceNumbers(all).stream().sorted().distinct().toList(), Bus.sequenceNumbers(all), "numbers");
            for (ServiceBusReceivedMessage message : all) {
                Expect.equal(null, message.getLockToken(), "lock token of " + Bus.text(message));
                Expect.equal(null, message.getLockedUntil(), "locked until of " + Bus.text(message));
            }
        }
        receiver.complete(both.get(0));
        Bus.receive(receiver, "A", 0);
    }

    private static void pages(Bus bus) {
        List<String> texts = Bus.numbers(230);
        bus.sendBatches(Bus.messages(texts));
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        ServiceBusReceiverClient receiver = bus.receiver();
        while (true) {
            List<ServiceBusReceivedMessage> page = receiver.peekMessages(50).stream().toList();
            Expect.between(0, 50, page.size(), "size of a page");
            if (page.isEmpty()) {
                break;
            }
            all.addAll(page);
        }
        Expect.equal(texts, Bus.texts(all), "all pages");

        Expect.equal(List.of("100", "101"), Bus.texts(peek(receiver, 2, all.get(100).getSequenceNumber())), "peek from 100");
        Expect.equal(List.of(), Bus.texts(peek(receiver, 2, all.get(229).getSequenceNumber() + 1)), "peek behind the last");
    }

    private static void large(Bus bus) {
        List<byte[]> bodies = new ArrayList<>();
        for (String subject : Bus.numbers(12)) {
            bodies.add(Sending.random(204_800));
            bus.send(new ServiceBusMessage(bodies.get(bodies.size() - 1)).setSubject(subject));
        }
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        ServiceBusReceiverClient receiver = bus.receiver();
        long next = 0;
        while (true) {
            List<ServiceBusReceivedMessage> page = peek(receiver, 100, next);
            if (page.isEmpty()) {
                break;
            }
            Expect.that(!all.isEmpty() || page.size() < 12, "the first page has all %d", page.size());
            all.addAll(page);
            next = page.get(page.size() - 1).getSequenceNumber() + 1;
        }
        Expect.equal(Bus.numbers(12), all.stream().map(ServiceBusReceivedMessage::getSubject).toList(), "subjects");
        for (int i = 0; i < 12; i++) {
            Expect.equal(bodies.get(i), all.get(i).getBody().toBytes(), "body " + i);
        }
    }

    private static List<ServiceBusReceivedMessage> peek(ServiceBusReceiverClient receiver, int most, long from) {
        return receiver.peekMessages(most, from).stream().toList();
    }
}
