package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var locks = group{
	"lock-renew":           lockRenew,
	"lock-expiry":          lockExpiry,
	"lock-closed-receiver": lockClosedReceiver,
	"lock-token-elsewhere": lockTokenElsewhere,
	"lock-max-delivery":    lockMaxDelivery,
}

func lockRenew(b *bus) {
	r, elsewhere := b.receiver(), b.elsewhere()
	b.warmUp(r)
	b.attach(elsewhere) // or the second renewal waits for its connection
	b.send("A")
	m := b.one(r, "A")
	b.wantLocked(m, 5*time.Second, 2*time.Second)
	first := *m.LockedUntil
	for _, holder := range []receiver{r, elsewhere} {
		time.Sleep(2 * time.Second)
		b.renew(holder, m)
		b.wantLocked(m, 5*time.Second, 2*time.Second)
	}
	outlive(first)
	b.nothing(elsewhere)
	b.complete(r, m)
	b.empty(peekLock)
}

// renew renews the lock of a message.
func (b *bus) renew(r receiver, m *received) {
	b.Helper()
	b.must(r.(*azservicebus.Receiver).RenewMessageLock(b.patient(), m, nil))
}

func lockExpiry(b *bus) {
	b.send("A")
	first := b.receiver()
	old := b.one(first, "A")
	second := b.elsewhere()
	m := b.redelivered(second, old)
	if m.LockToken == old.LockToken {
		b.Errorf("the same token %x", m.LockToken)
	}
	b.wantError("lock-lost", first.CompleteMessage(b.patient(), old, nil))
	b.wantError("lock-lost", first.RenewMessageLock(b.patient(), old, nil))
	b.complete(second, m)
	b.empty(peekLock)
	b.empty(deadLetters)
}

// redelivered receives a message once its lock has ended, and checks that this is on time and
// counts.
func (b *bus) redelivered(r receiver, old *received) *received {
	b.Helper()
	c := b.waiting(r)
	m := b.ended(c, string(old.Body))
	b.wantOnTime("redelivered", c.at, deref(old.LockedUntil))
	b.wantCount(m, count(old)+1)
	b.wantNumber(m, old)
	return m
}

func lockClosedReceiver(b *bus) {
	b.send("A")
	first := b.receiver()
	old := b.one(first, "A")
	b.close(first)
	r := b.elsewhere()
	b.nothing(r)
	m := b.redelivered(r, old)
	b.wantError("lock-lost", r.CompleteMessage(b.patient(), old, nil))
	b.complete(r, m)
	b.empty(peekLock)
}

func lockTokenElsewhere(b *bus) {
	b.send("A", "B", "C", "D")
	client := b.connect()
	first := b.receiverOf(client, peekLock)
	got := b.take(first, "A", "B", "C", "D")
	b.close(first)
	b.must(client.Close(b.patient()))
	r := b.elsewhere()
	b.nothing(r)
	for i, m := range got {
		got[i] = token(m) // of the message itself the SDK knows that its connection is gone
	}
	b.complete(r, got[0])
	b.abandon(r, got[1])
	b.postpone(r, got[2])
	b.buryFor("reason", r, got[3])
	b.wantCount(b.one(r, "B"), 1)
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "B", "C")
	b.wantState(peeked[1], azservicebus.MessageStateDeferred)
	b.wantReason(b.one(b.deadLetters(), "D"), "reason")
}

func lockMaxDelivery(b *bus) {
	b.send("A")
	r := b.receiver()
	for n := range 3 {
		m := b.one(r, "A")
		b.wantCount(m, n)
		b.abandon(r, m)
	}
	b.nothing(r)
	b.empty(peekLock)
	dead := b.one(b.deadLetters(), "A")
	b.wantCount(dead, 3)
	b.wantReason(dead, "MaxDeliveryCountExceeded")
	b.wantDescription(dead, "Message could not be consumed after 3 delivery attempts.")
}
