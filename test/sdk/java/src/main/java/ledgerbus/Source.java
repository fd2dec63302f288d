package ledgerbus;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.util.List;

/** What messages are received from, a queue or a subscription, and the words of scenarios.json about it. */
final class Source {
    private final Client client;
    private final String topic; // null: a queue
    private final String name;

    Source(Client client, String topic, String name) {
        this.client = client;
        this.topic = topic;
        this.name = name;
    }

    /** A receiver in peek-lock mode that settles and renews nothing by itself. */
    ServiceBusReceiverClient receiver() {
        return client.receiver(topic, name, b -> b);
    }

    ServiceBusReceiverClient deleting() {
        return client.receiver(topic, name, Client.DELETING);
    }

    ServiceBusReceiverClient deadLetters() {
        return client.receiver(topic, name, Client.DEAD_LETTERS);
    }

    ServiceBusReceiverClient transferDeadLetters() {
        return client.receiver(topic, name, Client.TRANSFER_DEAD_LETTERS);
    }

    ServiceBusReceiverClient accept(String session) {
        return client.keep(client.sessions(topic, name).acceptSession(session));
    }

    /** Nobody can accept a session: none has messages. The receivers of the scenario must be closed. */
    void noSessionLeft() {
        receiver().peekMessages(1).forEach(m -> { }); // has its connection before the clock runs
        Expect.error(Kind.NO_SESSION, () -> client.keep(client.sessions(topic, name).acceptNextSession()));
    }

    /** Receives messages with these texts, in this order, with a receiver of its own, and completes them. */
    List<ServiceBusReceivedMessage> consume(String... texts) {
        try (ServiceBusReceiverClient receiver = receiver()) {
            List<ServiceBusReceivedMessage> all = Bus.receive(receiver, texts.length);
            Expect.equal(List.of(texts), Bus.texts(all), "received from " + name);
            all.forEach(receiver::complete);
            return all;
        }
    }

    /** A receive call of a new receiver gets nothing. */
    void nothing() {
        try (ServiceBusReceiverClient receiver = receiver()) {
            Bus.nothing(receiver);
        }
    }

    /** A receive call of a new receiver is refused, with an error of this kind. */
    void fails(Kind kind) {
        Expect.error(kind, () -> Bus.call(receiver(), 1, Duration.ofSeconds(5)));
    }

    List<ServiceBusReceivedMessage> peekAll() {
        try (ServiceBusReceiverClient receiver = receiver()) {
            return Bus.peekAll(receiver);
        }
    }

    List<ServiceBusReceivedMessage> peekAllDeadLetters() {
        try (ServiceBusReceiverClient receiver = deadLetters()) {
            return Bus.peekAll(receiver);
        }
    }

    /** Peek all shows these texts. */
    void peeks(String... texts) {
        Expect.equal(List.of(texts), Bus.texts(peekAll()), "peek all of " + name);
    }

    void peeksDeadLetters(String... texts) {
        Expect.equal(List.of(texts), Bus.texts(peekAllDeadLetters()), "peek all of the dead letters of " + name);
    }

    /** The dead-letter queue has nothing to receive and nothing to peek. */
    void noDeadLetters() {
        try (ServiceBusReceiverClient receiver = deadLetters()) {
            Bus.nothing(receiver);
            Expect.equal(List.of(), Bus.texts(Bus.peekAll(receiver)), "peek all of the dead letters of " + name);
        }
    }
}
