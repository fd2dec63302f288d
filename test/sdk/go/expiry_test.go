package sdkgo

import (
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var expiry = group{
	"expiry-dropped":       expiryDropped,
	"expiry-lazy":          expiryLazy,
	"expiry-queue-default": expiryQueueDefault,
	"expiry-locked":        expiryLocked,
	"expiry-lock-end":      expiryLockEnd,
	"expiry-deferred":      expiryDeferred,
	"expiry-milliseconds":  expiryMilliseconds,
	"expiry-32-bits":       expiry32Bits,
}

const expired = "TTLExpiredException"

func expiryDropped(b *bus) {
	b.post(mortal("A", time.Second))
	outlive(time.Now().Add(time.Second))
	b.nothing(b.receiver())
	b.empty(peekLock)
	b.empty(deadLetters)
}

func expiryLazy(b *bus) {
	dead := b.waiting(b.deadLetters())
	b.post(mortal("A", time.Second), text("B"))
	a := b.peekAll(peekLock)[0]
	b.wantTexts([]*received{a}, "A")
	b.wantExpiry(a, time.Second)
	outlive(a.ExpiresAt.Add(time.Second))
	b.wantTexts(b.peekAll(peekLock), "A", "B")
	b.still(dead)

	r := b.receiver()
	b.one(r, "B")
	b.nothing(r)
	asked := time.Now()
	m := b.ended(dead, "A")
	b.wantBefore("the dead letter", dead.at, asked.Add(promptly))
	b.wantReason(m, expired)
	b.wantDescription(m, "The message expired and was dead lettered.")
	b.wantTexts(b.peekAll(peekLock), "B")
}

func expiryQueueDefault(b *bus) {
	const limit = 3 * time.Second
	r := b.receiver()
	b.warmUp(r)
	b.post(text("A"), text("C"), mortal("B", time.Hour))
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "A", "C", "B")
	b.wantLasting(peeked[:2]...)
	b.wantExpiry(peeked[2], limit)
	a := b.one(r, "A")
	b.wantExpiry(a, limit)
	b.complete(r, a)
	outlive(deref(peeked[2].ExpiresAt))
	b.nothing(r)
	for _, m := range b.take(b.deadLetters(), "C", "B") {
		b.wantReason(m, expired)
	}
}

func expiryLocked(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	b.post(mortal("A", 4*time.Second), mortal("B", 4*time.Second))
	got := b.take(r, "A", "B")
	b.nothingUntil(b.receiver(), deref(got[1].ExpiresAt).Add(1100*time.Millisecond))
	b.complete(r, got[0])
	b.abandon(r, got[1])
	b.empty(peekLock)
	dlq := b.deadLetters()
	dead := b.one(dlq, "B")
	b.wantReason(dead, expired)
	b.abandon(dlq, dead)
	time.Sleep(1500 * time.Millisecond)
	b.complete(dlq, b.one(dlq, "B"))
	b.empty(deadLetters)
}

func expiryLockEnd(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	b.post(mortal("A", 4*time.Second))
	m := b.one(r, "A")
	c := b.waiting(b.deadLetters())
	b.wantReason(b.ended(c, "A"), expired)
	b.wantBefore("the dead letter", c.at, deref(m.LockedUntil).Add(promptly))
	b.empty(peekLock)
}

func expiryDeferred(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	b.post(mortal("A", 4*time.Second))
	m := b.one(r, "A")
	b.postpone(r, m)
	b.nothingUntil(b.receiver(), deref(m.ExpiresAt).Add(100*time.Millisecond))
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "A")
	b.wantState(peeked[0], azservicebus.MessageStateDeferred)
	b.empty(deadLetters)
	b.wantMissing(r, number(m))
	b.wantReason(b.one(b.deadLetters(), "A"), expired)
	b.empty(peekLock)
}

func expiryMilliseconds(b *bus) {
	lives := []time.Duration{time.Millisecond, 20 * time.Millisecond, 333 * time.Millisecond}
	b.post(mortal("A", lives[0]), mortal("B", lives[1]), mortal("C", lives[2]))
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "A", "B", "C")
	for i, m := range peeked {
		b.wantExpiry(m, lives[i])
		b.wantAbout("absolute-expiry-time", deref(m.RawAMQPMessage.Properties.AbsoluteExpiryTime), deref(m.EnqueuedTime).Add(lives[i]), 0)
	}
	outlive(deref(peeked[2].ExpiresAt))
	b.nothing(b.receiver())
	for _, m := range b.take(b.deadLetters(), "A", "B", "C") {
		b.wantReason(m, expired)
	}
	b.empty(peekLock)
}

func expiry32Bits(b *bus) {
	const life = 60 * 24 * time.Hour
	now := time.Now().Truncate(time.Millisecond)
	b.must(b.sender.SendAMQPAnnotatedMessage(b.patient(), &azservicebus.AMQPAnnotatedMessage{
		Body:       azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("A")}},
		Header:     &azservicebus.AMQPAnnotatedMessageHeader{TTL: math.MaxUint32 * time.Millisecond},
		Properties: &azservicebus.AMQPAnnotatedMessageProperties{CreationTime: &now, AbsoluteExpiryTime: to.Ptr(now.Add(life))},
	}, nil))
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "A")
	for _, m := range append(peeked, b.one(b.receiver(), "A")) {
		b.wantAbout("absolute-expiry-time", deref(m.RawAMQPMessage.Properties.AbsoluteExpiryTime), deref(m.EnqueuedTime).Add(life), time.Second)
	}
}
