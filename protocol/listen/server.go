package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Mode says which connections a listener accepts.
type Mode uint8

const (
	Any   Mode = iota // all, with TLS or without
	TLS               // only TLS
	Plain             // only without TLS
)

// Options says where connections are handed on to. Only AMQP is required.
type Options struct {
	// AMQP serves a connection that speaks AMQP until it ends, and closes it.
	AMQP interface{ ServeConn(net.Conn) }
	// TLS is the configuration of TLS; nil: no TLS. The minimum version is always at least TLS 1.2.
	TLS *tls.Config
	// Handler answers HTTP requests other than probes and WebSockets; nil: 404. Bodies are cut at
	// 64 KiB.
	Handler http.Handler
	// Health returns why messages cannot be accepted and stored now; nil: they can. A nil Health
	// always returns nil.
	Health func(context.Context) error
	// Live returns why a new process should replace this one, Ready why clients should not be sent
	// here; nil: no reason. A nil function always returns nil.
	Live, Ready func(context.Context) error
	// Notices are facts that an operator should know although the broker works. Probes show them.
	Notices []string
	// Conditions returns the states that keep the broker from doing all of its work now; nil: none
	// are known. Probes show them without a token: they reveal nothing of what is stored.
	Conditions func() []Condition
	// Hosts are the names of this machine, besides localhost: see the check of S24.
	Hosts  []string
	Limits Limits
	Logger *slog.Logger // nil: slog.Default
}

// Condition is a lasting state, as probes show it.
type Condition struct {
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"`
	Partition *int       `json:"partition,omitempty"` // nil: all partitions
	Cause     string     `json:"cause,omitempty"`     // one word; "": the state says enough
}

// Limits bounds the cost of connections whose protocol is not yet known (reliability.md 8). Zero
// fields mean their defaults.
type Limits struct {
	// from accept until the protocol is known, TLS included; default 10 s
	FirstBytes time.Duration
	Handshake  time.Duration // of TLS; default 5 s
	// connections that do not carry AMQP: undecided ones and those of HTTP; default 1,000
	Pending        int
	PendingPerHost int // the same from one address; default 100
	// connections accepted at once, and in a second; more wait in the kernel's queue; default 200
	Accepts int
}

func (l Limits) withDefaults() Limits {
	l.FirstBytes = cmp.Or(l.FirstBytes, 10*time.Second)
	l.Handshake = cmp.Or(l.Handshake, 5*time.Second)
	l.Pending = cmp.Or(l.Pending, 1000)
	l.PendingPerHost = cmp.Or(l.PendingPerHost, 100)
	l.Accepts = cmp.Or(l.Accepts, 200)
	return l
}

// A Server hands the connections of its listeners to the server of the protocol that each speaks.
type Server struct {
	// set once in New
	options Options
	limits  Limits
	logger  *slog.Logger
	tls     *tls.Config // nil: none
	http    *http.Server
	hand    *handover

	httpConns httpConns
	accepts   *rate.Limiter // reliability.md 8
	reports   *rate.Limiter // of refused connections, which are as fast as peers connect

	mu        sync.Mutex // guards the fields below, except done
	listeners map[net.Listener]struct{}
	pending   map[*pendingConn]struct{}
	byHost    map[string]int
	number    uint64 // of the last connection
	refused   int    // connections since the last reported one
	closed    bool
	done      sync.WaitGroup // one for each pending connection, one for HTTP
}

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("listen: server closed")

// New returns a server. The caller must close it, even if it never served.
func New(o Options) *Server {
	s := &Server{
		options: o, limits: o.Limits.withDefaults(), logger: o.Logger, hand: newHandover(),
		listeners: map[net.Listener]struct{}{}, pending: map[*pendingConn]struct{}{}, byHost: map[string]int{},
		reports: rate.NewLimiter(rate.Every(time.Second), 1),
	}
	s.accepts = rate.NewLimiter(rate.Limit(s.limits.Accepts), s.limits.Accepts)
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if o.TLS != nil {
		s.tls = o.TLS.Clone()
		s.tls.MinVersion = max(s.tls.MinVersion, tls.VersionTLS12)
	}
	s.http = s.newHTTP()
	s.done.Go(func() { _ = s.http.Serve(s.hand) }) // ends only with Close
	return s
}

