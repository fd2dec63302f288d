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
	// the clock has been set.
	maxStep = 5 * time.Second
)

// TimeSource provides the two clocks that a [Clock] reads: one can be set, the other cannot.
type TimeSource interface {
	// Wall returns the time of day. It may jump either way.
	Wall() time.Time
	// Elapsed returns the time since some fixed instant. It never decreases, and it advances while
	// the machine sleeps.
	Elapsed() time.Duration
}

// Clock provides broker time (reliability.md 1.4): it never runs backwards, advances with the
// monotonic clock, and is corrected slowly towards the wall clock. It is safe for concurrent use.
type Clock struct {
	source TimeSource
	logger *slog.Logger

	mu      sync.Mutex    // guards the fields below
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

// NewClockAt starts broker time at an instant and ignores the wall clock.
func NewClockAt(source TimeSource, at event.Time, logger *slog.Logger) *Clock {
	return &Clock{source: source, logger: logger, started: source.Elapsed(), base: at.Std()}
}

// Now returns broker time.
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
