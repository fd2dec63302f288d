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
	maxHeader  = 16<<10 - 4<<10 // bytes; net/http allows 4 KiB more than it is told
	maxBody    = 64 << 10
)

// What the emulator answers (management-api.md 4.1).
const (
	healthy   = `{"status":"healthy","message":"Service is healthy."}`
	unhealthy = `{"status":"unhealthy","message":"Service not available. Please try after some time."}`
)

// healthTime is how long the broker may take to show that it works.
const healthTime = 5 * time.Second

// probe is a question about the broker that needs no token.
type probe struct {
	ask     func(context.Context) error // nil: all is well
	yes, no string                      // the answers, JSON objects
}

// probes are the questions by path. With an api-version a request for one of these paths is about
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
	// Not a ServeMux, which redirects unclean paths before anybody has looked at the token
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
		ConnState:                    s.answering.state,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is answered like any other request
	}
}

// lingers is how long Close waits for HTTP connections that are about to end: net/http gives a peer
// half a second to read its answer before it closes.
const lingers = time.Second

// answering counts the connections that net/http has.
type answering struct {
	mu   sync.Mutex // guards what follows
	open int
	none chan struct{} // closed when there is none any more; nil: nobody waits for that
}

// state counts connections; net/http calls it. One that carries AMQP is no longer net/http's.
func (a *answering) state(_ net.Conn, now http.ConnState) {
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

// wait returns when net/http has no connection left, or after lingers: an answer may be waiting for
// the disk. It is called once.
func (a *answering) wait() {
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

// complete adds what net/http does not know of a request and links in answers need: that it came
// inside TLS, which ends in our own connections, and the address it came to, for a client of
// HTTP/1.0 that named no host.
func complete(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(requestKey{}).(*request); ok {
			known := *r
			if e, ok := c.Conn.(*encrypted); ok {
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
	conditions := s.conditions() // as they are by now
	answer := s.report(p.yes, conditions)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		// the client has not gone, which would be the error; and no condition is there, which would
		// be in the log already
		if r.Context().Err() == nil && len(conditions) == 0 {
			s.logger.Warn("not healthy", "asked", r.URL.Path, "error", err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = s.report(p.no, conditions)
	}
	_, _ = io.WriteString(w, answer) // the client may have gone
}

// run returns what is wrong, which only the log says, because probes take no token.
func (p probe) run(ctx context.Context) error {
	if p.ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	return p.ask(ctx)
}

// conditions are the states that last.
func (s *Server) conditions() []Condition {
	if s.options.Conditions == nil {
		return nil
	}
	return s.options.Conditions()
}

// report is an answer about health: that of the emulator with the conditions and notices, if there
// are any, behind it.
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

// checkHost refuses requests that came to loopback under a name that is not ours: a page of another
// site gave its own name our address, and its scripts would be let in as if they came from here
// (DNS rebinding, reliability.md S24).
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(requestKey{}).(*request); ok && isLoopback(c.LocalAddr()) && !s.isOurs(r.Host) {
			http.Error(w, "The host name is not one of this broker's; the setting hosts lists those that are.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses changes that the page of another origin asks a browser for (reliability.md
// S23). Clients that are no browsers say nothing of an origin. The upgrade to a WebSocket is a GET,
// whose origin package websocket checks.
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
// another.
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
