package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/listen"
	"github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// Limits of failed logins per address and minute (reliability.md S13): the number that is free, and
// the number after which the address is refused.
const (
	freeFailures = 10
	mostFailures = 20
)

// mostWaiting is the number of connections that may wait while the broker starts, unless the
// settings allow more without a login.
const mostWaiting = 1000

// closeGrace is the time that connections have to end when the broker closes.
const closeGrace = 10 * time.Second

// namespaceName is the name of the namespace in error texts for clients.
const namespaceName = "ledgerbus"

// earliest is a time before every build of this program. A clock that shows an earlier time is
// wrong, and broker time must not start there (reliability.md 1.4).
var earliest = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// buildTime returns the time of the program's commit, if known.
func buildTime(info *debug.BuildInfo, ok bool) time.Time {
	if !ok {
		return earliest
	}
	for _, s := range info.Settings {
		if s.Key != "vcs.time" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, s.Value); err == nil && at.After(earliest) {
			return at
		}
	}
	return earliest
}

// clockRules returns the rules for the clock of a start.
func clockRules(c settings.Clock) host.ClockRules {
	return host.ClockRules{Earliest: buildTime(debug.ReadBuildInfo()), MaxGap: c.MaxGap, Accept: c.Accept, Reason: c.Reason}
}

// checkClock refuses a clock that is wrong regardless of the log.
func checkClock(now time.Time) error { return clockProblem(clockRules(settings.Clock{}).Early(now)) }

// clockProblem turns the refusal of a clock into a problem of the settings, which an operator must
// correct. It returns any other error unchanged.
func clockProblem(err error) error {
	if refused := (*host.ClockError)(nil); errors.As(err, &refused) {
		return settings.Problems{{Where: "clock", Text: refused.Error()}}
	}
	return err
}

// A ListenError reports an address on which the broker cannot listen.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Address, e.Err) }

// Unwrap returns the network error.
func (e *ListenError) Unwrap() error { return e.Err }

// An Endpoint is an address on which the broker listens.
type Endpoint struct {
	Addr     net.Addr
	Mode     settings.ListenMode
	listener net.Listener
}

// Loopback reports whether only programs of this machine can reach the endpoint.
func (e Endpoint) Loopback() bool {
	a, ok := e.Addr.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// A Server is a running broker.
type Server struct {
	settings     settings.Settings
	store        log.Store
	engine       *host.Namespace
	access       *access.Verifier
	amqp         *servicebus.Server
	gate         *gate
	front        *listen.Server
	notices      []string // notices of the start; set before front
	failures     *access.Failures
	endpoints    []Endpoint
	certificates *certificates // of the operator; nil: none
	tls          *tls.Config   // nil: no TLS
	// file with the certificate that clients must trust; "": no generated certificate
	trust       string
	recovered   Recovered
	descriptors descriptors
	memory      *budget.Budget  // nil: unlimited
	limits      settings.Limits // lowered to the available descriptors

	failed  chan error
	serving sync.WaitGroup  // one per listener, one for the engine's failures
	closing context.Context // ends when Close starts
	stop    context.CancelFunc
	once    sync.Once
	closed  error // of Close; set in once
}

// Start listens on the addresses, recovers the data directory, creates the entities of the settings
// and serves. Earlier connections wait. If the start has notices, probes are answered meanwhile and
// show them. A start that fails because of an address or a certificate writes nothing to an
// existing log; every start that writes adds a chapter. The context applies only to the start:
// Close ends a running broker. After an error nothing is left open. If the context has ended, the
// error is or wraps the context's error.
func Start(ctx context.Context, s settings.Settings) (*Server, error) {
	if s.Clock.Accept != host.AcceptLog { // otherwise the log decides
		if err := checkClock(time.Now()); err != nil {
			return nil, err
		}
	}
	srv := newServer(s)
	for _, step := range []func() error{
		func() error { return srv.authorise(ctx) },
		srv.loadCertificates,
		func() error { return srv.bind(ctx) },
		func() error { return srv.open(ctx) },
		func() error { return srv.putEntities(ctx) },
		func() error { return srv.putPolicies(ctx) },
		srv.serve,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, srv.Close())
		}
	}
	return srv, nil
}

func newServer(s settings.Settings) *Server {
	srv := &Server{settings: s, memory: budget.New(s.MemoryBudget, slog.Default()), failed: make(chan error, 1)}
	srv.closing, srv.stop = context.WithCancel(context.Background())
	srv.gate = newGate(max(s.Limits.Unauthenticated, mostWaiting), srv.closing.Done())
	return srv
}

