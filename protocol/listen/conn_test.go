package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// halting is a connection that stops in the middle of a write, until it may continue.
type halting struct {
	net.Conn
	goOn chan struct{} // nil: it does not stop
}

func (c *halting) Write(p []byte) (int, error) {
	if c.goOn == nil {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:len(p)/2])
	<-c.goOn
	if err != nil {
		return n, err
	}
	more, err := c.Conn.Write(p[n:])
	return n + more, err
}

// A waiting read can be woken, plain or inside TLS, even in the middle of a record; later reads
// return the sent bytes.
func TestWakeReader(t *testing.T) {
	t.Parallel()
	certificate() // by the real clock
	const text = "what was sent before and after"
	for name, encrypts := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer near.Close()
				halts := &halting{Conn: near}
				var client, server net.Conn = halts, &plainConn{Conn: far}
				if encrypts {
					client, server = handshake(t, halts, far)
				}
				defer server.Close()
				halts.goOn = make(chan struct{})
				go client.Write([]byte(text))
				var got []byte
				for woken := 0; len(got) < len(text); {
					n, err := readWoken(t, server)
					if got = append(got, n...); err == nil {
						continue
					}
					if woken++; !errors.Is(err, os.ErrDeadlineExceeded) || woken > 2 {
						t.Fatalf("%q, then %v", got, err)
					}
					if woken == 2 {
						close(halts.goOn)
					}
				}
				if string(got) != text {
					t.Errorf("read %q", got)
				}
			})
		})
	}
}

// handshake speaks TLS over a pipe.
func handshake(t *testing.T, near, far net.Conn) (client, server net.Conn) {
	serverTLS, clientTLS := certificate()
	clientTLS = clientTLS.Clone()
	clientTLS.Time = func() time.Time { return serverTLS.Certificates[0].Leaf.NotBefore.Add(time.Hour) }
	c, s := tls.Client(near, clientTLS), tls.Server(far, serverTLS)
	done := make(chan error, 1)
	go func() { done <- c.Handshake() }()
	if err := errors.Join(s.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	// What follows a handshake is read with the first bytes.
	go s.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c, &tlsConn{Conn: s}
}

// readWoken reads once, and wakes the read when it waits.
func readWoken(t *testing.T, c net.Conn) ([]byte, error) {
	w := c.(interface {
		WakeReader() error
		Awake() error
	})
	type read struct {
		p   []byte
		err error
	}
	done := make(chan read, 1)
	go func() {
		p := make([]byte, 100)
		n, err := c.Read(p)
		done <- read{p[:n], err}
	}()
	synctest.Wait()
	select {
	case r := <-done:
		return r.p, r.err
	default:
	}
	if err := w.WakeReader(); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if err := w.Awake(); err != nil {
		t.Fatal(err)
	}
	return r.p, r.err
}
