package servicebus

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Options configures a [Server]. The zero value serves a namespace without any login.
type Options struct {
	// Namespace is the namespace's name in error texts.
	Namespace string
	// Access decides which operations a peer is allowed; nil: none.
	Access *access.Verifier
	// AllowPlainWithoutTLS offers SASL PLAIN, which carries a key, even on connections without TLS
	// (reliability.md 7.2).
	AllowPlainWithoutTLS bool
	// AllowPlainOnLoopback does so on loopback only.
	AllowPlainOnLoopback bool
	// Limits bounds the resources that a peer can use. Zero fields mean their defaults.
	Limits Limits
	// Failures counts failed logins together with other protocols; nil: a separate count with the
	// limits of Limits.
	Failures *access.Failures
	// Memory is the budget of the process's memory; nil: none.
	Memory *budget.Budget
	// Logger gets diagnostics, but never a token or a key; nil: slog.Default.
	Logger *slog.Logger
	// NewID makes message-ids and tracking ids: random UUIDs; nil: the server's own generator.
	NewID func() [16]byte
}

// A Server speaks AMQP 1.0 as Azure Service Bus does, on connections of any listener.
type Server struct {
	Broker  engine.Broker
	Options Options

	once   sync.Once
	env    *environment
	panics atomic.Uint64
	number atomic.Uint64 // of the last connection
	// failures is set once in init
	failures *access.Failures

	mu        sync.Mutex // guards the fields below, except done
	conns     map[*conn]struct{}
	byHost    map[string]int // connections without a valid token, by address
	anonymous int            // the sum of byHost
	overLimit int            // connections over the limit, which are told so when they open
	closed    bool
	refusals  []engine.RefusedLink // the newest, newest last
	done      sync.WaitGroup       // one per connection
}

// environment is the shared state of all connections of a server.
type environment struct {
	trackingSuffix
	broker      engine.Broker
	limits      Limits
	verifier    *access.Verifier
	logger      *slog.Logger
	newUUID     func() [16]byte
	plainNoTLS  bool // PLAIN is accepted without TLS
	plainHere   bool // the same on loopback
	containerID string
	staged      *ceiling // bytes staged in transactions
	occupied    *ceiling // transactions with operations
}

func (s *Server) init() {
	s.once.Do(func() {
		o := &s.Options
		env := &environment{
			broker: s.Broker, limits: o.Limits.withDefaults(), logger: o.Logger, newUUID: o.NewID,
			plainNoTLS: o.AllowPlainWithoutTLS, plainHere: o.AllowPlainOnLoopback,
		}
		if env.logger == nil {
			env.logger = slog.Default()
		}
		if env.newUUID == nil {
			env.newUUID = newUUID
		}
		if env.verifier = o.Access; env.verifier == nil {
			env.verifier = access.New(access.Options{})
		}
		env.staged, env.occupied = &ceiling{most: int64(env.limits.AllStagedBytes)}, &ceiling{most: int64(env.limits.AllTransactions)}
		env.trackingSuffix = trackingSuffix{namespace: o.Namespace, newID: func() string { return event.LockToken(env.newUUID()).String() }}
		id := env.newUUID()
		env.containerID = hex.EncodeToString(id[:]) + "_G0"
		s.env = env
		s.conns = make(map[*conn]struct{})
		s.byHost = make(map[string]int)
		if s.failures = o.Failures; s.failures == nil {
			s.failures = access.NewFailures(env.limits.FreeFailures, env.limits.FailedLogins)
		}
	})
}

// ServeConn serves one connection and returns when it ends. A connection over a limit is closed at
// once.
func (s *Server) ServeConn(nc net.Conn) {
	s.init()
	c := newConn(s.env, nc, s.number.Add(1))
	c.onPanic = func() { s.panics.Add(1) }
	c.onLogin = func() { s.loggedIn(c) }
	c.onRefused = s.refused
	c.onFail = func() time.Duration { return s.loginFailed(c.host, time.Now()) }
	if why := s.admit(c); why != "" {
		s.env.logger.Warn("servicebus: connection refused", "remote", c.remote, "reason", why)
		nc.Close()
		return
	}
	defer s.forget(c)
	c.run()
}

// Press tells the server that memory has become short, or no longer is: connections free what they
// can, and the largest ones are closed (docs/decisions/0041).
func (s *Server) Press() {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.outbox.press()
	}
	s.evict(time.Now())
}