// open recovers the data directory. Everything else that can fail comes first, because only the
// engine writes to the directory.
func (s *Server) open(ctx context.Context) error {
	began := time.Now()
	limit, err := raiseDescriptors()
	if err != nil {
		return err
	}
	s.descriptors = shareDescriptors(limit)
	s.store, err = log.Open(ctx, s.settings.Storage.Data, log.Options{
		Partitions: s.settings.Storage.Partitions, OpenFiles: s.descriptors.reading, Logger: slog.Default(),
		ReserveBytes: int64(s.settings.Storage.Reserve), LowBytes: int64(s.settings.Storage.Low), SealAfter: s.settings.Storage.SealAfter, Memory: s.memory.Account()})
	if err != nil {
		return err
	}
	if slices.Contains(s.store.Namespace().Capabilities, log.Slice) {
		slog.Warn("data directory is a slice of another one; no message moves between entities", "namespace", s.store.Namespace().ID)
	}
	if has := len(s.store.Partitions()); s.settings.Storage.Partitions != 0 && has != s.settings.Storage.Partitions {
		return settings.Problems{{Where: "partitions", Text: fmt.Sprintf("%s was created with %d partitions, which cannot be changed to %d",
			s.settings.Storage.Data, has, s.settings.Storage.Partitions)}}
	}
	if err := s.descriptors.reserveForLog(len(s.store.Partitions())); err != nil {
		return err
	}
	s.limits = s.descriptors.limitConnections(s.settings.Limits)
	s.gate.most = min(s.gate.most, int64(s.limits.Unauthenticated))
	restrictMode(s.settings.Storage.Data)
	s.engine, err = host.Open(ctx, s.store, host.Options{Logger: slog.Default(), EntityPartitions: event.MaxEntityPartitions, MaxPartitioned: s.settings.Limits.Partitioned, Properties: message.Properties, Reread: message.Reread,
		FailuresTo: s.settings.FailuresTo, History: historyOf(s.settings.History), Fence: s.settings.Storage.Fence, ScrubEvery: s.settings.Storage.ScrubEvery, NoMemory: s.noMemory, Memory: s.memory.Account(), Clock: clockRules(s.settings.Clock), Program: host.Program{Version: s.settings.Version, Settings: s.settings.Fingerprint()}, Notices: func(list []string) {
			s.notices = list
			s.listen()
		}})
	if err != nil {
		return clockProblem(err)
	}
	s.recovered = recovered(s.engine.Recovered(), time.Since(began))
	s.serving.Go(s.watch)
	return nil
}

func historyOf(h settings.History) engine.PutHistoryPolicy {
	return engine.PutHistoryPolicy{Policy: h.Policy, Share: h.Share, BeforeSends: h.BeforeSends}
}

// watch reports the first failure of a partition.
func (s *Server) watch() {
	select {
	case err := <-s.engine.Failed():
		s.fail(err)
	case <-s.closing.Done():
	}
}

// settingsCodes are the codes of entity errors that only other settings can resolve.
var settingsCodes = []engine.Code{engine.InvalidArgument, engine.AlreadyExists, engine.QuotaExceeded, engine.NotFound}

// putEntities creates the entities of the settings. An impossible change, such as sessions for an
// existing queue without sessions, is a problem of the settings (semantics.md 1.3).
func (s *Server) putEntities(ctx context.Context) error {
	var problems settings.Problems
	for _, key := range s.settings.Entities.Ignored {
		slog.Warn("entity file key ignored", "where", key.Where, "reason", key.Text)
	}
	for _, line := range s.settings.Entities.Used {
		slog.Info("emulator defaults used", "entities", line)
	}
	if s.settings.Entities.Sample && !s.wantsSample() {
		s.settings.Entities.Put = nil
	}
	for i := range s.settings.Entities.Put {
		put := &s.settings.Entities.Put[i]
		if have, ok := s.engine.Find(put.Path); ok {
			s.settings.Entities.Keep(put, have)
		}
		engine.PartitionedSize(&put.Properties)
	}
	_, errs := s.engine.PutEntities(ctx, s.settings.Entities.Put)
	for i, err := range errs {
		refusal := (*engine.Error)(nil)
		switch {
		case err == nil:
		case errors.As(err, &refusal) && slices.Contains(settingsCodes, refusal.Code):
			problems = append(problems, settings.Problem{Where: s.settings.Entities.Where(s.settings.Entities.Put[i].Path), Text: refusal.Text})
		case errors.As(err, &refusal) && refusal.Code == engine.Busy && len(s.engine.Conditions()) > 0:
			// existing messages can still be settled
			slog.Error("entity of the settings not created or changed", "path", s.settings.Entities.Put[i].Path, "error", err)
		default:
			return err
		}
	}
	if problems != nil {
		return problems
	}
	s.settings.Entities.Put = nil // the catalogue contains them now; there may be many
	return nil
}

