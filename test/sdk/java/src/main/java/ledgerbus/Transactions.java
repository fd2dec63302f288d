package ledgerbus;

import static java.util.Map.entry;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The group transactions, as far as one entity is in them. */
final class Transactions {
    static final Map<String, Runner.Scenario<Bus>> ALL = Map.ofEntries(
            entry("transaction-send", Transactions::send),
            entry("transaction-send-batch", Transactions::sendBatch),
            entry("transaction-schedule", Transactions::schedule),
            entry("transaction-complete", Transactions::complete),
            entry("transaction-tokens", Transactions::tokens),
            entry("transaction-abandon", Transactions::abandon),
            entry("transaction-defer", Transactions::defer),
            entry("transaction-dead-letter", Transactions::deadLetter),
            entry("transaction-deferred-message", Transactions::deferredMessage),
            entry("transaction-session", Transactions::session),
            entry("transaction-subscription", Transactions::subscription),
            entry("transaction-resubmit", Transactions::resubmit),
            entry("transaction-together", Transactions::together),
            entry("transaction-two-at-once", Transactions::twoAtOnce),
            entry("transaction-second-entity", Transactions::secondEntity),
            entry("transaction-hundred", Transactions::hundred),
            entry("transaction-failed-operation", Transactions::failedOperation),
            entry("transaction-ended", Transactions::ended),
            entry("transaction-other-connection", Transactions::otherConnection),
            entry("transaction-outlives-lock", Transactions::outlivesLock),
            entry("transaction-lock-past", Transactions::lockPast),
            entry("transaction-close", Transactions::close),
            entry("transaction-time-limit", Transactions::timeLimit),
            entry("transaction-survives-kill", Transactions::survivesKill),
            entry("transaction-cut", Transactions::cut));

    private static final Duration LIMIT = Duration.ofMinutes(2);

    private Transactions() {}

    static CompleteOptions completing(ServiceBusTransactionContext transaction) {
        return new CompleteOptions().setTransactionContext(transaction);
    }

    static AbandonOptions abandoning(ServiceBusTransactionContext transaction) {
        return new AbandonOptions().setTransactionContext(transaction);
    }

    static DeferOptions deferring(ServiceBusTransactionContext transaction) {
        return new DeferOptions().setTransactionContext(transaction);
    }

    static DeadLetterOptions deadLettering(ServiceBusTransactionContext transaction) {
        return new DeadLetterOptions().setDeadLetterReason("reason").setTransactionContext(transaction);
    }

    /**
     * Messages of a rollback, once more. The SDK takes a message for settled whose settlement was rolled back, so it comes again only after
     * its lock; until then nobody has it.
     */
    static List<ServiceBusReceivedMessage> again(ServiceBusReceiverClient receiver, List<ServiceBusReceivedMessage> before) throws InterruptedException {
        Bus.nothing(receiver);
        Bus.outlive(before.get(0).getLockedUntil());
        List<ServiceBusReceivedMessage> after = Bus.receive(receiver, before.size());
        Expect.equal(Bus.texts(before), Bus.texts(after), "received again");
        for (int i = 0; i < before.size(); i++) {
            Expect.equal(before.get(i).getDeliveryCount() + 1, after.get(i).getDeliveryCount(), "delivery count of " + Bus.text(after.get(i)));
        }
        return after;
    }

    static ServiceBusReceivedMessage again(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage before) throws InterruptedException {
        return again(receiver, List.of(before)).get(0);
    }

    private static void send(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusTransactionContext transaction = sender.createTransaction();
        sender.sendMessage(Bus.message("A"), transaction);
        sender.sendMessage(Bus.message("B"), transaction);
        bus.send("C");
        bus.peeks("C");
        OffsetDateTime committed = OffsetDateTime.now();
        sender.commitTransaction(transaction);
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 3);
        Expect.equal(List.of("C", "A", "B"), Bus.texts(all), "received after the commit");
        for (ServiceBusReceivedMessage message : all.subList(1, 3)) {
            Expect.that(!message.getEnqueuedTime().isBefore(committed.minus(Duration.ofMillis(1))), "enqueued at %s, committed at %s", message.getEnqueuedTime(), committed);
        }
        all.forEach(receiver::complete);

