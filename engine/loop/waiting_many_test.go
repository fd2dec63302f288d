package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const thousands = 30_000

// However many slices wake at once, they are served in order, and serving one shifts nothing: the
// next one stays where it was put.
func TestThousandsOfSlices(t *testing.T) {
	t.Parallel()
	w := newWaitingTest(t, thousands)
	all := make([]*receiver, thousands)
	for i := range all {
		all[i] = attached(w, i, 0)
		w.w.Flow(all[i], 1, false)
	}
	for _, r := range all {
		w.w.decided(&event.MessageAbandoned{Envelope: event.Envelope{Slice: r.Slice}, Sequence: 1})
	}
	stood := w.w.ready.All()
	for i, want := range all {
		q := w.w.Next()
		if r := q.Next(); r != want || w.w.ready.Front() != &stood[i] {
			t.Fatalf("%d: slice %d is served, or the next one was moved", i, r.Slice.Entity)
		}
		q.Assign(1)
		w.w.Served(true)
		w.w.Detach(want)
	}
}

// Receivers of one queue with credit for one message each are also served in order, and nothing is
// shifted.
func TestThousandsWithCredit(t *testing.T) {
	t.Parallel()
	w := newWaitingTest(t, thousands)
	all := make([]*receiver, thousands)
	for i := range all {
		all[i] = attached(w, 1, 0)
		w.w.Flow(all[i], 1, false)
	}
	stood := w.w.queueOf(all[0]).grants.All()
	for i, want := range all {
		w.w.decided(&event.MessageAbandoned{Envelope: event.Envelope{Slice: want.Slice}, Sequence: 1})
		q := w.w.Next()
		if r := q.Next(); r != want || q.grants.Front() != &stood[i] {
			t.Fatalf("%d is not the one served, or the next one was moved", i)
		}
		q.Assign(1)
		w.w.Served(true)
	}
}

// Receivers that wait for a session leave in any order, and the others keep their order.
func TestThousandsOfWaiters(t *testing.T) {
	t.Parallel()
	w := newWaitingTest(t, thousands)
	all := make([]*receiver, thousands)
	for i := range all {
		all[i] = attached(w, 1, event.Time(i+1))
	}
	w.w.OpenSessions(event.Slice{Entity: 1})
	for i := range all {
		if i%3 == 0 {
			w.w.Detach(all[i*7919%thousands])
		}
	}
	for i, want := range all {
		if i%3 == 0 {
			continue
		}
		if r := w.w.NextWaiter(); r != want || w.w.Deadline() != want.until {
			t.Fatalf("%d: %d is next, and somebody gives up at %d", i, r.until, w.w.Deadline())
		}
		w.w.Detach(want)
	}
	if len(w.w.entities) != 0 || len(w.w.deadlines) != 0 {
		t.Error("somebody waits still")
	}
}

// attached attaches a receiver to an entity; where the time is not 0, the receiver waits for a
// session until then.
func attached(w *waitingTest, entity int, until event.Time) *receiver {
	r := &receiver{until: until, Receiver: &engine.Receiver{Slice: event.Slice{Entity: event.EntityID(entity)}, Mode: engine.PeekLock,
		Entity: &engine.Entity{ID: event.EntityID(entity)}}}
	if until != 0 {
		r.Session = &engine.SessionRequest{Any: true}
	}
	if err := w.w.Attach(r); err != nil {
		w.t.Fatal(err)
	}
	if until != 0 {
		w.w.Wait(r)
	}
	return r
}
