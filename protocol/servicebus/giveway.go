package servicebus

import (
	"runtime"
	"time"
)

const (
	// fairTurn is how long a connection works without a break before other goroutines get to run.
	// The scheduler would let it go on for 10 ms, and a client would wait for that once for each
	// busy connection.
	fairTurn = 500 * time.Microsecond
	// fairBytes is how many bytes of frames are handled between two looks at the time.
	fairBytes = 4 << 10
)

// turns says when a connection last let other goroutines run.
type turns struct{ last time.Time }

// giveWay lets other goroutines run when this one has worked for long. began is when its turn
// began.
func (t *turns) giveWay(began time.Time) {
	since := t.last
	if began.After(since) {
		since = began
	}
	if time.Since(since) > fairTurn {
		runtime.Gosched()
		t.last = time.Now()
	}
}
