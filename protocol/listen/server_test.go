package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is used as the AMQP server: it sends back its input, and remembers the kind of connection.
type echo struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	tls    int
	raw    int
	served sync.WaitGroup
}

func (e *echo) ServeConn(nc net.Conn) {
	e.served.Add(1)
	defer e.served.Done()
	e.mu.Lock()
	if e.conns == nil {
		e.conns = map[net.Conn]struct{}{}
	}
	e.conns[nc] = struct{}{}
	if _, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		e.tls++
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if _, err := sc.SyscallConn(); err == nil {
			e.raw++
		}
	}
	e.mu.Unlock()
	_ = nc.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc})
	nc.Close()
}

// stop closes the remaining connections.
func (e *echo) stop() {
	e.mu.Lock()
	for nc := range e.conns {
		nc.Close()
		nc.Close()
	}
	e.mu.Unlock()
	e.served.Wait()
}

func (e *echo) seen() (tls, raw int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tls, e.raw
}

var quiet = slog.New(slog.DiscardHandler)

// start serves one listener until the test ends.
func start(t *testing.T, o Options, mode Mode) (addr string, e *echo) {
	t.Helper()
	e = &echo{}
	o.AMQP = e
	if o.Logger == nil {
		o.Logger = quiet
	}
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), l, mode) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		e.stop()
	})
	return l.Addr().String(), e
}

