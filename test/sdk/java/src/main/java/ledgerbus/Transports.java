package ledgerbus;

import static java.util.Map.entry;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Ways to the broker other than AMQP over plain TCP. */
final class Transports {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("connection-tls", bus -> everything(bus, bus.over(AmqpTransportType.AMQP))),
            entry("connection-websocket", bus -> everything(bus, bus.over(AmqpTransportType.AMQP_WEB_SOCKETS))));

    private Transports() {}

    private static void everything(Bus bus, Client client) {
        Source one = client.subscription(bus.queue, "one");
        Sender sender = client.sender();
        ServiceBusMessage red = Bus.inSession("A", "s");
        red.getApplicationProperties().put("colour", "red");
        sender.sendMessage(red);
        Bus.sendBatches(sender, Stream.of("B", "C", "D", "E").map(text -> Bus.inSession(text, "s")).toList());
        ServiceBusReceiverClient receiver = one.receiver();
        List<ServiceBusReceivedMessage> four = Bus.receive(receiver, 4);
        Expect.equal(List.of("A active 0", "B active 0", "C active 0", "D active 0"), Bus.states(four), "received");
        receiver.complete(four.get(0));
        receiver.abandon(four.get(1));
        receiver.defer(four.get(2));
        receiver.deadLetter(four.get(3), new DeadLetterOptions().setDeadLetterReason("reason"));
        ServiceBusReceivedMessage b = Bus.receive(receiver, "B", 1);
        ServiceBusReceivedMessage e = Bus.receive(receiver, "E", 0);
        OffsetDateTime before = e.getLockedUntil();
        OffsetDateTime renewed = receiver.renewMessageLock(e);
        Expect.that(renewed.isAfter(before), "locked until %s, %s before", renewed, before);
        receiver.complete(b);
        receiver.complete(e);

        Expect.equal(List.of("C deferred 1"), Bus.states(one.peekAll()), "peek all");
        receiver.complete(Bus.receiveDeferred(receiver, "C", four.get(2).getSequenceNumber()));
        ServiceBusReceiverClient dead = one.deadLetters();
        ServiceBusReceivedMessage d = Bus.receive(dead, "D");
        Expect.equal("reason", d.getDeadLetterReason(), "reason");
        dead.complete(d);
        one.peeks();

        sender.cancelScheduledMessage(sender.scheduleMessage(Bus.inSession("X", "s"), OffsetDateTime.now().plusHours(1)));
        OffsetDateTime time = OffsetDateTime.now().plus(Duration.ofSeconds(2));
        sender.scheduleMessage(Bus.inSession("F", "s"), time);
        ServiceBusReceivedMessage f = Bus.receive(receiver, "F");
        Expect.at(time, Instant.now(), "F received");
        receiver.complete(f);
        String large = "L".repeat(200_000);
        sender.sendMessage(Bus.inSession(large, "s"));
        receiver.complete(Bus.receive(receiver, large));
        one.peeks();

        ServiceBusReceiverClient s = client.subscription(bus.queue, "grouped").accept("s");
        s.setSessionState("state".getBytes());
        Expect.equal("state", new String(s.getSessionState()), "state");
        List<ServiceBusReceivedMessage> all = Bus.receive(s, 7);
        Expect.equal(List.of("A", "B", "C", "D", "E", "F", large), Bus.texts(all), "received in the session");
        all.forEach(s::complete);
        Bus.nothing(s);

        client.subscription(bus.queue, "red").consume("A");
        client.subscription(bus.queue, "red").nothing();
    }
}
