package servicebus

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// writer writes buffers that are full frames. The connection hands it one, fills another meanwhile, and gets the first
// one back.
type writer struct {
	sink  net.Conn
	in    chan []byte
	done  chan error
	stall atomic.Int64 // nanoseconds without progress after which a write fails
}

func newWriter(sink net.Conn, stall time.Duration) *writer {
	w := &writer{sink: sink, in: make(chan []byte, 1), done: make(chan error, 1)}
	w.stall.Store(int64(stall))
	return w
}

// run writes until in is closed or a write fails.
func (w *writer) run() {
	for buf := range w.in {
		if err := w.write(buf); err != nil {
			w.done <- err
			return
		}
		w.done <- nil
	}
}

// write goes on after a deadline as long as some bytes went out (reliability.md 8, write without progress).
func (w *writer) write(buf []byte) error {
	for {
		if err := w.sink.SetWriteDeadline(time.Now().Add(time.Duration(w.stall.Load()))); err != nil {
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
