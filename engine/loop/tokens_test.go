package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A token alone must say where its lock is (decision 28), so every token that leaves the broker
// carries its entity partition: that of a message, of a deferred one, or of a session.
func TestTokensCarryTheirPartition(t *testing.T) {
	t.Parallel()
	for _, partition := range []uint8{0, 3, 15} {
		slice := event.Slice{Entity: handEntity.Entity, Partition: partition}
		check := func(of string, token event.LockToken) {
			t.Helper()
			if token.Partition() != partition || token[6]>>4 != 4 || token[8]>>6 != 2 {
				t.Errorf("partition %d: the token of %s is %s", partition, of, token)
			}
		}

		h := byHand(t, testQueue())
		h.ask(&engine.Send{Slice: slice, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}})
		r := &engine.Receiver{Entity: &engine.Entity{ID: slice.Entity}, Slice: slice, Sink: h, Tag: 7}
		h.ask(&engine.Attach{Receiver: r})
		h.turn(&engine.Flow{Receiver: r, Limit: 1})
		d := h.got[len(h.got)-1].Delivery()
		if d == nil || d.Sequence.Partition() != partition {
			t.Fatalf("partition %d: delivered %+v", partition, d)
		}
		check("a message", d.Token)
		h.ask(&engine.Settle{Slice: slice, Token: d.Token, Outcome: engine.Defer})
		taken := h.ask(&engine.ReceiveDeferred{Slice: slice, Sequences: []event.SequenceNumber{d.Sequence}})
		if len(taken.Messages()) != 1 {
			t.Fatalf("partition %d: %+v is the answer for a deferred message", partition, taken)
		}
		check("a deferred message", taken.Messages()[0].Token)

		h = byHand(t, sessionQueue())
		r = &engine.Receiver{Entity: &engine.Entity{ID: slice.Entity}, Slice: slice, Sink: h, Tag: 8, Session: &engine.SessionRequest{ID: []byte("s")}}
		if got := h.ask(&engine.Attach{Receiver: r}); got.SessionGrant() == nil {
			t.Fatalf("partition %d: %+v is the answer for a session", partition, got)
		} else {
			check("a session", got.SessionGrant().Token)
		}
	}
}