// maxTurned bounds the connections over the limit that are told why at the same time; more are
// closed without an answer.
const maxTurned = 64

// Overhang is the number of connections by which a server may briefly exceed [Limits.Connections].
const Overhang = maxTurned

// admit counts a connection, or returns why it is closed.
func (s *Server) admit(c *conn) string {
	limits := &s.env.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	share, room := s.Options.Memory.Open()
	turn := len(s.conns)-s.overLimit >= limits.Connections || !room
	taken := false
	defer func() {
		if !taken && room {
			share.Close()
		}
	}()
	switch {
	case s.closed:
		return "server closed"
	case s.failures.Refused(c.host, time.Now()):
		return "too many failed logins from the address"
	case turn && s.overLimit >= maxTurned:
		return "too many connections"
	case s.byHost[c.host] >= limits.ConnectionsPerHost:
		return "too many connections without a token from one address"
	case s.anonymous >= limits.Unauthenticated && (turn || !s.displace(c.host)):
		return "too many connections without a token"
	}
	switch {
	case turn && !room:
		// as [closeNoMemory]
		s.turnAway(c, &amqp.Error{Condition: amqp.CondConnectionForced, Description: noMemoryText}, "no memory")
	case turn:
		text := fmt.Sprintf("ConnectionsQuotaExceeded for namespace %s.", s.env.namespace)
		s.turnAway(c, &amqp.Error{Condition: amqp.CondResourceLimit, Description: text}, "too many connections")
	default:
		taken = true
		c.memory.share, c.reader.share = share, share
	}
	s.conns[c] = struct{}{}
	s.byHost[c.host]++
	s.anonymous++
	c.anonymous = true
	s.done.Add(1)
	return ""
}

// turnAway makes a connection be told why it is closed.
func (s *Server) turnAway(c *conn, refusal *amqp.Error, reason string) {
	s.overLimit++
	c.refusal = refusal
	s.env.logger.Warn("servicebus: connection turned away", "remote", c.remote, "reason", reason)
}

// displace makes room for an address: it closes the oldest connection without a token of the
// address that has the most, if that address has at least two more than this one. It reports
// whether it closed one. So an address that fills the limit keeps no other address out.
func (s *Server) displace(host string) bool {
	most, victim := s.byHost[host]+1, (*conn)(nil)
	for c := range s.conns {
		if !c.anonymous {
			continue
		}
		if n := s.byHost[c.host]; n > most || n == most && victim != nil && c.number < victim.number {
			most, victim = n, c
		}
	}
	if victim == nil {
		return false
	}
	s.welcome(victim)
	// TLS sends an alert, which a peer that does not read delays; the mutex is held
	go victim.net.Close()
	return true
}

// loginFailed counts a failure and returns the delay for the address.
func (s *Server) loginFailed(host string, now time.Time) time.Duration {
	wait, refused := s.failures.Failed(host, now)
	if refused {
		s.env.logger.Warn("servicebus: address refused after failed logins", "host", host)
	}
	return wait
}

func (s *Server) forget(c *conn) {
	s.loggedIn(c)
	s.mu.Lock()
	delete(s.conns, c)
	if c.refusal != nil {
		s.overLimit--
	}
	s.mu.Unlock()
	s.done.Done()
}

// loggedIn removes a connection from the count of those without a valid token.
func (s *Server) loggedIn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.welcome(c)
}

// welcome is loggedIn for a caller that holds the mutex.
func (s *Server) welcome(c *conn) {
	if !c.anonymous {
		return
	}
	c.anonymous = false
	s.anonymous--
	if s.byHost[c.host]--; s.byHost[c.host] == 0 {
		delete(s.byHost, c.host)
	}
}

// Close tells every connection to close, then waits for them. If the context ends first, it closes
// their sockets.
func (s *Server) Close(ctx context.Context) error {
	s.init()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.askToStop()
	}
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		s.done.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.net.Close()
	}
	s.mu.Unlock()
	select {
	case <-over:
	case <-time.After(s.env.limits.Close): // the engine does not answer
	}
	return ctx.Err()
}

// RulesChanged tells the server that access rules of the namespace were replaced: every connection
// checks its claims again and detaches links that have none any more (reliability.md S10). A change
// of an entity's own rules is reported as a change of the entity.
func (s *Server) RulesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.outbox.rulesChanged()
	}
}
