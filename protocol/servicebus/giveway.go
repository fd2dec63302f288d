package servicebus

import (
	"runtime"
	"time"
)

const (
	// fairTurn is the time that a connection may work before it lets other goroutines run. The
	// scheduler would let it continue for 10 ms, and a client would wait for that once for each
	// busy connection.
	fairTurn = 500 * time.Microsecond
	// fairBytes is the number of bytes of frames that are handled before the time is checked again.
	fairBytes = 4 << 10
)

// turns holds the time when a connection last let other goroutines run.
type turns struct{ last time.Time }

// giveWay lets other goroutines run if this one has worked for long. began is when its turn began.
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
