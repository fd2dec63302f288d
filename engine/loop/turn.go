package loop

import (
	"sync/atomic"
	"time"
)

// stuckAfter is how long one turn of a loop may take before the loop counts as stuck.
const stuckAfter = 10 * time.Second

// programBegan is before every turn.
var programBegan = time.Now().Add(-time.Nanosecond)

// turnClock is when the turn of a loop began, in nanoseconds since the program did; 0: the loop
// sleeps, and whatever there is to do wakes it.
type turnClock struct{ atomic.Int64 }

func (t *turnClock) begin() { t.Store(int64(time.Since(programBegan))) }
func (t *turnClock) end()   { t.Store(0) }

// lasts is how long the turn has gone on; 0: none goes on.
func (t *turnClock) lasts() time.Duration {
	began := t.Load()
	if began == 0 {
		return 0
	}
	return time.Since(programBegan) - time.Duration(began)
}

// Stuck is how long a loop has been stuck, which a restart of the process cures: it has not turned
// for ten seconds, and that is not because its disk hangs; 0: it is not.
func (l *Loop) Stuck() time.Duration {
	if d := l.turn.lasts(); d > stuckAfter && l.frames.writer.DiskState().Hangs.IsZero() {
		return d
	}
	return 0
}
