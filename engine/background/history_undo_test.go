package background

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestRemovals: which bodies could be restored is known by sequence numbers, also for copies, and
// for scheduled messages by the entity. If there are too many numbers to remember, more bodies are
// kept, not fewer.
func TestRemovals(t *testing.T) {
	t.Parallel()
	r := removals{of: map[event.EntityID]*entityRemovals{}}
	of := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	r.add(10, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{5, 6, 7, 9}})
	r.add(20, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{2, 8}})
	r.add(30, &event.SliceDropped{Envelope: of(2)})
	wants := func(ev event.Event) bool {
		return r.keepsBody(&log.Body{Event: ev}, func(id event.EntityID) bool { return id == 4 })
	}
	kept := func(want string) {
		t.Helper()
		var list []string
		for n := range event.SequenceNumber(12) {
			if wants(&event.MessageEnqueued{Envelope: of(1), Sequence: n}) {
				list = append(list, fmt.Sprint(n))
			}
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("%s are kept, not %s", got, want)
		}
	}
	kept("2 5 6 7 8 9")
	for i, c := range []struct {
		ev   event.Event
		want bool
	}{
		{&event.MessageEnqueued{Envelope: of(2), Sequence: 77}, true},
		{&event.MessageEnqueued{Envelope: of(3), Sequence: 5}, false},
		{&event.MessageScheduled{Envelope: of(1), Sequence: 77}, true},
		{&event.MessageScheduled{Envelope: of(3), Sequence: 77}, false},
		{&event.MessageScheduled{Envelope: of(4), Sequence: 77}, true},
		{&event.MessagePublished{Envelope: of(4), Sequence: 1, Copies: []event.Copy{{Subscription: 3, Sequence: 1}, {Subscription: 1, Sequence: 8}}}, true},
		{&event.MessagePublished{Envelope: of(4), Sequence: 1, Copies: []event.Copy{{Subscription: 1, Sequence: 4}}}, false},
		{&event.SessionStateSet{Envelope: of(2)}, true},
	} {
		if got := wants(c.ev); got != c.want {
			t.Errorf("%d: %T: %v, want %v", i, c.ev, got, c.want)
		}
	}
	r.forget(func(_ event.EntityID, at event.Time) bool { return at <= 10 })
	kept("2 8")
	for n := event.SequenceNumber(100); r.runs < maxRemovalRuns || n < 2*maxRemovalRuns+200; n += 2 {
		r.add(40, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{n}})
		if n > 3*maxRemovalRuns {
			break
		}
	}
	if r.runs > maxRemovalRuns || len(r.of[1].runs) != r.runs {
		t.Errorf("%d runs are known, %d counted", len(r.of[1].runs), r.runs)
	}
	for n := event.SequenceNumber(100); n < 2*maxRemovalRuns; n += 1000 {
		if !wants(&event.MessageEnqueued{Envelope: of(1), Sequence: n}) {
			t.Errorf("message %d is forgotten", n)
		}
	}
}

// TestBodiesOfNoEvent: of a file of bodies history keeps none, unless anything of the partition
// could be restored; of a file without a plan it keeps all.
func TestBodiesOfNoEvent(t *testing.T) {
	t.Parallel()
	v := keptBodies{files: []bodyPlan{{file: pastFile{first: 8, end: 1000}, entities: []event.EntityID{1}}}, undo: &removals{}}
	in, out := &log.Body{Blob: event.Blob{Position: 16, Size: 5}}, &log.Body{Blob: event.Blob{Position: 2000, Size: 5}}
	if v.body(in) || !v.body(out) {
		t.Errorf("kept: %v of the file, %v of another one", v.body(in), v.body(out))
	}
	v.undo.of = map[event.EntityID]*entityRemovals{}
	v.undo.add(10, &event.MessagesBatchDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: 9}}, Sequences: []event.SequenceNumber{5}})
	if !v.body(in) {
		t.Error("a body goes while something could be put back")
	}
}

// When nothing can be undone any more, the removed messages are forgotten.
func TestNothingToUndo(t *testing.T) {
	t.Parallel()
	undo := &removals{window: event.KeepForever, next: 8, of: map[event.EntityID]*entityRemovals{}}
	undo.add(10, &event.SliceDropped{Envelope: event.Envelope{Slice: event.Slice{Entity: 1}}})
	o := &outlook{now: 20, rules: saidOf(t, "unlimited/none/none", 1)}
	if err := NewRetention(nil).followUndo(t.Context(), undo, nil, nil, 0, o); err != nil || undo.any() {
		t.Errorf("%+v is known: %v", undo, err)
	}
}
