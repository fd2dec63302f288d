package loop

import (
	"sync/atomic"
	"time"
)

// stuckAfter is how long one turn of a loop may take before the loop counts as stuck.
const stuckAfter = 10 * time.Second

// programBegan is before every turn.
var programBegan = time.Now().Add(-time.Nanosecond)

// turnClock holds when the turn of a loop began, in nanoseconds since the program began; 0: the
// loop sleeps, and anything there is to do wakes it.
type turnClock struct{ atomic.Int64 }

func (t *turnClock) begin() { t.Store(int64(time.Since(programBegan))) }
func (t *turnClock) end()   { t.Store(0) }

// duration returns how long the turn has lasted; 0: the loop sleeps.
func (t *turnClock) duration() time.Duration {
	began := t.Load()
	if began == 0 {
		return 0
	}
	return time.Since(programBegan) - time.Duration(began)
}

// Stuck returns how long a loop has been stuck: its turn has lasted for more than ten seconds, and
// its disk does not hang. 0: it is not stuck. A restart of the process cures it.
func (l *Loop) Stuck() time.Duration {
	if d := l.turn.duration(); d > stuckAfter && l.frames.writer.DiskState().Hangs.IsZero() {
		return d
	}
	return 0
}