var certificate = sync.OnceValues(func() (*tls.Config, *tls.Config) {
	now := time.Now()
	text, err := newAuthority(now)
	if err != nil {
		panic(err)
	}
	signer, err := tls.X509KeyPair(text, text)
	if err != nil {
		panic(err)
	}
	if text, err = newServer(signer, []string{"localhost", "127.0.0.1"}, now); err != nil {
		panic(err)
	}
	cert, err := tls.X509KeyPair(text, text)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(signer.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{RootCAs: roots, ServerName: "localhost"}
})

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// exchange sends and reads the answer, up to its end or to the number of sent bytes.
func exchange(nc io.ReadWriter, send string) string {
	if _, err := io.WriteString(nc, send); err != nil {
		return err.Error()
	}
	answer, _ := io.ReadAll(io.LimitReader(nc, int64(len(send)))) // a reset is an end too
	if len(answer) == 0 {
		return "cut"
	}
	return string(answer)
}

const saslHeader = "AMQP\x03\x01\x00\x00"

// Every kind of peer, over one port of each mode.
func TestEveryKindOverOnePort(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	const request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	plainly := func(send string) func(t *testing.T, nc net.Conn) string {
		return func(_ *testing.T, nc net.Conn) string { return exchange(nc, send) }
	}
	inTLS := func(send string) func(t *testing.T, nc net.Conn) string {
		return func(_ *testing.T, nc net.Conn) string {
			tc := tls.Client(nc, clientTLS)
			if tc.Handshake() != nil {
				return "cut"
			}
			return exchange(tc, send)
		}
	}
	upgraded := func(t *testing.T, nc net.Conn) string {
		if answer := exchange(nc, string(tlsHeader)); answer != string(tlsHeader) {
			return answer
		}
		return inTLS(saslHeader)(t, nc)
	}
	first := func(n int) func(string) string { return func(s string) string { return s[:min(n, len(s))] } }
	all := func(s string) string { return s }
	for _, c := range []struct {
		name             string
		peer             func(*testing.T, net.Conn) string
		of               func(string) string
		any, tls, plain  string
		withoutAnyConfig string // mode any without a certificate
	}{
		{"AMQP", plainly(saslHeader), all, saslHeader, string(tlsHeader), saslHeader, saslHeader},
		{"AMQP in TLS", inTLS(saslHeader), all, saslHeader, saslHeader, "cut", "cut"},
		{"AMQP upgraded to TLS", upgraded, all, saslHeader, saslHeader, "cut", "cut"},
		{"HTTP", plainly(request), first(12), "HTTP/1.1 200", "HTTP/1.0 400", "HTTP/1.1 200", "HTTP/1.1 200"},
		{"HTTP in TLS", inTLS(request), first(12), "HTTP/1.1 200", "HTTP/1.1 200", "cut", "cut"},
		// the AMQP server knows what to answer
		{"nonsense", plainly("nonsense"), all, "nonsense", "cut", "nonsense", "nonsense"},
		{"TLS in TLS", inTLS(string(tlsHeader)), all, string(tlsHeader), string(tlsHeader), "cut", "cut"},
	} {
		for mode, want := range map[Mode]string{Any: c.any, TLS: c.tls, Plain: c.plain} {
			addr, _ := start(t, Options{TLS: serverTLS}, mode)
			if c.name == "AMQP upgraded to TLS" && mode == Plain {
				continue // the echo answers the header as the AMQP server would not
			}
			if got := c.of(c.peer(t, dial(t, addr))); got != want {
				t.Errorf("%s in mode %d: %q, want %q", c.name, mode, got, want)
			}
		}
		addr, _ := start(t, Options{}, Any)
		if c.name == "AMQP upgraded to TLS" {
			continue
		}
		if got := c.of(c.peer(t, dial(t, addr))); got != c.withoutAnyConfig {
			t.Errorf("%s without a certificate: %q, want %q", c.name, got, c.withoutAnyConfig)
		}
	}
}

// A connection that is handed on shows its kind: the writer needs the socket, SASL PLAIN needs TLS.
func TestWhatLiesBeneath(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	addr, e := start(t, Options{TLS: serverTLS}, Any)
	exchange(dial(t, addr), saslHeader)
	if encrypted, raw := e.seen(); encrypted != 0 || raw != 1 {
		t.Errorf("plain: %d with TLS, %d with a socket", encrypted, raw)
	}
	exchange(tls.Client(dial(t, addr), clientTLS), saslHeader)
	if encrypted, raw := e.seen(); encrypted != 1 || raw != 1 {
		t.Errorf("TLS: %d with TLS, %d with a socket", encrypted, raw)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	addr, _ := start(t, Options{TLS: serverTLS}, Any)
	old := clientTLS.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if err := tls.Client(dial(t, addr), old).Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// A large answer over TLS goes out in pieces; nothing is lost.
func TestMuchOverTLS(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	addr, _ := start(t, Options{TLS: serverTLS}, Any)
	tc := tls.Client(dial(t, addr), clientTLS)
	sent := saslHeader + strings.Repeat("0123456789abcdef", 100_000)
	go func() { _, _ = io.WriteString(tc, sent) }()
	got, err := io.ReadAll(io.LimitReader(tc, int64(len(sent))))
	if err != nil || string(got) != sent {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

// pipes is a listener of connections within the process, for a bubble.
type pipes struct{ *handover }

func newPipes() *pipes { return &pipes{handover: newHandover()} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	if !p.over(server) {
		panic("the listener is closed")
	}
	return client
}

// Peers that say nothing, or begin and go silent, are cut in time, and not before.
func TestSilentPeers(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	clientTLS = clientTLS.Clone()
	clientTLS.InsecureSkipVerify = true // in a bubble it is the year 2000
	for _, c := range []struct {
		name  string
		begin func(nc net.Conn)
		after time.Duration
	}{
		{"nothing", func(net.Conn) {}, 10 * time.Second},
		{"half a header", func(nc net.Conn) { _, _ = io.WriteString(nc, "AMQ") }, 10 * time.Second},
		{"a byte at a time", func(nc net.Conn) {
			for _, b := range []string{"A", "M", "Q"} {
				_, _ = io.WriteString(nc, b)
				time.Sleep(3 * time.Second)
			}
		}, 10 * time.Second},
		{"the beginning of TLS", func(nc net.Conn) { _, _ = io.WriteString(nc, "\x16\x03\x01\x02\x00") }, 5 * time.Second},
		{"late TLS", func(nc net.Conn) { time.Sleep(8 * time.Second); _, _ = io.WriteString(nc, "\x16") }, 10 * time.Second},
		{"the AMQP way to TLS", func(nc net.Conn) {
			_, _ = nc.Write(tlsHeader)
			_, _ = io.ReadFull(nc, make([]byte, 8))
		}, 5 * time.Second},
		{"nothing inside TLS", func(nc net.Conn) { _ = tls.Client(nc, clientTLS).Handshake() }, 10 * time.Second},
		{"half an HTTP request", func(nc net.Conn) { _, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: ") }, 5 * time.Second},
		{"a slow HTTP request", func(nc net.Conn) {
			for range 6 {
				_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n"[:3])
				time.Sleep(900 * time.Millisecond)
			}
		}, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{AMQP: &echo{}, TLS: serverTLS, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
				l := newPipes()
				go func() { _ = s.Serve(t.Context(), l, Any) }()
				began := time.Now()
				nc := l.dial()
				c.begin(nc)
				_, _ = io.Copy(io.Discard, nc)
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("cut after %s", took)
				}
				nc.Close()
				synctest.Wait()
				s.mu.Lock()
				if n := len(s.pending); n != 0 {
					t.Errorf("%d pending connections left", n)
				}
				s.mu.Unlock()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Silent peers cost others nothing, up to the limits, and their resources are freed.
func TestLimits(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, Options{Limits: Limits{PendingPerHost: 3, Pending: 5}}, Any)
	var silent []net.Conn
	for range 2 {
		silent = append(silent, dial(t, addr))
	}
	for range 5 { // each is over before the next
		if got := exchange(dial(t, addr), saslHeader); got != saslHeader {
			t.Fatalf("beside silent peers: %q", got)
		}
	}
	silent = append(silent, dial(t, addr))
	if got := exchange(dial(t, addr), saslHeader); got == saslHeader {
		t.Error("one more than the limit of an address")
	}
	silent[0].Close()
	deadline := time.Now().Add(10 * time.Second)
	for exchange(dial(t, addr), saslHeader) != saslHeader {
		if time.Now().After(deadline) {
			t.Fatal("the place of a peer that has gone is not free")
		}
	}

	s := New(Options{AMQP: &echo{}, Logger: quiet, Limits: Limits{PendingPerHost: 3, Pending: 4}})
	defer s.Close()
	for i := range 6 {
		client, server := net.Pipe()
		defer client.Close()
		v, _ := s.admit(addressed{server, fmt.Sprintf("10.0.0.%d:1", i)})
		if (v != nil) != (i < 4) {
			t.Errorf("connection %d of different addresses", i)
		}
		if v != nil {
			defer func() { v.leave(); v.leave(); s.done.Done() }()
		}
	}
}

// reliability.md 8: 200 connections are accepted at once, and 200 a second; others wait to be
// accepted. Connections that are closed at once, because of a limit of their address, cost others
// nothing.
func TestAccepts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{AMQP: &echo{}, Logger: quiet, Limits: Limits{FirstBytes: time.Hour, Pending: 2000, PendingPerHost: 2000}})
		defer s.Close()
		l := newPipes()
		go func() { _ = s.Serve(t.Context(), l, Any) }()
		start := time.Now()
		for i := 1; i <= 601; i++ {
			nc := l.dial() // waits until it is accepted
			defer nc.Close()
			want := time.Duration(max(0, i-200)) * 5 * time.Millisecond
			if at := time.Since(start); at != want {
				t.Fatalf("connection %d after %v, not %v", i, at, want)
			}
		}
		time.Sleep(time.Second)
		for i := 1; i <= 201; i++ {
			start := time.Now()
			nc := l.dial()
			defer nc.Close()
			if at := time.Since(start); (at == 0) != (i <= 200) {
				t.Fatalf("connection %d after a pause: %v", i, at)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{AMQP: &echo{}, Logger: quiet, Limits: Limits{FirstBytes: time.Hour, PendingPerHost: 1}})
		defer s.Close()
		l := newPipes()
		go func() { _ = s.Serve(t.Context(), l, Any) }()
		start := time.Now()
		for range 1000 {
			nc := l.dial()
			defer nc.Close()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("an address over its limit kept the others waiting for %v", took)
		}
	})
}

// addressed is a connection of a peer with a certain address.
type addressed struct {
	net.Conn
	peer string
}

func (c addressed) RemoteAddr() net.Addr { return peerAddr(c.peer) }

type peerAddr string

func (a peerAddr) Network() string { return "tcp" }
func (a peerAddr) String() string  { return string(a) }

// A panic while reading the first bytes ends one connection.
func TestPanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	s := New(Options{AMQP: &echo{}, Logger: quiet})
	defer s.Close()
	client, server := net.Pipe()
	defer client.Close()
	v, _ := s.admit(panics{server})
	s.receive(v, Any)
	if len(s.pending) != 0 {
		t.Error("it still counts")
	}
}

type panics struct{ net.Conn }

func (panics) Read([]byte) (int, error) { panic("a bug") }

func TestCloseCutsPending(t *testing.T) {
	t.Parallel()
	s := New(Options{AMQP: &echo{}, Logger: quiet})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), l, Any) }()
	silent, slow, idle := dial(t, l.Addr().String()), dial(t, l.Addr().String()), dial(t, l.Addr().String())
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(idle, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if response, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || response.StatusCode != 200 {
		t.Fatalf("%v, %v; want response.StatusCode == 200", response, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, nc := range []net.Conn{silent, slow, idle} {
		_, err := io.Copy(io.Discard, nc)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("a connection outlives the server")
		}
	}
	if err := <-served; !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Serve(t.Context(), l, Any); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := New(Options{AMQP: &echo{}, Logger: quiet})
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ctx, l, Any); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v; want errors.Is(err, context.Canceled)", err)
	}
}

// An address that fills the limit of silent connections keeps no other address out.
func TestPendingMakeRoom(t *testing.T) {
	t.Parallel()
	s := New(Options{AMQP: &echo{}, Logger: quiet, Limits: Limits{PendingPerHost: 3, Pending: 4}})
	defer s.Close()
	var first net.Conn
	for i := range 6 {
		peer, nc := net.Pipe()
		defer peer.Close()
		host := min(i, 3) / 3 // three of the first address, then three of the second
		v, _ := s.admit(addressed{nc, fmt.Sprintf("10.0.0.%d:1", host)})
		if want := i < 5; (v != nil) != want {
			t.Errorf("connection %d of %d: admitted is %t", i, host, v != nil)
		}
		if v != nil {
			defer func() { v.leave(); s.done.Done() }()
		}
		if i == 0 {
			first = peer
		}
	}
	if len(s.pending) != 4 || s.byHost["10.0.0.0"] != 2 || s.byHost["10.0.0.1"] != 2 {
		t.Errorf("%d pending connections, %v", len(s.pending), s.byHost)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest of the address with most: %v", err)
	}
}
