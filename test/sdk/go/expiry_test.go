package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const shortLife = 300 * time.Millisecond

// mortal sends a message that does not live long.
func (b *bus) mortal(body string) {
	b.Helper()
	b.must(b.sender().SendMessage(b.patient(), &azservicebus.Message{Body: []byte(body), TimeToLive: to.Ptr(shortLife)}, nil))
}

// expired checks that the dead-letter queue has the message, because of its age.
func (b *bus) expired(body string) {
	b.Helper()
	m := b.takeOne(b.receiver(deadLetters))
	if string(m.Body) != body || deref(m.DeadLetterReason) != "TTLExpiredException" || deref(m.DeadLetterErrorDescription) != "The message expired and was dead lettered." {
		b.Errorf("%q, reason %q, description %q", m.Body, deref(m.DeadLetterReason), deref(m.DeadLetterErrorDescription))
	}
	b.empty(peekLock)
}

func outlive(m *azservicebus.ReceivedMessage) {
	time.Sleep(time.Until(*m.ExpiresAt) + 5*time.Millisecond)
}

func timeToLive(b *bus) {
	b.mortal("old")
	b.send("young")
	peeked := b.peek(peekLock)
	b.wantBodies(peeked, "old", "young")
	if m := peeked[0]; deref(m.TimeToLive) != shortLife || !deref(m.ExpiresAt).Equal(m.EnqueuedTime.Add(shortLife)) {
		b.Errorf("time to live %v, enqueued %s, expires %v", m.TimeToLive, m.EnqueuedTime, m.ExpiresAt)
	}
	if m := peeked[1]; deref(m.TimeToLive) != 0 { // then the SDK computes a time of expiry that means nothing
		b.Errorf("no limit: time to live %v", m.TimeToLive)
	}
	outlive(peeked[0])
	r := b.receiver(peekLock)
	young := b.takeOne(r)
	b.wantBodies([]*azservicebus.ReceivedMessage{young}, "young")
	b.must(r.CompleteMessage(b.patient(), young, nil))
	b.expired("old")
}

func timeToLiveDropped(b *bus) {
	b.mortal("a")
	outlive(b.peek(peekLock)[0])
	b.nothing(b.receiver(peekLock))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func timeToLiveLimit(b *bus) {
	s := b.sender()
	b.must(s.SendMessage(b.patient(), &azservicebus.Message{Body: []byte("own"), TimeToLive: to.Ptr(time.Hour)}, nil))
	b.must(s.SendMessage(b.patient(), text("none"), nil))
	for _, m := range b.take(b.receiver(peekLock), 2) {
		if deref(m.TimeToLive) != time.Minute || !deref(m.ExpiresAt).Equal(m.EnqueuedTime.Add(time.Minute)) {
			b.Errorf("%q: time to live %v, enqueued %s, expires %v", m.Body, m.TimeToLive, m.EnqueuedTime, m.ExpiresAt)
		}
	}
}

func timeToLiveLocked(b *bus) {
	b.mortal("a")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	outlive(m)
	b.must(r.CompleteMessage(b.patient(), m, nil))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func timeToLiveAbandoned(b *bus) {
	b.mortal("a")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	outlive(m)
	b.must(r.AbandonMessage(b.patient(), m, nil))
	b.expired("a")
	b.nothing(r)
}
