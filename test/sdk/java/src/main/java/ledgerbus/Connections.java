package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

final class Connections {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("connection-wrong-key", Connections::wrongKey),
            entry("connection-idle", Connections::idle),
            entry("connection-idle-links", Connections::idleLinks),
            entry("connection-detached", Connections::detached),
            entry("connection-cut-send", Connections::cutSend),
            entry("connection-cut-waiting", Connections::cutWaiting),
            entry("connection-cut-lock", Connections::cutLock),
            entry("connection-cut-receive-and-delete", Connections::cutReceiveAndDelete),
            entry("connection-kill-between-calls", Connections::killBetweenCalls),
            entry("connection-kill-locks", Connections::killLocks),
            entry("connection-kill-under-load", bus -> new Load(bus).run()));

    /** After which no message comes any more: two seconds, and four that the SDK waits before it connects again. */
    private static final Duration SILENCE = Duration.ofSeconds(6);

    private Connections() {}

    private static void wrongKey(Bus bus) {
        Client wrong = bus.withKey("RootManageSharedAccessKey", "d3Jvbmc=");
        Expect.error(Kind.UNAUTHORIZED, () -> wrong.sender().sendMessage(Bus.message("A")));
        Expect.error(Kind.UNAUTHORIZED, () -> Bus.receive(wrong.receiver(), 1));
        Expect.error(Kind.UNAUTHORIZED, () -> Bus.peekAll(wrong.receiver()));
        bus.send("B");
        ServiceBusReceiverClient receiver = bus.receiver();
        Bus.receive(receiver, "B");
        Bus.nothing(receiver);
    }

    private static void idle(Bus bus) throws Exception {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.send("A");
        receiver.complete(Bus.receive(receiver, "A"));
        Expect.equal(List.of(), Bus.texts(Bus.call(receiver, 1, Duration.ofSeconds(65))), "received");
        bus.send("B");
        receiver.complete(Expect.atOnce("receive B", () -> Bus.receive(receiver, "B", 0)));
    }

    /** Has sender, receiver and peek do something, whatever became of their links. */
    private static void goOn(Bus bus, ServiceBusReceiverClient receiver, String text) throws Exception {
        Sender sender = bus.client().sender();
        Bus.insist(() -> sender.sendMessage(Bus.message(text)));
        ServiceBusReceivedMessage message = Bus.insist(() -> Bus.receive(receiver, text));
        Bus.insist(() -> receiver.complete(message));
        Expect.equal(List.of(), Bus.texts(Bus.insist(() -> receiver.peekMessages(1).stream().toList())), "peek");
    }

    private static void idleLinks(Bus bus) throws Exception {
        bus.stubborn();
        bus.control.restart("{\"limits\": {\"link-idle\": \"2s\", \"no-links\": \"2s\"}}");
        ServiceBusReceiverClient receiver = bus.receiver();
        goOn(bus, receiver, "A");
        Bus.sleep(Duration.ofSeconds(3)); // without links
        goOn(bus, receiver, "B");
        Bus.sleep(Duration.ofSeconds(6)); // the SDK opens a link of its receiver again whenever it is detached
        bus.control.cut();
        goOn(bus, receiver, "C");
        bus.control.kill(); // which takes the settings back
    }

    private static void detached(Bus bus) throws Exception {
        bus.stubborn();
        ServiceBusReceiverClient receiver = bus.receiver();
        goOn(bus, receiver, "A");
        update(bus, 20);
        goOn(bus, receiver, "B");
        bus.control.restart();
        goOn(bus, receiver, "C");
        waitThrough(bus, receiver, () -> update(bus, 30), bus.client(), "D");
        waitThrough(bus, receiver, bus.control::restart, bus.client(), "E");
        bus.peeks();
    }

    private static void update(Bus bus, int maxDeliveryCount) {
        bus.admin().updateQueue(bus.admin().getQueue(bus.queue).setMaxDeliveryCount(maxDeliveryCount));
    }

    /** Has a receiver wait while something happens, which costs it its link or connection. It gets what is sent then. */
    private static void waitThrough(Bus bus, ServiceBusReceiverClient receiver, Runnable happens, Client sender, String text) throws Exception {
        Future<ServiceBusReceivedMessage> waiting = bus.meanwhile(() -> Bus.insist(() -> Bus.receive(receiver, text)));
        Bus.sleep(Duration.ofMillis(500));
        happens.run();
        ServiceBusReceivedMessage message = Expect.within(Duration.ofSeconds(20), "receive " + text, () -> {
            Bus.insist(() -> sender.sender().sendMessage(Bus.message(text)));
            return waiting.get();
        });
        Bus.insist(() -> receiver.complete(message));
    }

    private static void cutSend(Bus bus) throws Exception {
        bus.stubborn();
        List<String> texts = Bus.numbers(300);
        Sender sender = bus.client().sender();
        for (int i = 0; i < texts.size(); i++) {
            if (i == 100 || i == 200) {
                bus.control.cut();
            }
            String text = texts.get(i);
            Bus.insist(() -> sender.sendMessage(Bus.message(text)));
        }
        ServiceBusReceiverClient receiver = bus.client().deleting();
        Set<String> received = new HashSet<>();
        for (List<ServiceBusReceivedMessage> some = next(receiver); !some.isEmpty(); some = next(receiver)) {
            received.addAll(Bus.texts(some));
        }
        Expect.equal(new HashSet<>(texts), received, "received");
    }

    /** What comes until it is quiet. */
    private static List<ServiceBusReceivedMessage> next(ServiceBusReceiverClient receiver) throws Exception {
        return Bus.insist(() -> Bus.call(receiver, 50, SILENCE));
    }

    private static void cutWaiting(Bus bus) throws Exception {
        bus.stubborn();
        waitThrough(bus, bus.receiver(), bus.control::cut, bus.another(), "A");
        bus.peeks();
    }

    private static void cutLock(Bus bus) throws Exception {
        bus.stubborn();
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        bus.control.cut();
        Bus.nothing(bus.another().receiver());
        Expect.within(Duration.ofSeconds(20), "complete A", () -> {
            Bus.insist(() -> receiver.complete(a));
            return null;
        });
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void cutReceiveAndDelete(Bus bus) throws Exception {
        bus.stubborn();
        bus.sendBatches(Bus.messages(Bus.numbers(500)));
        ServiceBusReceiverClient receiver = bus.client().deleting();
        List<String> received = new ArrayList<>();
        int cuts = 0;
        while (true) {
            Future<List<ServiceBusReceivedMessage>> call = bus.meanwhile(() -> next(receiver));
            if (cuts < 3 && received.size() >= 100 * (cuts + 1)) {
                bus.control.cut();
                cuts++;
            }
            if (call.get().isEmpty()) {
                break;
            }
            received.addAll(Bus.texts(call.get()));
        }
        Expect.equal(received.stream().distinct().toList(), received, "each text once");
        Expect.above(0, cuts, "cuts");
        bus.peeks();
    }

    private static void killBetweenCalls(Bus bus) throws Exception {
        bus.stubborn();
        ServiceBusReceiverClient receiver = bus.receiver();
        for (String text : List.of("A", "B", "C")) {
            if (!text.equals("A")) {
                bus.control.kill();
            }
            goOn(bus, receiver, text);
        }
    }

    private static void killLocks(Bus bus) throws Exception {
        bus.stubborn();
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        bus.control.kill();
        ServiceBusReceiverClient another = bus.another().receiver();
        Bus.nothing(another);
        Bus.insist(() -> receiver.complete(both.get(0)));
        Expect.that(Instant.now().isBefore(both.get(1).getLockedUntil().toInstant()), "completed too late to show anything");

        ServiceBusReceivedMessage b = Bus.receive(another, "B", 1);
        Expect.at(both.get(1).getLockedUntil(), Instant.now(), "B received");
        another.complete(b);
        bus.peeks();
        bus.noDeadLetters();
    }

    /** Senders and receivers that go on while the broker is killed twice. */
    private static final class Load {
        private static final int MESSAGES = 200; // of each sender

        private final Bus bus;
        private final Set<String> received = ConcurrentHashMap.newKeySet();
        private final Set<Long> completed = ConcurrentHashMap.newKeySet(); // numbers: the SDK sends a text twice on its own
        private final Set<Long> back = ConcurrentHashMap.newKeySet();
        private final AtomicInteger acknowledged = new AtomicInteger();
        private final AtomicBoolean over = new AtomicBoolean();

        Load(Bus bus) {
            this.bus = bus;
        }

        void run() throws Exception {
            bus.stubborn();
            Instant end = Instant.now().plusSeconds(60);
            List<Future<Void>> senders = List.of(bus.meanwhile(() -> send("a")), bus.meanwhile(() -> send("b")));
            List<Future<Void>> receivers = List.of(bus.meanwhile(this::receive), bus.meanwhile(this::receive));
            for (int bound : List.of(100, 250)) {
                while (acknowledged.get() < bound) {
                    Expect.that(Instant.now().isBefore(end), "only %d sends were acknowledged", acknowledged.get());
                    Bus.sleep(Duration.ofMillis(1));
                }
                bus.control.kill();
            }
            for (Future<Void> sender : senders) {
                sender.get();
            }
            for (List<ServiceBusReceivedMessage> rest = rest(); !rest.isEmpty(); rest = rest()) {
                for (Future<Void> receiver : receivers) {
                    if (receiver.isDone()) {
                        receiver.get(); // which says why
                    }
                }
                Expect.that(Instant.now().isBefore(end), "not empty after 60 s: %s; %d completed", Bus.states(rest), completed.size());
                Bus.sleep(Duration.ofMillis(100));
            }
            over.set(true);
            for (Future<Void> receiver : receivers) {
                receiver.get();
            }
            Set<String> missing = new HashSet<>();
            for (int i = 0; i < MESSAGES; i++) {
                missing.addAll(List.of("a" + i, "b" + i));
            }
            missing.removeAll(received);
            Expect.equal(Set.of(), missing, "acknowledged and not received");
            Expect.equal(Set.of(), back, "numbers received after their complete was acknowledged");
            bus.noDeadLetters();
        }

        private List<ServiceBusReceivedMessage> rest() throws Exception {
            return Bus.insist(() -> bus.peekAll());
        }

        private Void send(String name) throws Exception {
            Sender sender = bus.another().sender();
            for (int i = 0; i < MESSAGES; i++) {
                String text = name + i;
                Bus.insist(() -> sender.sendMessage(Bus.message(text)));
                acknowledged.incrementAndGet();
            }
            return null;
        }

        private Void receive() throws Exception {
            ServiceBusReceiverClient receiver = bus.another().receiver();
            while (!over.get()) {
                for (ServiceBusReceivedMessage message : Bus.insist(() -> Bus.call(receiver, 10, Duration.ofSeconds(1)))) {
                    if (completed.contains(message.getSequenceNumber())) {
                        back.add(message.getSequenceNumber());
                    }
                    received.add(Bus.text(message));
                    complete(receiver, message);
                }
            }
            return null;
        }

        /** A complete that fails is left: the message comes back. */
        private void complete(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage message) {
            try {
                receiver.complete(message);
            } catch (ServiceBusException e) {
                return;
            }
            completed.add(message.getSequenceNumber());
        }
    }
}
