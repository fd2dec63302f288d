package ledgerbus;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** What a scenario works with: its queue, its clients, and the words of scenarios.json ("terms") as methods. */
final class Bus implements Runner.Surroundings {
    /** How long a receive call waits for messages that come. */
    static final Duration PATIENCE = Duration.ofSeconds(20);

    static final Duration TRY = Duration.ofSeconds(10);
    private static final int PAGE = 100;

    /** The SDK closes a link, and loses messages, when 256 of them have come and wait for its own threads. */
    private static final int MOST = 100;

    final String queue; // or topic
    final Control control;
    private final boolean topic;
    private final String key; // of messages that have none; null: entities are not partitioned
    private final String connectionString;
    private final List<Client> clients = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private Client client;
    private ServiceBusAdministrationClient admin;
    private boolean stubborn;

    Bus(String queue, boolean topic, boolean partitioned, String connectionString, Control control) {
        this.queue = queue;
        this.topic = topic;
        this.key = partitioned ? queue : null;
        this.connectionString = connectionString;
        this.control = control;
    }

    /** From here on clients retry until they have a connection, as exclusive scenarios want it. */
    void stubborn() {
        stubborn = true;
    }

    /** The client of the scenario. */
    synchronized Client client() {
        if (client == null) {
            client = another();
        }
        return client;
    }

    /** One more client, with a connection of its own. */
    Client another() {
        return keep(new Client(connectionString, queue, topic, key, stubborn ? Client.stubborn() : Client.once(TRY)));
    }

    /** A client that waits that long for a session. It is the try timeout, of which the SDK tells the broker a second less. */
    Client waiting(Duration forSession) {
        return keep(new Client(connectionString, queue, topic, key, Client.once(forSession.plusSeconds(1))));
    }

    /**
     * A client for many calls at once. The SDK counts the try timeout of each from the call on, while it stands in a queue of the SDK
     * behind the others: the scenario's own limit comes before it.
     */
    Client unhurried() {
        return keep(new Client(connectionString, queue, topic, key, Client.once(Duration.ofMinutes(2))));
    }

    /** A client that shows another key than the rest of the suite. */
    Client withKey(String name, String key) {
        return keep(new Client(replaceKey(connectionString, name, key), queue, topic, key, Client.once(TRY)));
    }

    /** A client whose transactions may span entities: all its links are in one group, and the first of them decides through which entity the rest send. */
    Client crossEntity() {
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder().connectionString(connectionString).enableCrossEntityTransactions();
        return keep(new Client(builder, queue, topic, key, stubborn ? Client.stubborn() : Client.once(TRY)));
    }

    /** A client that speaks TLS, and in it AMQP or a WebSocket. The SDK drops the port of the connection string. */
    Client over(AmqpTransportType transport) throws Exception {
        Administration.trust(environment("LEDGERBUS_CA"));
        String tls = environment("LEDGERBUS_TLS_CONNECTION_STRING");
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder()
                .connectionString(tls)
                .customEndpointAddress("https://localhost:" + Administration.port(tls))
                .transportType(transport);
        return keep(new Client(builder, queue, topic, key, Client.once(TRY)));
    }

    private static String replaceKey(String connectionString, String name, String key) {
        return connectionString
                .replaceAll("SharedAccessKeyName=[^;]*", "SharedAccessKeyName=" + name)
                .replaceAll("SharedAccessKey=[^;]*", "SharedAccessKey=" + key);
    }

    synchronized ServiceBusAdministrationClient admin() {
        if (admin == null) {
            admin = Administration.client(environment("LEDGERBUS_TLS_CONNECTION_STRING"), environment("LEDGERBUS_CA"), stubborn);
        }
        return admin;
    }

    ServiceBusAdministrationClient adminWithKey(String name, String key) {
        String other = replaceKey(environment("LEDGERBUS_TLS_CONNECTION_STRING"), name, key);
        return Administration.client(other, environment("LEDGERBUS_CA"), stubborn);
    }

    /** Makes a queue, which is partitioned if all are. */
    void createQueue(String name) {
        createQueue(name, new CreateQueueOptions());
    }

    void createQueue(String name, CreateQueueOptions options) {
        admin().createQueue(name, options.setPartitioningEnabled(partitioned()));
    }

    /** Makes a topic, which is partitioned if all are. */
    void createTopic(String name) {
        createTopic(name, new CreateTopicOptions());
    }

    void createTopic(String name, CreateTopicOptions options) {
        admin().createTopic(name, options.setPartitioningEnabled(partitioned()));
    }

    /** Reports whether all queues and topics are partitioned. */
    boolean partitioned() {
        return key != null;
    }

    /** A message as it is sent without {@link Sender}. */
    ServiceBusMessage keyed(ServiceBusMessage message) {
        return Sender.keyed(message, key);
    }

