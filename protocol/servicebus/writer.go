package servicebus

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// writer writes buffers of frames. The connection hands it one, fills another meanwhile, and gets
// the first one back.
type writer struct {
	sink  net.Conn
	in    chan []byte
	done  chan error
	stall atomic.Int64 // nanoseconds without progress after which a write fails
	// when the current write began, in nanoseconds since 1970; 0: none
	began atomic.Int64

	raw syscall.RawConn // of a plain socket; nil: none
	// a deadline is set; belongs to the goroutine that has the writer's turn
	deadline bool
}

func newWriter(sink net.Conn, stall time.Duration) *writer {
	w := &writer{sink: sink, in: make(chan []byte, 1), done: make(chan error, 1)}
	w.stall.Store(int64(stall))
	if sc, ok := sink.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			w.raw = raw
		}
	}
	return w
}

// clearDeadline removes the deadline of the last write. The writer's goroutine must be idle.
func (w *writer) clearDeadline() {
	if w.deadline {
		w.deadline = false
		_ = w.sink.SetWriteDeadline(time.Time{}) // an error of a closed socket appears at the write
	}
}

// run writes until in is closed or a write fails.
func (w *writer) run() {
	for buf := range w.in {
		err := w.write(buf)
		w.began.Store(0)
		if err != nil {
			w.done <- err
			return
		}
		w.done <- nil
	}
}

// write continues after a deadline as long as some bytes were written (reliability.md 8, write
// without progress).
func (w *writer) write(buf []byte) error {
	w.deadline = true
	for {
		now := time.Now()
		w.began.Store(now.UnixNano())
		if err := w.sink.SetWriteDeadline(now.Add(time.Duration(w.stall.Load()))); err != nil {
			return err
		}
		n, err := w.sink.Write(buf)
		if err == nil {
			return nil
		}
		buf = buf[n:]
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if len(buf) == 0 {
			return nil
		}
	}
}
