package host

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hasty returns a retention that does not wait for readers.
func hasty(b *broker) *background.Retention {
	k := background.NewRetention(b.surroundings())
	k.Rest = func(context.Context, time.Time) error { return nil }
	return k
}

// stored counts the messages of a queue, from one number to another, whose bodies the log still
// has.
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

// TestUndoKeepsBodies: bodies of settled messages are deleted by their policy. Bodies of messages
// that were purged or deleted with their entity stay for the undo window, for every process that
// looks: also if it has not seen the purge, whether the purge is in sealed files already or not.
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

	k := hasty(b)
	look := func() {
		t.Helper()
		b.sealAll(t)
		k.Look(t.Context())
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
	look() // the purge is in an unsealed chapter
	if purged, settled := b.stored(t, id, 2, 100), b.stored(t, id, 101, 500); purged != 99 || settled > 100 || b.stored(t, goneID, 1, 60) != 60 {
		t.Errorf("%d of 99 purged, %d of 400 settled and %d of 60 dropped have bodies", purged, settled, b.stored(t, goneID, 1, 60))
	}
	for range 2 { // other retentions have to find out, the second of them from a sealed file
		b.close(t)
		b = leanBroker(t, dir)
		b.logger = slog.New(slog.NewTextHandler(&said, nil))
		q = b.queue(t, "orders", testQueue())
		k = hasty(b)
		look()
		if purged := b.stored(t, id, 2, 100); purged != 99 || b.stored(t, goneID, 1, 60) != 60 {
			t.Errorf("after a restart %d of 99 purged and %d of 60 dropped have bodies", purged, b.stored(t, goneID, 1, 60))
		}
		b.sendMany(t, q, 100)
	}
	b.retain(t, event.KeepForever, event.KeepNone, event.KeepNone)
	k = hasty(b) // one that has postponed no file
	look()
	if purged, waits := b.stored(t, id, 2, 100), b.stored(t, id, 1, 1); purged > 10 || waits != 1 || b.stored(t, goneID, 1, 60) != 0 {
		t.Errorf("%d of 99 purged and %d of 60 dropped have bodies when nothing is kept, %d that waits\n%s", purged, b.stored(t, goneID, 1, 60), waits, said.String())
	}
	if !strings.Contains(said.String(), "bodies deleted") {
		t.Errorf("nothing was said:\n%s", said.String())
	}
	b.close(t)
}

// sealAll seals the closed chapters of partition 0.
func (b *broker) sealAll(t *testing.T) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.slots[0].running.Load().log.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
