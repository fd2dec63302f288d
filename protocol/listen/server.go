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

// Mode says which connections a listener takes.
type Mode uint8

const (
	Any   Mode = iota // everybody, with TLS or without
	TLS               // only TLS
	Plain             // only without TLS
)

// Options says what connections come to. Only AMQP is needed.
type Options struct {
	// AMQP serves a connection that speaks AMQP until it is over, and closes it.
	AMQP interface{ ServeConn(net.Conn) }
	// TLS is how TLS is spoken; nil: not at all. At least TLS 1.2 is asked for in any case.
	TLS *tls.Config
	// Handler answers what is asked over HTTP, apart from probes and the WebSocket; nil: 404.
	// Bodies are cut at 64 KiB.
	Handler http.Handler
	// Health returns why messages cannot be accepted and stored now, nil if they can. A nil Health:
	// they always can.
	Health func(context.Context) error
	// Live returns why a new process should take the place of this one, Ready why clients should
	// not be sent here; nil: neither. A nil function: there never is a reason.
	Live, Ready func(context.Context) error
	// Notices are what an operator should know although the broker works. Probes show them.
	Notices []string
	// Conditions are the states that keep the broker from doing all of its work now; nil: none are
	// known. Probes show them to everybody: they say nothing of what is stored.
	Conditions func() []Condition
	// Hosts are names by which this machine is known, beside localhost: see the check of S24.
	Hosts  []string
	Limits Limits
	Logger *slog.Logger // nil: slog.Default
}

// Condition is a state that lasts, as probes show it.
type Condition struct {
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"`
	Partition *int       `json:"partition,omitempty"` // nil: it concerns all
	Cause     string     `json:"cause,omitempty"`     // one word; "": the state says it all
}

// Limits bounds what connections cost before it is known what they want (reliability.md 8). Zero
// fields mean their defaults.
type Limits struct {
	// from accept until it is clear what is spoken, TLS included; default 10 s
	FirstBytes time.Duration
	Handshake  time.Duration // of TLS; default 5 s
	// connections that are not AMQP's: undecided ones and those of HTTP; default 1,000
	Pending        int
	PendingPerHost int // the same of one address; default 100
	// connections taken at once, and in a second; more wait in the kernel's queue; default 200
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

// Server hands the connections of its listeners to the server of the protocol that each speaks.
type Server struct {
	// set once in New
	options Options
	limits  Limits
	logger  *slog.Logger
	tls     *tls.Config // nil: none
	http    *http.Server
	hand    *handover

	answering answering
	accepts   *rate.Limiter // reliability.md 8
	reports   *rate.Limiter // of refused connections, which come as fast as peers connect

	mu        sync.Mutex // guards what follows, but for done
	listeners map[net.Listener]struct{}
	pending   map[*pendingConn]struct{}
	byHost    map[string]int
	number    uint64 // of the last connection
	refused   int    // connections since the last that was reported
	closed    bool
	done      sync.WaitGroup // one per pending connection, one for HTTP
}

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("listen: server closed")

// New makes a server. Close it, whether it has served or not.
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
	s.done.Go(func() { _ = s.http.Serve(s.hand) }) // ends with Close, for no other reason
	return s
}

// Serve accepts connections until the context ends, the listener fails or the server is closed, and
// closes the listener. Connections stay open: AMQP's belong to [Options.AMQP], the others end with
// [Server.Close].
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
		default: // out of descriptors, most likely (reliability.md F18): those that are open go on
			backoff = min(max(5*time.Millisecond, 2*backoff), time.Second)
			s.logger.Warn("listen: accept", "error", err, "retry", backoff)
			s.pause(ctx, backoff)
		}
	}
}

// pause waits, but not beyond the end of the context or of the server.
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

// admit counts a connection as pending, or closes it and returns nil; wait is how long to wait
// before the next accept. Closed ones do not count: an address over its limit takes nothing from
// the others.
func (s *Server) admit(nc net.Conn) (v *pendingConn, wait time.Duration) {
	v = &pendingConn{Conn: nc, host: hostOf(nc.RemoteAddr())}
	s.mu.Lock()
	refuse, why := true, ""
	switch {
	case s.closed:
	case s.byHost[v.host] >= s.limits.PendingPerHost:
		why = "too many connections of one address that have not said what they want"
	case len(s.pending) >= s.limits.Pending && !s.displace(v.host):
		why = "too many connections that have not said what they want"
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
		if n := s.toTell(why); n > 0 {
			s.logger.Warn("listen: connection refused", "remote", nc.RemoteAddr(), "reason", why, "refused", n)
		}
		nc.Close()
		return nil, 0
	}
	return v, wait
}

// toTell counts a refusal. It returns how many there have been since the last one that was
// reported, or 0 when this one is not to be reported.
func (s *Server) toTell(why string) (n int) {
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

// displace closes the oldest pending connection of the address that has most of them, for the sake
// of an address that has at least two fewer, and reports whether there was one. So an address that
// fills the limit keeps nobody else out.
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

// strike no longer counts a pending connection, if it was counted. The caller holds the mutex.
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

// receive finds out what a pending connection speaks and hands it on.
func (s *Server) receive(v *pendingConn, mode Mode) {
	nc, k, err := s.meet(v, mode)
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

// meet looks at the first bytes and, where they ask for it, goes through the TLS handshake and
// looks again. Deadlines are off when it returns a connection. A bug in it, or in what it calls,
// ends this connection alone (reliability.md F21).
func (s *Server) meet(v *pendingConn, mode Mode) (nc net.Conn, k kind, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logger.Error("listen: panic, connection dropped", "panic", r, "stack", string(debug.Stack()))
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
		return s.meetInside(&plain{Conn: v.Conn, unread: first}, deadline)
	case k == amqpToTLS && mayTLS:
		if _, err := v.Write(tlsHeader); err != nil {
			return nil, 0, err
		}
		return s.meetInside(v.Conn, deadline)
	case k == tlsHello:
		return nil, 0, errors.New("listen: TLS is not spoken here")
	case mode == TLS:
		return nil, 0, refusePlain(v.Conn, k)
	}
	return &plain{Conn: v.Conn, unread: first}, k, v.SetDeadline(time.Time{})
}

// meetInside speaks TLS, then looks at the first bytes inside.
func (s *Server) meetInside(outer net.Conn, deadline time.Time) (net.Conn, kind, error) {
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
	return &encrypted{Conn: tc, unread: first}, k, outer.SetDeadline(time.Time{})
}

// refusePlain tells a peer without TLS, in the protocol it speaks, that TLS is needed.
func refusePlain(nc net.Conn, k kind) error {
	switch k {
	case amqpPlain, amqpToTLS: // the header that would be welcome (wire-protocol.md 1.1)
		_, _ = nc.Write(tlsHeader)
	case httpMethod:
		_, _ = io.WriteString(nc, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks HTTPS.\n")
	}
	return fmt.Errorf("listen: %s without TLS", k)
}

// Close stops accepting and ends every connection that AMQP does not have. Those that carry AMQP
// inside a WebSocket are AMQP's.
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
	s.answering.wait()
	return err
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// handover is a listener whose connections are those found to speak HTTP.
type handover struct {
	conns chan net.Conn
	quit  chan struct{}
	once  sync.Once
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), quit: make(chan struct{})}
}

// over gives a connection to Accept; false: the listener is closed.
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
