import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;

import java.time.Duration;

/**
 * Receives orders such as "3 x 14", computes what they cost, and sends an invoice for each: both or neither. With the argument "die" it is
 * gone, as with kill -9, when both are said and nothing is committed.
 */
public class Billing {
    public static void main(String[] args) {
        boolean dies = args.length > 0 && args[0].equals("die");
        ServiceBusClientBuilder bus = new ServiceBusClientBuilder()
            .connectionString(System.getenv("LEDGERBUS_CONNECTION_STRING"))
            .enableCrossEntityTransactions();
        // The first client says through which entity the others send: the receiver has to be made, and to receive, before them.
        ServiceBusReceiverClient orders = bus.receiver().queueName("orders").buildClient();
        ServiceBusSenderClient invoices = bus.sender().queueName("invoices").buildClient();
        for (ServiceBusReceivedMessage order : orders.receiveMessages(10, Duration.ofSeconds(10))) {
            ServiceBusTransactionContext both = orders.createTransaction();
            try {
                invoices.sendMessage(new ServiceBusMessage(order.getBody() + " = " + cost(order.getBody().toString())), both);
                orders.complete(order, new CompleteOptions().setTransactionContext(both));
                if (dies) {
                    Runtime.getRuntime().halt(137);
                }
                orders.commitTransaction(both);
                System.out.println("billed " + order.getBody());
            } catch (RuntimeException e) {
                orders.rollbackTransaction(both); // the order is locked as before, and there is no invoice
                throw e;
            }
        }
        orders.close();
        invoices.close();
    }

    private static int cost(String order) {
        String[] parts = order.split(" x ");
        return Integer.parseInt(parts[0]) * Integer.parseInt(parts[1]);
    }
}
