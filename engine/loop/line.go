package loop

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// line is the order in which the ports of a link take its last credit (docs/decisions/0080).
// Without it, the loop that sees a flow first would take all of it each time. Messages of other
// logs would wait as long as that loop has any. A port stands in line from the start. It leaves
// when it attaches or gets a flow and has no messages, and returns when it gets a flow and has
// some. Every turnEvery-th delivery goes to the ports in line in turn; not each one, because
// waiting for another loop costs time. The line only says who goes first. Whatever a port does
// without knowing the newest state, no credit is lost.
type line struct {
	ports atomic.Uint32 // ports in line, a bit for each
	last  atomic.Uint32 // port of the last delivery that went by the line
	taken atomic.Uint32 // credits taken by all ports
}

const (
	// turnEvery is the number of deliveries of a link for each one that goes to its ports in turn.
	turnEvery = 8
	// yieldFor is how long a loop sleeps that only waits for other ports to take the credit it
	// leaves to them. When they do, it has nothing left to do.
	yieldFor = 100 * time.Microsecond
	// maxYields bounds the turns that a port waits. The other loops may be slow, or their disks may
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

// mayTake reports whether a port may take one of the credits that are left. If the next delivery
// goes by the line, there are two cases in which it may. It is the next after the last one, among
// itself and the ports in line; or there is enough credit for the others to find some.
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

// clear empties the line.
func (l *line) clear() { l.ports.Store(0) }