// wantsSample reports whether all existing entities belong to the sample. Otherwise the sample is
// not needed. An interrupted start may have created part of it.
func (s *Server) wantsSample() bool {
	for _, e := range s.engine.Entities() {
		if !slices.ContainsFunc(s.settings.Entities.Put, func(put engine.PutEntity) bool { return put.Kind == e.Kind && strings.EqualFold(put.Path, e.Path) }) {
			return false
		}
	}
	slog.Info("no entity file; using the emulator's sample entities", "entities", len(s.settings.Entities.Put))
	return true
}

// putPolicies sets the history policies of the settings. Policies of other patterns stay.
func (s *Server) putPolicies(ctx context.Context) error {
	var problems settings.Problems
	for _, p := range s.settings.History.Patterns {
		err := s.engine.PutHistoryPolicy(ctx, engine.PutHistoryPolicy{Pattern: p.Pattern, Policy: p.Policy, Why: event.ReasonGiven{Reason: "settings of the start"}})
		if refusal := (*engine.Error)(nil); errors.As(err, &refusal) && slices.Contains(settingsCodes, refusal.Code) {
			problems = append(problems, settings.Problem{Where: p.Where, Text: refusal.Text})
		} else if err != nil {
			return err
		}
	}
	if problems != nil {
		return problems
	}
	return nil
}

// bind takes all addresses before it serves any: a broker listens on all of them or on none.
// Meanwhile connections wait in the kernel's queue. A generated certificate exists before the first
// connection. bind first takes the lock of the data directory, because "a broker is running" is a
// better error than "address in use".
func (s *Server) bind(ctx context.Context) error {
	lock, err := log.Lock(s.settings.Storage.Data)
	if err != nil {
		return err
	}
	if err = s.generateCertificate(); err == nil {
		err = s.listenOn(ctx)
	}
	return errors.Join(err, lock.Close())
}