// Serve accepts connections until the context ends, the listener fails or the server is closed, and
// closes the listener. Connections stay open: those of AMQP belong to [Options.AMQP], the others
// end with [Server.Close].
func (s *Server) Serve(ctx context.Context, l net.Listener, mode Mode) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer func() {
		stop()
		l.Close()
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	var backoff time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			backoff = 0
			v, wait := s.admit(nc)
			if v != nil {
				go s.receive(v, mode)
			}
			s.pause(ctx, wait)
		case ctx.Err() != nil:
			return ctx.Err()
		case s.isClosed():
			return ErrClosed
		case errors.Is(err, net.ErrClosed):
			return err
		default: // most likely out of descriptors (reliability.md F18): open connections continue
			backoff = min(max(5*time.Millisecond, 2*backoff), time.Second)
			s.logger.Warn("listen: accept failed", "error", err, "retry", backoff)
			s.pause(ctx, backoff)
		}
	}
}

// pause waits for d, or until the end of the context or of the server.
func (s *Server) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.hand.quit:
	}
}

// admit counts a connection as pending, or closes it and returns nil; wait is the time before the
// next accept. Closed connections do not count: an address over its limit takes nothing from
// others.
func (s *Server) admit(nc net.Conn) (v *pendingConn, wait time.Duration) {
	v = &pendingConn{Conn: nc, host: hostOf(nc.RemoteAddr())}
	s.mu.Lock()
	refuse, why := true, ""
	switch {
	case s.closed:
	case s.byHost[v.host] >= s.limits.PendingPerHost:
		why = "too many pending connections of one address"
	case len(s.pending) >= s.limits.Pending && !s.displace(v.host):
		why = "too many pending connections"
	default:
		refuse = false
		v.leave = func() { s.forget(v) }
		s.number++
		v.number = s.number
		s.pending[v] = struct{}{}
		s.byHost[v.host]++
		s.done.Add(1)
		now := time.Now()
		s.accepts.ReserveN(now, 1)
		wait = time.Duration((1 - s.accepts.TokensAt(now)) * float64(time.Second) / float64(s.limits.Accepts))
	}
	s.mu.Unlock()
	if refuse {
		if n := s.countRefusal(why); n > 0 {
			s.logger.Warn("listen: connection refused", "remote", nc.RemoteAddr(), "reason", why, "refused", n)
		}
		nc.Close()
		return nil, 0
	}
	return v, wait
}

