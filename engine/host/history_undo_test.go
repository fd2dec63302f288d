package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hasty are grounds on which nobody waits for readers.
type hasty struct{ served }

func (h hasty) compaction(id engine.PartitionID, keep keeps) (*compaction, error) {
	c, err := h.served.compaction(id, keep)
	if err == nil {
		c.rest = func(context.Context, time.Time) error { return nil }
	}
	return c, err
}

// stored counts the messages of a queue, from one number to another, whose bodies the log still has.
func (b *broker) stored(t *testing.T, of event.EntityID, from, to event.SequenceNumber) (n int) {
	t.Helper()
	p := *b.slots[0].log.Load()
	for rec, err := range replay.Records(t.Context(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Events {
			m, ok := ev.(*event.MessageEnqueued)
			if !ok || m.Slice.Entity != of || m.Sequence < from || m.Sequence > to {
				continue
			}
			switch body, err := p.ReadBlob(m.Body, nil); {
			case err == nil && len(body) == 300:
				n++
			case !errors.Is(err, event.ErrErased):
				t.Fatalf("message %d: %d bytes, %v", m.Sequence, len(body), err)
			}
		}
	}
	return n
}

// retain sets how long history of the namespace is kept.
func (b *broker) retain(t *testing.T, events, bodies, undo event.Retention) {
	t.Helper()
	if err := b.PutHistoryPolicy(t.Context(), engine.PutHistoryPolicy{Policy: event.HistoryPolicy{Events: events, Bodies: bodies, Undo: undo}}); err != nil {
		t.Fatal(err)
	}
}

// TestUndoKeepsBodies: bodies of settled messages go as their policy says; those of messages that were purged or went with their entity stay for as long as the undo window,
// whoever looks: also if the process that looks has not seen the purge, whether the purge is in sealed files already or not.
func TestUndoKeepsBodies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var said strings.Builder
	b := leanBroker(t, dir)
	gone, q := b.queue(t, "gone", testQueue()), b.queue(t, "orders", testQueue())
	id, goneID := q.Entity.ID, gone.Entity.ID
	b.sendMany(t, gone, 60)
	b.sendMany(t, q, 500)
	in := newInbox()
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 5}
	b.Submit(0, []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1}}})
	in.wait(1) // the first message is locked: neither settled nor purged
	b.retain(t, event.KeepForever, event.KeepNone, event.KeepFor(24*time.Hour))

	k := newRetention(hasty{served{b.Namespace}})
	look := func() {
		t.Helper()
		b.sealAll(t)
		k.look(t.Context())
	}
	look()
	if n := b.stored(t, id, 1, 500); n != 500 {
		t.Fatalf("%d of 500 that wait have bodies", n)
	}
	if reply, err := b.ask(t.Context(), 0, &engine.BatchDelete{Entity: q.Entity, Slice: q.Slice(0), Count: 99}); err != nil {
		t.Fatal(err, reply)
	}
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "gone"}); err != nil {
		t.Fatal(err)
	}
	b.complete(t, q, 400)
	look() // the purge stands in a chapter that is not sealed
	if purged, settled := b.stored(t, id, 2, 100), b.stored(t, id, 101, 500); purged != 99 || settled > 100 || b.stored(t, goneID, 1, 60) != 60 {
		t.Errorf("%d of 99 purged, %d of 400 settled and %d of 60 dropped have bodies", purged, settled, b.stored(t, goneID, 1, 60))
	}
	for range 2 { // others that look have to find out, the second of them from a sealed file
		b.close(t)
		b = leanBroker(t, dir)
		b.logger = slog.New(slog.NewTextHandler(&said, nil))
		q = b.queue(t, "orders", testQueue())
		k = newRetention(hasty{served{b.Namespace}})
		look()
		if purged := b.stored(t, id, 2, 100); purged != 99 || b.stored(t, goneID, 1, 60) != 60 {
			t.Errorf("after a restart %d of 99 purged and %d of 60 dropped have bodies", purged, b.stored(t, goneID, 1, 60))
		}
		b.sendMany(t, q, 100)
	}
	b.retain(t, event.KeepForever, event.KeepNone, event.KeepNone)
	k.later = map[string]event.Time{} // nobody waits an hour
	look()
	if purged, waits := b.stored(t, id, 2, 100), b.stored(t, id, 1, 1); purged > 10 || waits != 1 || b.stored(t, goneID, 1, 60) != 0 {
		t.Errorf("%d of 99 purged and %d of 60 dropped have bodies when nothing is kept, %d that waits\n%s", purged, b.stored(t, goneID, 1, 60), waits, said.String())
	}
	if !strings.Contains(said.String(), "bodies given back") {
		t.Errorf("nothing was said:\n%s", said.String())
	}
	b.close(t)
}

// sealAll seals what is closed of partition 0.
func (b *broker) sealAll(t *testing.T) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.slots[0].serves.Load().log.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemovals: which bodies could be put back is known by sequence numbers, also for copies, and for scheduled messages by the entity. Where there are too
// many numbers to remember, more bodies are kept, not fewer.
func TestRemovals(t *testing.T) {
	t.Parallel()
	r := removals{of: map[event.EntityID]*removed{}}
	of := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	r.see(10, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{5, 6, 7, 9}})
	r.see(20, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{2, 8}})
	r.see(30, &event.SliceDropped{Envelope: of(2)})
	wants := func(ev event.Event) bool {
		return r.wants(&log.Body{Event: ev}, func(id event.EntityID) bool { return id == 4 })
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
	for n := event.SequenceNumber(100); r.runs < maxRemovedRuns || n < 2*maxRemovedRuns+200; n += 2 {
		r.see(40, &event.MessagesBatchDeleted{Envelope: of(1), Sequences: []event.SequenceNumber{n}})
		if n > 3*maxRemovedRuns {
			break
		}
	}
	if r.runs > maxRemovedRuns || len(r.of[1].runs) != r.runs {
		t.Errorf("%d runs are known, %d counted", len(r.of[1].runs), r.runs)
	}
	for n := event.SequenceNumber(100); n < 2*maxRemovedRuns; n += 1000 {
		if !wants(&event.MessageEnqueued{Envelope: of(1), Sequence: n}) {
			t.Errorf("message %d is forgotten", n)
		}
	}
}

// TestBodiesOfNoEvent: of a file of bodies history keeps none, unless anything of the partition could be put back; of a file without a plan it keeps all.
func TestBodiesOfNoEvent(t *testing.T) {
	t.Parallel()
	v := keptBodies{files: []bodyPlan{{file: pastFile{first: 8, end: 1000}, entities: []event.EntityID{1}}}, undo: &removals{}}
	in, out := &log.Body{Blob: event.Blob{Position: 16, Size: 5}}, &log.Body{Blob: event.Blob{Position: 2000, Size: 5}}
	if v.body(in) || !v.body(out) {
		t.Errorf("kept: %v of the file, %v of another one", v.body(in), v.body(out))
	}
	v.undo.of = map[event.EntityID]*removed{}
	v.undo.see(10, &event.MessagesBatchDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: 9}}, Sequences: []event.SequenceNumber{5}})
	if !v.body(in) {
		t.Error("a body goes while something could be put back")
	}
}
