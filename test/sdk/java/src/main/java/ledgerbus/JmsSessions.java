package ledgerbus;

import static java.util.Map.entry;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.List;
import java.util.Map;

/** Transacted sessions of the plain client. */
final class JmsSessions {
    static final Map<String, Runner.Scenario<Jms>> ALL = Map.ofEntries(
            entry("jms-send", JmsSessions::send),
            entry("jms-receive", JmsSessions::receive),
            entry("jms-two-sessions", JmsSessions::twoSessions),
            entry("jms-move", JmsSessions::move),
            entry("jms-topic", JmsSessions::topic),
            entry("jms-second-consumer", JmsSessions::secondConsumer),
            entry("jms-dead-letter", JmsSessions::deadLetter),
            entry("jms-survives-kill", JmsSessions::survivesKill));

    private JmsSessions() {}

    private static void send(Jms jms) throws JMSException {
        Session session = jms.transacted();
        MessageProducer producer = session.createProducer(session.createQueue(jms.queue));
        Jms.send(session, producer, "A", "B");
        jms.peeks(jms.queue);
        session.commit();
        jms.peeks(jms.queue, "A", "B");
        Jms.send(session, producer, "X");
        session.rollback();
        Jms.send(session, producer, "C");
        session.commit();
        jms.peeks(jms.queue, "A", "B", "C");
    }

    private static void receive(Jms jms) throws JMSException {
        jms.bus.send("A");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        Message first = consumer.receive(Jms.PATIENCE);
        Expect.that(first != null && !first.getJMSRedelivered(), "received: %s", first);
        session.rollback();
        Message again = consumer.receive(Jms.PATIENCE); // at once: its lock would end after five minutes
        Expect.that(again != null, "nothing after the rollback");
        Expect.equal(first.getJMSMessageID(), again.getJMSMessageID(), "message id");
        Expect.that(again.getJMSRedelivered(), "not marked as redelivered");
        jms.peeks(jms.queue, "A");
        session.commit();
        jms.peeks(jms.queue);
        Jms.nothing(consumer);
    }

    private static void twoSessions(Jms jms) throws JMSException {
        Session one = jms.transacted();
        Session two = jms.transacted();
        MessageProducer toOne = one.createProducer(one.createQueue(jms.queue));
        MessageProducer toTwo = two.createProducer(two.createQueue(jms.queue));
        Jms.send(one, toOne, "A");
        Jms.send(two, toTwo, "X");
        Jms.send(one, toOne, "B");
        two.rollback();
        jms.peeks(jms.queue);
        one.commit();
        jms.peeks(jms.queue, "A", "B");
    }

    private static void move(Jms jms) throws Exception {
        String second = jms.second("-b");
        jms.bus.send("A");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        MessageProducer producer = session.createProducer(session.createQueue(second));
        consumer.receive(Jms.PATIENCE);
        Jms.send(session, producer, "X");
        session.rollback();
        jms.peeks(second);
        Expect.that(consumer.receive(Jms.PATIENCE) != null, "nothing after the rollback");
        Jms.send(session, producer, "B", "C");
        jms.peeks(second);
        session.commit();
        Expect.equal(List.of("B", "C"), jms.consumed(second, 2), "received from " + second);
        jms.peeks(jms.queue);
        jms.peeks(second);
    }

    private static void topic(Jms jms) throws Exception {
        String name = jms.queue + "-c";
        jms.bus.admin().createTopic(name);
        jms.bus.admin().createSubscription(name, "one");
        jms.bus.send("A");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        MessageProducer producer = session.createProducer(session.createTopic(name));
        Expect.that(consumer.receive(Jms.PATIENCE) != null, "A does not come");
        Jms.send(session, producer, "B");
        session.commit();
        jms.peeks(jms.queue);
        // A subscription is a queue to JMS, by its address.
        Session other = jms.transacted();
        MessageConsumer one = other.createConsumer(other.createQueue(name + "/Subscriptions/one"));
        Jms.receive(one, "B");
        other.commit();
        Jms.nothing(one);
    }

    private static void secondConsumer(Jms jms) throws JMSException {
        String second = jms.second("-b");
        jms.bus.send("A");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        Expect.error(e -> e instanceof JMSException, Transactions.SPAN, () -> session.createConsumer(session.createQueue(second)));
        Expect.that(consumer.receive(Jms.PATIENCE) != null, "A does not come");
        session.commit();
        jms.peeks(jms.queue);
    }

    private static void deadLetter(Jms jms) throws JMSException {
        jms.bus.send("A");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        for (int i = 0; i < 3; i++) {
            Expect.that(consumer.receive(Jms.PATIENCE) != null, "delivery %d does not come", i + 1);
            session.rollback();
        }
        Expect.equal("MaxDeliveryCountExceeded", Bus.receive(jms.bus.deadLetters(), "A").getDeadLetterReason(), "reason");
        jms.peeks(jms.queue);
        Jms.nothing(consumer);
    }

    private static void survivesKill(Jms jms) throws Exception {
        String second = jms.second("-b");
        jms.bus.stubborn();
        jms.bus.send("A", "B");
        Session session = jms.transacted();
        MessageConsumer consumer = session.createConsumer(session.createQueue(jms.queue));
        MessageProducer producer = session.createProducer(session.createQueue(second));
        Expect.that(consumer.receive(Jms.PATIENCE) != null, "A does not come");
        Jms.send(session, producer, "of A");
        session.commit();
        Expect.that(consumer.receive(Jms.PATIENCE) != null, "B does not come");
        Jms.send(session, producer, "of B");
        jms.bus.control.kill();
        Expect.error(e -> e instanceof JMSException, session::commit);
        Client after = jms.bus.another();
        Expect.equal(List.of("B"), Bus.texts(Bus.insist(() -> after.queue().peekAll())), "peek all after the kill");
        Expect.equal(List.of("of A"), Bus.texts(Bus.insist(() -> after.queue(second).peekAll())), "peek all of " + second);
    }
}
