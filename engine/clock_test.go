package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// hands are clocks of which each can be set alone.
type hands struct {
	wall    time.Time
	elapsed time.Duration
}

func (h *hands) Wall() time.Time        { return h.wall }
func (h *hands) Elapsed() time.Duration { return h.elapsed }

func (h *hands) pass(d time.Duration) { h.wall, h.elapsed = h.wall.Add(d), h.elapsed+d }

// reliability.md 1.4, F15, F16.
func TestBrokerTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	quiet := slog.New(slog.DiscardHandler)

	t.Run("begins at the newest instant of the log", func(t *testing.T) {
		newest := event.TimeOf(start.Add(time.Minute))
		c := NewClock(&hands{wall: start}, newest, quiet)
		if got := c.Now(); got != newest {
			t.Fatalf("got %v, want %v", got, newest)
		}
	})

	t.Run("never runs backwards and is corrected by at most 5 %", func(t *testing.T) {
		h := &hands{wall: start, elapsed: time.Hour}
		c := NewClock(h, event.TimeOf(start.Add(2*time.Second)), quiet)
		last := c.Now()
		for range 100 { // the wall is two seconds behind: broker time goes slower until they meet
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
			h := &hands{wall: start}
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
		h := &hands{wall: start}
		c := NewClock(h, 0, quiet)
		before := c.Now()
		h.pass(8 * time.Hour)
		if d := c.Now().Sub(before); d != 8*time.Hour {
			t.Fatalf("went on by %v in eight hours", d)
		}
	})

	t.Run("the machine's clocks", func(t *testing.T) {
		s := newSystemTime()
		before := s.Elapsed()
		for s.Elapsed() == before {
		}
		if d := s.Elapsed() - before; d <= 0 || d > time.Minute {
			t.Fatalf("went on by %v", d)
		}
		s.before -= time.Hour // as if the machine had slept for an hour and the wall clock says so, too
		s.skew -= time.Hour
		if d := s.Elapsed() - before; d < time.Hour-blink || d > time.Hour+time.Minute {
			t.Fatalf("went on by %v over a sleep of an hour", d)
		}
	})
}
