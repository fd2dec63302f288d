package host

import (
	"context"
	"log/slog"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/fixed"
)

// Decision 41: a courier takes memory for messages before it reads them. Where there is none, what it has not read waits; even then one batch is on its
// way, and all that was taken is given back.
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

// Decision 41: memory for a checkpoint is taken before the state is kept for it, and what is kept twice is counted. Without memory the checkpoint waits, until the
// log is twice as long as it should be, and no longer. The memory is given back when the checkpoint is written, and also when it never is.
func TestF22CheckpointTakesMemory(t *testing.T) {
	t.Parallel()
	plog := leading(t)
	_, end := plog.Bounds()
	x, env := index.New(), event.Envelope{Slice: event.Slice{Entity: 1}}
	send := func(n event.SequenceNumber) {
		x.Apply(1000, &event.MessageEnqueued{Envelope: env, Sequence: n, EnqueuedAt: 1000, Body: event.Blob{Position: 8, Size: 1}})
	}
	for n := event.SequenceNumber(1); n <= 10_000; n++ {
		send(n)
	}
	budget := &fixed.Memory{T: t, All: checkpointMemory}
	s := newCheckpointer(plog, x, LoopOptions{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: int64(end), Memory: budget, Inline: true})
	expect := func(when string, begun bool, taken int) {
		t.Helper()
		if (s.state != nil) != begun || budget.Taken != taken {
			t.Fatalf("%s: begun: %v, want %v; %d bytes are taken, want %d", when, s.state != nil, begun, budget.Taken, taken)
		}
	}
	s.sealed(end)
	expect("there is memory", true, checkpointMemory)
	for n := event.SequenceNumber(1); n < 10_000; n++ { // a row of each leaf
		x.Apply(1000, &event.MessageExpired{Envelope: env, Sequence: n})
	}
	s.committed()
	expect("it is written", false, 0)
	if len(plog.Checkpoints()) != 1 || s.copies < 10_000*30 {
		t.Errorf("there are %d checkpoints; %d bytes were kept twice meanwhile, want some hundred thousand", len(plog.Checkpoints()), s.copies)
	}
	enough := event.LSN(max(int64(end), checkpointRatio*s.size))
	s.sealed(end + enough)
	expect("with what the last one cost it is too much", false, 0)
	s.sealed(end + mostPostponed*enough - 1)
	expect("it can still wait", false, 0)
	s.sealed(end + mostPostponed*enough)
	expect("it has waited long enough", true, checkpointMemory+s.copies)
	s.wait()
	expect("its log stops first", false, 0)
	budget.All = 1 << 30
	s.sealed(end + enough)
	expect("there is plenty", true, checkpointMemory+s.copies)
}

// Without memory nobody looks for what may be dropped; with it, all that was taken is given back.
func TestF22NeedsTakeMemory(t *testing.T) {
	t.Parallel()
	x := index.New()
	budget := &fixed.Memory{T: t}
	state := func(_ context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		s := x.Snapshot()
		defer s.Close()
		return look(s, nil)
	}
	if _, err := liveBodiesOf(t.Context(), budget, state, nil, nil); err != noMemory || budget.Taken != 0 {
		t.Errorf("there is none: %v, %d bytes are taken", err, budget.Taken)
	}
	budget.All = 1 << 20
	n, err := liveBodiesOf(t.Context(), budget, state, nil, nil)
	if err != nil || budget.Taken != 1<<20 {
		t.Errorf("there is enough: %v, %d bytes are taken", err, budget.Taken)
	}
	if n.memory.give(); budget.Taken != 0 {
		t.Errorf("%d bytes are not given back", budget.Taken)
	}
}
