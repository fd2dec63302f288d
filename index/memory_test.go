package index

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// held is how many bytes the result of build takes, for each of n parts.
func held(n int, build func() any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	// the previous contents may have been removed
	return float64(int64(after.HeapAlloc-before.HeapAlloc)) / float64(n)
}

// P23: the lasting memory of a waiting message, in a queue and as a copy in a subscription, and of
// a session, a remembered message id and a scheduled message. Not parallel: it measures the heap.
func TestMemory(t *testing.T) {
	const n = 100_000
	store := func(change func(i int, ev *event.MessageEnqueued)) func() any {
		return func() any {
			x := New()
			for i := range n {
				ev := enqueued(event.SequenceNumber(i + 1))
				change(i, ev)
				x.Apply(1000, ev)
			}
			return x
		}
	}
	alone := held(n, store(func(int, *event.MessageEnqueued) {}))
	for _, c := range []struct {
		name  string
		bound float64
		build func() any
	}{
		{"message", 60, store(func(int, *event.MessageEnqueued) {})},
		// a message and its number in the topic, which most have in common
		{"copy, one subscription", 62, func() any { return fannedOut(n, 1) }},
		{"copy, ten subscriptions", 62, func() any { return fannedOut(n, 10) }},
		{"session", 400, store(func(i int, ev *event.MessageEnqueued) {
			ev.InSession, ev.SessionID = true, fmt.Appendf(nil, "session-%08d", i)
		})},
		{"remembered id", 130, store(func(i int, ev *event.MessageEnqueued) {
			ev.MessageID, ev.DuplicateUntil = fmt.Appendf(nil, "a message id of usual length %d", i), 1<<40
		})},
		{"scheduled message", 130, func() any {
			x := New()
			for i := range event.SequenceNumber(n) {
				x.Apply(1000, &event.MessageScheduled{Envelope: q1, Sequence: i + 1, ScheduledFor: event.Time(2000 + i), TimeToLive: time.Hour})
			}
			return x
		}},
		// and its number there, and the numbers that have arrived
		{"copy of a message from elsewhere", 62, store(func(i int, ev *event.MessageEnqueued) {
			ev.Arrival = movedHere(i)
		})},
		// whose numbers have nothing in common
		{"copy, from two places in turn", 75, store(func(i int, ev *event.MessageEnqueued) {
			ev.Arrival = movedHere(i)
			ev.Arrival.First += event.SequenceNumber(i % 2 * n)
		})},
		{"copy of a dead letter from elsewhere", 95, store(func(i int, ev *event.MessageEnqueued) {
			ev.Arrival = movedHere(i)
			ev.Arrival.DeadLetterSource = "a queue of some name"
		})},
		{"message in transfer", 100, func() any { return leaving(n) }},
	} {
		got := held(n, c.build)
		if c.name != "message" && !strings.HasPrefix(c.name, "copy") {
			got -= alone
		}
		t.Logf("%s: %.0f bytes", c.name, got)
		if got > c.bound {
			t.Errorf("%s: %.0f bytes, at most %.0f are meant", c.name, got, c.bound)
		}
	}
}

// fannedOut has that many messages, copies in subscriptions.
func fannedOut(n, subscriptions int) *Index {
	x := New()
	for i := range n / subscriptions {
		seq := event.SequenceNumber(i + 1)
		ev := &event.MessagePublished{Envelope: q1, Sequence: seq, EnqueuedAt: 1000, Body: event.Blob{Position: event.Position(seq * 100), Size: 10}}
		for s := range subscriptions {
			ev.Copies = append(ev.Copies, event.Copy{Subscription: event.EntityID(100 + s), Sequence: seq})
		}
		x.Apply(1000, ev)
	}
	return x
}

// leaving has that many messages, all of them in transfer.
func leaving(n event.SequenceNumber) *Index {
	x := New()
	for i := range n {
		x.Apply(1000, enqueued(i+1))
		x.Apply(1000, &event.TransferStarted{Envelope: q1, Destination: 7, Trigger: event.TriggerForward, First: event.TransferNumber(i + 1),
			Sequences: []event.SequenceNumber{i + 1}})
	}
	return x
}

// movedHere returns the arrival of the i-th of many messages, none of which is settled at its
// source.
func movedHere(i int) *event.Arrival {
	return &event.Arrival{Source: event.Slice{Entity: 50}, Number: event.TransferNumber(i + 1), Hops: 1, First: event.SequenceNumber(i + 1)}
}

