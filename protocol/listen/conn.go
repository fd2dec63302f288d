package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// plainConn is a connection without TLS whose first bytes have been read.
type plainConn struct {
	net.Conn
	unread []byte // owned by the reader
}

// Read implements [net.Conn].
func (c *plainConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// SyscallConn implements [syscall.Conn]: small answers are written directly to the socket.
func (c *plainConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// WakeReader ends a read that waits, with [os.ErrDeadlineExceeded]. The reader then calls Awake and
// can read on.
func (c *plainConn) WakeReader() error { return c.SetReadDeadline(past) }

// Awake lets reads wait again.
func (c *plainConn) Awake() error { return c.SetReadDeadline(time.Time{}) }

// past is a time before every deadline.
var past = time.Unix(1, 0)

// Acknowledge makes the kernel acknowledge received data now, where the system allows it.
func (c *plainConn) Acknowledge() { acknowledge(c.Conn) }

// CloseWrite closes the sending direction only.
func (c *plainConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// tlsConn is a connection inside TLS whose first bytes have been read.
type tlsConn struct {
	*tls.Conn
	unread []byte // owned by the reader
	patience
}

// Read implements [net.Conn].
func (c *tlsConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// WakeReader is [plainConn.WakeReader]. The received part of a TLS record is kept, and the rest is
// read later.
func (c *tlsConn) WakeReader() error { return c.SetReadDeadline(past) }

// Awake is [plainConn.Awake].
func (c *tlsConn) Awake() error { return c.SetReadDeadline(time.Time{}) }

// Acknowledge is [plainConn.Acknowledge] of the socket below.
func (c *tlsConn) Acknowledge() { acknowledge(c.Conn.NetConn()) }

// SetWriteDeadline implements [net.Conn]; see [patience].
func (c *tlsConn) SetWriteDeadline(t time.Time) error {
	c.patience.until(t)
	return nil
}

// SetDeadline implements [net.Conn].
func (c *tlsConn) SetDeadline(t time.Time) error {
	c.patience.until(t)
	return c.SetReadDeadline(t)
}

// Write implements [net.Conn]. A TLS connection breaks when a write runs into its deadline, so
// Write itself checks for progress.
func (c *tlsConn) Write(p []byte) (int, error) {
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

// patience bounds the time without progress of a write: the time from a call of SetWriteDeadline to
// the deadline. It is for connections that cannot continue after a missed deadline. Each piece of a
// write gets the full time, so a peer that reads slowly is kept and one that does not read is not
// (reliability.md 8, write without progress).
type patience struct{ d atomic.Int64 } // nanoseconds; 0: unlimited

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

// A pendingConn is a connection that has not been handed to the AMQP server. It is counted until
// leave is called.
type pendingConn struct {
	net.Conn        // as the listener accepted it
	host     string // of the peer
	number   uint64 // in the order of accepts
	leave    func() // removes it from the count; may be called again
}

// A request is a connection that speaks HTTP. It stays pending until it is closed or carries AMQP.
type request struct {
	net.Conn    // plainConn or tlsConn
	pendingConn *pendingConn
}

// Close implements [net.Conn].
func (c *request) Close() error {
	c.pendingConn.leave()
	return c.Conn.Close()
}

// CloseWrite allows net/http to end an answer to a peer that is still sending, without the peer
// losing the answer.
func (c *request) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *request) isTLS() bool {
	_, ok := c.Conn.(*tlsConn)
	return ok
}
