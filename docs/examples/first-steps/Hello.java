import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;

import java.time.Duration;

/** Sends a message to the queue orders and receives one. */
public class Hello {
    private static final String EMULATOR = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
        + "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";

    public static void main(String[] args) {
        ServiceBusClientBuilder bus = new ServiceBusClientBuilder()
            .connectionString(System.getenv().getOrDefault("LEDGERBUS_CONNECTION_STRING", EMULATOR));
        try (ServiceBusSenderClient sender = bus.sender().queueName("orders").buildClient();
             ServiceBusReceiverClient receiver = bus.receiver().queueName("orders").buildClient()) {
            sender.sendMessage(new ServiceBusMessage("hello from Java"));
            for (ServiceBusReceivedMessage message : receiver.receiveMessages(1, Duration.ofSeconds(10))) {
                System.out.println(message.getBody());
                receiver.complete(message);
            }
        }
    }
}
