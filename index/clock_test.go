package index

import (
	"bytes"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const tenYears = event.Time(87600 * time.Hour / time.Millisecond)

// set is a decision that moves all times by so much.
func (w *walk) set(number uint64, by event.Time) *event.ClockSet {
	from := w.now
	w.now += by
	ev := &event.ClockSet{Number: number, Basis: event.BasisWall, From: from, To: w.now, Wall: w.now}
	for _, x := range append([]*Index{w.x}, w.others...) {
		x.Apply(w.now, ev)
	}
	return ev
}

// All instants move by the same amount, at any point of any history. Moved there and back, they are
// as before. An index that went through its encoding moves in the same way, and both continue in
// the same way.
func TestClockSetMovesAllTimes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		x, y := New(), New()
		w := newWalk(seed, x, y)
		w.now = 2 * tenYears // there is a past to go to
		for n := range 1500 {
			w.step()
			if n%50 != 0 {
				continue
			}
			by := []event.Time{tenYears, -tenYears, -1, 0}[n/50%4]
			before, number := x.Encode(nil), x.Clock().Number
			w.set(number+1, by)
			moved := x.Encode(nil)
			z, err := Decode(moved)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, n, err)
			}
			if !bytes.Equal(moved, y.Encode(nil)) || !bytes.Equal(moved, z.Encode(nil)) || answers(x, w.now) != answers(z, w.now) {
				t.Fatalf("seed %d, step %d: the states differ", seed, n)
			}
			if c := x.Clock(); c.Number != number+1 || c.Shift != int64(by) || x.LastAt() != w.now || z.Clock() != c {
				t.Fatalf("seed %d, step %d: clock %+v, newest %v", seed, n, c, x.LastAt())
			}
			w.others[0], y = z, z
			w.set(number+2, -by)
			back := New()
			*back = *x
			if back.clock = (Clock{}); number > 0 {
				back.clock = Clock{Number: number}
			}
			if back.lastAt = lastAt(t, before); !bytes.Equal(before, back.Encode(nil)) {
				t.Fatalf("seed %d, step %d: moved by %d and back, the state is another", seed, n, by)
			}
		}
		if err := w.model.compare(x); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func lastAt(t *testing.T, state []byte) event.Time {
	x, err := Decode(state)
	if err != nil {
		t.Fatal(err)
	}
	return x.LastAt()
}

// Each kind of instant, and values that look like instants and are none.
func TestClockSetInstants(t *testing.T) {
	t.Parallel()
	const at, by = tenYears, event.Time(-3_600_000)
	x := New()
	queue := event.Envelope{Slice: event.Slice{Entity: 1}}
	apply := func(ev event.Event) { x.Apply(at, ev) }
	apply(&event.EntityCreated{Envelope: queue, EntityKind: event.Queue, Path: "q", Properties: event.Properties{
		AccessRules: []event.AccessRule{{Name: "r", CreatedAt: at - 5}}}})
	apply(&event.EntityTouched{Envelope: queue, AccessedAt: at - 7})
	apply(&event.MessageEnqueued{Envelope: queue, Sequence: 1, MessageID: []byte("a"), EnqueuedAt: at - 10, ExpiresAt: at + 10, DuplicateUntil: at + 20})
	apply(&event.MessageEnqueued{Envelope: queue, Sequence: 2, EnqueuedAt: at - 9, ExpiresAt: event.EndOfTime})
	// it has expired, and stays so
	apply(&event.MessageEnqueued{Envelope: queue, Sequence: 3, EnqueuedAt: at - 8, ExpiresAt: at - 1})
	apply(&event.MessageLocked{Envelope: queue, Sequence: 2, Token: event.LockToken{1}, LockedUntil: at + 30})
	apply(&event.MessageScheduled{Envelope: queue, Sequence: 4, ScheduledFor: at + 40})
	apply(&event.SessionAccepted{Envelope: queue, SessionID: []byte("s"), Token: event.LockToken{2}, LockedUntil: at + 50})
	apply(&event.SessionStateSet{Envelope: queue, SessionID: []byte("s")})
	ev := &event.ClockSet{Number: 1, Basis: event.BasisWall, From: at + 5, To: at + 5 + by, Wall: at + 5 + by}
	x.Apply(ev.To, ev)

	is := func(what string, got, want event.Time) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, not %d", what, got-at, want-at)
		}
	}
	m := func(n event.SequenceNumber) Message { m, _ := x.Message(queue.Slice, n); return m }
	is("newest", x.LastAt(), at+5+by)
	is("enqueued", m(1).EnqueuedAt, at-10+by)
	is("expires", m(1).ExpiresAt, at+10+by)
	is("expires never", m(2).ExpiresAt, event.EndOfTime)
	is("has expired", m(3).ExpiresAt, at-1+by)
	is("soonest", x.Soonest(queue.Slice), at-1+by)
	is("scheduled", m(4).ScheduledFor, at+40+by)
	lock, _ := x.Lock(event.LockToken{1})
	is("locked until", lock.Until, at+30+by)
	lock, _ = x.Lock(event.LockToken{2})
	is("session locked until", lock.Until, at+50+by)
	is("next deadline", x.NextDeadline(), at+40+by)
	s, _ := x.Session(queue.Slice, []byte("s"))
	is("state set", s.SetAt, at+by)
	if _, twice := x.Duplicate(queue.Slice, at+19+by, event.Identity{Type: event.IDString, ID: []byte("a")}); !twice {
		t.Error("the duplicate is forgotten")
	}
	if _, twice := x.Duplicate(queue.Slice, at+20+by, event.Identity{Type: event.IDString, ID: []byte("a")}); twice {
		t.Error("the duplicate is remembered")
	}
	e, _ := x.Catalogue.Find("q")
	is("created", e.CreatedAt, at+by)
	is("updated", e.UpdatedAt, at+by)
	is("accessed", e.AccessedAt, at-7+by)
	is("access rule", e.Properties.AccessRules[0].CreatedAt, at-5+by)
	is("access rule never changed", e.Properties.AccessRules[0].ModifiedAt, 0)
}
