package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-078, P23: ends of transfers wait for no sync. However many there are, locks and messages whose
// time has ended still get their turn: frames that belong to no group do not use up a group's
// budget.
func TestManyEndsWithoutASync(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	p := testQueue()
	p.MaxDeliveryCount = 10
	if r := h.ask(&engine.PutEntity{Kind: event.Queue, Path: "far", Properties: p}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.configure()
	const n = 20_000
	far := &engine.Send{Slice: handEntity, Destination: &engine.Entity{ID: 2, Kind: event.Queue, Path: "far", Hosts: []engine.PartitionID{0}}}
	for i := range n {
		far.Messages = append(far.Messages, engine.Message{ID: fmt.Append(nil, i), Body: []byte("x")})
	}
	if r := h.ask(far); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.fill(1, 0)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
	before := h.loop.frames.end
	for i := range n {
		h.loop.recorder.background(h.now, h.loop.part.Decide(h.now,
			&engine.FinishTransfers{Slice: handEntity, Numbers: []event.TransferNumber{event.TransferNumber(i + 1)}}))
		if i%100 == 0 {
			h.loop.seal()
			h.land()
		}
	}
	h.land()
	if written := int(h.loop.frames.end - before); written < maxBackground || h.loop.frames.unsynced() {
		t.Fatalf("this says nothing: %d bytes, of which a sync is waited for: %v", written, h.loop.frames.unsynced())
	}
	h.now = h.now.Add(time.Minute)
	h.loop.Turn(nil)
	if h.count(event.Main, index.Active) != 1 {
		t.Errorf("a lock has not ended after its time; %d bytes count as those of the next group", h.loop.frames.background)
	}
	h.land()
}
