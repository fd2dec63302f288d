package loop

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// byHandMoving returns a loop with one queue through which messages are handed to the courier.
func byHandMoving(t *testing.T, through engine.Sink) *drivenLoop {
	t.Helper()
	h := byHand(t, testQueue())
	h.courier = through
	h.restart()
	h.loop.Resume(func(id event.EntityID) *engine.Entity {
		if id > 100 {
			return nil
		}
		return &engine.Entity{ID: id}
	})
	return h
}

// via sends a message through the queue to another entity.
func (h *drivenLoop) via(to event.EntityID) {
	h.t.Helper()
	if r := h.ask(&engine.Send{Slice: handEntity, Destination: &engine.Entity{ID: to, Path: "to", Properties: testQueue()},
		Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}}); r.Err != nil {
		h.t.Fatal(r.Err)
	}
}

// A courier that holds all the transfers it may of a log is still given messages from other queues
// of that log.
func TestFullCourierGetsSomeOfEach(t *testing.T) {
	t.Parallel()
	var got keptReplies
	h := byHandMoving(t, &got)
	h.loop.transfers.outstanding = maxOutstanding
	for range minOutstanding + 5 {
		h.via(2)
	}
	if len(got.got) != minOutstanding {
		t.Errorf("the courier was given %d messages, want %d", len(got.got), minOutstanding)
	}
}

// P17: a log that fails before the start of a transfer is durable tells every waiting caller,
// including its courier.
func TestAbandonedTransfers(t *testing.T) {
	t.Parallel()
	var courier keptReplies
	(&replies{grants: []heldReply{{sink: &courier, reply: engine.Reply{Answer: &TransferBatch{}}}}}).abandon(engine.ErrUnknown)
	if len(courier.got) != 1 || !errors.Is(courier.got[0].Err, engine.ErrUnknown) || courier.got[0].Answer != nil {
		t.Errorf("it is told %+v", courier.got)
	}
}

// Decision 35: a slice does not remember the floors of deleted destinations for long, however many
// there have been.
func TestFloorsOfDeleted(t *testing.T) {
	t.Parallel()
	var got keptReplies
	h := byHandMoving(t, &got)
	const kept = 2
	for i := range event.EntityID(3 * manyFloors) {
		for _, to := range []event.EntityID{kept, 200 + i} {
			h.via(to)
			told := got.got[len(got.got)-1].Answer.(*TransferBatch)
			h.loop.Offer(engine.Request{Command: &TransferResults{Source: told.Source, Trigger: event.TriggerVia, Destination: to,
				Arrived: []event.TransferNumber{told.Transfers[0].Number}, Bytes: told.Transfers[0].Bytes()}})
			h.turn()
		}
	}
	d := h.loop.transfers.sources[handEntity]
	if len(d.floors) > manyFloors+1 || d.floors[kept] == 0 {
		t.Errorf("%d floors are remembered, %d of the queue that is there", len(d.floors), d.floors[kept])
	}
}

// A loop without a courier has no orders to carry out: it sleeps.
func TestOrdersWithoutCourier(t *testing.T) {
	t.Parallel()
	h := byHandMoving(t, nil)
	p := testQueue()
	p.ForwardTo = "to"
	h.turn(Order(&engine.Entity{ID: 1, Hosts: []engine.PartitionID{0}, Properties: p}, func(string) *engine.Entity { return &engine.Entity{ID: 2} }))
	h.fill(1, 0)
	if h.loop.Pending() || h.loop.ToMove(handEntity) != 0 {
		t.Error("it wants the next turn at once")
	}
}
