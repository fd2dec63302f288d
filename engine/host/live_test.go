package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// looks is what the loop knows of the receivers of its main queue now.
func (h *hand) looks() looked {
	e := &engine.Entity{ID: handEntity.Entity}
	return (&look{of: engine.Target{Entity: e}}).tell(h.loop).Answer.(looked)
}

// A receiver whose session has as many locked messages as it may is told from one with a session that has nothing.
func TestLookAtFullSession(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.send(0, make([]string, maxUnderSession+1)...)
	r := h.accepts(1, "")
	if p := h.looks().ports; len(p) != 1 || !p[0].HasSession || p[0].SessionFull || p[0].Queued != 0 {
		t.Errorf("%+v", p)
	}
	h.turn(&engine.Flow{Receiver: r, Limit: 2 * maxUnderSession})
	if p := h.looks().ports; len(p) != 1 || !p[0].SessionFull || p[0].Queued != maxUnderSession {
		t.Errorf("%+v", p)
	}
}

// Requests of the connection that come first, and how many receivers there may be, are told.
func TestLookAtLateRequests(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.turn(&engine.Attach{Receiver: h.receiver(1, event.Main)})
	h.loop.late.add(engine.Request{Sink: h, Command: &engine.Peek{Slice: handEntity, Count: 1}})
	said := h.looks()
	if p := said.ports; said.late != 1 || len(p) != 1 || p[0].Late != 1 || said.attached != 1 || said.maxAttached != h.loop.waiting.limit {
		t.Errorf("%+v", said)
	}
	h.after(time.Second)
}

// F8: that its disk is full is told of a partition, which answers all the same; what is not durable is not.
func TestReceivingFromFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		store, err := log.Open(t.Context(), "/data", log.Options{FS: disk, Partitions: 1, RoomBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(t.Context(), store, Options{Time: &hands{wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, CheckpointBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		e, err := n.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()})
		if err != nil {
			t.Fatal(err)
		}
		ask := func() engine.PartitionNow {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return n.Receiving(ctx, engine.Target{Entity: e})[0]
		}
		if now := ask(); !now.Answered || now.Conditions != nil || *now.Messages != (engine.MessagesNow{}) {
			t.Errorf("%+v", now)
		}
		disk.Limit(disk.Used())
		n.Submit(0, []engine.Request{{Sink: make(answer, 1), Command: &engine.Send{Slice: event.Slice{Entity: e.ID}, Messages: []engine.Message{{ID: []byte("m"), Body: make([]byte, 1000)}}}}})
		synctest.Wait()
		if now := ask(); !now.Answered || !slices.Equal(now.Conditions, []string{diskFull}) || now.Messages != nil {
			t.Errorf("%+v", now)
		}
		if err := n.Close(); !errors.Is(err, log.ErrNoRoom) {
			t.Errorf("stopped with %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
