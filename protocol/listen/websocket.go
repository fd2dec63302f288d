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

// socketPath is where AMQP is spoken inside a WebSocket; SDKs add a slash or not (wire-protocol.md
// 1.2).
const socketPath = "/$servicebus/websocket"

// subProtocols that mean AMQP, in the order of preference.
var subProtocols = []string{"AMQPWSB10", "amqp"}

// closeTime is how long a peer has to answer the WebSocket's close. AMQP has said good-bye by then.
const closeTime = 2 * time.Second

func isSocketPath(path string) bool {
	return strings.EqualFold(strings.TrimSuffix(path, "/"), socketPath)
}

// websocket turns a request into a connection of the AMQP server, and returns when that is over.
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
	if err != nil { // answered already
		s.logger.Debug("listen: WebSocket refused", "remote", c.RemoteAddr(), "error", err)
		return
	}
	ws.SetReadLimit(-1) // a message is read as it comes, its size costs nothing
	nc := &socket{ws: ws, conn: c, over: make(chan struct{})}
	c.pendingConn.leave()
	if c.isTLS() {
		s.options.AMQP.ServeConn(&encryptedSocket{nc})
	} else {
		s.options.AMQP.ServeConn(nc)
	}
	<-nc.over // closed by whoever served it
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

// socket is the stream of bytes in the binary messages of a WebSocket. Where messages begin and end
// means nothing.
type socket struct {
	ws   *websocket.Conn
	conn *request // beneath
	over chan struct{}

	closing atomic.Bool
	code    atomic.Int64 // why it is closed; 0: it is simply over
	message io.Reader    // the one being read; owned by the reader
	patience
}

// encryptedSocket is a socket inside TLS.
type encryptedSocket struct{ *socket }

// ConnectionState tells, by being there, that the connection is encrypted.
func (c *encryptedSocket) ConnectionState() tls.ConnectionState {
	return c.conn.Conn.(*encrypted).ConnectionState()
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

// ended makes the peer's close the end of the stream.
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
		// also of a piece that went out just then: the WebSocket is closed by its context
		if ctx.Err() != nil {
			return os.ErrDeadlineExceeded
		}
		return err
	})
}

// Acknowledge is [plain.Acknowledge] of the socket beneath.
func (c *socket) Acknowledge() { acknowledge(c.conn.pendingConn.Conn) }

// Close implements [net.Conn]. It does not wait: the first call begins the WebSocket's own
// good-bye, which unblocks Read and Write when it is over; another one cuts the connection.
func (c *socket) Close() error {
	if c.closing.Swap(true) {
		return c.conn.pendingConn.Close()
	}
	go func() { // not longer than closeTime
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
