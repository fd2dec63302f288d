package sdkgo

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func maxDeliveryCount(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	for n := range uint32(3) {
		m := b.takeOne(r)
		if failures(m) != n {
			b.Errorf("delivery %d has count %d", n+1, failures(m))
		}
		b.must(r.AbandonMessage(b.patient(), m, nil))
	}
	b.exceeded(3)
	b.nothing(r)
}

func maxDeliveryCountByLocks(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	for n := range uint32(2) {
		if m := b.takeOne(r); failures(m) != n {
			b.Errorf("delivery %d has count %d", n+1, failures(m))
		}
	}
	b.exceeded(2)
}

// exceeded checks that the message is in the dead-letter queue because it was delivered too often.
func (b *bus) exceeded(count uint32) {
	b.Helper()
	m := b.takeOne(b.receiver(deadLetters))
	if deref(m.DeadLetterReason) != "MaxDeliveryCountExceeded" || deref(m.DeadLetterErrorDescription) == "" || failures(m) != count {
		b.Errorf("reason %q, description %q, count %d", deref(m.DeadLetterReason), deref(m.DeadLetterErrorDescription), failures(m))
	}
	b.empty(peekLock)
}

// bury puts messages into the dead-letter queue.
func (b *bus) bury(texts ...string) {
	b.Helper()
	b.send(texts...)
	r := b.receiver(peekLock)
	for _, m := range b.take(r, len(texts)) {
		b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{Reason: to.Ptr("buried")}))
	}
	b.must(r.Close(b.patient()))
}

func deadLetterAbandon(b *bus) {
	b.bury("a")
	dlq := b.receiver(deadLetters)
	count := failures(b.peek(deadLetters)[0])
	for range 4 {
		m := b.takeOne(dlq)
		if failures(m) != count || deref(m.DeadLetterReason) != "buried" {
			b.Errorf("count %d, reason %q", failures(m), deref(m.DeadLetterReason))
		}
		b.must(dlq.AbandonMessage(b.patient(), m, nil))
	}
}

func deadLetterTwice(b *bus) {
	b.bury("a")
	dlq := b.receiver(deadLetters)
	m := b.takeOne(dlq)
	if err := dlq.DeadLetterMessage(b.patient(), m, nil); err == nil {
		b.Error("dead-lettering a dead letter was no error")
	}
	b.wantBodies(b.peek(deadLetters), "a")
	b.must(dlq.CompleteMessage(b.patient(), token(m), nil)) // it is locked still
	b.empty(deadLetters)
}

func resubmit(b *bus) {
	b.bury("a")
	dlq := b.receiver(deadLetters)
	dead := b.takeOne(dlq)
	b.must(b.sender().SendMessage(b.patient(), dead.Message(), nil))
	b.must(dlq.CompleteMessage(b.patient(), dead, nil))
	b.empty(deadLetters)
	m := b.takeOne(b.receiver(peekLock))
	if string(m.Body) != "a" || m.MessageID != dead.MessageID || *m.SequenceNumber <= *dead.SequenceNumber || failures(m) != 0 {
		b.Errorf("%q, id %q, number %d, count %d", m.Body, m.MessageID, *m.SequenceNumber, failures(m))
	}
}

func deadLetterPaths(b *bus) {
	b.bury("a")
	for _, path := range []string{"orders/$DeadLetterQueue", "ORDERS/$deadletterqueue"} {
		r, err := b.client.NewReceiverForQueue(path, nil)
		b.must(err)
		m := b.takeOne(r)
		b.wantBodies([]*azservicebus.ReceivedMessage{m}, "a")
		b.must(r.AbandonMessage(b.patient(), m, nil))
		b.must(r.Close(b.patient()))
	}
	s, err := b.client.NewSender("orders/$DeadLetterQueue", nil)
	b.must(err)
	if err := s.SendMessage(b.patient(), text("b"), nil); err == nil {
		b.Error("a dead-letter queue took a message from a sender")
	}
	b.wantBodies(b.peek(deadLetters), "a")
}
