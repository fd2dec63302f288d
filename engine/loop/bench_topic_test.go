package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
)

// A send allocates nothing of its own; rows of the index and room in the frame are allocated for
// many sends at a time.
func TestSendsAllocateNothing(t *testing.T) {
	h := byHand(t, testQueue())
	var in keptReplies
	cmd := &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("4711"), Body: make([]byte, 100)}}}
	if n := testing.AllocsPerRun(500, func() {
		h.loop.step(h.now, &engine.Request{Command: cmd, Sink: &in})
	}); n > 0 {
		t.Errorf("%v allocations a send", n)
	}
	h.loop.seal()
	h.land()
}
