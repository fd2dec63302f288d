package sdkgo

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func peeking(b *bus) {
	b.empty(peekLock) // 204 on the wire
	b.send("locked", "deferred", "active")
	r := b.receiver(peekLock)
	got := b.take(r, 2)
	b.must(r.DeferMessage(b.patient(), got[1], nil))
	for range 2 {
		peeked := b.peek(peekLock)
		b.wantBodies(peeked, "locked", "deferred", "active")
		for i, state := range []azservicebus.MessageState{azservicebus.MessageStateActive, azservicebus.MessageStateDeferred, azservicebus.MessageStateActive} {
			m, count := peeked[i], uint32(0)
			if state == azservicebus.MessageStateDeferred {
				count = 1 // deferring counts
			}
			if m.State != state || failures(m) != count || m.LockedUntil != nil || m.LockToken != [16]byte{} {
				b.Errorf("%q: state %d, count %d, locked until %v by %x", m.Body, m.State, failures(m), m.LockedUntil, m.LockToken)
			}
			if i > 0 && *m.SequenceNumber <= *peeked[i-1].SequenceNumber {
				b.Errorf("%q has number %d after %d", m.Body, *m.SequenceNumber, *peeked[i-1].SequenceNumber)
			}
		}
	}
	b.must(r.CompleteMessage(b.patient(), got[0], nil)) // peek took no lock away
	b.wantBodies(b.take(r, 1), "active")
}

func peekPages(b *bus) {
	const n = 230
	b.sendMany(n)
	r := b.receiver(peekLock)
	var all []*azservicebus.ReceivedMessage // the receiver goes on by itself
	for len(all) < n {
		some, err := r.PeekMessages(b.patient(), 50, nil)
		b.must(err)
		if len(some) == 0 || len(some) > 50 {
			b.Fatalf("a page of 50 behind %d messages has %d", len(all), len(some))
		}
		all = append(all, some...)
	}
	for i, m := range all {
		if string(m.Body) != fmt.Sprint(i) {
			b.Fatalf("place %d has message %q", i, m.Body)
		}
	}
	if some, err := r.PeekMessages(b.patient(), 50, nil); err != nil || len(some) != 0 {
		b.Errorf("behind the end: %d messages, %v", len(some), err)
	}
	from := func(number int64) []*azservicebus.ReceivedMessage {
		some, err := r.PeekMessages(b.patient(), 2, &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr(number)})
		b.must(err)
		return some
	}
	b.wantBodies(from(*all[100].SequenceNumber), "100", "101") // inclusive
	b.wantBodies(from(0), "0", "1")
	b.wantBodies(from(*all[n-1].SequenceNumber + 1))
}

func peekLarge(b *bus) {
	s := b.sender()
	const n = 12
	for i := range n {
		b.must(s.SendMessage(b.patient(), &azservicebus.Message{Body: noise(200 << 10), Subject: to.Ptr(fmt.Sprint(i))}, nil))
	}
	peeked := b.peek(peekLock)
	if len(peeked) != n {
		b.Fatalf("%d messages of %d", len(peeked), n)
	}
	for i, m := range peeked {
		if deref(m.Subject) != fmt.Sprint(i) || len(m.Body) != 200<<10 {
			b.Errorf("place %d: %q with %d bytes", i, deref(m.Subject), len(m.Body))
		}
	}
}

func peekDeadLetters(b *bus) {
	b.empty(deadLetters)
	b.bury("a", "b")
	b.wantBodies(b.peek(deadLetters), "a", "b")
	b.empty(peekLock)
}
