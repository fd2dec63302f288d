package host

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long one turn of a loop may take before the loop counts as stuck.
const stuckAfter = 10 * time.Second

// programBegan is before every turn.
var programBegan = time.Now().Add(-time.Nanosecond)

// turn is when the turn of a loop began, in nanoseconds since the program did; 0: the loop sleeps, and
// whatever there is to do wakes it.
type turn struct{ atomic.Int64 }

func (t *turn) begin() { t.Store(int64(time.Since(programBegan))) }
func (t *turn) end()   { t.Store(0) }

// lasts is how long the turn has gone on; 0: none goes on.
func (t *turn) lasts() time.Duration {
	began := t.Load()
	if began == 0 {
		return 0
	}
	return time.Since(programBegan) - time.Duration(began)
}

// Live returns an error when a loop is stuck, which a restart of the process cures: it has not turned
// for ten seconds, and that is not because its disk hangs. A full disk stops no loop. Live waits for
// nothing.
func (ps *partitions) Live() error {
	for i, l := range ps.loops() {
		if l == nil {
			continue
		}
		if d := l.turn.lasts(); d > stuckAfter && l.frames.writer.DiskState().Hangs.IsZero() {
			return fmt.Errorf("engine: partition %d has not turned for %v", i, d.Round(time.Second))
		}
	}
	return nil
}

// Ready returns an error when partition 0, which has the catalogue, does not serve: then no client can
// do anything.
func (ps *partitions) Ready() error {
	if ps.absent(0) {
		return fmt.Errorf("engine: partition 0 is %v", ps.status(0).State)
	}
	return nil
}
