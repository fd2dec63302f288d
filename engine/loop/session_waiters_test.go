package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-181, 8.3: receivers that wait for the next available session get one in the order in which
// they came, or a time-out and no lock.
func TestWaitForSession(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.wants(1, 10*time.Second)
	h.wants(2, time.Minute)
	h.wants(3, 5*time.Second)
	h.wants(4, 0)
	h.hears("4:!14")
	h.after(4999 * time.Millisecond)
	h.hears()
	h.after(time.Millisecond)
	h.hears("3:!14")
	h.send(0, "A", "A")
	h.hears("1:A")
	h.send(0, "A")
	h.hears()
	h.send(0, "C", "B")
	h.hears("2:C")
	h.wants(5, time.Minute) // B is available
	h.hears("5:B")
	h.after(5 * time.Minute)
	if got := h.heard(); len(got) != 3 || h.loop.part.Index().Locks() != 0 {
		t.Fatalf("%v and %d locks are left", got, h.loop.part.Index().Locks())
	}
	if len(h.loop.receivers.entities) != 0 || h.loop.NextDeadline() != 0 {
		t.Error("there are receivers still")
	}
}

// A receiver that leaves while it waits is answered, takes nothing, and the next in line is served.
func TestDetachWhileWaiting(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	r1 := h.wants(1, time.Minute)
	h.wants(2, time.Minute)
	h.turn(&engine.Detach{Receiver: r1})
	h.hears("1:!14")
	h.send(0, "A")
	h.hears("2:A")
	h.turn(&engine.Detach{Receiver: r1}, &engine.Flow{Receiver: r1, Limit: 5})
	h.hears()
	// It was the last one that waited: nothing is left of it.
	r3 := h.wants(3, time.Minute)
	h.turn(&engine.Detach{Receiver: r3})
	h.hears("3:!14")
	h.after(time.Hour)
	h.hears("2:ended")
	if len(h.loop.receivers.entities) != 0 || len(h.loop.receivers.deadlines) != 0 {
		t.Errorf("left: receivers in %d slices, %d that wait", len(h.loop.receivers.entities), len(h.loop.receivers.deadlines))
	}
}

// SM-184, SM-183, I9: messages of a held session are delivered to its holder only, in order, as far
// as its credit reaches.
func TestHolderGetsItsSession(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.send(0, "A", "B", "A")
	a, b := h.accepts(1, "A"), h.accepts(2, "B")
	h.hears("1:A", "2:B")
	h.turn(&engine.Flow{Receiver: a, Limit: 3}, &engine.Flow{Receiver: b, Limit: 1})
	h.hears("1:1", "1:3", "2:2")
	h.wants(3, time.Minute)
	h.send(0, "B", "A", "A", "C")
	h.hears("3:C", "1:5")
	h.accepts(4, "A") // SM-180
	h.hears("4:!13")
	h.turn(&engine.Flow{Receiver: b, Limit: 9, Drain: true})
	h.hears("2:4", "2:drained")
	h.send(0, "B")
	h.hears() // its credit is used up
	// SM-185: the session of a receiver that leaves is granted to the next one at once, its
	// messages are not counted as attempts, and new ones follow.
	h.wants(5, time.Minute)
	h.turn(&engine.Detach{Receiver: a})
	h.hears("5:A")
	again := h.accepts(6, "A")
	h.hears("6:!13")
	if h.loop.receivers.receiver(again) != nil {
		t.Error("refused and attached all the same")
	}
	h.turn(&engine.Detach{Receiver: b})
	b2 := h.wants(7, time.Minute)
	h.turn(&engine.Flow{Receiver: b2, Limit: 9})
	h.hears("7:B", "7:2", "7:4", "7:8")
}

// SM-186, WP-151: when a session's lock ends, its holder is told, its deliveries count, and the
// next waiting receiver gets the session.
func TestSessionLockEnds(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.send(0, "A", "A")
	a := h.accepts(1, "A")
	h.turn(&engine.Flow{Receiver: a, Limit: 9})
	h.hears("1:A", "1:1", "1:2")
	held, _ := h.loop.part.Index().Session(handEntity, []byte("A"))
	h.after(20 * time.Second)
	if r := h.ask(&engine.RenewSession{Slice: handEntity, SessionID: []byte("A"), Session: held.Token}); r.Err != nil || r.Times()[0] != h.now.Add(30*time.Second) {
		t.Fatalf("%+v %+v; want r.Err == nil && r.Times()[0] == h.now.Add(30*time.Second)", r.Err, r.Times())
	}
	h.wants(2, time.Minute)
	h.after(29 * time.Second)
	h.hears()
	h.after(time.Second + 64*time.Millisecond)
	h.hears("1:ended", "2:A")
	// too late, and harmless
	h.turn(&engine.Flow{Receiver: a, Limit: 20}, &engine.Detach{Receiver: a})
	h.hears()
	if r := h.ask(&engine.Settle{Slice: handEntity, Token: held.Token, Outcome: engine.Complete}); code(r.Err) != engine.SessionLockLost {
		t.Fatalf("%+v; want code(r.Err) == engine.SessionLockLost", r.Err)
	}
	if s, _ := h.loop.part.Index().Session(handEntity, []byte("A")); !s.Held || s.Token == held.Token {
		t.Fatalf("%+v; want s.Held && s.Token != held.Token", s)
	}
	if m, _ := h.loop.part.Index().Message(handEntity, 1); m.DeliveryCount != 1 {
		t.Errorf("count %d", m.DeliveryCount)
	}
}

