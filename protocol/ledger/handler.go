package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// Options names the parts of the broker that requests are about, and the authenticator of their
// callers. All fields except Memory and Logger are required.
type Options struct {
	Operations engine.Operations
	Backups    engine.Backups
	Histories  engine.Histories
	Erasures   engine.Erasures
	Live       engine.Live
	Present    *present.Namespace
	// Running returns what the running broker knows of itself.
	Running func() rows.Running
	// Receivers returns the state that connections have of the receiver links of a sub-queue.
	Receivers func(context.Context, engine.Target) engine.LinksNow
	Past      past.Source    // the logs of the broker
	Memory    *budget.Budget // nil: not bounded
	Callers   *caller.Authenticator
	Now       func() event.Time
	Logger    *slog.Logger // nil: slog.Default
}

type handler struct {
	// set once in New
	Options
	questions slots // limits long questions about the past
	shorts    slots // limits short questions about the past
	live      slots // limits questions about the present
	searches  slots // limits those that read messages
	answers   answers
	memory    past.Memory
}

// New returns the handler of the requests.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &handler{Options: o, questions: make(slots, mostQuestions), shorts: make(slots, mostShort), live: make(slots, mostLive), searches: make(slots, mostSearches)}
}

// A call is a request that is being answered.
type call struct {
	*http.Request
	h     *handler
	w     http.ResponseWriter // used by handlers that write more than a JSON answer
	now   event.Time
	grant access.Grant
	vars  map[string]string
	query url.Values
	body  []byte
	why   event.ReasonGiven
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, h: h, w: w, now: h.Now()}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			// Nothing has been written yet: every answer is written whole, at the end. The
			// exceptions are streams, which do not panic.
			h.Logger.Error("ledger: panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			c.fail(internal())
		}
	}()
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if id := caller.RequestID(r); id != "" {
		head.Set(caller.RequestHeader, id)
	}
	answer, err := c.answer()
	if err != nil {
		c.fail(c.refused(err))
		return
	}
	if s, ok := answer.(stream); ok {
		s.send(c)
		return
	}
	c.write(http.StatusOK, answer)
}

// answer returns the answer to a request, or an error if nothing was done. It checks the token
// first: a caller without one learns nothing, not even which paths exist.
func (c *call) answer() (any, error) {
	var err error
	if c.grant, err = c.h.Callers.Login(c.Request, c.URL.Path, c.now.Std()); err != nil {
		return nil, unverified(err)
	}
	r, vars, methods := find(c.Method, c.URL.Path)
	needed := access.Manage // only a caller with Manage learns that a path does not exist
	if r != nil {
		needed = r.right
	}
	switch {
	case !c.grant.Rights.Has(needed):
		return nil, refuse(http.StatusForbidden, "The token lacks the right %v, which this request needs.", needed)
	case methods != nil:
		c.w.Header().Set("Allow", strings.Join(methods, ", "))
		return nil, refuse(http.StatusMethodNotAllowed, "This path allows %s, not %.20q.", strings.Join(methods, ", "), c.Method)
	case r == nil:
		return nil, refuse(http.StatusNotFound, "Unknown request; docs/guide/ledger-api.md lists the requests of this version.")
	}
	c.vars = vars
	if c.query, err = url.ParseQuery(c.URL.RawQuery); err != nil {
		return nil, refuse(http.StatusBadRequest, "The query of the request cannot be read; percent signs and semicolons in it must be percent-encoded.")
	}
	if !r.takesQuery() && len(c.query) > 0 {
		return nil, refuse(http.StatusBadRequest, "This request has no parameter %.20q; its arguments are in its path and body.",
			slices.Min(slices.Collect(maps.Keys(c.query))))
	}
	if c.Method != http.MethodGet {
		if err := c.read(); err != nil {
			return nil, err
		}
	}
	return r.answer(c)
}

// read reads the parts of a request other than its path: the body and the reason.
func (c *call) read() (err error) {
	if c.why, err = caller.Why(c.Request); err != nil {
		return err
	}
	c.body, err = io.ReadAll(http.MaxBytesReader(c.w, c.Body, wire.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes.", large.Limit)
	case err != nil:
		return refuse(http.StatusBadRequest, "The body of the request could not be read.")
	case len(c.body) == 0:
		return nil
	}
	// A page of another origin can make a browser send bodies of other types without a preflight.
	if name, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || name != wire.ContentType {
		return refuse(http.StatusUnsupportedMediaType, "The Content-Type of a body must be %s.", wire.ContentType)
	}
	return nil
}

// arguments decodes the body into a value with a field for each argument.
func (c *call) arguments(into any) error {
	if err := wire.Arguments(c.body, into); err != nil {
		return refuse(http.StatusBadRequest, "%s.", sentence(err))
	}
	return nil
}

// extendDeadlines extends the deadlines of a request that may take longer than others. The client
// may still disconnect earlier.
func (c *call) extendDeadlines(most time.Duration) {
	until := time.Now().Add(most)
	control := http.NewResponseController(c.w)
	// after this time the server considers the client disconnected
	_ = control.SetReadDeadline(until)
	_ = control.SetWriteDeadline(until)
}

// origin returns the origin of a change: the caller, its address and its program.
func (c *call) origin() *engine.Origin {
	return c.h.Callers.Origin(c.Request, c.grant, "ledger", c.URL.Path)
}

func (c *call) write(status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	text = append(text, '\n')
	c.w.Header().Set("Content-Type", wire.ContentType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text) // the caller may have disconnected
}
