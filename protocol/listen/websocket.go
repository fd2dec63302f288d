package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// socketPath is the path of AMQP inside a WebSocket; some SDKs add a slash (wire-protocol.md 1.2).
const socketPath = "/$servicebus/websocket"

// subProtocols are the sub-protocols that mean AMQP, in order of preference.
var subProtocols = []string{"AMQPWSB10", "amqp"}

// closeTime bounds the time in which a peer has to answer the WebSocket's close. AMQP has already
// closed by then.
const closeTime = 2 * time.Second

func isSocketPath(path string) bool {
	return strings.EqualFold(strings.TrimSuffix(path, "/"), socketPath)
}

// websocket turns a request into a connection of the AMQP server, and returns when that connection
// ends.
func (s *Server) websocket(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(requestKey{}).(*request)
	if !ok {
		panic("listen: an HTTP connection that is not ours")
	}
	if r.Header.Get("Upgrade") != "" && !offersAMQP(r.Header) {
		http.Error(w, "The sub-protocol must be "+strings.Join(subProtocols, " or ")+".", http.StatusBadRequest)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: subProtocols, CompressionMode: websocket.CompressionDisabled})
	if err != nil { // Accept has answered already
		s.logger.Debug("listen: WebSocket refused", "remote", c.RemoteAddr(), "error", err)
		return
	}
	ws.SetReadLimit(-1) // a message is read as it arrives, its size costs nothing
	nc := &socket{ws: ws, conn: c, over: make(chan struct{})}
	c.pendingConn.leave()
	if c.isTLS() {
		s.options.AMQP.ServeConn(&encryptedSocket{nc})
	} else {
		s.options.AMQP.ServeConn(nc)
	}
	<-nc.over // closed by the AMQP server
}

func offersAMQP(h http.Header) bool {
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			for _, known := range subProtocols {
				if strings.EqualFold(strings.TrimSpace(name), known) {
					return true
				}
			}
		}
	}
	return false
}

// A socket is the stream of bytes in the binary messages of a WebSocket. Message boundaries mean
// nothing.
type socket struct {
	ws   *websocket.Conn
	conn *request // the connection below
	over chan struct{}

	closing atomic.Bool
	code    atomic.Int64 // code that the peer is told at the close; 0: a normal end
	message io.Reader    // the message being read; owned by the reader
	patience
}

// An encryptedSocket is a socket inside TLS.
type encryptedSocket struct{ *socket }

// ConnectionState shows, because the method exists, that the connection is encrypted.
func (c *encryptedSocket) ConnectionState() tls.ConnectionState {
	return c.conn.Conn.(*tlsConn).ConnectionState()
}

var errText = errors.New("listen: AMQP must be in binary messages")

// Read implements [net.Conn]. Pings are answered meanwhile.
func (c *socket) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			kind, message, err := c.ws.Reader(context.Background())
			if err != nil {
				return 0, ended(err)
			}
			if kind != websocket.MessageBinary {
				c.code.Store(int64(websocket.StatusUnsupportedData))
				return 0, errText
			}
			c.message = message
		}
		n, err := c.message.Read(p)
		if errors.Is(err, io.EOF) {
			c.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, ended(err)
		}
	}
}

// ended turns the peer's close into the end of the stream.
func ended(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return io.EOF
	}
	return err
}

// Write implements [net.Conn].
func (c *socket) Write(p []byte) (int, error) {
	return inPieces(p, func(piece []byte) error {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if d := c.each(); d != 0 {
			ctx, cancel = context.WithTimeout(ctx, d)
		}
		defer cancel()
		err := c.ws.Write(ctx, websocket.MessageBinary, piece)
		// also after a piece that was just written: the end of its context closes the WebSocket
		if ctx.Err() != nil {
			return os.ErrDeadlineExceeded
		}
		return err
	})
}

// Acknowledge is [plainConn.Acknowledge] of the socket below.
func (c *socket) Acknowledge() { acknowledge(c.conn.pendingConn.Conn) }

// Close implements [net.Conn]. It does not wait: the first call begins the WebSocket's closing
// handshake, which unblocks Read and Write when it ends. Another call cuts the connection.
func (c *socket) Close() error {
	if c.closing.Swap(true) {
		return c.conn.pendingConn.Close()
	}
	go func() { // for at most closeTime
		defer close(c.over)
		late := time.AfterFunc(closeTime, func() { c.conn.pendingConn.Close() })
		defer late.Stop()
		_ = c.ws.Close(cmp.Or(websocket.StatusCode(c.code.Load()), websocket.StatusNormalClosure), "")
	}()
	return nil
}

// LocalAddr implements [net.Conn].
func (c *socket) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (c *socket) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline implements [net.Conn].
func (c *socket) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn]. A read that runs into it ends the connection.
func (c *socket) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn]; see [patience].
func (c *socket) SetWriteDeadline(t time.Time) error {
	c.until(t)
	return nil
}
