package servicebus

import (
	"runtime"
	"time"
)

const (
	// fairTurn is for how long a connection works in a row before others that could work have their turn. The scheduler would let it
	// go on for 10 ms, and a client would wait for that as often as there are busy connections.
	fairTurn = 500 * time.Microsecond
	// fairBytes is how many bytes of frames are handled between two looks at the time.
	fairBytes = 4 << 10
)

// turns is when a connection let others have their turn.
type turns struct{ last time.Time }

// giveWay lets other goroutines run when this one has worked for long. Its own turn began at a time.
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
