package ledgerbus;

import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * What the scenarios call a client: a builder of this SDK. All that is built with it shares one connection, which lives while one of
 * them is open.
 */
final class Client implements AutoCloseable {
    private final ServiceBusClientBuilder builder;
    private final String queue;
    private final Map<String, ServiceBusSenderClient> senders = new HashMap<>();
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private ServiceBusSessionReceiverClient sessions;

    Client(String connectionString, String queue, AmqpRetryOptions retry) {
        this.builder = new ServiceBusClientBuilder().connectionString(connectionString).retryOptions(retry);
        this.queue = queue;
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

    /** The sender of the queue. There is one, which also keeps the connection. */
    ServiceBusSenderClient sender() {
        return sender(queue);
    }

    synchronized ServiceBusSenderClient sender(String name) {
        return senders.computeIfAbsent(name, n -> keep(builder.sender().queueName(n).buildClient()));
    }

    synchronized ServiceBusSenderAsyncClient asyncSender() {
        return keep(builder.sender().queueName(queue).buildAsyncClient());
    }

    /** A receiver in peek-lock mode that settles and renews nothing by itself. */
    ServiceBusReceiverClient receiver() {
        return receiver(queue);
    }

    synchronized ServiceBusReceiverClient receiver(String name) {
        return keep(plain().queueName(name).buildClient());
    }

    synchronized ServiceBusReceiverClient deleting() {
        return keep(plain().queueName(queue).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient());
    }

    synchronized ServiceBusReceiverClient prefetching(int count) {
        return keep(plain().queueName(queue).prefetchCount(count).buildClient());
    }

    synchronized ServiceBusReceiverClient renewing(Duration atMost) {
        return keep(plain().queueName(queue).maxAutoLockRenewDuration(atMost).buildClient());
    }

    synchronized ServiceBusReceiverClient deadLetters() {
        return keep(plain().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).buildClient());
    }

    private ServiceBusReceiverClientBuilder plain() {
        return builder.receiver().disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO);
    }

    ServiceBusReceiverClient accept(String session) {
        ServiceBusReceiverClient receiver = sessions().acceptSession(session);
        synchronized (this) {
            return keep(receiver);
        }
    }

    ServiceBusReceiverClient acceptNext() {
        ServiceBusReceiverClient receiver = sessions().acceptNextSession();
        synchronized (this) {
            return keep(receiver);
        }
    }

    private synchronized ServiceBusSessionReceiverClient sessions() {
        if (sessions == null) {
            sessions = keep(builder.sessionReceiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient());
        }
        return sessions;
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