        transaction = sender.createTransaction();
        sender.sendMessage(Bus.message("X"), transaction);
        sender.rollbackTransaction(transaction);
        bus.send("D");
        receiver.complete(Bus.receive(receiver, "D"));
        Bus.nothing(receiver);
        bus.peeks();
    }

    private static void sendBatch(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusTransactionContext transaction = sender.createTransaction();
        sender.sendMessages(Bus.batch(sender, Bus.message("A"), Bus.message("B")), transaction);
        sender.sendMessages(Bus.batch(sender, Bus.message("C")), transaction);
        bus.peeks();
        sender.commitTransaction(transaction);
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 3);
        Expect.equal(List.of("A", "B", "C"), Bus.texts(all), "received after the commit");
        List<Long> numbers = Bus.sequenceNumbers(all);
        Expect.equal(List.of(numbers.get(0), numbers.get(0) + 1, numbers.get(0) + 2), numbers, "numbers");
        all.forEach(receiver::complete);

        transaction = sender.createTransaction();
        sender.sendMessages(Bus.batch(sender, Bus.message("X"), Bus.message("Y")), transaction);
        sender.rollbackTransaction(transaction);
        Bus.nothing(receiver);
        bus.peeks();
    }

    private static void schedule(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient receiver = bus.receiver();
        bus.warmUp(receiver);
        OffsetDateTime t = OffsetDateTime.now().plus(Duration.ofSeconds(4));
        ServiceBusTransactionContext kept = sender.createTransaction();
        long a = sender.scheduleMessage(Bus.message("A"), t, kept);
        ServiceBusTransactionContext lost = sender.createTransaction();
        long x = sender.scheduleMessage(Bus.message("X"), t, lost);
        Expect.above(a, x, "number of X");
        bus.peeks();
        sender.commitTransaction(kept);
        sender.rollbackTransaction(lost);
        List<ServiceBusReceivedMessage> peeked = bus.peekAll();
        Expect.equal(List.of("A scheduled 0"), Bus.states(peeked), "peek all");
        Expect.equal(List.of(a), Bus.sequenceNumbers(peeked), "number of A");
        receiver.complete(Bus.receive(receiver, "A"));
        Bus.nothing(receiver);
        bus.peeks();
    }

    private static void complete(Bus bus) throws Exception {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(both.get(0), completing(transaction));
        receiver.complete(both.get(1), completing(transaction));
        bus.peeks("A", "B");
        receiver.rollbackTransaction(transaction);
        both = again(receiver, both);
        transaction = receiver.createTransaction();
        receiver.complete(both.get(0), completing(transaction));
        receiver.complete(both.get(1), completing(transaction));
        bus.peeks("A", "B");
        receiver.commitTransaction(transaction);
        bus.peeks();
        bus.noDeadLetters();
    }

    private static void tokens(Bus bus) {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(both.get(0), completing(transaction));
        receiver.renewMessageLock(both.get(0));
        receiver.commitTransaction(transaction);
        Expect.error(Kind.LOCK_LOST, () -> receiver.renewMessageLock(both.get(0)));
        receiver.renewMessageLock(both.get(1));
        receiver.complete(both.get(1));
        bus.peeks();
    }

    private static void abandon(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A", 0);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.abandon(a, abandoning(transaction).setPropertiesToModify(Map.of("colour", "blue")));
        receiver.rollbackTransaction(transaction);
        a = again(receiver, a);
        Expect.equal(Map.of(), a.getApplicationProperties(), "properties after the rollback");
        transaction = receiver.createTransaction();
        receiver.abandon(a, abandoning(transaction).setPropertiesToModify(Map.of("colour", "red")));
        Bus.nothing(receiver);
        receiver.commitTransaction(transaction);
        ServiceBusReceivedMessage abandoned = Bus.receive(receiver, "A", 2);
        Expect.equal("red", abandoned.getApplicationProperties().get("colour"), "colour");
        receiver.complete(abandoned);
        bus.peeks();
    }

    private static void defer(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.defer(a, deferring(transaction));
        receiver.rollbackTransaction(transaction);
        Expect.equal(List.of("A active 0"), Bus.states(bus.peekAll()), "peek all after the rollback");
        a = again(receiver, a);
        transaction = receiver.createTransaction();
        receiver.defer(a, deferring(transaction));
        Bus.notFound(receiver, a.getSequenceNumber());
        receiver.commitTransaction(transaction);
        Expect.equal(List.of("A deferred 2"), Bus.states(bus.peekAll()), "peek all after the commit");
        receiver.complete(Bus.receiveDeferred(receiver, "A", a.getSequenceNumber()));
        bus.peeks();
    }

    private static void deadLetter(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.deadLetter(a, deadLettering(transaction));
        bus.noDeadLetters();
        receiver.rollbackTransaction(transaction);
        bus.peeksDeadLetters();
        a = again(receiver, a);
        transaction = receiver.createTransaction();
        receiver.deadLetter(a, deadLettering(transaction));
        bus.noDeadLetters();
        receiver.commitTransaction(transaction);
        bus.peeks();
        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage letter = Bus.receive(dead, "A");
        Expect.equal("reason", letter.getDeadLetterReason(), "reason");
        dead.complete(letter);
    }

    private static void deferredMessage(Bus bus) {
        bus.send("A", "B", "C", "D");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> all = Bus.receive(receiver, 4);
        all.forEach(receiver::defer);
        List<ServiceBusReceivedMessage> four = Bus.receiveDeferred(receiver, Bus.sequenceNumbers(all).stream().mapToLong(n -> n).toArray());
        ServiceBusTransactionContext kept = receiver.createTransaction();
        ServiceBusTransactionContext lost = receiver.createTransaction();
        receiver.complete(four.get(0), completing(kept));
        receiver.deadLetter(four.get(1), deadLettering(kept));
        receiver.complete(four.get(2), completing(lost));
        receiver.deadLetter(four.get(3), deadLettering(lost));
        bus.peeks("A", "B", "C", "D");
        receiver.rollbackTransaction(lost);
        receiver.commitTransaction(kept);
        Expect.equal(List.of("C deferred 1", "D deferred 1"), Bus.states(bus.peekAll()), "peek all");
        bus.peeksDeadLetters("B");
    }

    private static void session(Bus bus) {
        if (bus.partitioned()) {
            twoSessions(bus);
            return;
        }
        bus.send(Bus.inSession("A", "s"), Bus.inSession("B", "s"), Bus.inSession("C", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        Sender sender = bus.client().sender();
        List<ServiceBusReceivedMessage> three = Bus.receive(session, 3);
        ServiceBusTransactionContext lost = session.createTransaction();
        session.complete(three.get(0), completing(lost));
        sender.sendMessage(Bus.inSession("X", "t"), lost);
        ServiceBusTransactionContext kept = session.createTransaction();
        session.complete(three.get(1), completing(kept));
        sender.sendMessage(Bus.inSession("D", "s"), kept);
        sender.sendMessage(Bus.inSession("E", "t"), kept);
        Bus.nothing(session);
        session.rollbackTransaction(lost);
        session.commitTransaction(kept);
        session.complete(three.get(2));
        session.complete(Bus.receive(session, "D", 0));
        session.close();
        ServiceBusReceiverClient next = bus.another().accept("s"); // the client may hand out the link that it is closing
        next.complete(Bus.receive(next, "A", 0));
        next.close();
        ServiceBusReceiverClient other = bus.client().accept("t");
        other.complete(Bus.receive(other, "E"));
        other.close();
        bus.noSessionLeft();
    }

    /** A partitioned queue refuses two sessions in one transaction, whatever they hash to (SM-216, S4-54, S4-66); what was in it stays as it was. */
    private static void twoSessions(Bus bus) {
        bus.send(Bus.inSession("A", "s"), Bus.inSession("B", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        Sender sender = bus.client().sender();
        List<ServiceBusReceivedMessage> both = Bus.receive(session, 2);
        ServiceBusTransactionContext refused = session.createTransaction();
        session.complete(both.get(0), completing(refused));
        sender.sendMessage(Bus.inSession("X", "t"), refused); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_ROLLED_BACK, () -> session.commitTransaction(refused));
        ServiceBusTransactionContext kept = session.createTransaction();
        session.complete(both.get(1), completing(kept));
        sender.sendMessage(Bus.inSession("C", "s"), kept);
        session.commitTransaction(kept);
        session.complete(Bus.receive(session, "C", 0));
        session.close();
        ServiceBusReceiverClient next = bus.another().accept("s"); // the client may hand out the link that it is closing
        next.complete(Bus.receive(next, "A", 0));
        next.close();
        bus.noSessionLeft();
    }

    private static void subscription(Bus bus) throws Exception {
        bus.send("A");
        Source one = bus.subscription("one");
        Source two = bus.subscription("two");
        ServiceBusReceiverClient receiver = one.receiver();
        Sender sender = bus.client().sender();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(a, completing(transaction));
        sender.sendMessage(Bus.message("X"), transaction);
        receiver.rollbackTransaction(transaction);
        one.peeks("A");
        two.peeks("A");
        a = again(receiver, a);
        ServiceBusReceiverClient receiverOfTwo = two.receiver();
        ServiceBusReceivedMessage copy = Bus.receive(receiverOfTwo, "A");
        transaction = receiver.createTransaction();
        receiver.complete(a, completing(transaction));
        receiverOfTwo.deadLetter(copy, deadLettering(transaction));
        sender.sendMessage(Bus.message("B"), transaction);
        one.peeks("A");
        receiver.commitTransaction(transaction);
        one.peeks("B");
        two.peeks("B");
        two.peeksDeadLetters("A");
    }

    private static void resubmit(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        receiver.deadLetter(Bus.receive(receiver, "A"));
        Sender sender = bus.client().sender();
        ServiceBusReceiverClient dead = bus.deadLetters();
        ServiceBusReceivedMessage letter = Bus.receive(dead, "A");
        ServiceBusTransactionContext transaction = dead.createTransaction();
        dead.complete(letter, completing(transaction));
        sender.sendMessage(new ServiceBusMessage(letter), transaction);
        dead.rollbackTransaction(transaction);
        bus.peeks();
        bus.peeksDeadLetters("A");
        Bus.outlive(letter.getLockedUntil());
        letter = Bus.receive(dead, "A", letter.getDeliveryCount());
        transaction = dead.createTransaction();
        dead.complete(letter, completing(transaction));
        sender.sendMessage(new ServiceBusMessage(letter), transaction);
        bus.peeks();
        dead.commitTransaction(transaction);
        bus.peeksDeadLetters();
        receiver.complete(Bus.receive(receiver, "A", 0));
        Bus.nothing(receiver);
    }

    private static void together(Bus bus) throws Exception {
        bus.send("A", "B", "C", "D");
        ServiceBusReceiverClient receiver = bus.receiver();
        Sender sender = bus.client().sender();
        List<ServiceBusReceivedMessage> four = Bus.receive(receiver, 4);
        ServiceBusTransactionContext transaction = everything(receiver, sender, four);
        Expect.equal(List.of("A active 0", "B active 0", "C active 0", "D active 0"), Bus.states(bus.peekAll()), "peek all, transaction open");
        receiver.rollbackTransaction(transaction);
        Expect.equal(List.of("A active 0", "B active 0", "C active 0", "D active 0"), Bus.states(bus.peekAll()), "peek all after the rollback");
        four = again(receiver, four);
        transaction = everything(receiver, sender, four);
        Expect.equal(List.of("A active 1", "B active 1", "C active 1", "D active 1"), Bus.states(bus.peekAll()), "peek all, transaction open");
        receiver.commitTransaction(transaction);
        Expect.equal(List.of("B deferred 2", "D active 2", "E active 0"), Bus.states(bus.peekAll()), "peek all after the commit");
        bus.peeksDeadLetters("C");
    }

    /** A transaction with an operation of every kind: A is completed, E sent, B deferred, C dead-lettered, D abandoned. */
    static ServiceBusTransactionContext everything(ServiceBusReceiverClient receiver, Sender sender, List<ServiceBusReceivedMessage> four) {
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(four.get(0), completing(transaction));
        sender.sendMessage(Bus.message("E"), transaction);
        receiver.defer(four.get(1), deferring(transaction));
        receiver.deadLetter(four.get(2), deadLettering(transaction));
        receiver.abandon(four.get(3), abandoning(transaction));
        return transaction;
    }

    private static void twoAtOnce(Bus bus) throws Exception {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        Sender sender = bus.client().sender();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        ServiceBusTransactionContext one = sender.createTransaction();
        ServiceBusTransactionContext two = receiver.createTransaction();
        Expect.different(one.getTransactionId(), two.getTransactionId(), "transaction id");
        sender.sendMessage(Bus.message("one"), one);
        receiver.complete(both.get(0), completing(two));
        sender.sendMessage(Bus.message("two"), two);
        receiver.complete(both.get(1), completing(one));
        bus.peeks("A", "B");
        receiver.rollbackTransaction(two);
        sender.commitTransaction(one);
        bus.peeks("A", "one");
        receiver.complete(Bus.receive(receiver, "one"));
        receiver.complete(again(receiver, both.get(0)));
        bus.peeks();
    }

    private static void secondEntity(Bus bus) {
        String other = bus.queue + "-b";
        bus.createQueue(other, new CreateQueueOptions());
        Sender sender = bus.client().sender();
        Sender second = bus.client().sender(other);
        ServiceBusTransactionContext transaction = sender.createTransaction();
        sender.sendMessage(Bus.message("A"), transaction);
        second.sendMessage(Bus.message("B"), transaction); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_ROLLED_BACK, () -> sender.commitTransaction(transaction));
        bus.peeks();
        bus.client().queue(other).peeks();
    }

    /** What the service says of a second entity. */
    static final String SPAN = "Local transactions cannot span multiple top-level entities such as queue or topic.";

    private static void hundred(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusTransactionContext full = sender.createTransaction();
        for (String text : Bus.numbers(100)) {
            sender.sendMessage(Bus.message(text), full);
        }
        sender.commitTransaction(full);
        Expect.equal(Bus.numbers(100), Bus.texts(bus.peekAll()), "peek all");
        ServiceBusTransactionContext over = sender.createTransaction();
        List<ServiceBusMessage> most = new ArrayList<>(Bus.messages(Bus.numbers(99)));
        sender.sendMessages(Bus.batch(sender, most.toArray(ServiceBusMessage[]::new)), over);
        sender.sendMessage(Bus.message("100th"), over);
        sender.sendMessage(Bus.message("101st"), over); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_ROLLED_BACK, () -> sender.commitTransaction(over));
        Expect.equal(100, bus.peekAll().size(), "messages");
    }

    private static void failedOperation(Bus bus) {
        bus.send(Bus.inSession("A", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        ServiceBusReceivedMessage a = Bus.receive(session, "A");
        Sender sender = bus.client().sender();
        ServiceBusTransactionContext transaction = session.createTransaction();
        session.complete(a, completing(transaction));
        sender.sendMessage(Bus.inSession("B", "s"), transaction);
        sender.sendMessage(Bus.message("without a session"), transaction); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_ROLLED_BACK, () -> session.commitTransaction(transaction));
        Bus.nothing(session);
        session.close();
        Client other = bus.another(); // the first may hand out the link that it is closing
        ServiceBusReceiverClient next = other.accept("s");
        ServiceBusReceivedMessage again = Bus.receive(next, "A", 0);
        ServiceBusTransactionContext after = next.createTransaction();
        next.complete(again, completing(after));
        other.sender().sendMessage(Bus.inSession("C", "s"), after);
        next.commitTransaction(after);
        next.complete(Bus.receive(next, "C"));
        next.close();
        bus.noSessionLeft();
    }

    private static void ended(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusTransactionContext committed = sender.createTransaction();
        sender.sendMessage(Bus.message("A"), committed);
        sender.commitTransaction(committed);
        ServiceBusTransactionContext rolledBack = sender.createTransaction();
        sender.sendMessage(Bus.message("B"), rolledBack);
        sender.rollbackTransaction(rolledBack);
        String text = "Transaction hasn't been declared yet, or has already been discharged";
        for (ServiceBusTransactionContext over : List.of(committed, rolledBack)) {
            Expect.error(Kind.TRANSACTION_UNKNOWN, text, () -> sender.commitTransaction(over));
            Expect.error(Kind.TRANSACTION_UNKNOWN, text, () -> sender.rollbackTransaction(over));
            sender.sendMessage(Bus.message("X"), over); // refused, which the SDK reports for no send in a transaction
        }
        ServiceBusTransactionContext empty = sender.createTransaction();
        sender.commitTransaction(empty);
        bus.peeks("A");
    }

    private static void otherConnection(Bus bus) {
        Sender sender = bus.client().sender();
        ServiceBusTransactionContext transaction = sender.createTransaction();
        sender.sendMessage(Bus.message("A"), transaction);
        Sender stranger = bus.another().sender();
        stranger.sendMessage(Bus.message("X"), transaction); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_UNKNOWN, () -> stranger.commitTransaction(transaction));
        bus.peeks();
        sender.commitTransaction(transaction);
        bus.peeks("A");
    }

    private static void outlivesLock(Bus bus) throws Exception {
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(both.get(0), completing(transaction));
        receiver.deadLetter(both.get(1), deadLettering(transaction));
        Bus.outlive(both.get(1).getLockedUntil().plusSeconds(1));
        Bus.nothing(bus.receiver());
        receiver.commitTransaction(transaction);
        bus.peeks();
        bus.peeksDeadLetters("B");
    }

    private static void lockPast(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A", 0);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(a, completing(transaction));
        Bus.outlive(a.getLockedUntil());
        ServiceBusReceiverClient second = bus.another().receiver();
        Bus.nothing(second);
        receiver.rollbackTransaction(transaction);
        second.complete(Expect.atOnce("receive A", () -> Bus.receive(second, "A", 1)));
        bus.peeks();
    }

    private static void close(Bus bus) throws Exception {
        bus.send(Bus.inSession("A", "s"));
        ServiceBusReceiverClient session = bus.client().accept("s");
        ServiceBusReceivedMessage a = Bus.receive(session, "A", 0);
        ServiceBusTransactionContext transaction = session.createTransaction();
        session.complete(a, completing(transaction));
        session.rollbackTransaction(transaction);
        ServiceBusReceiverClient next = Expect.within(Bus.TRY, "close, and accept the session again", () -> {
            session.close();
            return bus.another().accept("s");
        });
        next.complete(Bus.receive(next, "A", 0));
        next.close();
        bus.noSessionLeft();
    }

    private static void timeLimit(Bus bus) throws Exception {
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        Sender sender = bus.client().sender();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A", 0);
        ServiceBusTransactionContext late = receiver.createTransaction();
        ServiceBusTransactionContext idle = receiver.createTransaction(); // its time begins with its first operation
        OffsetDateTime began = OffsetDateTime.now();
        receiver.complete(a, completing(late));
        sender.sendMessage(Bus.message("X"), late);
        ServiceBusReceiverClient second = bus.another().receiver();
        Bus.outlive(began.plus(LIMIT.minusSeconds(10)));
        Bus.nothing(second); // the lock ended long ago
        Bus.outlive(began.plus(LIMIT).plusSeconds(1));
        second.complete(Expect.atOnce("receive A", () -> Bus.receive(second, "A", 1)));
        sender.sendMessage(Bus.message("Y"), late); // refused, which the SDK reports for no send in a transaction
        Expect.error(Kind.TRANSACTION_UNKNOWN, () -> receiver.commitTransaction(late));
        sender.sendMessage(Bus.message("B"), idle);
        receiver.commitTransaction(idle);
        bus.peeks("B");
    }

    private static void survivesKill(Bus bus) throws Exception {
        bus.stubborn();
        bus.send("A", "B");
        ServiceBusReceiverClient receiver = bus.receiver();
        Sender sender = bus.client().sender();
        List<ServiceBusReceivedMessage> both = Bus.receive(receiver, 2);
        ServiceBusTransactionContext committed = receiver.createTransaction();
        receiver.complete(both.get(0), completing(committed));
        sender.sendMessage(Bus.message("C"), committed);
        ServiceBusTransactionContext open = receiver.createTransaction();
        receiver.complete(both.get(1), completing(open));
        sender.sendMessage(Bus.message("X"), open);
        receiver.commitTransaction(committed);
        bus.control.kill();
        Client after = bus.another();
        Expect.equal(List.of("B", "C"), Bus.texts(Bus.insist(() -> after.queue().peekAll())), "peek all after the kill");
        Bus.insist(() -> after.queue().consume("C"));
        ServiceBusReceiverClient late = after.receiver(); // B is locked as it was before the kill
        late.complete(Bus.insist(() -> Bus.receive(late, "B", 1)));
        after.queue().peeks();
    }

    private static void cut(Bus bus) throws Exception {
        bus.stubborn();
        bus.send("A");
        ServiceBusReceiverClient receiver = bus.receiver();
        Sender sender = bus.client().sender();
        ServiceBusReceivedMessage a = Bus.receive(receiver, "A");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(a, completing(transaction));
        sender.sendMessage(Bus.message("X"), transaction);
        bus.control.cut();
        Client after = bus.another();
        Expect.equal(List.of("A"), Bus.texts(Bus.insist(() -> after.queue().peekAll())), "peek all");
        ServiceBusReceiverClient late = after.receiver();
        late.complete(Bus.insist(() -> Bus.receive(late, "A", 1))); // once its lock has ended, which nothing keeps alive any more
        Expect.error(e -> true, () -> receiver.commitTransaction(transaction));
        after.queue().peeks();
    }
}
