package bench

import (
	"net"
	"sync"
	"time"
)

// A coalescer is a connection whose writes return at once and are sent together. The AMQP library
// makes a system call per frame and waits for it, which on a small machine costs more than the
// broker's work. The frames stay the same. With one message in flight a coalescer would only add a
// goroutine, so it is not used then.
type coalescer struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // signals a change of filled, err or closed
	filled  []byte    // guarded by mu: not yet taken by flush
	err     error     // guarded by mu: error of the last write
	closed  bool      // guarded by mu
	done    chan struct{}
}

const coalesceLimit = 256 << 10 // pending bytes at which a writer must wait

func newCoalescer(c net.Conn) *coalescer {
	w := &coalescer{Conn: c, done: make(chan struct{})}
	w.changed.L = &w.mu
	go w.flush()
	return w
}

// Write implements io.Writer.
func (w *coalescer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.filled) > coalesceLimit && w.err == nil && !w.closed {
		w.changed.Wait()
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case w.closed:
		return 0, net.ErrClosed
	}
	if len(w.filled) == 0 {
		w.changed.Broadcast()
	}
	w.filled = append(w.filled, p...)
	return len(p), nil
}

func (w *coalescer) flush() {
	defer close(w.done)
	var buf []byte
	for {
		w.mu.Lock()
		for len(w.filled) == 0 && !w.closed {
			w.changed.Wait()
		}
		if len(w.filled) == 0 {
			w.mu.Unlock()
			return
		}
		buf, w.filled = w.filled, buf[:0]
		w.changed.Broadcast()
		w.mu.Unlock()
		if _, err := w.Conn.Write(buf); err != nil {
			w.mu.Lock()
			w.err = err
			w.changed.Broadcast()
			w.mu.Unlock()
			return
		}
	}
}

// SetWriteDeadline does nothing, because Write does not wait for the network.
func (w *coalescer) SetWriteDeadline(time.Time) error { return nil }

// Close writes the pending bytes, for a second at most, and closes the connection.
func (w *coalescer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	w.mu.Unlock()
	w.Conn.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the write would fail too
	<-w.done
	return w.Conn.Close()
}
