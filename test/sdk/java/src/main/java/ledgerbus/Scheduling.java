package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

final class Scheduling {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("schedule-property", Scheduling::property),
            entry("schedule-call", Scheduling::call),
            entry("schedule-cancel", Scheduling::cancel),
            entry("schedule-time-to-live", Scheduling::timeToLive),
            entry("schedule-survives-kill", Scheduling::survivesKill));

    private Scheduling() {}

    /** Milliseconds are all that a message can carry. */
    static OffsetDateTime in(Duration duration) {
        Instant time = Instant.ofEpochMilli(Instant.now().plus(duration).toEpochMilli());
        return time.atOffset(ZoneOffset.UTC);
    }

    private static void enqueuedFrom(OffsetDateTime time, ServiceBusReceivedMessage message) {
        Expect.notBefore(time, message.getEnqueuedTime().toInstant(), "enqueued time of " + Bus.text(message));
    }

    private static void property(Bus bus) throws Exception {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        OffsetDateTime t = in(Duration.ofSeconds(4));
        sender.sendMessage(Bus.message("A").setScheduledEnqueueTime(t));
        sender.sendMessage(Bus.message("B").setScheduledEnqueueTime(in(Duration.ofHours(-1))));
        sender.scheduleMessage(Bus.message("C"), in(Duration.ofHours(-1)));

        List<ServiceBusReceivedMessage> both = Expect.atOnce("receive 2", () -> Bus.receive(receiver, 2));
        Expect.equal(List.of("B active 0", "C active 0"), Bus.states(both), "received");
        Bus.nothing(receiver);
        List<ServiceBusReceivedMessage> peeked = bus.peekAll();
        Expect.equal(List.of("A scheduled 0", "B active 0", "C active 0"), Bus.states(peeked), "peek all");

        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Expect.at(t, Instant.now(), "received");
        Expect.equal(List.of("A scheduled 0"), Bus.states(List.of(a)), "received");
        enqueuedFrom(t, a);
    }

    private static void call(Bus bus) {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        OffsetDateTime t = in(Duration.ofSeconds(4));
        List<Long> numbers = schedule(bus, t, "A", "B");
        Expect.equal(2, numbers.size(), "numbers");
        Expect.above(numbers.get(0), numbers.get(1), "second number");

        List<ServiceBusReceivedMessage> peeked = bus.peekAll();
        Expect.equal(List.of("A scheduled 0", "B scheduled 0"), Bus.states(peeked), "peek all");
        Expect.equal(numbers, Bus.sequenceNumbers(peeked), "numbers of peek all");
        Bus.nothing(receiver);

        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Expect.at(t, Instant.now(), "received");
        Expect.equal(List.of("A", "B"), Bus.texts(both), "received");
        for (ServiceBusReceivedMessage message : both) {
            Expect.above(numbers.get(1), message.getSequenceNumber(), "number of " + Bus.text(message));
            enqueuedFrom(t, message);
        }
    }

    /** Schedules messages in one call. */
    private static List<Long> schedule(Bus bus, OffsetDateTime time, String... texts) {
        List<Long> numbers = new ArrayList<>();
        bus.client().sender().scheduleMessages(Bus.messages(List.of(texts)), time).forEach(numbers::add);
        return numbers;
    }

    private static void cancel(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        List<Long> numbers = schedule(bus, in(Duration.ofSeconds(4)), "A", "B");
        sender.cancelScheduledMessage(numbers.get(0));
        bus.peeks("B");
        // The answer message-not-found is no error to this SDK.
        cancelNothing(bus, numbers.get(0));
        cancelNothing(bus, 999_999);
        bus.peeks("B");

        Bus.receive(receiver, "B");
        Bus.nothing(receiver);
        cancelNothing(bus, numbers.get(1));
        bus.peeks("B");
    }

    private static void cancelNothing(Bus bus, long number) {
        try {
            bus.client().sender().cancelScheduledMessage(number);
        } catch (RuntimeException e) {
            Expect.that(Kind.MESSAGE_NOT_FOUND.test(e), "cancel %d: want error %s or none, got %s", number, Kind.MESSAGE_NOT_FOUND, e);
        }
    }

    private static void timeToLive(Bus bus) {
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        OffsetDateTime t = in(Duration.ofSeconds(4));
        bus.send(Bus.message("A").setScheduledEnqueueTime(t).setTimeToLive(Duration.ofSeconds(1)));
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        enqueuedFrom(t, a);
        Expect.equal(a.getEnqueuedTime().plusSeconds(1), a.getExpiresAt(), "expires");
        receiver.complete(a);
        bus.noDeadLetters();
    }

    private static void survivesKill(Bus bus) {
        bus.stubborn();
        Sender sender = bus.client().sender();
        sender.createMessageBatch(); // has its link before the clock runs
        OffsetDateTime later = in(Duration.ofSeconds(6));
        sender.scheduleMessage(Bus.message("B"), later);
        long x = sender.scheduleMessage(Bus.message("X"), later);
        sender.scheduleMessage(Bus.message("A"), in(Duration.ofSeconds(1)));
        sender.cancelScheduledMessage(x);
        bus.control.kill();

        ServiceBusReceiverClient receiver = bus.receiver();
        Bus.receive(receiver, "A");
        Bus.receive(receiver, "B");
        Expect.at(later, Instant.now(), "B received");
        Bus.nothing(receiver);
        bus.peeks("A", "B");
    }
}
