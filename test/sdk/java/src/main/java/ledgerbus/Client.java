package ledgerbus;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusSessionReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * What the scenarios call a client: a builder of this SDK. All that is built with it shares one connection, which lives while one of
 * them is open.
 */
final class Client implements AutoCloseable {
    static final UnaryOperator<ServiceBusReceiverClientBuilder> DELETING = b -> b.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE);
    static final UnaryOperator<ServiceBusReceiverClientBuilder> DEAD_LETTERS = b -> b.subQueue(SubQueue.DEAD_LETTER_QUEUE);
    static final UnaryOperator<ServiceBusReceiverClientBuilder> TRANSFER_DEAD_LETTERS = b -> b.subQueue(SubQueue.TRANSFER_DEAD_LETTER_QUEUE);

    private final ServiceBusClientBuilder builder;
    private final String queue;
    private final boolean topic; // and no queue
    private final String key; // of messages that have none; null: entities are not partitioned
    private final Map<String, Sender> senders = new HashMap<>();
    private final Map<String, ServiceBusSessionReceiverClient> sessions = new HashMap<>();
    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    Client(String connectionString, String queue, boolean topic, String key, AmqpRetryOptions retry) {
        this(new ServiceBusClientBuilder().connectionString(connectionString), queue, topic, key, retry);
    }

    Client(ServiceBusClientBuilder builder, String queue, boolean topic, String key, AmqpRetryOptions retry) {
        this.builder = builder.retryOptions(retry);
        this.queue = queue;
        this.topic = topic;
        this.key = key;
    }

    static AmqpRetryOptions once(Duration tryTimeout) {
        return new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(tryTimeout);
    }

    /** To the delay the SDK adds four seconds before most retries, and it fails if the longest delay is less than that. */
    static AmqpRetryOptions stubborn() {
        return new AmqpRetryOptions()
                .setMode(AmqpRetryMode.FIXED)
                .setMaxRetries(100)
                .setDelay(Duration.ofMillis(100))
                .setMaxDelay(Duration.ofSeconds(5))
                .setTryTimeout(Duration.ofSeconds(5));
    }

    /** The sender of the scenario. There is one, which also keeps the connection. */
    synchronized Sender sender() {
        return senders.computeIfAbsent("", n -> topic ? newTopicSender(queue) : newSender(queue));
    }

    synchronized Sender sender(String name) {
        return senders.computeIfAbsent(name, this::newSender);
    }

    synchronized ServiceBusSenderAsyncClient asyncSender() {
        return keep(builder.sender().queueName(queue).buildAsyncClient());
    }

    synchronized Sender newSender(String name) {
        return keep(new Sender(builder.sender().queueName(name).buildClient(), key));
    }

    synchronized Sender newTopicSender(String name) {
        return keep(new Sender(builder.sender().topicName(name).buildClient(), key));
    }

    /** The scenario's queue, or one of another name. */
    Source queue() {
        return queue(queue);
    }

    Source queue(String name) {
        return new Source(this, null, name);
    }

    Source subscription(String topic, String name) {
        return new Source(this, topic, name);
    }

    /** A receiver in peek-lock mode that settles and renews nothing by itself. */
    ServiceBusReceiverClient receiver() {
        return receiver(null, queue, b -> b);
    }

    ServiceBusReceiverClient deleting() {
        return receiver(null, queue, DELETING);
    }

    ServiceBusReceiverClient prefetching(int count) {
        return receiver(null, queue, b -> b.prefetchCount(count));
    }

    ServiceBusReceiverClient renewing(Duration atMost) {
        return receiver(null, queue, b -> b.maxAutoLockRenewDuration(atMost));
    }

    ServiceBusReceiverClient deadLetters() {
        return receiver(null, queue, DEAD_LETTERS);
    }

    /** A receiver of a subscription, or of a queue if there is no topic. */
    synchronized ServiceBusReceiverClient receiver(String topic, String name, UnaryOperator<ServiceBusReceiverClientBuilder> options) {
        ServiceBusReceiverClientBuilder plain = builder.receiver().disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO);
        plain = topic == null ? plain.queueName(name) : plain.topicName(topic).subscriptionName(name);
        return keep(options.apply(plain).buildClient());
    }

    ServiceBusReceiverClient accept(String session) {
        return keep(sessions(null, queue).acceptSession(session));
    }

    ServiceBusReceiverClient acceptNext() {
        return keep(sessions(null, queue).acceptNextSession());
    }

    /** What accepts sessions of a subscription, or of a queue if there is no topic. */
    synchronized ServiceBusSessionReceiverClient sessions(String topic, String name) {
        return sessions.computeIfAbsent(topic + "/" + name, n -> {
            ServiceBusSessionReceiverClientBuilder plain =
                    builder.sessionReceiver().disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO);
            plain = topic == null ? plain.queueName(name) : plain.topicName(topic).subscriptionName(name);
            return keep(plain.buildClient());
        });
    }

    ServiceBusRuleManagerClient ruleManager(String topic, String subscription) {
        return keep(builder.ruleManager().topicName(topic).subscriptionName(subscription).buildClient());
    }

    synchronized ServiceBusClientBuilder.ServiceBusProcessorClientBuilder processor() {
        return builder.processor().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO);
    }

    /** Has it closed with the client. */
    synchronized <T extends AutoCloseable> T keep(T closeable) {
        open.push(closeable);
        return closeable;
    }

    @Override
    public void close() {
        Deque<AutoCloseable> all;
        synchronized (this) {
            all = new ArrayDeque<>(open);
            open.clear();
        }
        for (AutoCloseable closeable : all) {
            try {
                closeable.close(); // twice does no harm
            } catch (Exception e) {
                // A receiver of a session complains of a link that ended before; nothing that a scenario is about.
            }
        }
    }
}
