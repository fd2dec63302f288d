package lab

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// echo is a server that says back what it hears. How each of its connections ended goes to ends.
type echo struct {
	addr string
	ends chan error
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := &echo{addr: listener.Addr().String(), ends: make(chan error, 10)}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := io.Copy(c, c)
				_ = c.Close()
				e.ends <- err
			}()
		}
	}()
	return e
}

func startProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// dial connects, and waits until a byte has gone to the server and back.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func TestProxyPassesOn(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	c := dial(t, startProxy(t, server.addr).Addr())
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c) // all that was said before the end arrives after it
	if err != nil || string(got) != string(sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	if err := <-server.ends; err != nil {
		t.Errorf("the server's end: %v", err)
	}
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	p := startProxy(t, server.addr)
	one, two := dial(t, p.Addr()), dial(t, p.Addr())
	if n := p.Cut(); n != 2 {
		t.Errorf("cut %d connections", n)
	}
	for _, c := range []*net.TCPConn{one, two} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a client's end: %v", err)
		}
		if err := <-server.ends; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server's end: %v", err)
		}
	}
	dial(t, p.Addr()) // as good as new
}

func TestProxyWithoutBroker(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "127.0.0.1:1") // where nobody listens, and no other test will
	c, err := net.Dial("tcp", p.Addr())
	if err == nil { // the reset may come after the connection or with it
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v; want errors.Is(err, syscall.ECONNRESET)", err)
	}
}

func TestProxyCloseEndsConnections(t *testing.T) {
	t.Parallel()
	p, err := StartProxy(startEcho(t).addr)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.Addr())
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is alive")
	}
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("the proxy still listens")
	}
}

// What the broker has ended is not cut any more, whether or not the client has noticed.
func TestProxyCutCountsWhatIsWhole(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := startProxy(t, listener.Addr().String())
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("%+v; want errors.Is(err, io.EOF)", err)
	}
	whole := func() bool { // until the end is noted, which is after it was passed on
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Contains(slices.Collect(maps.Values(p.wires)), true)
	}
	for deadline := time.Now().Add(10 * time.Second); whole(); {
		if time.Now().After(deadline) {
			t.Fatal("the end of the broker's side is not noted")
		}
	}
	if n := p.Cut(); n != 0 {
		t.Errorf("cut %d connections", n)
	}
}
