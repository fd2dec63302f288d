package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// reliability.md 1.4, F15. The wall here has no monotonic reading, so stepping it steps both.
func TestBrokerTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	quiet := slog.New(slog.DiscardHandler)

	t.Run("begins at the newest instant of the log", func(t *testing.T) {
		newest := event.TimeOf(start.Add(time.Minute))
		c := NewClock(func() time.Time { return start }, newest, quiet)
		if got := c.Now(); got != newest {
			t.Fatalf("got %v, want %v", got, newest)
		}
	})

	t.Run("never runs backwards and is corrected by at most 5 %", func(t *testing.T) {
		wall := start
		c := NewClock(func() time.Time { return wall }, event.TimeOf(start.Add(2*time.Second)), quiet)
		last := c.Now()
		for range 100 { // the wall is two seconds behind: broker time goes slower until they meet
			wall = wall.Add(time.Second)
			now := c.Now()
			if step := now.Sub(last); step < 950*time.Millisecond || step > 1050*time.Millisecond {
				t.Fatalf("broker time moved by %v in a second", step)
			}
			last = now
		}
		if off := last.Std().Sub(wall); off > time.Millisecond || off < -time.Millisecond {
			t.Fatalf("still %v off after 100 seconds", off)
		}
	})

	t.Run("a step of the wall back does not move it", func(t *testing.T) {
		wall := start
		c := NewClock(func() time.Time { return wall }, 0, quiet)
		wall = wall.Add(10 * time.Second)
		before := c.Now()
		wall = wall.Add(-time.Hour)
		if now := c.Now(); now < before {
			t.Fatalf("went from %v to %v", before, now)
		}
	})
}
