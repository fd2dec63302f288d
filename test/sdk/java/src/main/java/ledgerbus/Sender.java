package ledgerbus;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import java.time.OffsetDateTime;
import java.util.List;

/**
 * A sender of the SDK. Where entities are partitioned, it gives messages without a key of their own one of the scenario's: what the
 * scenarios say of the order of messages holds only within one partition. That messages without a key go to all partitions is shown
 * elsewhere (SM-200, SM-213).
 */
final class Sender implements AutoCloseable {
    private final ServiceBusSenderClient sdk;
    private final String key; // null: entities are not partitioned

    Sender(ServiceBusSenderClient sdk, String key) {
        this.sdk = sdk;
        this.key = key;
    }

    /** A message as it is sent. */
    static ServiceBusMessage keyed(ServiceBusMessage message, String key) {
        boolean bare = message.getSessionId() == null && message.getPartitionKey() == null;
        return key != null && bare ? message.setPartitionKey(key) : message;
    }

    /** Reports whether messages can be in one batch: a partitioned entity takes no batch with several sessions (SM-209, semantics.md 10.2). */
    boolean together(ServiceBusMessage one, ServiceBusMessage other) {
        return key == null || String.valueOf(one.getSessionId()).equals(String.valueOf(other.getSessionId()));
    }

    void sendMessage(ServiceBusMessage message) {
        sdk.sendMessage(keyed(message, key));
    }

    void sendMessage(ServiceBusMessage message, ServiceBusTransactionContext transaction) {
        sdk.sendMessage(keyed(message, key), transaction);
    }

    ServiceBusMessageBatch createMessageBatch() {
        return sdk.createMessageBatch();
    }

    boolean tryAddMessage(ServiceBusMessageBatch batch, ServiceBusMessage message) {
        return batch.tryAddMessage(keyed(message, key));
    }

    void sendMessages(ServiceBusMessageBatch batch) {
        sdk.sendMessages(batch);
    }

    void sendMessages(ServiceBusMessageBatch batch, ServiceBusTransactionContext transaction) {
        sdk.sendMessages(batch, transaction);
    }

    long scheduleMessage(ServiceBusMessage message, OffsetDateTime time) {
        return sdk.scheduleMessage(keyed(message, key), time);
    }

    long scheduleMessage(ServiceBusMessage message, OffsetDateTime time, ServiceBusTransactionContext transaction) {
        return sdk.scheduleMessage(keyed(message, key), time, transaction);
    }

    Iterable<Long> scheduleMessages(List<ServiceBusMessage> messages, OffsetDateTime time) {
        return sdk.scheduleMessages(messages.stream().map(m -> keyed(m, key)).toList(), time);
    }

    void cancelScheduledMessage(long number) {
        sdk.cancelScheduledMessage(number);
    }

    ServiceBusTransactionContext createTransaction() {
        return sdk.createTransaction();
    }

    void commitTransaction(ServiceBusTransactionContext transaction) {
        sdk.commitTransaction(transaction);
    }

    void rollbackTransaction(ServiceBusTransactionContext transaction) {
        sdk.rollbackTransaction(transaction);
    }

    @Override
    public void close() {
        sdk.close();
    }
}
