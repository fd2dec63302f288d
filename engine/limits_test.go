package engine

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// 14.3, SM-150: one call deletes 4000 messages at most, of a session too, and says how many; the next goes on with the others.
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
			cmd := &BatchDelete{Slice: handEntity, Count: 1 << 20, HasSession: sessions}
			if r := h.ask(cmd); r.Err != nil || r.Deleted() != want {
				t.Fatalf("call %d, sessions %t: %d are deleted, want %d: %v", i+1, sessions, r.Deleted(), want, r.Err)
			}
			if m, ok := h.loop.part.index.First(handEntity, event.Main); i == 0 && (!ok || m.Sequence != 4001) {
				t.Fatalf("message %d is the first that is left", m.Sequence)
			}
		}
		if n := h.count(event.Main, index.Active); n != 0 {
			t.Errorf("%d are left", n)
		}
	}
}

// Reliability.md P23: a full duplicate history forgets nothing before its time: what would not fit is refused, to be sent again
// later, and stores nothing. What leaves the window makes room.
func TestFullDuplicateHistory(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Minute
	h := byHand(t, p)
	if h.loop.part.history != 8<<20 {
		t.Fatalf("a history holds %d ids", h.loop.part.history)
	}
	h.loop.part.history = 3
	send := func(want Code, at event.Time, ids ...string) {
		t.Helper()
		cmd := &Send{Slice: handEntity}
		for _, id := range ids {
			cmd.Messages = append(cmd.Messages, Message{ID: []byte(id), Body: []byte("x"), ScheduledFor: at})
		}
		before := h.count(event.Main, index.Active) + h.count(event.Main, index.Scheduled)
		r := h.ask(cmd)
		if code(r.Err) != want {
			t.Fatalf("%v: %v, want code %d", ids, r.Err, want)
		}
		if stored := h.count(event.Main, index.Active) + h.count(event.Main, index.Scheduled) - before; want != 0 && stored != 0 {
			t.Errorf("%v: %d are stored", ids, stored)
		}
	}
	send(0, 0, "a")
	h.after(30 * time.Second)
	send(Busy, 0, "b", "c", "d")
	send(0, 0, "b", "c")
	send(Busy, 0, "d")
	send(Busy, h.now.Add(time.Hour), "d")
	h.after(29 * time.Second)
	send(Busy, 0, "d")
	h.after(time.Second) // a leaves
	send(0, h.now.Add(time.Hour), "d")
	send(Busy, 0, "e")
	h.restart()
	h.loop.part.history = 3
	send(Busy, 0, "e")
	h.after(30 * time.Second) // b and c
	send(0, 0, "e", "b")
	if x := h.loop.part.index; x.Remembered(handEntity) != 3 {
		t.Errorf("%d ids are remembered", x.Remembered(handEntity))
	}
}

// SM-022: what was received and deleted is not delivered again, however often the broker is stopped in the middle of it. What was
// decided and had not left is lost (5.2). (The simulation cuts the power there, too: see its planted bug M20.)
func TestReceiveAndDeleteOverRestarts(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	const n = 100
	h.fill(n, 0)
	times := map[event.SequenceNumber]int{}
	for round := range n {
		r := h.receiver(uint64(round), event.Main)
		r.Mode = ReceiveAndDelete
		h.turn(&Attach{r}, &Flow{Receiver: r, Limit: 3})
		h.loop.Turn([]Request{{Command: &Flow{Receiver: r, Limit: 5}}}) // two more are decided and nobody has seen them
		for _, d := range h.got {
			times[d.Delivery().Sequence]++
		}
		if h.got = nil; h.count(event.Main, index.Active) == 0 {
			break
		}
		for h.loop.unsynced() {
			<-h.loop.writer.Moved()
		}
		h.restart()
	}
	if len(times) != n*3/5 {
		t.Errorf("%d messages were delivered", len(times))
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
