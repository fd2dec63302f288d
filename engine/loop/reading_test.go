package loop

import (
	"sync/atomic"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
)

// TestAnswersThatWereRead: the bodies of an answer count as unread until its caller has read them.
// From then on nothing of the answer is kept, also if no job asks which bodies are unread.
func TestAnswersThatWereRead(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.send(0, "a", "b", "c")
	peek := func(tag uint64, read *atomic.Bool) {
		h.loop.Turn([]engine.Request{{Command: &engine.Peek{Slice: handEntity, Count: 3, MaxBytes: 1 << 20}, Sink: h, Tag: tag, Read: read}})
	}
	kept := func() int { return len(h.loop.replies.unread.of) }
	first, second := new(atomic.Bool), new(atomic.Bool)
	peek(1, first)
	peek(2, second)
	if n := len(bodiesInUse(h.loop)); n != 6 || kept() != 2 {
		t.Fatalf("%d bodies of %d answers are to be read; want 6 of 2", n, kept())
	}
	first.Store(true)
	if n := len(bodiesInUse(h.loop)); n != 3 || kept() != 1 {
		t.Errorf("%d bodies of %d answers are to be read; want 3 of 1", n, kept())
	}
	second.Store(true)
	if list := bodiesInUse(h.loop); list != nil || kept() != 0 {
		t.Errorf("%v of %d answers are kept", list, kept())
	}
	over := new(atomic.Bool)
	over.Store(true)
	for tag := range uint64(1000) {
		peek(tag, over)
	}
	if n := kept(); n > 50 {
		t.Errorf("%d answers are kept of 1,000 that were read", n)
	}
}