    /** Messages in the order of their texts: where entities are partitioned, only those of one session, or of none, are received as sent. */
    List<ServiceBusReceivedMessage> sorted(List<ServiceBusReceivedMessage> messages) {
        return partitioned() ? messages.stream().sorted(Comparator.comparing(Bus::text)).toList() : messages;
    }

    private static String environment(String name) {
        String value = System.getenv(name);
        Expect.that(value != null, "%s is not set", name);
        return value;
    }

    /** A subscription of the scenario's topic. */
    Source subscription(String name) {
        return client().subscription(queue, name);
    }

    private synchronized Client keep(Client c) {
        clients.add(c);
        return c;
    }

    @Override
    public void close() {
        threads.forEach(Thread::interrupt);
        clients.forEach(Client::close);
    }

    // Sending

    void send(String... texts) {
        for (String text : texts) {
            client().sender().sendMessage(message(text));
        }
    }

    void send(ServiceBusMessage... messages) {
        for (ServiceBusMessage message : messages) {
            client().sender().sendMessage(message);
        }
    }

    /** Sends messages as few batches as the SDK makes of them. */
    void sendBatches(List<ServiceBusMessage> messages) {
        sendBatches(client().sender(), messages);
    }

    static void sendBatches(Sender sender, List<ServiceBusMessage> messages) {
        ServiceBusMessageBatch batch = sender.createMessageBatch();
        ServiceBusMessage previous = messages.get(0);
        for (ServiceBusMessage message : messages) {
            if (!sender.together(previous, message) || !sender.tryAddMessage(batch, message)) {
                sender.sendMessages(batch);
                batch = sender.createMessageBatch();
                Expect.that(sender.tryAddMessage(batch, message), "an empty batch does not take a message");
            }
            previous = message;
        }
        sender.sendMessages(batch);
    }

    /** Sends messages as one batch. */
    void sendBatch(ServiceBusMessage... messages) {
        client().sender().sendMessages(batch(client().sender(), messages));
    }

    static ServiceBusMessageBatch batch(Sender sender, ServiceBusMessage... messages) {
        ServiceBusMessageBatch batch = sender.createMessageBatch();
        for (ServiceBusMessage message : messages) {
            Expect.that(sender.tryAddMessage(batch, message), "one batch does not take %d messages", messages.length);
        }
        return batch;
    }

    static ServiceBusMessage message(String text) {
        return new ServiceBusMessage(text);
    }

    static ServiceBusMessage inSession(String text, String session) {
        return message(text).setSessionId(session);
    }

    /** The texts 0 … n-1. */
    static List<String> numbers(int n) {
        return IntStream.range(0, n).mapToObj(Integer::toString).toList();
    }

    static List<ServiceBusMessage> messages(Collection<String> texts) {
        return texts.stream().map(Bus::message).toList();
    }

    // Receiving

    ServiceBusReceiverClient receiver() {
        return client().receiver();
    }

    ServiceBusReceiverClient deadLetters() {
        return client().deadLetters();
    }

    /** Receives that many messages, in as many calls as that takes. */
    static List<ServiceBusReceivedMessage> receive(ServiceBusReceiverClient receiver, int n) {
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        Instant end = Instant.now().plus(PATIENCE);
        while (all.size() < n) {
            Duration left = Duration.between(Instant.now(), end);
            Expect.that(!left.isNegative() && !left.isZero(), "receive %d: %d in %s: %s", n, all.size(), PATIENCE, texts(all));
            all.addAll(call(receiver, Math.min(n - all.size(), MOST), left));
        }
        return all;
    }

    /** Receives one message, which must have this text. */
    static ServiceBusReceivedMessage receive(ServiceBusReceiverClient receiver, String text) {
        ServiceBusReceivedMessage message = receive(receiver, 1).get(0);
        Expect.equal(text, text(message), "received");
        return message;
    }

    static ServiceBusReceivedMessage receive(ServiceBusReceiverClient receiver, String text, long count) {
        ServiceBusReceivedMessage message = receive(receiver, text);
        Expect.equal(count, message.getDeliveryCount(), "delivery count of " + text);
        return message;
    }

    /** One receive call. */
    static List<ServiceBusReceivedMessage> call(ServiceBusReceiverClient receiver, int most, Duration wait) {
        return receiver.receiveMessages(most, wait).stream().toList();
    }

    /** Makes a call again while it fails for want of a connection. */
    static <T> T insist(Callable<T> call) throws Exception {
        Instant end = Instant.now().plus(PATIENCE);
        while (true) {
            try {
                return call.call();
            } catch (RuntimeException e) {
                if (!Kind.NO_CONNECTION.test(e) || Instant.now().isAfter(end)) {
                    throw e;
                }
                sleep(Duration.ofMillis(100));
            }
        }
    }

