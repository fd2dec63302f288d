package host

import (
	"errors"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The body of a message is erased on request, and no other with it, when it is no longer needed and
// its chapter is sealed; before that, the log records who asked and why.
func TestErase(t *testing.T) {
	t.Parallel()
	b := leanBroker(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	b.sendMany(t, q, 100)
	b.complete(t, q, 50)
	by, why := &engine.Origin{Principal: "ops"}, event.ReasonGiven{Reason: "a customer asked"}
	refused := func(entity string, n event.SequenceNumber, code engine.Code) {
		t.Helper()
		_, err := b.EraseBody(t.Context(), entity, n, by, why)
		var refusal *engine.Error
		if !errors.As(err, &refusal) || refusal.Code != code {
			t.Errorf("erasing message %d of %s: %v, want %v", n, entity, err, code)
		}
	}
	refused("nothing", 1, engine.NotFound)
	refused("orders", 0, engine.NotFound)
	refused("orders", 1000, engine.NotFound)
	refused("orders", 90, engine.NotAllowed) // it waits
	b.sendMany(t, q, 100)
	b.compact(t, keepBodies) // seals
	last := event.SequenceNumber(200)
	b.complete(t, q, 150)
	refused("orders", last, engine.Busy) // it is in the newest chapter: the request stays open
	refused("orders", last, engine.Busy) // it is open already

	out, err := b.EraseBody(t.Context(), "orders", 17, by, why)
	if err != nil || out != (engine.ErasedBody{Entity: "orders", Sequence: 17, Bytes: 300}) {
		t.Fatalf("erased %+v, %v", out, err)
	}
	if out, err = b.EraseBody(t.Context(), "orders", 17, by, why); err != nil || !out.Before {
		t.Errorf("erased again: %+v, %v", out, err)
	}
	p := b.slots[0].running.Load().log
	events, bodies, finished := 0, 0, []event.SequenceNumber(nil)
	for rec, err := range replay.Records(t.Context(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Events {
			switch ev := ev.(type) {
			case *event.MessageEnqueued:
				_, err := p.ReadBlob(ev.Body, nil)
				if (ev.Sequence == 17) != errors.Is(err, event.ErrErased) || err != nil && ev.Sequence != 17 {
					t.Errorf("message %d: %v", ev.Sequence, err)
				}
				bodies++
			case *event.BodyErased:
				events++
				if why, ok := rec.Events[len(rec.Events)-1].(*event.ReasonGiven); !ok || why.Reason != "a customer asked" || ev.Sequence != 17 && ev.Sequence != last || ev.Size != 300 || ev.Origin == 0 {
					t.Errorf("the event is %+v in %+v", ev, rec.Events)
				}
			case *event.ErasureFinished:
				finished = append(finished, ev.Sequence)
			}
		}
	}
	if events != 2 || bodies != 200 || !slices.Equal(finished, []event.SequenceNumber{17}) {
		t.Errorf("%d requests, of which %d are finished, of %d messages", events, finished, bodies)
	}
}
