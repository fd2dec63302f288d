package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// healthListener lets connections that begin with an HTTP request be answered: GET /health as the emulator answers it, so
// that what waits for an emulator can wait for us. All others are AMQP's. The broker's limits and deadlines apply to both.
type healthListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l healthListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &healthConn{Conn: c}, nil
}

// healthConn looks at the first bytes it reads. AMQP begins with an A (2.2 of the AMQP transport), TLS with 0x16.
type healthConn struct {
	net.Conn
	seen bool // owned by the reader
}

// SyscallConn implements [syscall.Conn]: writing goes straight to the socket.
func (c *healthConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

const maxHealthRequest = 8 << 10

// Read implements [io.Reader]. An HTTP request is answered here, and the reader is told that the peer has gone.
func (c *healthConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.seen || n == 0 {
		return n, err
	}
	c.seen = true
	if p[0] != 'G' && p[0] != 'H' { // GET, HEAD
		return n, err
	}
	whole := io.MultiReader(bytes.NewReader(bytes.Clone(p[:n])), c.Conn)
	request, err := http.ReadRequest(bufio.NewReader(io.LimitReader(whole, maxHealthRequest)))
	if err != nil {
		return 0, io.EOF
	}
	status, body := "404 Not Found", ""
	if request.URL.Path == "/health" {
		status, body = "200 OK", `{"status":"healthy","message":"Service is healthy."}`
	}
	head := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, len(body))
	if request.Method == http.MethodHead {
		body = ""
	}
	if _, err := io.WriteString(c.Conn, head+body); err != nil {
		return 0, err
	}
	return 0, io.EOF
}
