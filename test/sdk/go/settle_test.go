package sdkgo

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func abandon(b *bus) {
	s := b.sender()
	b.must(s.SendMessage(b.patient(), &azservicebus.Message{Body: []byte("a"), ApplicationProperties: map[string]any{"kept": "1", "changed": "old"}}, nil))
	b.send("b", "c")
	r := b.receiver(peekLock)
	for n := range uint32(3) {
		m := b.takeOne(r)
		if string(m.Body) != "a" || failures(m) != n {
			b.Fatalf("delivery %d: %q with count %d", n+1, m.Body, failures(m))
		}
		if n > 0 && (m.ApplicationProperties["changed"] != int64(n) || m.ApplicationProperties["added"] != "by abandon" || m.ApplicationProperties["kept"] != "1") {
			b.Errorf("delivery %d: properties %v", n+1, m.ApplicationProperties)
		}
		b.must(r.AbandonMessage(b.patient(), m, &azservicebus.AbandonMessageOptions{
			PropertiesToModify: map[string]any{"changed": int64(n + 1), "added": "by abandon"}}))
	}
	b.wantBodies(b.take(r, 3), "a", "b", "c")
}

func deferring(b *bus) {
	b.send("a", "b")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	b.must(r.DeferMessage(b.patient(), m, &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"why": "later"}}))
	b.wantBodies(b.take(r, 1), "b")
	b.nothing(r)
	peeked := b.peek(peekLock)
	b.wantBodies(peeked, "a", "b")
	if peeked[0].State != azservicebus.MessageStateDeferred || peeked[0].ApplicationProperties["why"] != "later" || peeked[1].State != azservicebus.MessageStateActive {
		b.Errorf("states %d and %d, properties %v", peeked[0].State, peeked[1].State, peeked[0].ApplicationProperties)
	}
}

func deadLetter(b *bus) {
	b.must(b.sender().SendMessage(b.patient(), &azservicebus.Message{Body: []byte("a"), MessageID: to.Ptr("id"),
		ApplicationProperties: map[string]any{"kept": "1"}}, nil))
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description"),
		PropertiesToModify: map[string]any{"added": int64(5)}}))
	b.empty(peekLock)

	dlq := b.receiver(deadLetters)
	dead := b.takeOne(dlq)
	if deref(dead.DeadLetterReason) != "reason" || deref(dead.DeadLetterErrorDescription) != "description" {
		b.Errorf("reason %q, description %q", deref(dead.DeadLetterReason), deref(dead.DeadLetterErrorDescription))
	}
	p := dead.ApplicationProperties
	if p["DeadLetterReason"] != "reason" || p["DeadLetterErrorDescription"] != "description" || p["kept"] != "1" || p["added"] != int64(5) {
		b.Errorf("properties %v", p)
	}
	if string(dead.Body) != "a" || dead.MessageID != "id" || *dead.SequenceNumber != *m.SequenceNumber {
		b.Errorf("message %+v", dead)
	}
	b.must(dlq.CompleteMessage(b.patient(), dead, nil))
	b.empty(deadLetters)
}

func deadLetterWithoutReason(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	b.must(r.DeadLetterMessage(b.patient(), b.takeOne(r), nil))
	dead := b.takeOne(b.receiver(deadLetters))
	if deref(dead.DeadLetterReason) != "" || deref(dead.DeadLetterErrorDescription) != "" { // the SDK sends empty texts
		b.Errorf("reason %q, description %q", *dead.DeadLetterReason, *dead.DeadLetterErrorDescription)
	}
}

func receivingAndDeleting(b *bus) {
	b.send("a", "b")
	r := b.receiver(receiveAndDelete)
	got := b.take(r, 2)
	b.wantBodies(got, "a", "b")
	if got[0].LockedUntil != nil {
		b.Errorf("locked until %s", got[0].LockedUntil)
	}
	b.empty(peekLock)
	if err := r.CompleteMessage(b.patient(), got[0], nil); err == nil {
		b.Error("completing it was no error") // the SDK's own
	}
	b.send("c")
	b.wantBodies(b.take(r, 1), "c")
}

