package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-063, SM-077, 7.4: expired messages stay while there is no receiver of the main queue, and are
// removed soon after there is one, wherever they are in the queue.
func TestSweepNeedsAReceiver(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(1, 0)
	h.fill(5, time.Second)
	h.fill(1, time.Hour)
	dead := h.receiver(1, event.DeadLetter)
	h.turn(&engine.Attach{Receiver: dead}, &engine.Flow{Receiver: dead, Limit: 9})
	h.after(time.Minute)
	if got := h.count(event.Main, index.Active); got != 7 {
		t.Fatalf("%d messages with a receiver of the dead-letter queue alone", got)
	}
	r := h.receiver(2, event.Main)
	// it has given no credit, like an SDK that is about to peek
	h.turn(&engine.Attach{Receiver: r})
	if got := h.count(event.Main, index.Active); got != 7 {
		t.Fatalf("%d messages with a receiver that never had credit", got)
	}
	h.activate(r)
	if got := h.count(event.Main, index.Active); got != 2 {
		t.Fatalf("%d messages after a receiver came", got)
	}
	if at := h.loop.NextDeadline(); at != h.now.Add(time.Hour-time.Minute) {
		t.Errorf("next at %v, now is %v", at, h.now)
	}
	h.fill(1, 10*time.Second) // later messages are also swept in time
	h.after(10 * time.Second)
	if got := h.count(event.Main, index.Active); got != 2 {
		t.Fatalf("%d messages when the late one expired", got)
	}
	h.fill(1, time.Second)
	h.turn(&engine.Detach{Receiver: r})
	h.after(time.Minute)
	if got := h.count(event.Main, index.Active); got != 3 {
		t.Fatalf("%d messages after the receiver went", got)
	}
	if h.loop.NextDeadline() != 0 {
		t.Error("the loop wants to be called for nothing")
	}
	h.hears()
}

// Passes over a queue are at least a second apart; the longer the queue, the farther apart.
func TestSweepRate(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r})
	h.activate(r)
	h.fill(1, 0)
	h.fill(1, time.Millisecond)
	h.after(time.Millisecond)
	h.fill(1, time.Millisecond)
	h.after(998 * time.Millisecond)
	if got := h.count(event.Main, index.Active); got != 2 {
		t.Fatalf("%d messages before the second is over", got)
	}
	h.after(2 * time.Millisecond)
	if got := h.count(event.Main, index.Active); got != 1 {
		t.Fatalf("%d messages after a second", got)
	}
	h.fill(300_000, 0)
	h.fill(1, 2*time.Second)
	h.after(2 * time.Second) // a pass ends; 300,000 messages are worth 3 seconds
	h.fill(1, time.Millisecond)
	h.after(2900 * time.Millisecond)
	if got := h.count(event.Main, index.Active); got != 300_002 {
		t.Fatalf("%d messages before the three seconds are over", got)
	}
	h.after(200 * time.Millisecond)
	if got := h.count(event.Main, index.Active); got != 300_001 {
		t.Fatalf("%d messages after three seconds", got)
	}
}

// A pass whose receiver leaves before its end is repeated for the next receiver.
func TestSweepIsInterrupted(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(1, 0)
	h.fill(3*sweepEnds, time.Second)
	h.now = h.now.Add(2 * time.Second)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r})
	h.loop.receivers.activate(h.loop.receivers.receiver(r), 1)
	h.loop.Turn(nil) // the first step
	h.loop.Turn([]engine.Request{{Command: &engine.Detach{Receiver: r}}})
	h.turn()
	left := h.count(event.Main, index.Active)
	if left < sweepEnds {
		t.Fatalf("%d messages: the pass was not interrupted", left)
	}
	h.turn(&engine.Attach{Receiver: r})
	h.activate(r)
	if got := h.count(event.Main, index.Active); got != 1 {
		t.Fatalf("%d messages of %d after the second pass", got, left)
	}
}