// countRefusal counts a refusal. It returns the number of refusals since the last reported one, or
// 0 if this one is not reported.
func (s *Server) countRefusal(why string) (n int) {
	if why == "" {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused++; s.reports.Allow() {
		n, s.refused = s.refused, 0
	}
	return n
}

// displace makes room for an address: it closes the oldest pending connection of the address that
// has the most, if that address has at least two more than this one. It reports whether it closed
// one. So an address that fills the limit keeps no other address out.
func (s *Server) displace(host string) bool {
	most, victim := s.byHost[host]+1, (*pendingConn)(nil)
	for v := range s.pending {
		if n := s.byHost[v.host]; n > most || n == most && victim != nil && v.number < victim.number {
			most, victim = n, v
		}
	}
	if victim == nil {
		return false
	}
	s.strike(victim)
	victim.Conn.Close()
	return true
}

func (s *Server) forget(v *pendingConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strike(v)
}

// strike removes a pending connection from the count, if it was counted. The caller holds the
// mutex.
func (s *Server) strike(v *pendingConn) {
	if _, ok := s.pending[v]; !ok {
		return
	}
	delete(s.pending, v)
	if s.byHost[v.host]--; s.byHost[v.host] == 0 {
		delete(s.byHost, v.host)
	}
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}

// receive finds out which protocol a pending connection speaks and hands it on.
func (s *Server) receive(v *pendingConn, mode Mode) {
	nc, k, err := s.identify(v, mode)
	switch {
	case err != nil:
		s.logger.Debug("listen: connection closed", "remote", v.RemoteAddr(), "error", err)
		v.Close()
		v.leave()
		s.done.Done()
	case k == httpMethod:
		if !s.hand.over(&request{nc, v}) {
			v.Close()
			v.leave()
		}
		s.done.Done()
	default:
		v.leave()
		s.done.Done()
		s.options.AMQP.ServeConn(nc)
	}
}

// identify looks at the first bytes. If they ask for TLS, it performs the handshake and looks
// again. When it returns a connection, the connection has no deadlines. A panic in it ends this
// connection only (reliability.md F21).
func (s *Server) identify(v *pendingConn, mode Mode) (nc net.Conn, k kind, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logger.Error("listen: panic, connection closed", "panic", r, "stack", string(debug.Stack()))
			nc, err = nil, errors.New("listen: internal error")
		}
	}()
	deadline := time.Now().Add(s.limits.FirstBytes)
	if err := v.SetDeadline(deadline); err != nil {
		return nil, 0, err
	}
	first, k, err := look(v.Conn)
	if err != nil {
		return nil, 0, err
	}
	mayTLS := s.tls != nil && mode != Plain
	switch {
	case k == tlsHello && mayTLS:
		return s.identifyInside(&plainConn{Conn: v.Conn, unread: first}, deadline)
	case k == amqpToTLS && mayTLS:
		if _, err := v.Write(tlsHeader); err != nil {
			return nil, 0, err
		}
		return s.identifyInside(v.Conn, deadline)
	case k == tlsHello:
		return nil, 0, errors.New("listen: TLS is not enabled on this port")
	case mode == TLS:
		return nil, 0, refusePlain(v.Conn, k)
	}
	return &plainConn{Conn: v.Conn, unread: first}, k, v.SetDeadline(time.Time{})
}

// identifyInside performs the TLS handshake, then looks at the first bytes inside.
func (s *Server) identifyInside(outer net.Conn, deadline time.Time) (net.Conn, kind, error) {
	if soon := time.Now().Add(s.limits.Handshake); soon.Before(deadline) {
		if err := outer.SetDeadline(soon); err != nil {
			return nil, 0, err
		}
	}
	tc := tls.Server(outer, s.tls)
	if err := tc.Handshake(); err != nil {
		return nil, 0, fmt.Errorf("listen: TLS handshake: %w", err)
	}
	if err := outer.SetDeadline(deadline); err != nil {
		return nil, 0, err
	}
	first, k, err := look(tc)
	if err != nil {
		return nil, 0, err
	}
	return &tlsConn{Conn: tc, unread: first}, k, outer.SetDeadline(time.Time{})
}

// refusePlain tells a peer without TLS, in the peer's protocol, that TLS is needed.
func refusePlain(nc net.Conn, k kind) error {
	switch k {
	case amqpPlain, amqpToTLS: // the header that the broker accepts (wire-protocol.md 1.1)
		_, _ = nc.Write(tlsHeader)
	case httpMethod:
		_, _ = io.WriteString(nc, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks HTTPS.\n")
	}
	return fmt.Errorf("listen: %s without TLS", k)
}

// Close stops accepting and ends every connection that does not carry AMQP. Connections that carry
// AMQP inside a WebSocket belong to the AMQP server.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	for v := range s.pending {
		v.Close()
	}
	s.mu.Unlock()
	err := s.http.Close()
	s.hand.Close()
	s.done.Wait()
	s.httpConns.wait()
	return err
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// A handover is a listener whose connections are those that speak HTTP.
type handover struct {
	conns chan net.Conn
	quit  chan struct{}
	once  sync.Once
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), quit: make(chan struct{})}
}

// over passes a connection to Accept; it returns false if the listener is closed.
func (h *handover) over(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.quit:
		return false
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.quit:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.once.Do(func() { close(h.quit) })
	return nil
}

// Addr implements [net.Listener].
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }
