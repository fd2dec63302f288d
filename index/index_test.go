package index

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var q1 = event.Envelope{Slice: event.Slice{Entity: 7}}

func enqueued(seq event.SequenceNumber) *event.MessageEnqueued {
	return &event.MessageEnqueued{Envelope: q1, Sequence: seq, EnqueuedAt: 1000,
		Body: event.Blob{Position: event.Position(seq * 100), Size: 10, Sum: uint32(seq)}}
}

// random applies n random legal events.
func random(x *Index, rng *rand.Rand, n int) {
	id := q1.Slice
	for range n {
		switch rng.IntN(4) {
		case 0, 1:
			x.Apply(1, enqueued(x.NextSequence(id)))
		case 2:
			if m, ok := x.First(id, event.Main); ok {
				var tok event.LockToken
				for i := range tok {
					tok[i] = byte(rng.Uint32())
				}
				x.Apply(2, &event.MessageLocked{Envelope: q1, Sequence: m.Sequence, Token: tok,
					LockedUntil: event.Time(rng.IntN(100000)), DeliveryCount: m.DeliveryCount})
			}
		case 3:
			due := x.Due(event.EndOfTime, 1)
			if len(due) == 0 {
				continue
			}
			l := due[0]
			switch rng.IntN(6) {
			case 0:
				x.Apply(3, &event.MessageCompleted{Envelope: q1, Sequence: l.Sequence, Token: l.Token})
			case 1:
				x.Apply(3, &event.MessageAbandoned{Envelope: q1, Sequence: l.Sequence, Token: l.Token, DeliveryCount: 1,
					Changes: event.Blob{Position: 5, Size: 3}})
			case 2:
				x.Apply(3, &event.LockRenewed{Envelope: q1, Sequence: l.Sequence, Token: l.Token, LockedUntil: l.Until + 500})
			case 3:
				x.Apply(3, &event.MessageDeferred{Envelope: q1, Sequence: l.Sequence, Token: l.Token})
			case 4:
				x.Apply(3, &event.MessageReleased{Envelope: q1, Sequence: l.Sequence, Token: l.Token})
			case 5:
				if m, _ := x.Message(id, l.Sequence); m.SubQueue == event.Main {
					x.Apply(3, &event.MessageDeadLettered{Envelope: q1, Sequence: l.Sequence, Token: l.Token})
				}
			}
		}
	}
}

// R9, SM-361: an index that went through its encoding is the same index, and goes on the same way.
func TestEncodingIsCanonical(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		x := New()
		random(x, rand.New(rand.NewPCG(seed, 1)), 3000)
		a := x.Encode(nil)
		y, err := Decode(a)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if b := y.Encode(nil); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: encodings differ after a round trip", seed)
		}
		if x.Bytes(q1.Slice) != y.Bytes(q1.Slice) || x.Live() != y.Live() || x.Locks() != y.Locks() {
			t.Fatalf("seed %d: counts differ", seed)
		}
		for x.Locks() > 0 { // slot numbers may differ, the sets must not
			if x.NextDeadline() != y.NextDeadline() {
				t.Fatalf("seed %d: next deadline %v and %v", seed, x.NextDeadline(), y.NextDeadline())
			}
			for _, l := range x.Due(event.EndOfTime, 1000) {
				for _, z := range []*Index{x, y} {
					z.Apply(4, &event.MessageReleased{Envelope: q1, Sequence: l.Sequence, Token: l.Token})
				}
			}
		}
		if !bytes.Equal(x.Encode(nil), y.Encode(nil)) {
			t.Fatalf("seed %d: encodings differ after the same events", seed)
		}
	}
}

// SM-140: browsing shows every state in sequence order from a number on.
func TestBrowse(t *testing.T) {
	t.Parallel()
	x := New()
	for seq := range event.SequenceNumber(1000) {
		x.Apply(1, enqueued(seq+1))
	}
	for seq := event.SequenceNumber(1); seq <= 1000; seq += 3 {
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: seq, Token: event.LockToken{byte(seq), byte(seq >> 8)}, LockedUntil: 5})
	}
	want := event.SequenceNumber(17)
	for m := range x.Browse(q1.Slice, event.Main, 17) {
		if m.Sequence != want {
			t.Fatalf("got %d, want %d", m.Sequence, want)
		}
		want++
	}
	if want != 1001 {
		t.Fatalf("stopped at %d", want)
	}
}

