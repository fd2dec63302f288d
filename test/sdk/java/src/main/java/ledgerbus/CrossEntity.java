package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

/** The group transactions, as far as several entities are in them: clients that enable cross-entity transactions. */
final class CrossEntity {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("cross-entity-move", CrossEntity::move),
            entry("cross-entity-topic", CrossEntity::topic),
            entry("cross-entity-subscription", CrossEntity::subscription),
            entry("cross-entity-settlements", CrossEntity::settlements),
            entry("cross-entity-schedule", CrossEntity::schedule),
            entry("cross-entity-session", CrossEntity::session),
            entry("cross-entity-dead-letters", CrossEntity::deadLetters),
            entry("cross-entity-full", CrossEntity::full),
            entry("cross-entity-second-receiver", CrossEntity::secondReceiver),
            entry("cross-entity-sender-first", CrossEntity::senderFirst),
            entry("cross-entity-outside", CrossEntity::outside),
            entry("cross-entity-disabled", CrossEntity::disabled),
            entry("cross-entity-survives-kill", CrossEntity::survivesKill));

    private CrossEntity() {}

    private static String second(Bus bus, CreateQueueOptions options) {
        String name = bus.queue + "-b";
        bus.createQueue(name, options);
        return name;
    }

    private static String second(Bus bus) {
        return second(bus, new CreateQueueOptions());
    }

    /** A client of cross-entity transactions that has received A from one entity, and sends to another. */
    private record Passing(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage a, Sender sender) {
        static Passing begin(Client client, Source from, String to) {
            ServiceBusReceiverClient receiver = from.receiver(); // first, so that everything goes through its entity
            return new Passing(receiver, Bus.receive(receiver, "A"), client.sender(to));
        }

        /** Begins a transaction that completes A and sends a message. */
        ServiceBusTransactionContext pass(ServiceBusMessage message) {
            ServiceBusTransactionContext transaction = receiver.createTransaction();
            receiver.complete(a, Transactions.completing(transaction));
            sender.sendMessage(message, transaction);
            return transaction;
        }

        /** The same once A was received again, after a rollback. */
        Passing again() throws InterruptedException {
            return new Passing(receiver, Transactions.again(receiver, a), sender);
        }
    }

    private static void move(Bus bus) throws Exception {
        Source b = bus.client().queue(second(bus));
        bus.send("A");
        Client client = bus.crossEntity();
        Passing passing = Passing.begin(client, client.queue(), bus.queue + "-b");
        passing.receiver.rollbackTransaction(passing.pass(Bus.message("X")));
        bus.peeks("A");
        b.nothing();
        passing = passing.again();
        ServiceBusTransactionContext transaction = passing.pass(Bus.message("B"));
        passing.sender.sendMessages(Bus.batch(passing.sender, Bus.message("C"), Bus.message("D")), transaction);
        bus.peeks("A");
        b.peeks(); // a receiver that is being closed could still get what the commit brings
        passing.receiver.commitTransaction(transaction);
        bus.peeks();
        b.consume("B", "C", "D");
        b.nothing();
        b.peeks();
        b.noDeadLetters();
    }

    private static void topic(Bus bus) throws Exception {
        String name = bus.queue + "-c";
        bus.createTopic(name);
        bus.admin().createSubscription(name, "one");
        bus.admin().createSubscription(name, "two");
        Source b = bus.client().queue(second(bus));
        bus.send("A");
        Client client = bus.crossEntity();
        ServiceBusReceiverClient receiver = client.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        Sender toB = client.sender(bus.queue + "-b");
        Sender toC = client.newTopicSender(name);
        for (boolean commit : new boolean[] {false, true}) {
            ServiceBusTransactionContext transaction = receiver.createTransaction();
            toB.sendMessage(Bus.message("B"), transaction);
            toC.sendMessage(Bus.message("C"), transaction);
            receiver.complete(a, Transactions.completing(transaction));
            bus.peeks("A");
            b.peeks();
            if (commit) {
                receiver.commitTransaction(transaction);
            } else {
                receiver.rollbackTransaction(transaction);
                a = Transactions.again(receiver, a);
            }
        }
        b.consume("B");
        for (String subscription : List.of("one", "two")) {
            bus.client().subscription(name, subscription).consume("C");
            bus.client().subscription(name, subscription).nothing();
        }
        b.nothing();
        bus.peeks();
    }

    private static void subscription(Bus bus) throws Exception {
        Source b = bus.client().queue(second(bus));
        bus.send("A");
        Client client = bus.crossEntity();
        Passing passing = Passing.begin(client, client.subscription(bus.queue, "one"), bus.queue + "-b");
        passing.receiver.rollbackTransaction(passing.pass(Bus.message("X")));
        bus.subscription("one").peeks("A");
        b.nothing();
        passing.receiver.commitTransaction(passing.again().pass(Bus.message("B")));
        b.consume("B");
        b.nothing();
        bus.subscription("one").peeks();
        bus.subscription("two").peeks("A");
    }

    private static void settlements(Bus bus) throws Exception {
        Source b = bus.client().queue(second(bus));
        bus.send("A", "B", "C", "D");
        Client client = bus.crossEntity();
        ServiceBusReceiverClient receiver = client.receiver();
        List<ServiceBusReceivedMessage> four = Bus.receive(receiver, 4);
        Sender sender = client.sender(bus.queue + "-b");
        receiver.rollbackTransaction(Transactions.everything(receiver, sender, four));
        Expect.equal(List.of("A active 0", "B active 0", "C active 0", "D active 0"), Bus.states(bus.peekAll()), "peek all after the rollback");
        four = Transactions.again(receiver, four);
        ServiceBusTransactionContext transaction = Transactions.everything(receiver, sender, four);
        b.peeks();
        receiver.commitTransaction(transaction);
        Expect.equal(List.of("B deferred 2", "D active 2"), Bus.states(bus.peekAll()), "peek all after the commit");
        bus.peeksDeadLetters("C");
        b.consume("E");
        b.nothing();
    }

    private static void schedule(Bus bus) throws Exception {
        Source b = bus.client().queue(second(bus));
        bus.send("A");
        Client client = bus.crossEntity();
        Passing passing = Passing.begin(client, client.queue(), bus.queue + "-b");
        OffsetDateTime t = OffsetDateTime.now().plusSeconds(4);
        passing.receiver.commitTransaction(passing.pass(Bus.message("B").setScheduledEnqueueTime(t)));
        bus.peeks();
        ServiceBusReceiverClient other = b.receiver();
        ServiceBusReceivedMessage received = Bus.receive(other, "B");
        Expect.that(!received.getEnqueuedTime().isBefore(t.minus(Duration.ofMillis(1))), "enqueued at %s, scheduled for %s", received.getEnqueuedTime(), t);
        other.complete(received);
        b.nothing();
    }

    private static void session(Bus bus) {
        String name = second(bus, new CreateQueueOptions().setSessionRequired(true));
        bus.send(Bus.inSession("A", "s"), Bus.inSession("B", "s"));
        String there = bus.partitioned() ? "s" : "t"; // what is sent through the queue is in a partition of it by its session
        Client client = bus.crossEntity();
        ServiceBusReceiverClient session = client.accept("s");
        List<ServiceBusReceivedMessage> both = Bus.receive(session, 2);
        Sender sender = client.sender(name);
        ServiceBusTransactionContext lost = session.createTransaction();
        session.complete(both.get(0), Transactions.completing(lost));
        sender.sendMessage(Bus.inSession("X", there), lost);
        ServiceBusTransactionContext kept = session.createTransaction();
        session.complete(both.get(1), Transactions.completing(kept));
        sender.sendMessage(Bus.inSession("C", there), kept);
        session.rollbackTransaction(lost);
        session.commitTransaction(kept);
        session.close();
        ServiceBusReceiverClient next = bus.another().accept("s"); // its messages are free when the session is
        next.complete(Bus.receive(next, "A", 0));
        next.close();
        ServiceBusReceiverClient other = bus.client().queue(name).accept(there);
        other.complete(Bus.receive(other, "C"));
        Bus.nothing(other);
        bus.noSessionLeft();
    }

    private static void deadLetters(Bus bus) throws Exception {
        Source b = bus.client().queue(second(bus));
        bus.send("A");
        ServiceBusReceiverClient plain = bus.receiver();
        plain.deadLetter(Bus.receive(plain, "A"));
        Client client = bus.crossEntity();
        ServiceBusReceiverClient dead = client.deadLetters();
        ServiceBusReceivedMessage letter = Bus.receive(dead, "A");
        Sender back = client.sender();
        Sender sender = client.sender(bus.queue + "-b");
        for (boolean commit : new boolean[] {false, true}) {
            ServiceBusTransactionContext transaction = dead.createTransaction();
            dead.complete(letter, Transactions.completing(transaction));
            back.sendMessage(Bus.message("again"), transaction);
            sender.sendMessage(Bus.message("note"), transaction);
            if (commit) {
                dead.commitTransaction(transaction);
            } else {
                dead.rollbackTransaction(transaction);
                Bus.outlive(letter.getLockedUntil());
                letter = Bus.receive(dead, "A");
            }
        }
        bus.noDeadLetters();
        bus.peeks("again");
        b.consume("note");
        b.nothing();
    }

    private static void secondReceiver(Bus bus) {
        Source b = bus.client().queue(second(bus));
        b.nothing();
        bus.send("A");
        Client client = bus.crossEntity();
        ServiceBusReceiverClient receiver = client.receiver();
        receiver.complete(Bus.receive(receiver, "A"));
        Expect.error(Kind.NOT_ALLOWED, Transactions.SPAN, () -> Bus.call(client.queue(bus.queue + "-b").receiver(), 1, Duration.ofSeconds(5)));
        // Another one of the same entity, and its dead letters, are of the group.
        Bus.nothing(client.receiver());
        Bus.nothing(client.deadLetters());
        bus.send("B");
        receiver.complete(Bus.receive(receiver, "B"));
    }

    private static void senderFirst(Bus bus) {
        second(bus);
        Client client = bus.crossEntity();
        Sender sender = client.sender(bus.queue + "-b");
        ServiceBusTransactionContext transaction = sender.createTransaction();
        sender.sendMessage(Bus.message("B"), transaction);
        Expect.error(Kind.NOT_ALLOWED, Transactions.SPAN, () -> Bus.call(client.receiver(), 1, Duration.ofSeconds(5)));
        client.sender().sendMessage(Bus.message("A"), transaction); // through the other one
        bus.peeks();
        sender.commitTransaction(transaction);
        bus.client().queue(bus.queue).consume("A");
        bus.client().queue(bus.queue + "-b").consume("B");
    }

    private static void outside(Bus bus) {
        Source b = bus.client().queue(second(bus));
        Client client = bus.crossEntity();
        Bus.nothing(client.receiver());
        Sender sender = client.sender(bus.queue + "-b");
        sender.sendMessage(Bus.message("A"));
        sender.sendMessages(Bus.batch(sender, Bus.message("B"), Bus.message("C")));
        b.consume("A", "B", "C");
        b.nothing();
        bus.peeks();
    }

    private static void disabled(Bus bus) {
        String name = second(bus);
        bus.send("A");
        Client client = bus.crossEntity();
        Passing passing = Passing.begin(client, client.queue(), name);
        ServiceBusTransactionContext transaction = passing.pass(Bus.message("B"));
        bus.admin().updateQueue(bus.admin().getQueue(name).setStatus(EntityStatus.SEND_DISABLED));
        passing.receiver.commitTransaction(transaction);
        ServiceBusReceiverClient failed = bus.client().queue().transferDeadLetters();
        ServiceBusReceivedMessage b = Bus.receive(failed, "B");
        Expect.equal("MessagingEntityDisabledException", b.getDeadLetterReason(), "reason");
        failed.complete(b);
        bus.peeks();
        bus.noDeadLetters();
        bus.client().queue(name).peeks();
    }

    private static void full(Bus bus) throws Exception {
        String from = bus.queue + "-a";
        bus.createQueue(from);
        Forwarding.fill(bus, bus.queue);
        bus.client().sender(from).sendMessage(Bus.message("A"));
        Client client = bus.crossEntity();
        Passing passing = Passing.begin(client, client.queue(from), bus.queue);
        passing.receiver.commitTransaction(passing.pass(new ServiceBusMessage(Forwarding.LARGE).setSubject("late")));
        Source there = bus.client().queue(from);
        there.peeks();
        there.noDeadLetters();
        Bus.nothing(there.transferDeadLetters());
        Expect.equal(1, bus.admin().getQueueRuntimeProperties(from).getTransferMessageCount(), "messages in transfer");
        Forwarding.last(bus.receiver(), message -> "late".equals(message.getSubject()));
        Forwarding.queueDrained(bus, from);
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        String name = second(bus);
        bus.send("A", "B");
        Client client = bus.crossEntity();
        ServiceBusReceiverClient receiver = client.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        Sender sender = client.sender(name);
        ServiceBusTransactionContext committed = receiver.createTransaction();
        receiver.complete(both.get(0), Transactions.completing(committed));
        sender.sendMessage(Bus.message("of A"), committed);
        ServiceBusTransactionContext open = receiver.createTransaction();
        receiver.complete(both.get(1), Transactions.completing(open));
        sender.sendMessage(Bus.message("of B"), open);
        receiver.commitTransaction(committed);
        bus.control.kill();
        Client after = bus.another();
        Expect.equal(List.of("B"), Bus.texts(Bus.insist(() -> after.queue().peekAll())), "peek all after the kill");
        Bus.insist(() -> after.queue(name).consume("of A"));
        after.queue(name).nothing();
    }
}
