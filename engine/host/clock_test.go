package host

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// manualClocks are clocks that can each be set alone.
type manualClocks struct {
	wall    time.Time
	elapsed time.Duration
}

func (h *manualClocks) Wall() time.Time        { return h.wall }
func (h *manualClocks) Elapsed() time.Duration { return h.elapsed }

func (h *manualClocks) pass(d time.Duration) { h.wall, h.elapsed = h.wall.Add(d), h.elapsed+d }

// reliability.md 1.4, F15, F16. SM-079: broker time does not follow a wall clock that is set back.
func TestBrokerTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	quiet := slog.New(slog.DiscardHandler)

	t.Run("begins at the newest instant of the log", func(t *testing.T) {
		newest := event.TimeOf(start.Add(time.Minute))
		c := NewClock(&manualClocks{wall: start}, newest, quiet)
		if got := c.Now(); got != newest {
			t.Fatalf("got %v, want %v", got, newest)
		}
	})

	t.Run("never runs backwards and is corrected by at most 5 %", func(t *testing.T) {
		h := &manualClocks{wall: start, elapsed: time.Hour}
		c := NewClock(h, event.TimeOf(start.Add(2*time.Second)), quiet)
		last := c.Now()
		for range 100 { // the wall is two seconds behind: broker time runs slower until they meet
			h.pass(time.Second)
			now := c.Now()
			if step := now.Sub(last); step < 950*time.Millisecond || step > 1050*time.Millisecond {
				t.Fatalf("broker time moved by %v in a second", step)
			}
			last = now
		}
		if off := last.Std().Sub(h.wall); off > time.Millisecond || off < -time.Millisecond {
			t.Fatalf("still %v off after 100 seconds", off)
		}
	})

	for _, step := range []time.Duration{-time.Hour, -time.Second, time.Second, time.Hour, 87600 * time.Hour} {
		t.Run("does not follow a step of the wall by "+step.String(), func(t *testing.T) {
			h := &manualClocks{wall: start}
			c := NewClock(h, 0, quiet)
			h.pass(10 * time.Second)
			before := c.Now()
			h.wall = h.wall.Add(step)
			if now := c.Now(); now != before {
				t.Fatalf("went from %v to %v", before, now)
			}
			h.pass(10 * time.Second)
			if d := c.Now().Sub(before); d < 9500*time.Millisecond || d > 10500*time.Millisecond {
				t.Fatalf("went on by %v in ten seconds", d)
			}
		})
	}

	t.Run("goes on while the machine sleeps", func(t *testing.T) {
		h := &manualClocks{wall: start}
		c := NewClock(h, 0, quiet)
		before := c.Now()
		h.pass(8 * time.Hour)
		if d := c.Now().Sub(before); d != 8*time.Hour {
			t.Fatalf("went on by %v in eight hours", d)
		}
	})
}

// The machine's clocks advance even while it sleeps.
func TestSystemTime(t *testing.T) {
	t.Parallel()
	s := newSystemTime()
	before := s.Elapsed()
	for s.Elapsed() == before {
	}
	if d := s.Elapsed() - before; d <= 0 || d > time.Minute {
		t.Fatalf("went on by %v", d)
	}
	s.before -= time.Hour // as if machine and wall clock had slept for an hour
	s.skew -= time.Hour
	if d := s.Elapsed() - before; d < time.Hour-ignoredSleep || d > time.Hour+time.Minute {
		t.Fatalf("went on by %v over a sleep of an hour", d)
	}
}

// SM-079, SM-373: the wall clock is set back by an hour, once under a running broker and once while
// it is stopped. Expired messages stay expired, locks end when they would have ended, and times in
// the log do not decrease.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	h := newDriven(t)
	clocks := &manualClocks{wall: h.now.Std()}
	clock := NewClock(clocks, 0, slog.New(slog.DiscardHandler))
	pass := func(d time.Duration) {
		clocks.pass(d)
		h.now = clock.Now()
		h.turn()
	}
	const blur = 100 * time.Millisecond // ended locks are looked for only at intervals
	setBack := func() { clocks.wall = clocks.wall.Add(-time.Hour) }
	h.fill(1, 10*time.Second)
	h.fill(2, 0)
	pass(11 * time.Second) // number 1 has expired
	r := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
	first := h.got[0].Delivery()
	h.hears("1:2")

	setBack()
	pass(time.Second)
	h.turn(&engine.Flow{Receiver: r, Limit: 2})
	second := h.got[0].Delivery()
	h.hears("1:3") // not the expired one
	if d := second.LockedUntil.Sub(first.LockedUntil); d != time.Second {
		t.Errorf("a lock taken a second later ends %v later", d)
	}
	pass(28 * time.Second)
	h.hears()
	pass(time.Second + blur)
	h.turn(&engine.Flow{Receiver: r, Limit: 3})
	h.hears("1:2+1") // 30 seconds after it was taken

	setBack()
	newest := h.part.Index().LastAt()
	clock = NewClock(clocks, newest, slog.New(slog.DiscardHandler))
	if h.now = clock.Now(); h.now != newest {
		t.Errorf("starts at %v, the newest record is of %v", h.now, newest)
	}
	h.restart()
	r = h.receiver(2, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 9})
	h.hears() // both are still locked, and the first is still expired
	pass(time.Second)
	h.hears("2:3+1")
	pass(29*time.Second + blur)
	h.hears("2:2+2")

	var last event.Time
	for rec, err := range replay.Records(t.Context(), h.plog, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.At < last {
			t.Errorf("a record of %v behind one of %v", rec.At, last)
		}
		last = rec.At
	}
}