// The end of a session's lock is noticed at its first use: here by a new receiver of the same
// session.
func TestSessionLockEndsOnAccept(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.accepts(1, "A")
	h.hears("1:A")
	h.now = h.now.Add(30 * time.Second)
	h.accepts(2, "A")
	h.hears("1:ended", "2:A")
}

// Deliveries to a receiver that has lost its session since they were decided do not leave; the
// messages are free again.
func TestDeliveriesOfALostSessionDoNotLeave(t *testing.T) {
	t.Parallel()
	h := byHandAlone(t, sessionQueue())
	a := h.accepts(1, "A")
	h.hears("1:A")
	h.loop.Turn([]engine.Request{{Command: &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x"), HasSession: true, SessionID: []byte("A")}}}},
		{Command: &engine.Flow{Receiver: a, Limit: 5}}}) // decided, and not written
	if m, _ := h.loop.part.Index().Message(handEntity, 1); m.State != index.Locked {
		t.Fatalf("the message is %v, want locked: there is no delivery to hold back", m.State)
	}
	h.loop.Turn([]engine.Request{{Command: &engine.Detach{Receiver: a}}})
	h.turn()
	h.hears()
	if m, _ := h.loop.part.Index().Message(handEntity, 1); m.State != index.Active || m.DeliveryCount != 0 {
		t.Errorf("%+v; want m.State == index.Active && m.DeliveryCount == 0", m)
	}
}

// 8.3: sessions full of expired messages do not hold up receivers that wait for a session, nor
// others for long.
func TestNextAvailableSkipsExpired(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	const n = 20_000
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	h.send(time.Second, names...)
	h.send(0, "good")
	h.now = h.now.Add(2 * time.Second)
	h.turns = 0
	h.wants(1, 0) // a receiver that does not want to wait also gets it
	h.hears("1:good")
	if h.turns < 2 {
		t.Errorf("%d sessions were cleared in %d turns", n, h.turns)
	}
	if got := h.count(event.Main, index.Active); got != 1 {
		t.Errorf("%d active", got)
	}
}

// The locked messages under one session are bounded; each settlement makes room for more at once,
// without another flow.
func TestMessagesUnderOneSession(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	const n = maxUnderSession + 10
	sessions := make([]string, n)
	h.send(0, sessions...)
	r := h.accepts(1, "")
	h.turn(&engine.Flow{Receiver: r, Limit: 2 * n})
	got := h.got
	if h.got = nil; len(got) != maxUnderSession+1 {
		t.Fatalf("%d replies", len(got))
	}
	settle := func(how engine.SettleOutcome, first, n int) {
		t.Helper()
		cmd := &engine.Settle{Slice: handEntity, Token: got[first].Delivery().Token, Outcome: how}
		for _, d := range got[first+1 : first+n] {
			cmd.More = append(cmd.More, d.Delivery().Token)
		}
		if r := h.ask(cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	settle(engine.Complete, 1, 2)
	h.hears(fmt.Sprintf("1:%d", maxUnderSession+1), fmt.Sprintf("1:%d", maxUnderSession+2))
	settle(engine.Defer, 3, 1)
	h.hears(fmt.Sprintf("1:%d", maxUnderSession+3))
	settle(engine.MoveToDeadLetter, 4, 1)
	h.hears(fmt.Sprintf("1:%d", maxUnderSession+4))
	settle(engine.Abandon, 5, 1) // the next one, again
	h.hears("1:5+1")
	h.turn(&engine.Flow{Receiver: r, Limit: maxUnderSession + 5}) // all of it is used up
	settle(engine.Complete, 6, 1)
	h.hears()
	h.turn(&engine.Detach{Receiver: r})
	if got := h.count(event.Main, index.Active); got != n-5 {
		t.Errorf("%d active", got)
	}
	if len(h.loop.receivers.entities) != 0 {
		t.Error("there are receivers still")
	}
}

func code(err error) engine.Code {
	if e, ok := err.(*engine.Error); ok {
		return e.Code
	}
	return 0
}
