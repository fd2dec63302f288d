package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

final class Credit {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("credit-drain-on-close", Credit::drainOnClose),
            entry("credit-between-calls", Credit::betweenCalls),
            entry("credit-prefetch", Credit::prefetch),
            entry("credit-ten-receivers", Credit::tenReceivers),
            entry("credit-streaming", Credit::streaming));

    private Credit() {}

    private static void drainOnClose(Bus bus) throws Exception {
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> none = Expect.atOnce("receive call", () -> Bus.call(receiver, 10, Duration.ofMillis(200)));
        Expect.equal(List.of(), Bus.texts(none), "received");
        bus.send("A", "B", "C");
        for (long count = 0; count < 5; count++) {
            List<ServiceBusReceivedMessage> all = upToTen(receiver);
            Expect.equal(List.of("A active " + count, "B active " + count, "C active " + count), Bus.states(all).stream().sorted().toList(), "received");
            Collections.reverse(all);
            all.forEach(receiver::abandon);
        }
        upToTen(receiver).forEach(receiver::complete);
        Expect.equal(List.of(), Bus.texts(Bus.call(receiver, 10, Duration.ofMillis(300))), "received");
        receiver.close();

        bus.send("D");
        ServiceBusReceiverClient another = bus.receiver();
        another.complete(Expect.atOnce("receive D", () -> Bus.receive(another, "D", 0)));
        bus.peeks();
    }

    /** Receives up to ten at a time until three are here. */
    private static List<ServiceBusReceivedMessage> upToTen(ServiceBusReceiverClient receiver) {
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        Instant end = Instant.now().plus(Bus.PATIENCE);
        while (all.size() < 3) {
            Expect.that(Instant.now().isBefore(end), "received only %s", Bus.texts(all));
            all.addAll(Bus.call(receiver, 10, Duration.ofSeconds(1)));
        }
        return all;
    }

    private static void betweenCalls(Bus bus) throws Exception {
        ServiceBusReceiverClient first = bus.receiver();
        ServiceBusReceiverClient second = bus.receiver();
        for (String text : Bus.numbers(10)) {
            Expect.equal(List.of(), Bus.texts(Bus.call(first, 10, Duration.ofMillis(200))), "received");
            bus.send(text);
            second.complete(Expect.within(Duration.ofSeconds(7), "receive", () -> Bus.receive(second, text, 0)));
        }
        bus.peeks();
    }

    private static void prefetch(Bus bus) {
        bus.sendBatches(Bus.messages(Bus.numbers(100)));
        ServiceBusReceiverClient receiver = bus.client().prefetching(50);
        List<String> completed = new ArrayList<>(complete(receiver, 10));
        receiver.close();

        completed.addAll(complete(bus.receiver(), 90));
        Expect.equal(Bus.numbers(100).stream().sorted().toList(), completed.stream().sorted().toList(), "completed");
        bus.peeks();
        bus.noDeadLetters();
    }

    /** Completes that many messages, each soon after it came: their locks are short. */
    private static List<String> complete(ServiceBusReceiverClient receiver, int n) {
        List<String> texts = new ArrayList<>();
        Instant end = Instant.now().plus(Bus.PATIENCE);
        while (texts.size() < n) {
            Expect.that(Instant.now().isBefore(end), "received only %d of %d", texts.size(), n);
            for (ServiceBusReceivedMessage message : Bus.call(receiver, n - texts.size(), Duration.ofSeconds(1))) {
                Expect.between(0, 1, message.getDeliveryCount(), "delivery count of " + Bus.text(message));
                receiver.complete(message);
                texts.add(Bus.text(message));
            }
        }
        return texts;
    }

    private static void tenReceivers(Bus bus) throws Exception {
        List<String> texts = Bus.numbers(1000);
        bus.sendBatches(Bus.messages(texts));
        List<String> completed = Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            ServiceBusReceiverClient receiver = i < 5 ? bus.receiver() : bus.another().receiver();
            all.add(bus.meanwhile(() -> {
                while (completed.size() < texts.size()) {
                    for (ServiceBusReceivedMessage message : Bus.call(receiver, 25, Duration.ofSeconds(1))) {
                        Expect.equal(0L, message.getDeliveryCount(), "delivery count of " + Bus.text(message));
                        receiver.complete(message);
                        completed.add(Bus.text(message));
                    }
                }
                return null;
            }));
        }
        for (Future<Void> one : all) {
            one.get();
        }
        Expect.equal(texts.stream().sorted().toList(), completed.stream().sorted().toList(), "completed");
        bus.peeks();
    }

    private static void streaming(Bus bus) throws Exception {
        List<String> texts = Bus.numbers(500);
        List<String> handled = Collections.synchronizedList(new ArrayList<>());
        List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
        ServiceBusProcessorClient loop = bus.client().keep(bus.client().processor().maxConcurrentCalls(20)
                .processMessage(context -> {
                    context.complete();
                    handled.add(Bus.text(context.getMessage()));
                })
                .processError(context -> errors.add(context.getException()))
                .buildProcessorClient());
        loop.start();
        bus.sendBatches(Bus.messages(texts));
        Instant end = Instant.now().plus(Bus.PATIENCE);
        while (handled.size() < texts.size()) {
            Expect.that(Instant.now().isBefore(end), "handled only %d", handled.size());
            Bus.sleep(Duration.ofMillis(20));
        }
        Expect.within(Duration.ofSeconds(5), "closing", () -> {
            loop.close();
            return null;
        });
        Expect.equal(texts.stream().sorted().toList(), handled.stream().sorted().toList(), "handled");
        Expect.equal(List.of(), errors, "errors");
        bus.peeks();
        bus.send("A");
        Bus.receive(bus.receiver(), "A", 0);
    }
}