func secondSettlement(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	b.must(r.CompleteMessage(b.patient(), m, nil))
	b.wantCode(r.CompleteMessage(b.patient(), token(m), nil), azservicebus.CodeLockLost)
	b.wantCode(r.RenewMessageLock(b.patient(), m, nil), azservicebus.CodeLockLost)
}

// released: the SDK gives back, with the outcome released, what comes after a call has ended.
func released(b *bus) {
	r := b.receiver(peekLock)
	ctx, cancel := context.WithTimeout(b.Context(), quiet)
	defer cancel()
	if some, err := r.ReceiveMessages(ctx, 5, nil); len(some) != 0 || err == nil {
		b.Fatalf("%d messages, %v", len(some), err)
	}
	b.send("a") // there are five credits
	m := b.takeOne(b.receiverOf(b.connect(b.broker.ConnectionString()), peekLock))
	if failures(m) != 0 {
		b.Errorf("count %d", failures(m))
	}
}

func settleAfterClose(b *bus) {
	b.send("complete", "abandon", "defer", "dead-letter", "renew")
	first := b.receiver(peekLock)
	got := b.take(first, 5)
	b.must(first.Close(b.patient()))
	r := b.receiverOf(b.connect(b.broker.ConnectionString()), peekLock)
	b.nothing(r) // all are locked still
	b.must(r.CompleteMessage(b.patient(), got[0], nil))
	b.must(r.AbandonMessage(b.patient(), got[1], &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"by": "management"}}))
	b.must(r.DeferMessage(b.patient(), got[2], nil))
	b.must(r.DeadLetterMessage(b.patient(), got[3], &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description")}))
	before := *got[4].LockedUntil
	time.Sleep(10 * time.Millisecond) // the time of the lock has milliseconds
	b.must(r.RenewMessageLock(b.patient(), got[4], nil))
	if !got[4].LockedUntil.After(before) {
		b.Errorf("renewed until %s, was %s", got[4].LockedUntil, before)
	}
	again := b.takeOne(r)
	if string(again.Body) != "abandon" || failures(again) != 1 || again.ApplicationProperties["by"] != "management" {
		b.Errorf("%q, count %d, properties %v", again.Body, failures(again), again.ApplicationProperties)
	}
	b.wantBodies(b.peek(peekLock), "abandon", "defer", "renew")
	dead := b.peek(deadLetters)
	b.wantBodies(dead, "dead-letter")
	if deref(dead[0].DeadLetterReason) != "reason" || deref(dead[0].DeadLetterErrorDescription) != "description" {
		b.Errorf("reason %q, description %q", deref(dead[0].DeadLetterReason), deref(dead[0].DeadLetterErrorDescription))
	}
}

// token is a message of which nothing is known but the lock: the SDK settles it through $management.
func token(m *azservicebus.ReceivedMessage) *azservicebus.ReceivedMessage {
	return &azservicebus.ReceivedMessage{LockToken: m.LockToken, LockedUntil: m.LockedUntil}
}

// settleByToken settles as a program does that was handed nothing but the token.
func settleByToken(b *bus) {
	b.send("complete", "abandon", "defer", "dead-letter")
	r := b.receiver(peekLock)
	var tokens []*azservicebus.ReceivedMessage
	for _, m := range b.take(r, 4) {
		tokens = append(tokens, token(m))
	}
	b.must(r.CompleteMessage(b.patient(), tokens[0], nil))
	b.must(r.AbandonMessage(b.patient(), tokens[1], nil))
	b.must(r.DeferMessage(b.patient(), tokens[2], nil))
	b.must(r.DeadLetterMessage(b.patient(), tokens[3], nil))
	for _, m := range tokens {
		b.wantCode(r.CompleteMessage(b.patient(), m, nil), azservicebus.CodeLockLost)
	}
	b.wantBodies(b.peek(peekLock), "abandon", "defer")
	b.wantBodies(b.peek(deadLetters), "dead-letter")
}

func bogusToken(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	for _, token := range [][16]byte{{}, {1, 2, 3}} {
		m := &azservicebus.ReceivedMessage{LockToken: token}
		b.wantCode(r.CompleteMessage(b.patient(), m, nil), azservicebus.CodeLockLost)
		b.wantCode(r.RenewMessageLock(b.patient(), m, nil), azservicebus.CodeLockLost)
	}
	b.wantBodies(b.take(r, 1), "a")
}