// SM-184, 7.4: the holder of a session is a receiver of its queue; a receiver that waits for one is
// not.
func TestSweepOfASessionQueue(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.activate(h.accepts(1, "A"))
	h.send(time.Second, "A", "B")
	h.after(2 * time.Second)
	if got := h.count(event.Main, index.Active); got != 0 {
		t.Fatalf("%d messages while a session is held", got)
	}
	h.after(time.Minute)
	h.hears("1:A", "1:ended")
	h.send(time.Second, "B")
	h.wants(2, 0)
	h.hears("2:B")
	h.after(time.Minute)
	h.hears("2:ended")
	h.send(time.Second, "C")
	h.activate(h.accepts(3, "D"))
	h.after(2 * time.Second)
	if got := h.count(event.Main, index.Active); got != 0 {
		t.Fatalf("%d messages", got)
	}
}

// SM-044, SM-060: a drain delivers no expired message, answers after it has visited everything, and
// does not keep other receivers waiting for that.
func TestDrainOverExpired(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.DeadLetteringOnMessageExpiration = true
	h := byHand(t, p)
	const n = 30_000
	h.fill(n, time.Second)
	h.fill(1, 0)
	h.now = h.now.Add(2 * time.Second)
	r, other := h.receiver(1, event.Main), h.receiver(2, event.Main)
	h.loop.Turn([]engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Attach{Receiver: other}}, {Command: &engine.Flow{Receiver: r, Limit: 10, Drain: true}}})
	if got := h.count(event.Main, index.Active); got < n/2 {
		t.Errorf("%d messages are left after one turn", got)
	}
	h.turn()
	h.hears("1:30001", "1:drained")
	if got := h.count(event.DeadLetter, index.Active); got != n {
		t.Errorf("%d dead-lettered", got)
	}
	// A receiver that gives up the drain keeps the credit.
	h.fill(15_000, time.Second)
	h.now = h.now.Add(2 * time.Second)
	h.loop.Turn([]engine.Request{{Command: &engine.Flow{Receiver: r, Limit: 20, Drain: true}}})
	h.loop.Turn([]engine.Request{{Command: &engine.Flow{Receiver: r, Limit: 12}}})
	h.turn()
	h.hears()
	h.fill(3, 0)
	h.hears("1:45002", "1:45003")
	// A receiver that leaves is not told.
	h.fill(15_000, time.Second)
	h.now = h.now.Add(2 * time.Second)
	h.loop.Turn([]engine.Request{{Command: &engine.Flow{Receiver: r, Limit: 20, Drain: true}}})
	h.turn(&engine.Detach{Receiver: r})
	h.hears("1:45004")
}

// SM-044: a drain with more messages than a turn should deliver delivers them all before it
// answers.
func TestLargeDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("two frames of locks take long with the race detector")
	}
	t.Parallel()
	h := byHand(t, testQueue())
	const n = 200_000
	h.fill(n, 0)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: n + 7, Drain: true})
	if got := h.got; len(got) != n+1 || got[n].Kind != engine.ReplyDrained || h.turns < 2 {
		t.Fatalf("%d replies in %d turns", len(got), h.turns)
	}
	h.got = nil
	if left := h.loop.receivers.receiver(r).credit(); left != 0 {
		t.Errorf("credit %d", left)
	}
}

// Many locks that end at once, and many messages that become active at once, do not make one turn
// long.
func TestDueInSteps(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	const n = 24_000
	h.fill(n, 0)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: n})
	h.turn(&engine.Detach{Receiver: r})
	for range n / 8000 {
		cmd := &engine.Send{Slice: handEntity}
		for range 8000 {
			cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte("x"), Body: []byte("x"), ScheduledFor: h.now.Add(31 * time.Second)})
		}
		h.turn(cmd)
	}
	h.got, h.now = nil, h.now.Add(time.Minute)
	h.loop.Turn(nil)
	if got := h.count(event.Main, index.Locked); got < n/2 || got == n {
		t.Errorf("%d locks are left after one turn", got)
	}
	h.turn()
	if got := h.count(event.Main, index.Active); got != 2*n {
		t.Errorf("%d active", got)
	}
}
