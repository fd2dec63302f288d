package loop

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// line is the order in which the ports of a link take its last credit (docs/decisions/0080). The
// loop that comes to a flow first would take all of it each time, and messages of other logs would
// wait for as long as that loop has any. So a port stands in line from the beginning until it
// attaches or comes to a flow and has no messages, and again when it comes to one and has some. One
// delivery of turnEvery goes to the ports in line in turn; not each, because to wait for another
// loop costs time. The line only says who goes first: whatever a port does that does not know the
// newest state, no credit is lost.
type line struct {
	ports atomic.Uint32 // that stand in line, a bit for each
	last  atomic.Uint32 // the one that made the last delivery that went to the ports in turn
	taken atomic.Uint32 // credits, by all ports
}

const (
	// turnEvery is how many deliveries of a link there are for each one that goes to its ports in
	// turn.
	turnEvery = 8
	// yieldFor is how long a loop sleeps that has nothing to do but wait for other ports to take
	// what it leaves for them. When they do, there is nothing left for it to do.
	yieldFor = 100 * time.Microsecond
	// maxYields is how many turns a port waits. The loops of others may be slow, or their disks may
	// hang.
	maxYields = 20
)

func bitOf(port uint8) uint32 { return 1 << port }

// put makes a port stand in line, or leave it.
func (l *line) put(port uint8, stands bool) {
	if stands {
		l.ports.Or(bitOf(port))
	} else {
		l.ports.And(^bitOf(port))
	}
}

// noteTaken notes that a port has taken a credit.
func (l *line) noteTaken(port uint8) {
	if l.taken.Add(1)%turnEvery == 0 {
		l.last.Store(uint32(port))
	}
}

// mayTake reports whether a port may take one of the credits that are left. Where the next delivery
// goes to the ports in turn it may if it is the next behind the last, of itself and those in line,
// or if there is so much credit that the others find some when they come.
func (l *line) mayTake(port uint8, left int32) bool {
	if l.taken.Load()%turnEvery != turnEvery-1 {
		return true
	}
	others := l.ports.Load() &^ bitOf(port)
	if int(left) > turnEvery*bits.OnesCount32(others) {
		return true
	}
	next, _ := parts(others | bitOf(port)).after(uint8(l.last.Load()))
	return next == port
}

// clear ends the line.
func (l *line) clear() { l.ports.Store(0) }