// P23: a million messages go through an entity, a few at a time: nothing is left of them there, and
// at the destination nothing but they.
func TestMemoryOfMoves(t *testing.T) {
	const n, window = 1_000_000, 256
	x := New()
	grown := held(1, func() any {
		for first := event.SequenceNumber(1); first < n; first += window {
			ev := &event.TransferStarted{Envelope: q1, Destination: 8, Trigger: event.TriggerForward, First: event.TransferNumber(first)}
			over := &event.TransfersFinished{Envelope: q1}
			for i := range event.SequenceNumber(window) {
				x.Apply(1, enqueued(first+i))
				ev.Sequences, over.Numbers = append(ev.Sequences, first+i), append(over.Numbers, event.TransferNumber(first+i))
			}
			x.Apply(1, ev)
			for i, number := range over.Numbers {
				x.Apply(1, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 8}}, Sequence: first + event.SequenceNumber(i), Body: event.Blob{Position: 1, Size: 1},
					Arrival: &event.Arrival{Source: q1.Slice, Number: number, Floor: over.Numbers[0], Hops: 1, First: first}})
				x.Apply(1, &event.MessageExpired{Envelope: event.Envelope{Slice: event.Slice{Entity: 8}}, Sequence: first + event.SequenceNumber(i)})
			}
			x.Apply(1, over)
		}
		return x
	})
	if t.Logf("%.0f bytes are left", grown); grown > 100_000 {
		t.Errorf("%d messages that moved left %.0f bytes", n, grown)
	}
}

// P23: memory of removed data is freed or reused: sessions are added and removed one by one.
func TestSessionsComeAndGo(t *testing.T) {
	x := New()
	const n = 50_000
	var seq event.SequenceNumber
	grown := held(1, func() any {
		for i := range n {
			seq++
			ev := enqueued(seq)
			ev.InSession, ev.SessionID = true, fmt.Appendf(nil, "s%d", i)
			x.Apply(1, ev)
			tok := event.LockToken{byte(i), byte(i >> 8), byte(i >> 16)}
			x.Apply(1, &event.SessionAccepted{Envelope: q1, SessionID: ev.SessionID, Token: tok, LockedUntil: 1000})
			x.Apply(1, &event.SessionReleased{Envelope: q1, SessionID: ev.SessionID, Cause: event.ReleaseClosed})
			x.Apply(1, &event.MessageExpired{Envelope: q1, Sequence: seq})
		}
		return x
	})
	if grown > 60_000 {
		t.Errorf("%d sessions that are gone left %.0f bytes", n, grown)
	}
}

// P23: sessions that are only accepted by name leave the list of waiting sessions from anywhere.
func TestRowOfWaitingSessionsIsBounded(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range event.SequenceNumber(100) {
		ev := enqueued(i + 1)
		ev.InSession, ev.SessionID = true, fmt.Appendf(nil, "s%d", i)
		x.Apply(1, ev)
	}
	for i := range 30_000 {
		name := fmt.Appendf(nil, "s%d", i*7%100)
		x.Apply(1, &event.SessionAccepted{Envelope: q1, SessionID: name, Token: event.LockToken{1}, LockedUntil: 1000})
		x.Apply(1, &event.SessionReleased{Envelope: q1, SessionID: name, Cause: event.ReleaseClosed})
	}
	if got := len(x.slices.byID[q1.Slice].sessions.waiting); got > 300 {
		t.Errorf("%d entries for 100 sessions", got)
	}
	if s, ok := x.NextSession(q1.Slice); !ok || s.ID != "s0" {
		t.Errorf("next is %q", s.ID)
	}
}

