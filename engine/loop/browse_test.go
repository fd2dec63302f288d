package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// browser attaches a receiver that browses.
func (h *drivenLoop) browser(tag uint64) *engine.Receiver {
	h.t.Helper()
	r := h.receiver(tag, event.Main)
	r.Mode = engine.Browse
	if reply := h.ask(&engine.Attach{Receiver: r}); reply.Err != nil {
		h.t.Fatal(reply.Err)
	}
	return r
}

// A browsing receiver is shown every message once, in order, as far as its credit reaches,
// including locked and expired ones. It writes nothing, keeps no message from other receivers,
// makes none expire, and leaves others their turns.
func TestBrowser(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(3*maxShown, 0)
	h.fill(1, time.Second)
	end := h.loop.frames.writer.Batch().LSN()
	r := h.browser(1)
	turns := h.turns
	h.turn(&engine.Flow{Receiver: r, Limit: 3*maxShown - 1})
	for i := range h.got {
		if d := h.got[i].Delivery(); d == nil || d.Sequence != event.SequenceNumber(i+1) || d.Token != (event.LockToken{}) || d.LockedUntil != 0 {
			t.Fatalf("%d: %+v; want d != nil && d.Sequence == event.SequenceNumber(i+1) && d.Token == (event.LockToken{}) && d.LockedUntil == 0", i, d)
		}
	}
	if n := len(h.got); n != 3*maxShown-1 || h.turns-turns < 3 {
		t.Errorf("%d messages shown in %d turns", n, h.turns-turns)
	}
	h.got = nil
	h.after(time.Minute)
	h.turn(&engine.Flow{Receiver: r, Limit: 3*maxShown + 1, Drain: true})
	h.hears("1:3072", "1:3073", "1:drained")
	h.after(time.Minute)
	h.turn(&engine.Flow{Receiver: r, Limit: 3*maxShown + 10, Drain: true})
	h.hears("1:drained")
	if at := h.loop.frames.writer.Batch().LSN(); at != end {
		t.Errorf("a look wrote from %d to %d", end, at)
	}
	h.turn(&engine.Flow{Receiver: r, Limit: 3*maxShown + 12})
	h.fill(1, 0) // browsing continues with new messages
	h.hears("1:3074")
	h.turn(&engine.Detach{Receiver: r})
	h.fill(1, 0)
	h.hears()
	if len(h.loop.receivers.entities) != 0 || len(h.loop.receivers.counts) != 0 || h.loop.receivers.ready.Len() != 0 {
		t.Errorf("left behind: %v %v %v", h.loop.receivers.entities, h.loop.receivers.counts, h.loop.receivers.ready)
	}
}

// Nothing is shown before it is durable: a message leaves with the frame that has it.
func TestBrowserWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	r := h.browser(1)
	h.turn(&engine.Flow{Receiver: r, Limit: 10})
	h.loop.Turn([]engine.Request{{Command: &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x")}}}}})
	if !h.loop.frames.syncing() || len(h.got) != 0 {
		t.Errorf("shown before it is written: %v", h.got)
	}
	h.turn()
	h.land()
	h.hears("1:1")
}

// A queue with a browser is in use, and a browser counts as a receiver.
func TestBrowserCounts(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.loop.receivers.limit = 1
	r := h.browser(1)
	if busy := h.loop.receivers.usage(); len(busy) != 1 {
		t.Errorf("%v; want len(busy) == 1", busy)
	}
	second := h.receiver(2, event.Main)
	if reply := h.ask(&engine.Attach{Receiver: second}); code(reply.Err) != engine.QuotaExceeded {
		t.Errorf("%v; want code(reply.Err) == engine.QuotaExceeded", reply.Err)
	}
	h.turn(&engine.Detach{Receiver: r})
	if busy := h.loop.receivers.usage(); len(busy) != 0 {
		t.Errorf("%v; want len(busy) == 0", busy)
	}
	if reply := h.ask(&engine.Attach{Receiver: second}); reply.Err != nil {
		t.Error(reply.Err)
	}
}
