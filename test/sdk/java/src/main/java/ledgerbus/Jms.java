package ledgerbus;

import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * What a scenario of JMS works with: connections of the plain client, which knows nothing of Service Bus but names, and a {@link Bus}
 * for what other clients see of it.
 */
final class Jms implements Runner.Surroundings {
    /** No message that is there takes longer than this. */
    static final long PATIENCE = Duration.ofSeconds(20).toMillis();

    private static final long SHORT = Duration.ofMillis(500).toMillis();

    final Bus bus;
    final String queue; // or topic
    private final String connectionString;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private Connection connection;

    Jms(String queue, boolean topic, boolean partitioned, String connectionString, Control control) {
        this.bus = new Bus(queue, topic, partitioned, connectionString, control);
        this.queue = queue;
        this.connectionString = connectionString;
    }

    /** A factory as a program of JMS has it: an address, a user and a password. */
    ConnectionFactory factory() {
        URI endpoint = URI.create(part("Endpoint"));
        return new JmsConnectionFactory(part("SharedAccessKeyName"), part("SharedAccessKey"), "amqp://" + endpoint.getHost() + ":" + endpoint.getPort());
    }

    private String part(String name) {
        return Arrays.stream(connectionString.split(";"))
                .filter(part -> part.startsWith(name + "="))
                .map(part -> part.substring(name.length() + 1))
                .findFirst()
                .orElseThrow(() -> new Failure("no %s in the connection string", name));
    }

    private synchronized Connection connection() throws JMSException {
        if (connection == null) {
            connection = keep(factory().createConnection());
            connection.start();
        }
        return connection;
    }

    Session transacted() throws JMSException {
        return keep(connection().createSession(true, Session.SESSION_TRANSACTED));
    }

    /** Makes an entity of the scenario, whose name ends like that. */
    String second(String end) {
        ServiceBusAdministrationClient admin = bus.admin();
        admin.createQueue(queue + end);
        return queue + end;
    }

    <T extends AutoCloseable> T keep(T closeable) {
        open.push(closeable);
        return closeable;
    }

    @Override
    public void close() {
        for (AutoCloseable closeable : open) {
            try {
                closeable.close();
            } catch (Exception e) {
                // A session whose connection was cut has nothing to close.
            }
        }
        bus.close();
    }

    static void send(Session session, MessageProducer producer, String... texts) throws JMSException {
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
    }

    static Message receive(MessageConsumer consumer, String text) throws JMSException {
        Message message = consumer.receive(PATIENCE);
        Expect.that(message != null, "want %s, got nothing in %d ms", text, PATIENCE);
        Expect.equal(text, text(message), "received");
        return message;
    }

    static void nothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(SHORT);
        Expect.that(message == null, "received where nothing should be: %s", message);
    }

    static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    /** Messages that another client consumes from a queue until it has as many, whatever their order. */
    List<String> consumed(String name, int n) {
        List<String> all = new ArrayList<>(Bus.texts(Bus.receive(bus.client().queue(name).deleting(), n)));
        all.sort(null);
        return all;
    }

    /** Peek all of a queue shows these texts. */
    void peeks(String name, String... texts) {
        Expect.equal(List.of(texts), peeked(name), "peek all of " + name);
    }

    List<String> peeked(String name) {
        return Bus.texts(bus.client().queue(name).peekAll());
    }

    void peeksSoon(String name, String... texts) throws InterruptedException {
        Instant end = Instant.now().plus(Expect.AT_ONCE);
        while (!peeked(name).equals(List.of(texts)) && Instant.now().isBefore(end)) {
            Thread.sleep(50);
        }
        peeks(name, texts);
    }
}
