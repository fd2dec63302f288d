package index

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A running pass does not see messages that return behind its position: the slice must know of them
// when the pass is complete.
func TestSweepHearsOfWhatComesBack(t *testing.T) {
	t.Parallel()
	x, id := New(), event.Slice{Entity: 1}
	for seq, expires := range []event.Time{0, 500, 900, 800} { // by number
		if seq > 0 {
			ev := enqueued(event.SequenceNumber(seq))
			ev.Slice, ev.ExpiresAt = id, expires
			x.Apply(1, ev)
		}
	}
	env, token := event.Envelope{Slice: id}, event.LockToken{1}
	x.Apply(1, &event.MessageLocked{Envelope: env, Sequence: 1, Token: token, LockedUntil: 600})
	w := &Sweep{Slice: id}
	if found, done := x.Step(w, 100, 1, 10); len(found) > 0 || done {
		t.Fatalf("the first step finds %v, the end %v", found, done)
	}
	x.Apply(1, &event.MessageReleased{Envelope: env, Sequence: 1, Token: token})
	if found, done := x.Step(w, 100, 10, 10); len(found) > 0 || !done {
		t.Fatalf("the second step finds %v, the end %v", found, done)
	}
	if at := x.Soonest(id); at != 500 {
		t.Errorf("the next pass is at %d, message 1 expires at 500", at)
	}
}
