package index

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A message's life in a queue that has nothing waiting: each is locked and completed before the
// next comes.
func BenchmarkMessageAlone(b *testing.B) {
	x := New()
	b.ReportAllocs()
	for i := range b.N {
		seq := x.NextSequence(q1.Slice)
		x.Apply(1, enqueued(seq))
		tok := event.LockToken{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: seq, Token: tok, LockedUntil: event.Time(60000 + i/100)})
		x.Apply(1, &event.MessageCompleted{Envelope: q1, Sequence: seq, Token: tok})
	}
}

// Messages of a backlog are locked and completed, with a thousand locks at a time that all end
// within the same seconds.
func BenchmarkReceived(b *testing.B) {
	const locked = 1000
	x := New()
	for i := range b.N {
		x.Apply(1, enqueued(event.SequenceNumber(i+1)))
	}
	token := func(i int) event.LockToken {
		h := uint64(i+1) * 0x9e3779b97f4a7c15 // as random as those of a broker
		return event.LockToken{byte(h), byte(h >> 8), byte(h >> 16), byte(h >> 24), byte(h >> 32), byte(h >> 40), byte(h >> 48), byte(h >> 56)}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N + locked {
		if i < b.N {
			x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: event.SequenceNumber(i + 1), Token: token(i), LockedUntil: event.Time(60000 + i/100)})
		}
		if done := i - locked; done >= 0 && done < b.N {
			x.Apply(1, &event.MessageCompleted{Envelope: q1, Sequence: event.SequenceNumber(done + 1), Token: token(done)})
		}
	}
}

// Sends with duplicate detection, of ids that stay for 10,000 sends.
func BenchmarkRememberedID(b *testing.B) {
	x := New()
	b.ReportAllocs()
	ev := enqueued(0)
	for i := range b.N {
		ev.Sequence, ev.EnqueuedAt = event.SequenceNumber(i+1), event.Time(i+1)
		ev.MessageID, ev.DuplicateUntil = fmt.Appendf(ev.MessageID[:0], "id %d", i), ev.EnqueuedAt+10_000
		x.Apply(ev.EnqueuedAt, ev)
		x.Apply(ev.EnqueuedAt, &event.MessageReceivedAndDeleted{Envelope: q1, Sequence: ev.Sequence})
	}
}

// A message in a session: sent, the session accepted, locked, completed, the session released.
func BenchmarkSessionLife(b *testing.B) {
	x := New()
	ids := make([][]byte, 1000)
	for i := range ids {
		ids[i] = fmt.Appendf(nil, "session-%d", i)
	}
	b.ReportAllocs()
	for i := range b.N {
		ev := enqueued(x.NextSequence(q1.Slice))
		ev.InSession, ev.SessionID = true, ids[i%len(ids)]
		x.Apply(1, ev)
		tok, held := event.LockToken{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}, event.LockToken{15: 1}
		x.Apply(1, &event.SessionAccepted{Envelope: q1, SessionID: ev.SessionID, Token: held, LockedUntil: event.Time(60000 + i/100)})
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: ev.Sequence, Token: tok})
		x.Apply(1, &event.MessageCompleted{Envelope: q1, Sequence: ev.Sequence, Token: tok})
		x.Apply(1, &event.SessionReleased{Envelope: q1, SessionID: ev.SessionID, Cause: event.ReleaseClosed})
	}
}

// A message to 1000 subscriptions, each of which gets its copy.
func BenchmarkFanOut(b *testing.B) {
	const n = 1000
	x := New()
	ev := &event.MessagePublished{Envelope: q1, EnqueuedAt: 1000, Body: event.Blob{Position: 100, Size: 10}, Copies: make([]event.Copy, n)}
	b.ReportAllocs()
	for i := range b.N {
		ev.Sequence = event.SequenceNumber(i + 1)
		for s := range ev.Copies {
			ev.Copies[s] = event.Copy{Subscription: event.EntityID(100 + s), Sequence: ev.Sequence}
		}
		x.Apply(1000, ev)
		for s := range n {
			x.Apply(1000, &event.MessageReceivedAndDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(100 + s)}}, Sequence: ev.Sequence})
		}
	}
}

// A start reads the state of a million waiting messages.
func BenchmarkDecode(b *testing.B) {
	x := New()
	const n = 1_000_000
	for seq := range event.SequenceNumber(n) {
		x.Apply(1, enqueued(seq+1))
	}
	src := x.Encode(nil)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := Decode(src); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
}

func BenchmarkEncode(b *testing.B) {
	x := New()
	const n = 1_000_000
	for seq := range event.SequenceNumber(n) {
		x.Apply(1, enqueued(seq+1))
	}
	var dst []byte
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		dst = x.Encode(dst[:0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
}

// Messages come until a million wait, and then leave from the front.
func BenchmarkBacklog(b *testing.B) {
	const n = 1_000_000
	b.ReportAllocs()
	for range b.N {
		x := New()
		ev := enqueued(0)
		for seq := range event.SequenceNumber(n) {
			ev.Sequence = seq + 1
			x.Apply(1, ev)
		}
		gone := &event.MessageReceivedAndDeleted{Envelope: q1}
		for range n {
			m, _ := x.First(q1.Slice, event.Main)
			gone.Sequence = m.Sequence
			x.Apply(1, gone)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
}
