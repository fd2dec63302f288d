package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

final class Receiving {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("receive-and-delete", Receiving::andDelete),
            entry("receive-waiting", Receiving::waiting));

    private Receiving() {}

    private static void andDelete(Bus bus) {
        bus.send("A", "B", "C");
        ServiceBusReceiverClient receiver = bus.client().deleting();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 3);
        Expect.equal(List.of("A", "B", "C"), Bus.texts(all), "received");
        for (ServiceBusReceivedMessage message : all) {
            Expect.equal(null, message.getLockedUntil(), "locked until");
        }
        bus.peeks();
        Expect.error(Kind.NOT_ALLOWED, () -> receiver.complete(all.get(0)));
        bus.send("D");
        Bus.receive(receiver, "D");
    }

    private static void waiting(Bus bus) throws Exception {
        record Arrival(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage message, Instant at) {}
        List<ServiceBusReceiverClient> receivers = List.of(bus.receiver(), bus.receiver(), bus.receiver(), bus.receiver());
        for (ServiceBusReceiverClient receiver : receivers) {
            bus.warmUp(receiver);
        }
        List<Future<Arrival>> arrivals = new ArrayList<>();
        for (ServiceBusReceiverClient receiver : receivers) {
            arrivals.add(bus.meanwhile(() -> new Arrival(receiver, Bus.receive(receiver, 1).get(0), Instant.now())));
            Bus.sleep(Duration.ofMillis(500)); // so that its credit is the next to arrive
        }
        bus.send("0", "1", "2", "3");
        Instant sent = Instant.now();
        List<String> texts = new ArrayList<>();
        for (Future<Arrival> arrival : arrivals) {
            Expect.soon(sent, arrival.get().at(), "received");
            texts.add(Bus.text(arrival.get().message()));
            arrival.get().receiver().complete(arrival.get().message());
        }
        Expect.equal(Bus.numbers(4), texts, "received, by receiver");
        bus.peeks();
    }
}