func BenchmarkMessageLife(b *testing.B) {
	x := New()
	const waiting = 100_000
	for seq := range event.SequenceNumber(waiting) {
		x.Apply(1, enqueued(seq+1))
	}
	b.ReportAllocs()
	for i := range b.N {
		x.Apply(1, enqueued(x.NextSequence(q1.Slice)))
		m, _ := x.First(q1.Slice, event.Main)
		tok := event.LockToken{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: m.Sequence, Token: tok, LockedUntil: event.Time(60000 + i/100)})
		x.Apply(1, &event.MessageCompleted{Envelope: q1, Sequence: m.Sequence, Token: tok})
	}
}

// semantics.md 2.1: a message that was scheduled is known as one for as long as it lives, and in a
// checkpoint.
func TestWasScheduled(t *testing.T) {
	t.Parallel()
	env, token := event.Envelope{Slice: event.Slice{Entity: 1}}, event.LockToken{1}
	x := New()
	check := func(what string, seq event.SequenceNumber, want bool) {
		t.Helper()
		y, err := Decode(x.Encode(nil))
		if err != nil {
			t.Fatal(what, err)
		}
		for _, x := range []*Index{x, y} {
			if m, ok := x.Message(env.Slice, seq); !ok || m.WasScheduled != want {
				t.Errorf("%s: message %d: %+v", what, seq, m)
			}
		}
	}
	body := event.Blob{Position: 100, Size: 10}
	x.Apply(1000, &event.MessageScheduled{Envelope: env, Sequence: 1, ScheduledFor: 2000, TimeToLive: time.Hour, Body: body})
	check("scheduled", 1, false)
	x.Apply(1500, &event.MessageEnqueued{Envelope: env, Sequence: 2, EnqueuedAt: 1500, Body: body})
	check("sent", 2, false)
	x.Apply(2000, &event.ScheduledActivated{Envelope: env, Sequence: 1, NewSequence: 3, EnqueuedAt: 2000})
	check("active", 3, true)
	x.Apply(2001, &event.MessageLocked{Envelope: env, Sequence: 3, Token: token, LockedUntil: 3000})
	check("locked", 3, true)
	x.Apply(2002, &event.MessageDeferred{Envelope: env, Sequence: 3, Token: token, Changes: body})
	check("deferred", 3, true)
	x.Apply(2003, &event.MessageLocked{Envelope: env, Sequence: 3, Token: token, LockedUntil: 3000})
	x.Apply(2004, &event.MessageDeadLettered{Envelope: env, Sequence: 3, Token: token})
	check("dead-lettered", 3, true)
}

