package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// plain is a connection without TLS of which the first bytes have been read.
type plain struct {
	net.Conn
	unread []byte // owned by the reader
}

// Read implements [net.Conn].
func (c *plain) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// SyscallConn implements [syscall.Conn]: small answers are written straight to the socket.
func (c *plain) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// WakeReader ends a read that waits, with [os.ErrDeadlineExceeded]. The reader then calls Awake and
// may read on.
func (c *plain) WakeReader() error { return c.SetReadDeadline(past) }

// Awake lets reads wait again.
func (c *plain) Awake() error { return c.SetReadDeadline(time.Time{}) }

// past is a time at which everything is over.
var past = time.Unix(1, 0)

// Acknowledge makes the kernel acknowledge now what it has received, where it can.
func (c *plain) Acknowledge() { acknowledge(c.Conn) }

// CloseWrite closes the sending direction only.
func (c *plain) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// encrypted is a connection inside TLS of which the first bytes have been read.
type encrypted struct {
	*tls.Conn
	unread []byte // owned by the reader
	patience
}

// Read implements [net.Conn].
func (c *encrypted) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// WakeReader is [plain.WakeReader]: what has come of a TLS record stays, and the rest is read
// later.
func (c *encrypted) WakeReader() error { return c.SetReadDeadline(past) }

// Awake is [plain.Awake].
func (c *encrypted) Awake() error { return c.SetReadDeadline(time.Time{}) }

// Acknowledge is [plain.Acknowledge] of the socket beneath.
func (c *encrypted) Acknowledge() { acknowledge(c.Conn.NetConn()) }

// SetWriteDeadline implements [net.Conn]; see [patience].
func (c *encrypted) SetWriteDeadline(t time.Time) error {
	c.patience.until(t)
	return nil
}

// SetDeadline implements [net.Conn].
func (c *encrypted) SetDeadline(t time.Time) error {
	c.patience.until(t)
	return c.SetReadDeadline(t)
}

// Write implements [net.Conn]. A TLS connection whose write ran into its deadline is broken, so
// progress is judged here.
func (c *encrypted) Write(p []byte) (int, error) {
	return inPieces(p, func(piece []byte) error {
		var deadline time.Time // none
		if d := c.patience.each(); d != 0 {
			deadline = time.Now().Add(d)
		}
		if err := c.Conn.SetWriteDeadline(deadline); err != nil {
			return err
		}
		_, err := c.Conn.Write(piece)
		return err
	})
}

// patience is how long a write may make no progress: the time from a call of SetWriteDeadline to
// the deadline. It is for connections that cannot go on after a missed deadline: each piece of a
// write gets it anew, so that a peer that reads slowly is kept and one that does not read is not
// (reliability.md 8, write without progress).
type patience struct{ d atomic.Int64 } // nanoseconds; 0: without end

func (p *patience) until(t time.Time) {
	if t.IsZero() {
		p.d.Store(0)
		return
	}
	p.d.Store(int64(max(1, time.Until(t))))
}

func (p *patience) each() time.Duration { return time.Duration(p.d.Load()) }

const pieceSize = 32 << 10

func inPieces(p []byte, write func([]byte) error) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+pieceSize)]
		if err := write(piece); err != nil {
			return n, err
		}
		if n += len(piece); n == len(p) {
			return n, nil
		}
	}
}

// pendingConn is a connection that has not been handed to the AMQP server: it is counted until
// leave is called.
type pendingConn struct {
	net.Conn        // as it came from the listener
	host     string // of the peer
	number   uint64 // in the order they came
	leave    func() // takes it out of the books; may be called again
}

// request is a connection that speaks HTTP. It stays pending until it is closed or carries AMQP.
type request struct {
	net.Conn    // plain or encrypted
	pendingConn *pendingConn
}

// Close implements [net.Conn].
func (c *request) Close() error {
	c.pendingConn.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer to a peer that is still sending, without the peer losing
// the answer.
func (c *request) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *request) isTLS() bool {
	_, ok := c.Conn.(*encrypted)
	return ok
}
