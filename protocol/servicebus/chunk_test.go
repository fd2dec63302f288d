package servicebus

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
)

// What is carved out of a chunk has one user while the chunk is in use, and is empty when the chunk
// is used again.
func TestChunkSends(t *testing.T) {
	t.Parallel()
	c := newChunk(largeChunk)
	defer c.Release()
	for round := range 2 {
		seen := map[*singleSend]bool{}
		for s := c.newSend(); s != nil; s = c.newSend() {
			if seen[s] || s.send.Entity != nil || s.send.Messages != nil || s.message[0].Body != nil {
				t.Fatalf("round %d: send %d is in use", round, len(seen))
			}
			seen[s] = true
			s.send.Entity, s.send.Messages, s.message[0].Body = &engine.Entity{}, s.message[:], c.buf
		}
		if len(seen) != largeChunk/perSingle {
			t.Errorf("round %d: %d sends", round, len(seen))
		}
		c.recycle()
	}
	alone := &chunk{buf: make([]byte, 8*perSingle)}
	if first, second := alone.newSend(), alone.newSend(); first == nil || second != nil {
		t.Error("a chunk that is not used again has not room for one send")
	}
}