// The numbers of an entity partition say which one it is, whatever came to its slice before the
// first message.
func TestNumbersKeepTheirPartition(t *testing.T) {
	t.Parallel()
	state := func(id event.Slice) event.Event {
		return &event.SessionStateSet{Envelope: event.Envelope{Slice: id}, SessionID: []byte("s"), State: event.Blob{Position: 9, Size: 5}}
	}
	in := func(id event.Slice) event.Envelope { return event.Envelope{Slice: id} }
	body := event.Blob{Position: 100, Size: 10}
	session, token := []byte("s"), event.LockToken{1}
	accepted := &event.SessionAccepted{Envelope: in(inSessions), SessionID: session, Token: token, LockedUntil: 100}
	owned := &event.SessionStateSet{Envelope: in(grouped), SessionID: session, State: event.Blob{Position: 9, Size: 5}, Topic: news.Entity}
	scheduled := &event.MessageScheduled{Envelope: in(news), Sequence: third + 1, ScheduledFor: 50, Body: body}
	for _, c := range []struct {
		name   string
		events []event.Event
		id     event.Slice
		want   event.SequenceNumber
	}{
		{"nothing came", nil, inSessions, third + 1},
		{"a session was accepted", []event.Event{accepted}, inSessions, third + 1},
		{"a session was accepted and given back", []event.Event{accepted, &event.SessionReleased{Envelope: in(inSessions), SessionID: session}}, inSessions, third + 1},
		{"a session was accepted, given a state, which was cleared", []event.Event{accepted, state(inSessions),
			&event.SessionStateSet{Envelope: in(inSessions), SessionID: session, Cleared: true}}, inSessions, third + 1},
		{"a subscription's session was given a state, which counts with its topic", []event.Event{owned}, grouped, third + 1},
		{"and its topic begins with that", []event.Event{owned}, news, third + 1},
		{"a message was scheduled", []event.Event{scheduled}, news, third + 2},
		{"a scheduled message was cancelled", []event.Event{scheduled, &event.ScheduleCancelled{Envelope: in(news), Sequence: third + 1}}, news, third + 2},
		{"a scheduled message was published", []event.Event{scheduled, &event.ScheduledPublished{Envelope: in(news), Sequence: third + 1, NewSequence: third + 2,
			EnqueuedAt: 50, Copies: []event.Copy{{Subscription: copies.Entity, Sequence: third + 1}}}}, copies, third + 2},
		{"a scheduled message became active", []event.Event{&event.MessageScheduled{Envelope: in(inSessions), Sequence: third + 1, ScheduledFor: 50, Body: body},
			&event.ScheduledActivated{Envelope: in(inSessions), Sequence: third + 1, NewSequence: third + 2, EnqueuedAt: 50}}, inSessions, third + 3},
		{"the slice was dropped and begins again", []event.Event{scheduled, &event.SliceDropped{Envelope: in(news)}}, news, third + 1},
		{"a session's state came", []event.Event{state(inSessions)}, inSessions, third + 1},
		{"its topic's first message came", []event.Event{&event.MessagePublished{Envelope: event.Envelope{Slice: news}, Sequence: third + 1,
			Copies: []event.Copy{{Subscription: copies.Entity, Sequence: third + 1}}}}, copies, third + 2},
		{"a subscription's state came before its topic's message", []event.Event{state(grouped)}, news, third + 1},
		{"a first partition", []event.Event{state(plain)}, plain, 1},
	} {
		x := New()
		for _, ev := range c.events {
			x.Apply(1, ev)
		}
		decoded, err := Decode(x.Encode(nil))
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got, again := x.NextSequence(c.id), decoded.NextSequence(c.id); got != c.want || again != c.want {
			t.Errorf("%s: the next number is %d, and after encoding %d; want %d", c.name, got, again, c.want)
		}
	}
}

// P21: which locks end first when there are more at once than are asked for follows from the state,
// and not from how it came about: a state that was read back has them in other slots.
func TestDueOfManyAtOnce(t *testing.T) {
	t.Parallel()
	const locks = 5000
	rng := rand.New(rand.NewPCG(11, 1))
	x := New()
	for n := range event.SequenceNumber(locks) {
		x.Apply(1, enqueued(n+1))
	}
	for i, n := range rng.Perm(locks) {
		x.Apply(2, &event.MessageLocked{Envelope: q1, Sequence: event.SequenceNumber(n + 1), LockedUntil: event.Time(64_000 + rng.IntN(10)),
			Token: event.LockToken{byte(i), byte(i >> 8), 15: 1}})
	}
	y, err := Decode(x.Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	all := x.Due(event.EndOfTime, locks)
	if len(all) != locks || !slices.IsSortedFunc(all, compareEnds) {
		t.Fatalf("%d of %d locks, in order: %v", len(all), locks, slices.IsSortedFunc(all, compareEnds))
	}
	for _, limit := range []int{1, 2, 1024, locks - 1, locks + 1} {
		want := all[:min(limit, locks)]
		for name, z := range map[string]*Index{"replayed": x, "read back": y} {
			if got := z.Due(event.EndOfTime, limit); !slices.Equal(got, want) {
				t.Errorf("%s: the first %d of %d are others than those of all", name, limit, locks)
			}
		}
	}
}
