package loop

import (
	"log/slog"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/fixed"
)

// Decision 41: memory for a checkpoint is taken before the state is kept for it, and copies count.
// Without memory the checkpoint waits until the log is twice as long as it should be, and no
// longer. The memory is freed when the checkpoint is written, and also if it never is.
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
	s := newCheckpointer(plog, x, Options{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: int64(end), Memory: budget, Inline: true})
	expect := func(when string, begun bool, taken int) {
		t.Helper()
		if (s.state != nil) != begun || budget.Taken != taken {
			t.Fatalf("%s: begun: %v, want %v; %d bytes are taken, want %d", when, s.state != nil, begun, budget.Taken, taken)
		}
	}
	s.takeSnapshot(end)
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
	s.takeSnapshot(end + enough)
	expect("with what the last one cost it is too much", false, 0)
	s.takeSnapshot(end + mostPostponed*enough - 1)
	expect("it can still wait", false, 0)
	s.takeSnapshot(end + mostPostponed*enough)
	expect("it has waited long enough", true, checkpointMemory+s.copies)
	s.wait()
	expect("its log stops first", false, 0)
	budget.All = 1 << 30
	s.takeSnapshot(end + enough)
	expect("there is plenty", true, checkpointMemory+s.copies)
}
