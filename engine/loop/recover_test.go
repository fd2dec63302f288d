package loop

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-370, SM-197, SM-053, R3: before a start handles the first request it ends the sessions and
// locks whose time has ended; other locks are kept.
func TestRecover(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(3, 0)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 2})
	tokens := []event.LockToken{h.got[0].Delivery().Token, h.got[1].Delivery().Token}
	h.got = nil
	h.after(20 * time.Second)
	if got := h.ask(&engine.Renew{Slice: handEntity, Tokens: tokens[1:]}); got.Err != nil {
		t.Fatal(got.Err)
	}
	h.now = h.now.Add(15 * time.Second)
	h.restart()
	r = h.receiver(2, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 9, Drain: true})
	h.hears("2:1+1", "2:3", "2:drained")
	if got := h.ask(&engine.Settle{Slice: handEntity, Token: tokens[0], Outcome: engine.Complete}); code(got.Err) != engine.LockLost {
		t.Errorf("%+v; want code(got.Err) == engine.LockLost", got.Err)
	}
	if got := h.ask(&engine.Settle{Slice: handEntity, Token: tokens[1], Outcome: engine.Complete}); got.Err != nil {
		t.Error(got.Err)
	}
}

// SM-370, SM-197: many sessions at once; for some of them the lock has ended.
func TestRecoverSessions(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	const n = 1200 // more than one decision can end
	for i := range n {
		id := fmt.Sprint(i)
		h.send(0, id, id)
		if i == n/2 { // the first locks have ended when the loop starts
			h.after(20 * time.Second)
		}
		r := h.accepts(uint64(i), id)
		h.turn(&engine.Flow{Receiver: r, Limit: 1})
	}
	h.got = nil
	h.now = h.now.Add(15 * time.Second)
	h.restart()
	x := h.loop.part.Index()
	if x.Locks() != 0 || h.count(event.Main, index.Active) != 2*n {
		t.Fatalf("%d locks, %d active", x.Locks(), h.count(event.Main, index.Active))
	}
	for i := range n {
		m, _ := x.FirstOf(handEntity, []byte(fmt.Sprint(i)))
		if m.DeliveryCount != 0 {
			t.Fatalf("session %d: count %d", i, m.DeliveryCount)
		}
	}
	h.turn()
	h.restart() // all of it is in the log then: before, the last records may only be written
	var kinds []event.Kind
	var causes [5]int
	for rec, err := range replay.Records(t.Context(), h.plog, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Events {
			kinds = append(kinds, ev.Kind())
			if ev, ok := ev.(*event.SessionReleased); ok {
				causes[ev.Cause]++
			}
		}
	}
	if causes[event.ReleaseLinkLost] != n {
		t.Errorf("sessions ended for %v; want %d of them because their link was lost", causes, n)
	}
	if i := slices.Index(kinds, event.KindSessionReleased); i < 0 || slices.ContainsFunc(kinds[i:], func(k event.Kind) bool { return k != event.KindSessionReleased }) {
		t.Error("something else was written at the start")
	}
}

// SM-370, SM-097: however much is due, more than fits into two frames, all of it ends before the
// first request is handled; the first client's messages come after the scheduled ones that were
// due.
func TestRecoverMuch(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.MaxDeliveryCount = 1 // each ended lock makes a dead letter
	h := byHand(t, p)
	const n = 60_000
	h.fill(n, 0)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: n})
	if h.got = nil; h.loop.part.Index().Locks() != n {
		t.Fatalf("%d locks", h.loop.part.Index().Locks())
	}
	// becomes due after the locks
	scheduled := engine.Message{ID: []byte("s"), Body: []byte("s"), ScheduledFor: h.now.Add(time.Minute)}
	if r := h.ask(&engine.Send{Slice: handEntity, Messages: []engine.Message{scheduled}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	before := h.loop.frames.writer.Batch().Base()
	h.now = h.now.Add(time.Hour)
	h.restart()
	if locks, waiting := h.loop.part.Index().Locks(), h.count(event.Main, index.Scheduled); locks != 0 || waiting != 0 {
		t.Errorf("%d locks and %d schedules are left when the start is over", locks, waiting)
	}
	if dead := h.count(event.DeadLetter, index.Active); dead != n {
		t.Errorf("%d dead letters, want %d", dead, n)
	}
	if size := h.loop.frames.writer.Batch().Base() - before; size < 2*maxOpen {
		t.Fatalf("all of it took %d bytes: that shows nothing", size)
	}
	h.fill(1, 0)
	r = h.receiver(2, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 9, Drain: true})
	// the one that was scheduled, and the new one
	h.hears(fmt.Sprintf("2:%d", n+2), fmt.Sprintf("2:%d", n+3), "2:drained")
}

