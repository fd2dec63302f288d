package engine

import (
	"log/slog"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxSlew is the share of elapsed time by which broker time may be corrected towards the wall clock.
	maxSlew = 20 // one part in 20: 5 %
	// maxStep is the distance from the wall clock beyond which broker time is no longer corrected: somebody set the clock.
	maxStep = 5 * time.Second
)

// Clock is broker time (reliability.md 1.4): it never runs backwards, advances with the monotonic clock, and is corrected
// towards the wall clock slowly. Safe for concurrent use.
type Clock struct {
	wall   func() time.Time // wall and monotonic clock in one, as time.Now
	logger *slog.Logger

	mu      sync.Mutex
	started time.Time     // reading of wall at the start
	base    time.Time     // broker time at the start
	read    time.Duration // monotonic time since the start, at the last reading
	slewed  time.Duration // correction so far
	alarmed bool
}

// NewClock starts broker time at the later of the wall clock and the newest instant in any log.
func NewClock(wall func() time.Time, newest event.Time, logger *slog.Logger) *Clock {
	now := wall()
	c := &Clock{wall: wall, logger: logger, started: now, base: now.Round(0)}
	if newest.Std().After(now) {
		c.base = newest.Std()
	}
	return c
}

// Now is broker time.
func (c *Clock) Now() event.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	reading := c.wall()
	elapsed := max(reading.Sub(c.started), c.read) // monotonic when wall is time.Now
	delta := elapsed - c.read
	c.read = elapsed
	now := c.base.Add(elapsed + c.slewed)
	off := reading.Round(0).Sub(now)
	if off > maxStep || off < -maxStep {
		if !c.alarmed {
			c.logger.Warn("wall clock and broker time differ; broker time goes on by the monotonic clock", "difference", off)
			c.alarmed = true
		}
		return event.TimeOf(now)
	}
	c.alarmed = false
	fix := min(max(off, -delta/maxSlew), delta/maxSlew)
	c.slewed += fix
	return event.TimeOf(now.Add(fix))
}
