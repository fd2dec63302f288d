package host

import (
	"log/slog"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxSlew is the share of elapsed time by which broker time may be corrected towards the wall
	// clock.
	maxSlew = 20 // one part in 20: 5 %
	// maxStep is the distance from the wall clock beyond which broker time is no longer corrected:
	// somebody set the clock.
	maxStep = 5 * time.Second
)

// TimeSource is what a [Clock] reads: two clocks, because one can be set and the other cannot.
type TimeSource interface {
	// Wall is the time of day. It may jump either way.
	Wall() time.Time
	// Elapsed is the time since some fixed instant. It never decreases, and it goes on while the
	// machine sleeps.
	Elapsed() time.Duration
}

// Clock is broker time (reliability.md 1.4): it never runs backwards, advances with the monotonic
// clock, and is corrected towards the wall clock slowly. Safe for concurrent use.
type Clock struct {
	source TimeSource
	logger *slog.Logger

	mu      sync.Mutex    // guards what follows
	started time.Duration // reading of the monotonic clock at the start
	base    time.Time     // broker time at the start
	read    time.Duration // monotonic time since the start, at the last reading
	slewed  time.Duration // correction so far
	alarmed bool
}

// NewClock starts broker time at the later of the wall clock and the newest instant in any log.
func NewClock(source TimeSource, newest event.Time, logger *slog.Logger) *Clock {
	c := NewClockAt(source, newest, logger)
	if wall := source.Wall().Round(0); wall.After(c.base) {
		c.base = wall
	}
	return c
}

// NewClockAt starts broker time at an instant, whatever the wall clock shows.
func NewClockAt(source TimeSource, at event.Time, logger *slog.Logger) *Clock {
	return &Clock{source: source, logger: logger, started: source.Elapsed(), base: at.Std()}
}

// Now is broker time.
func (c *Clock) Now() event.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.source.Wall().Round(0)
	elapsed := max(c.source.Elapsed()-c.started, c.read)
	delta := elapsed - c.read
	c.read = elapsed
	now := c.base.Add(elapsed + c.slewed)
	off := wall.Sub(now)
	if off > maxStep || off < -maxStep {
		if !c.alarmed {
			c.logger.Warn("wall clock and broker time differ; broker time follows the monotonic clock", "difference", off)
			c.alarmed = true
		}
		return event.TimeOf(now)
	}
	c.alarmed = false
	fix := min(max(off, -delta/maxSlew), delta/maxSlew)
	c.slewed += fix
	return event.TimeOf(now.Add(fix))
}
