package listen

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Limits of HTTP (reliability.md S27).
const (
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = 60 * time.Second
	maxHeader  = 16<<10 - 4<<10 // bytes; net/http allows 4 KiB more than it is given
	maxBody    = 64 << 10
)

// Answers of the emulator (management-api.md 4.1).
const (
	healthy   = `{"status":"healthy","message":"Service is healthy."}`
	unhealthy = `{"status":"unhealthy","message":"Service not available. Please try after some time."}`
)

// healthTime bounds the time in which the broker has to show that it works.
const healthTime = 5 * time.Second

// A probe is a request for the state of the broker that needs no token.
type probe struct {
	ask     func(context.Context) error // nil: never unhealthy
	yes, no string                      // the answers, JSON objects
}

// probes returns the probes by path. With an api-version a request for one of these paths is about
// an entity of that name.
func (s *Server) probes() map[string]probe {
	return map[string]probe{
		"/health": {s.options.Health, healthy, unhealthy},
		"/livez":  {s.options.Live, `{"status":"live"}`, `{"status":"not live"}`},
		"/readyz": {s.options.Ready, `{"status":"ready"}`, `{"status":"not ready"}`},
	}
}

type requestKey struct{}

func (s *Server) newHTTP() *http.Server {
	rest := s.options.Handler
	if rest == nil {
		rest = http.NotFoundHandler()
	}
	others := s.checkHost(checkOrigin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isSocketPath(r.URL.Path) {
			s.websocket(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})))
	probes := s.probes()
	// Not a ServeMux, which would redirect unclean paths before the token is checked
	// (reliability.md S21).
	all := complete(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := probes[r.URL.Path]; ok && !r.URL.Query().Has("api-version") {
			s.serveProbe(w, r, p)
			return
		}
		others.ServeHTTP(w, r)
	}))
	return &http.Server{
		Handler:           http.MaxBytesHandler(all, maxBody),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog:                     slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, requestKey{}, c) },
		ConnState:                    s.httpConns.state,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is answered like any other request
	}
}

// lingers is the time that Close waits for HTTP connections that are about to end: net/http gives a
// peer half a second to read its answer before it closes.
const lingers = time.Second

// httpConns counts the connections that net/http has.
type httpConns struct {
	mu   sync.Mutex // guards what follows
	open int
	none chan struct{} // closed when no connection is left; nil: no call of wait
}

// state counts connections; net/http calls it. A connection that carries AMQP no longer belongs to
// net/http.
func (a *httpConns) state(_ net.Conn, now http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch now {
	case http.StateNew:
		a.open++
	case http.StateClosed, http.StateHijacked:
		if a.open--; a.open == 0 && a.none != nil {
			close(a.none)
			a.none = nil
		}
	}
}

// wait returns when net/http has no connection left, or after lingers, because an answer may be
// waiting for the disk. It is called once.
func (a *httpConns) wait() {
	none := make(chan struct{})
	a.mu.Lock()
	if a.none = none; a.open == 0 {
		a.none = nil
		close(none)
	}
	a.mu.Unlock()
	select {
	case <-none:
	case <-time.After(lingers):
	}
}

// complete adds two facts to a request that net/http does not know and that links in answers need:
// that it came inside TLS, which ends in connections of this package, and the address it came to,
// for an HTTP/1.0 client that named no host.
func complete(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(requestKey{}).(*request); ok {
			known := *r
			if e, ok := c.Conn.(*tlsConn); ok {
				state := e.ConnectionState()
				known.TLS = &state
			}
			if known.Host == "" {
				known.Host = c.LocalAddr().String()
			}
			r = &known
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request, p probe) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	err := p.run(r.Context())
	conditions := s.conditions() // read after the probe has run
	answer := s.report(p.yes, conditions)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		// The client is still connected: otherwise its disconnection would be the error. No
		// condition holds: it would be in the log already.
		if r.Context().Err() == nil && len(conditions) == 0 {
			s.logger.Warn("probe failed", "path", r.URL.Path, "error", err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = s.report(p.no, conditions)
	}
	_, _ = io.WriteString(w, answer) // the client may have disconnected
}

// run returns the fault that the probe finds. Only the log shows it, because probes need no token.
func (p probe) run(ctx context.Context) error {
	if p.ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	return p.ask(ctx)
}

// conditions returns the conditions that hold now.
func (s *Server) conditions() []Condition {
	if s.options.Conditions == nil {
		return nil
	}
	return s.options.Conditions()
}

// report returns an answer about health: that of the emulator, followed by the conditions and
// notices, if there are any.
func (s *Server) report(answer string, conditions []Condition) string {
	if len(conditions) > 0 {
		answer = withList(answer, "conditions", conditions)
	}
	if len(s.options.Notices) > 0 {
		answer = withList(answer, "notices", s.options.Notices)
	}
	return answer
}

// withList adds a member with a list at the end of a JSON object.
func withList(object, name string, list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	return strings.TrimSuffix(object, "}") + `,"` + name + `":` + string(text) + "}"
}

// checkHost refuses requests to loopback under a host name that is not ours. Such a name comes from
// a page of another site that pointed its own name at our address. Without the check its scripts
// would be accepted as local (DNS rebinding, reliability.md S24).
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(requestKey{}).(*request); ok && isLoopback(c.LocalAddr()) && !s.isOurs(r.Host) {
			http.Error(w, "Unknown host name; the setting hosts lists the names of this broker.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses changes that a page of another origin makes a browser request (reliability.md
// S23). Clients that are not browsers send no origin. The upgrade to a WebSocket is a GET, whose
// origin package websocket checks.
func checkOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Requests from pages of other origins are refused.", http.StatusForbidden)
	}))
	return protection.Handler(next)
}

func isLoopback(a net.Addr) bool {
	ip, err := netip.ParseAddr(hostOf(a))
	return err == nil && ip.Unmap().IsLoopback()
}

// isOurs reports whether a Host header names this machine. An address cannot be made to resolve to
// another one.
func (s *Server) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	for _, name := range s.options.Hosts {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}
