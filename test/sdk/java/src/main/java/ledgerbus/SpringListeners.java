package ledgerbus;

import static java.util.Map.entry;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.SessionAwareMessageListener;

/** Listeners of Spring, in the container that its users have, transacted and otherwise as it comes. */
final class SpringListeners {
    static final Map<String, Runner.Scenario<Jms>> ALL = Map.ofEntries(
            entry("jms-spring-moves", SpringListeners::moves),
            entry("jms-spring-throws", SpringListeners::alwaysThrows));

    private SpringListeners() {}

    private static DefaultMessageListenerContainer listen(Jms jms, SessionAwareMessageListener<Message> listener) {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(jms.factory());
        container.setDestinationName(jms.queue);
        container.setSessionTransacted(true);
        container.setMessageListener(listener);
        container.afterPropertiesSet();
        container.start();
        jms.keep(container::destroy);
        return container;
    }

    /** Sends each message on in the session that brought it. One of them fails at its first delivery, after it was sent on. */
    private static void moves(Jms jms) throws Exception {
        String second = jms.second("-b");
        List<String> texts = Bus.numbers(50);
        jms.bus.sendBatches(Bus.messages(texts));
        Set<String> failed = ConcurrentHashMap.newKeySet();
        listen(jms, (message, session) -> {
            String body = body(message);
            MessageProducer producer = session.createProducer(session.createQueue(second));
            Jms.send(session, producer, body);
            producer.close();
            if (body.endsWith("7") && failed.add(body)) {
                throw new IllegalStateException("the first delivery of " + body);
            }
        });
        List<String> want = new ArrayList<>(texts);
        want.sort(null);
        Expect.equal(want, jms.consumed(second, texts.size()), "received from " + second);
        Expect.equal(5, failed.size(), "messages whose first delivery failed");
        jms.peeksSoon(jms.queue);
        jms.bus.noDeadLetters();
        jms.peeks(second);
    }

    private static void alwaysThrows(Jms jms) throws Exception {
        String second = jms.second("-b");
        jms.bus.send("A", "B");
        listen(jms, (message, session) -> {
            MessageProducer producer = session.createProducer(session.createQueue(second));
            Jms.send(session, producer, body(message));
            producer.close();
            if (body(message).equals("A")) {
                throw new IllegalStateException("each delivery of A");
            }
        });
        Expect.equal(List.of("B"), jms.consumed(second, 1), "received from " + second);
        Expect.equal("MaxDeliveryCountExceeded", Bus.receive(jms.bus.deadLetters(), "A").getDeadLetterReason(), "reason");
        jms.peeksSoon(jms.queue);
        jms.peeks(second);
    }

    /** The text of a message that an SDK has sent, whose body is bytes. */
    private static String body(Message message) throws JMSException {
        return new String(message.getBody(byte[].class), StandardCharsets.UTF_8);
    }
}
