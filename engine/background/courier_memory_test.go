package background

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/fixed"
)

// Decision 41: a courier takes memory for messages before it reads them. If there is none, unread
// messages wait; even then one batch is in flight, and all memory is freed.
func TestF22CourierTakesMemory(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	const batch = 200<<10 + maxBatchBytes + maxBetween + batchItems
	budget := &fixed.Memory{T: t, All: 2 * batch}
	d.courier.Memory = budget
	for to := event.EntityID(2); to < 6; to++ {
		d.hand(event.TriggerForward, to, 1, 1, 200<<10)
	}
	d.expect("2: 1-1 floor 0", "3: 1-1 floor 0")
	if next := d.courier.Turn(d.now); budget.Taken != 2*batch || next != d.now.Add(firstRest) {
		t.Fatalf("%d bytes are taken, want %d; it tries again after %v, want %v", budget.Taken, 2*batch, next.Sub(d.now), firstRest)
	}
	d.answer(taken(1))
	d.expect("3: 1-1 floor 0", "4: 1-1 floor 0")
	budget.All = 0
	d.answer(taken(1))
	d.expect("4: 1-1 floor 0")
	if budget.Taken != batch {
		t.Errorf("%d bytes are taken for one batch, want %d", budget.Taken, batch)
	}
	d.answer(taken(1))
	d.expect("5: 1-1 floor 0") // without any
	if d.answer(taken(1)); budget.Taken != 0 {
		t.Errorf("nothing is on its way, and %d bytes are taken", budget.Taken)
	}
	budget.All = 2 * batch
	d.hand(event.TriggerForward, 2, 2, 1, 200<<10)
	d.hand(event.TriggerForward, 3, 2, 1, 10)
	if d.courier.Close(); budget.Taken != 0 {
		t.Errorf("it is closed, and %d bytes are taken", budget.Taken)
	}
}
