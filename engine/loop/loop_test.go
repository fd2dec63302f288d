package loop

import (
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A reply that only shows something also waits for the frame before it: a crash must not undo what
// it shows (reliability.md P1).
func TestLooksWaitForTheFrameBefore(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	s.asks(1, &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("a"), Body: []byte("x")}}})
	var shown seenReplies
	s.loop.Turn([]engine.Request{{Command: &engine.Peek{Slice: handEntity, Count: 1, MaxBytes: 1}, Sink: &shown}})
	s.asks(3, &engine.CancelScheduled{Slice: handEntity, Sequences: []event.SequenceNumber{1}})
	if !s.loop.frames.syncing() || len(s.heard)+len(shown) > 0 {
		t.Fatalf("%q and %+v left before the frame was durable", s.heard, shown)
	}
	s.syncs()
	if want := []string{"1", "3 refused"}; !slices.Equal(s.heard, want) || len(shown) != 1 || len(shown[0].Messages()) != 1 {
		t.Errorf("%q, it must be %q; %+v was shown", s.heard, want, shown)
	}
}

// seenReplies are the replies that came.
type seenReplies []engine.Reply

// Post implements [engine.Sink].
func (k *seenReplies) Post(rs []engine.Reply) { *k = append(*k, rs...) }