// A long history expires at once: no single send pays for all of it, and it shrinks as new ids are
// added.
func TestHistoryGoesLittleByLittle(t *testing.T) {
	t.Parallel()
	x := New()
	store := func(now event.Time, i int) {
		ev := enqueued(x.NextSequence(q1.Slice))
		ev.EnqueuedAt, ev.MessageID, ev.DuplicateUntil = now, fmt.Appendf(nil, "%d", i), now+1000
		x.Apply(now, ev)
	}
	const n = 10_000
	for i := range n {
		store(5, i)
	}
	if got := x.Forgettable(q1.Slice, 1004, 3); got != 0 {
		t.Errorf("%d are over too early", got)
	}
	if got := x.Forgettable(q1.Slice, 1005, 3); got != 3 {
		t.Errorf("%d of 3 make room", got)
	}
	store(1005, 5) // one of the old ids: accepted again
	if got := x.Remembered(q1.Slice); got != n-maxForget {
		t.Errorf("%d are left after one send", got)
	}
	for i := range n {
		store(1006, n+i)
	}
	if got := x.Remembered(q1.Slice); got != n+1 {
		t.Errorf("%d are left after as many sends", got)
	}
	if _, twice := x.Duplicate(q1.Slice, 1006, event.Identity{Type: event.IDString, ID: []byte("5")}); !twice {
		t.Error("the id that came again is forgotten")
	}
}

// The memory of a subscription that has one message, and of one that had one.
func TestMemoryOfFewMessages(t *testing.T) {
	const topics, each = 16, 2000 // subscriptions of one topic (semantics.md 16.3)
	sub := func(topic, i int) event.EntityID { return event.EntityID(100 + topic*each + i) }
	build := func(gone bool) func() any {
		return func() any {
			x := New()
			for topic := range topics {
				ev := &event.MessagePublished{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(1 + topic)}}, Sequence: 1,
					EnqueuedAt: 1000, Body: event.Blob{Position: 100, Size: 10}}
				for i := range each {
					ev.Copies = append(ev.Copies, event.Copy{Subscription: sub(topic, i), Sequence: 1})
				}
				x.Apply(1000, ev)
				for i := 0; gone && i < each; i++ {
					x.Apply(1000, &event.MessageReceivedAndDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: sub(topic, i)}}, Sequence: 1})
				}
			}
			return x
		}
	}
	one, none := held(topics*each, build(false)), held(topics*each, build(true))
	t.Logf("subscription with one message: %.0f bytes, at rest: %.0f bytes", one, none)
	if one > 1024 || none > 1024 {
		t.Errorf("%.0f and %.0f bytes, at most 1024 are meant", one, none)
	}
}

// S4-06: two thousand subscriptions of a partitioned topic, with one message in each of the sixteen
// partitions of each, take 64 MB at most.
func TestMemoryOfPartitionedSubscriptions(t *testing.T) {
	const each, most = 2000, 64_000_000
	one := held(each*event.MaxEntityPartitions, func() any {
		x := New()
		for p := range uint8(event.MaxEntityPartitions) {
			first := event.SequenceNumber(p)<<48 + 1
			ev := &event.MessagePublished{Envelope: event.Envelope{Slice: event.Slice{Entity: 1, Partition: p}}, Sequence: first, EnqueuedAt: 1000,
				Body: event.Blob{Position: 100, Size: 10}}
			for i := range each {
				ev.Copies = append(ev.Copies, event.Copy{Subscription: event.EntityID(100 + i), Sequence: first})
			}
			x.Apply(1000, ev)
		}
		return x
	})
	all := one * each * event.MaxEntityPartitions
	t.Logf("%.1f MB, %.0f bytes for a partition with one message", all/1e6, one)
	if all > most {
		t.Errorf("%.0f bytes, at most %d are meant", all, most)
	}
}

// Few messages that are left of many take little more than they would by themselves.
func TestMemoryOfLeftMessages(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		every int // that many go for each that stays
		bound float64
	}{{4, 110}, {16, 220}, {64, 320}} {
		got := held(n/c.every, func() any {
			x := New()
			for i := range event.SequenceNumber(n) {
				x.Apply(1000, enqueued(i+1))
			}
			for i := range event.SequenceNumber(n) {
				if int(i)%c.every != 0 {
					x.Apply(1000, &event.MessageExpired{Envelope: q1, Sequence: i + 1})
				}
			}
			return x
		})
		t.Logf("one of %d: %.0f bytes", c.every, got)
		if got > c.bound {
			t.Errorf("one of %d is left: it takes %.0f bytes, at most %.0f are meant", c.every, got, c.bound)
		}
	}
}

// Rows take most of the memory.
func TestSizeOfRow(t *testing.T) {
	t.Parallel()
	if got := reflect.TypeFor[row]().Size(); got != 48 {
		t.Errorf("a row has %d bytes", got)
	}
}
