package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// 14.3, SM-150: one call deletes 4000 messages at most, also of a session, and says how many; the
// next continues with the others.
func TestBatchDeleteLimit(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		h := byHand(t, testQueue())
		if sessions {
			h = byHand(t, sessionQueue())
		}
		for range 2 {
			h.send(0, make([]string, 4001)...)
		}
		h.now++ // messages enqueued before it
		for i, want := range []int{4000, 4000, 2, 0} {
			cmd := &engine.BatchDelete{Slice: handEntity, Count: 1 << 20, HasSession: sessions}
			if r := h.ask(cmd); r.Err != nil || r.Deleted() != want {
				t.Fatalf("call %d, sessions %t: %d are deleted, want %d: %v", i+1, sessions, r.Deleted(), want, r.Err)
			}
			if m, ok := h.loop.part.Index().First(handEntity, event.Main); i == 0 && (!ok || m.Sequence != 4001) {
				t.Fatalf("message %d is the first that is left", m.Sequence)
			}
		}
		if n := h.count(event.Main, index.Active); n != 0 {
			t.Errorf("%d are left", n)
		}
	}
}

// SM-022: a message that was received and deleted is not delivered again, however often the broker
// is stopped in the middle of it. Deliveries that were decided and had not left the broker are lost
// (5.2). (The simulation cuts the power there as well: see its planted bug M20.)
func TestReceiveAndDeleteOverRestarts(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	const n = 100
	h.fill(n, 0)
	times := map[event.SequenceNumber]int{}
	for round := range n {
		r := h.receiver(uint64(round), event.Main)
		r.Mode = engine.ReceiveAndDelete
		h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 3})
		// two more are decided and mostly not delivered: the writer may have been quick
		h.loop.Turn([]engine.Request{{Command: &engine.Flow{Receiver: r, Limit: 5}}})
		if got, left := len(h.got), h.count(event.Main, index.Active); got < 3 || left != n-5*(round+1) {
			t.Fatalf("round %d: %d were delivered, %d are left", round, got, left)
		}
		for _, d := range h.got {
			times[d.Delivery().Sequence]++
		}
		if h.got = nil; h.count(event.Main, index.Active) == 0 {
			break
		}
		for h.loop.frames.unsynced() {
			<-h.loop.frames.writer.Moved()
		}
		h.restart()
	}
	for seq, k := range times {
		if k > 1 {
			t.Errorf("message %d was delivered %d times", seq, k)
		}
	}
	if n := h.count(event.Main, index.Active); n != 0 {
		t.Errorf("%d are left", n)
	}
}