    static void insist(Runnable call) throws Exception {
        insist(() -> {
            call.run();
            return null;
        });
    }

    /** One receive call gets nothing. */
    static void nothing(ServiceBusReceiverClient receiver) {
        Expect.equal(List.of(), texts(call(receiver, 1, Duration.ofMillis(500))), "received where nothing should be");
    }

    /** Makes receivers have their links, by one message through each. */
    void warmUp(ServiceBusReceiverClient... receivers) {
        send("O");
        for (ServiceBusReceiverClient receiver : receivers) {
            receiver.complete(receive(receiver, "O"));
        }
    }

    /** Receives by number. No message is how this SDK reads the answer that there is none. */
    static List<ServiceBusReceivedMessage> receiveDeferred(ServiceBusReceiverClient receiver, long... numbers) {
        return receiver.receiveDeferredMessageBatch(Arrays.stream(numbers).boxed().toList()).stream().toList();
    }

    static ServiceBusReceivedMessage receiveDeferred(ServiceBusReceiverClient receiver, String text, long number) {
        List<ServiceBusReceivedMessage> all = receiveDeferred(receiver, number);
        Expect.equal(List.of(text), texts(all), "received by number " + number);
        return all.get(0);
    }

    /** Error message-not-found of a receive by number. */
    static void notFound(ServiceBusReceiverClient receiver, long... numbers) {
        String what = "received by number " + Arrays.toString(numbers);
        try {
            Expect.equal(List.of(), texts(receiveDeferred(receiver, numbers)), what);
        } catch (Failure e) {
            throw e;
        } catch (RuntimeException e) {
            Expect.that(Kind.MESSAGE_NOT_FOUND.test(e), "%s: want error %s, got %s", what, Kind.MESSAGE_NOT_FOUND, e);
        }
    }

    // Peek

    List<ServiceBusReceivedMessage> peekAll() {
        return client().queue().peekAll();
    }

    List<ServiceBusReceivedMessage> peekAllDeadLetters() {
        return client().queue().peekAllDeadLetters();
    }

    static List<ServiceBusReceivedMessage> peekAll(ServiceBusReceiverClient receiver) {
        List<ServiceBusReceivedMessage> all = new ArrayList<>();
        while (true) {
            List<ServiceBusReceivedMessage> page = receiver.peekMessages(PAGE).stream().toList();
            if (page.isEmpty()) {
                return all;
            }
            all.addAll(page);
        }
    }

    void peeks(String... texts) {
        client().queue().peeks(texts);
    }

    void peeksDeadLetters(String... texts) {
        client().queue().peeksDeadLetters(texts);
    }

    void noDeadLetters() {
        client().queue().noDeadLetters();
    }

    // Sessions

    void noSessionLeft() {
        waiting(Duration.ofSeconds(1)).queue().noSessionLeft();
    }

    // Messages

    /** The text of a message, which SDKs write as data and JMS as a value. */
    static String text(ServiceBusReceivedMessage message) {
        AmqpMessageBody body = message.getRawAmqpMessage().getBody();
        return body.getBodyType() == AmqpMessageBodyType.VALUE ? String.valueOf(body.getValue()) : message.getBody().toString();
    }

    static List<String> texts(Collection<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(Bus::text).toList();
    }

    /** Texts with state and delivery count, as in "A deferred 1". */
    static List<String> states(Collection<ServiceBusReceivedMessage> messages) {
        return messages.stream()
                .map(m -> text(m) + " " + m.getState().name().toLowerCase(Locale.ROOT) + " " + m.getDeliveryCount())
                .toList();
    }

    /** A number without its partition, which is none on a plain entity: what counts from 1 (semantics.md 10.3). */
    static long lowPart(long number) {
        return number & ((1L << 48) - 1);
    }

    /** Numbers as {@link #lowPart} has them. */
    static List<Long> lowParts(Collection<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(m -> lowPart(m.getSequenceNumber())).toList();
    }

    static List<Long> sequenceNumbers(Collection<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList();
    }

    // Time

    static void outlive(OffsetDateTime time) throws InterruptedException {
        outlive(time.toInstant());
    }

    /** Waits until 100 ms after a time. */
    static void outlive(Instant time) throws InterruptedException {
        sleep(Duration.between(Instant.now(), time.plusMillis(100)));
    }

    static void sleep(Duration duration) throws InterruptedException {
        Thread.sleep(Math.max(0, duration.toMillis()));
    }

    /** Does something while the scenario goes on. */
    <T> Future<T> meanwhile(Callable<T> task) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(task.call());
            } catch (Throwable t) {
                result.completeExceptionally(t);
            }
        }, queue + " meanwhile");
        thread.setDaemon(true);
        threads.add(thread);
        thread.start();
        return result;
    }
}