// SM-097: messages whose time came while the broker was down become active before the first
// request.
func TestRecoverSchedules(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	for _, in := range []time.Duration{3, 1, 2, 100} {
		h.ask(&engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: fmt.Appendf(nil, "%d", in), ScheduledFor: h.now.Add(in * time.Second)}}})
	}
	h.now = h.now.Add(time.Minute)
	h.restart()
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 9, Drain: true})
	var bodies []string
	for _, d := range h.got[:len(h.got)-1] {
		p, err := h.plog.ReadBlob(d.Delivery().Body, nil)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(p))
	}
	if h.got = nil; fmt.Sprint(bodies) != "[1 2 3]" {
		t.Errorf("delivered %v", bodies)
	}
}

// Receivers that wait for a session of a deleted queue are told at once.
func TestDeleteQueueUnderWaiters(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	a := h.accepts(1, "A")
	h.wants(2, time.Hour)
	h.send(0, "A")
	h.turn(&engine.DeleteEntity{Path: "orders"}, &dropSliceCommand{slice: handEntity})
	h.hears("1:A", "2:!1")
	h.turn(&engine.Flow{Receiver: a, Limit: 1}, &engine.Detach{Receiver: a})
	if len(h.loop.receivers.entities) != 0 || len(h.loop.receivers.deadlines) != 0 || h.loop.part.Index().Locks() != 0 || h.loop.NextDeadline() != 0 {
		t.Error("something is left of it")
	}
}

// SM-363, SM-360, SM-366: replays in the years 2000 and 2050 give the same bytes, which are those
// of the state before, with the same counters; and a loop over that state asks for no time and no
// token before its start has ended. So no part of a replay comes from a clock or is random.
// (test/layering shows that index imports no source of randomness.)
func TestReplayReadsNoClock(t *testing.T) {
	p := testQueue()
	p.MaxDeliveryCount, p.DeadLetteringOnMessageExpiration = 1, true
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Hour
	h := byHand(t, p)
	for i := range 10 {
		m := engine.Message{ID: fmt.Append(nil, i), Body: []byte("x")}
		if i == 0 {
			m.TimeToLive = time.Second
		}
		if i == 9 {
			m.ScheduledFor = h.now.Add(time.Hour)
		}
		if r := h.ask(&engine.Send{Slice: handEntity, Messages: []engine.Message{m}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h.after(2 * time.Second)
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 6})
	for i, how := range []engine.SettleOutcome{engine.Complete, engine.Abandon, engine.Defer, engine.MoveToDeadLetter} {
		if got := h.ask(&engine.Settle{Slice: handEntity, Token: h.got[i].Delivery().Token, Outcome: how}); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	counters := func(x *index.Index) (out []int) {
		for _, q := range []event.SubQueue{event.Main, event.DeadLetter} {
			for _, st := range []index.State{index.Active, index.Locked, index.Deferred, index.DeferredLocked, index.Scheduled} {
				out = append(out, x.Count(handEntity, q, st))
			}
		}
		return append(out, x.Live(), x.Locks(), int(x.Bytes(handEntity)))
	}
	live := h.loop.part.Index()
	before, want := live.Encode(nil), counters(live)
	if fmt.Sprint(want) != "[2 2 1 0 1 3 0 0 0 0 9 2 258]" {
		t.Fatalf("counters before: %v", want)
	}
	for _, wait := range []time.Duration{0, 50 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
			time.Sleep(wait)
			x := replayed(t, h.plog).Index
			if !bytes.Equal(x.Encode(nil), before) {
				t.Errorf("in %d the state is another", time.Now().Year())
			}
			if got := counters(x); !slices.Equal(got, want) {
				t.Errorf("in %d the counters are %v, before they were %v", time.Now().Year(), got, want)
			}
			l := New(engine.NewPartition(0, 1, x), h.plog, nil, Options{CheckpointBytes: -1, Logger: h.loop.recorder.logger,
				Clock: func() event.Time { panic("asked for the time") }, Tokens: func() event.LockToken { panic("asked for a token") }})
			for _, e := range x.Catalogue.All() {
				l.configure(&configureCommand{entity: engine.View(e, nil)})
			}
		})
	}
}