// listenOn starts to listen on each address.
func (s *Server) listenOn(ctx context.Context) error {
	for _, entry := range s.settings.Listening.Addresses {
		address, mode, err := s.settings.Listener(entry)
		var l net.Listener
		if err == nil {
			l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if err != nil {
			err = &ListenError{Address: address, Err: err}
		}
		if l != nil {
			s.endpoints = append(s.endpoints, Endpoint{Addr: l.Addr(), Mode: mode, listener: l})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serve opens the gate, and listens unless the start already does.
func (s *Server) serve() error {
	s.failures = access.NewFailures(freeFailures, mostFailures)
	options := s.options()
	options.Limits.Connections, options.Limits.Unauthenticated = s.limits.Connections, s.limits.Unauthenticated
	s.amqp = &servicebus.Server{Broker: s.engine, Options: options}
	s.keepBudget()
	s.gate.open(s.amqp, s.management(), s.health, s.engine, s.conditions)
	if s.front == nil {
		s.listen()
	}
	return nil
}

// listen serves the endpoints and passes their connections to the gate.
func (s *Server) listen() {
	s.front = listen.New(listen.Options{
		AMQP: s.gate, TLS: s.tls, Handler: s.gate, Health: s.gate.Health, Live: s.gate.Live, Ready: s.gate.Ready, Conditions: s.gate.Conditions, Notices: s.notices, Hosts: s.hosts(), Logger: slog.Default(),
		Limits: listen.Limits{Pending: s.limits.Unauthenticated},
	})
	modes := map[settings.ListenMode]listen.Mode{
		settings.ListenAny: listen.Any, settings.ListenTLS: listen.TLS, settings.ListenPlain: listen.Plain}
	for _, e := range s.endpoints {
		s.serving.Go(func() {
			err := s.front.Serve(s.closing, e.listener, modes[e.Mode])
			if !errors.Is(err, listen.ErrClosed) && !errors.Is(err, context.Canceled) {
				s.fail(&ListenError{Address: e.Addr.String(), Err: err})
			}
		})
	}
}

// hosts returns the names and addresses by which clients may know this machine.
func (s *Server) hosts() []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, s.settings.Listening.Hosts...)
	for _, entry := range s.settings.Listening.Addresses {
		address, _, _ := strings.Cut(entry, "/")
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && host != "" && !slices.Contains(hosts, host) && (ip == nil || !ip.IsUnspecified()) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// options converts settings into options of the protocol.
func (s *Server) options() servicebus.Options {
	limits := s.settings.Limits
	return servicebus.Options{
		Namespace: namespaceName,
		Access:    s.access,
		Memory:    s.memory,
		Failures:  s.failures,
		Logger:    slog.Default(),

		AllowPlainWithoutTLS: s.settings.Listening.InsecureNoTLS,
		AllowPlainOnLoopback: s.settings.Mode == settings.Development,

		Limits: servicebus.Limits{
			Connections: limits.Connections, Unauthenticated: limits.Unauthenticated, Locked: limits.Locked,
			BufferedIn: limits.BufferedIn, BufferedOut: limits.BufferedOut,
			Transactions: limits.Transactions, TransactionBytes: limits.TransactionBytes,
			AllTransactions: limits.AllTransactions, AllStagedBytes: limits.AllTransactionBytes,
			IdleTimeout: limits.IdleTimeout, LinkIdle: limits.LinkIdle, NoLinks: limits.NoLinks,
		},
	}
}

func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first error is enough, because it ends the process
	}
}

// Failed returns a channel with the error of a part that stopped while the broker was running. The
// broker should then be closed.
func (s *Server) Failed() <-chan error { return s.failed }

// Addrs returns the addresses on which the broker listens, in the order of the settings.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.endpoints))
	for i, e := range s.endpoints {
		addrs[i] = e.Addr
	}
	return addrs
}

// Endpoints returns the addresses on which the broker listens, with their modes, in the order of
// the settings.
func (s *Server) Endpoints() []Endpoint { return s.endpoints }

// Trust returns the file with the certificate of the development authority, which clients must
// trust. It returns "" if the certificate is not a generated one.
func (s *Server) Trust() string { return s.trust }

// Settings returns the settings that the broker was started with.
func (s *Server) Settings() settings.Settings { return s.settings }

// Engine returns the namespace that the protocol serves.
func (s *Server) Engine() *host.Namespace { return s.engine }

// Recovered returns the state that the start found in the data directory.
func (s *Server) Recovered() Recovered { return s.recovered }

// Authority returns the host and port by which clients on this machine reach an endpoint. It omits
// the port if it is usualPort. The host is localhost for 127.0.0.1 and for listeners on all
// addresses; otherwise it is the address itself.
func (e Endpoint) Authority(usualPort string) string {
	host, port, err := net.SplitHostPort(e.Addr.String())
	if err != nil {
		return e.Addr.String()
	}
	if host == "127.0.0.1" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != usualPort {
		host += ":" + port
	}
	return host
}

// ConnectionString returns the string with which an SDK connects to the first listener. It contains
// the key only if that is the emulator's, which is publicly known.
func (s *Server) ConnectionString() string {
	first := s.endpoints[0]
	host, emulator := first.Authority("5672"), "UseDevelopmentEmulator=true;"
	if first.Mode == settings.ListenTLS { // SDKs do not use TLS with an emulator
		host, emulator = first.Authority("5671"), ""
	}
	rule := s.settings.Access[0]
	key := rule.Primary.String()
	if rule.IsDevelopment() {
		key = rule.Primary.Reveal()
	}
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;%s", host, rule.Name, key, emulator)
}

// Close stops accepting, ends the connections, commits pending requests, and marks the data
// directory as cleanly closed.
func (s *Server) Close() error {
	s.once.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Server) close() error {
	var errs []error
	s.stop()
	if s.front != nil {
		errs = append(errs, s.front.Close())
	}
	for _, e := range s.endpoints {
		_ = e.listener.Close() // of a failed start; a serving listener is already closed
	}
	if s.amqp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if err := s.amqp.Close(ctx); err != nil {
			slog.Warn("connections closed because they did not end in time", "error", err)
		}
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Close())
	}
	s.serving.Wait()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}
