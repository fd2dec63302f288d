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
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// Options says whom the requests are about and who may make them. All but Memory and Logger are
// needed.
type Options struct {
	Operations engine.Operations
	Backups    engine.Backups
	Histories  engine.Histories
	Erasures   engine.Erasures
	Live       engine.Live
	// Receivers is what connections know of the receiver links of a sub-queue.
	Receivers func(context.Context, engine.Target) engine.LinksNow
	Past      past.Source    // the logs of the broker
	Memory    *budget.Budget // nil: nothing bounds it
	Callers   *caller.Authenticator
	Now       func() event.Time
	Logger    *slog.Logger // nil: slog.Default
}

type handler struct {
	// set once in New
	Options
	questions slots
	looks     slots // at receivers
	answers   answers
	memory    past.Memory
}

// New makes the handler of the requests.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &handler{Options: o, questions: make(slots, mostQuestions), looks: make(slots, mostLooks)}
}

// call is a request that is being answered.
type call struct {
	*http.Request
	h     *handler
	w     http.ResponseWriter // for what a handler needs beside its answer
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
			// nothing has been written: every answer is written whole, as the last thing, but for
			// streams, which do not panic
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

// answer answers a request, or returns why not and has done nothing. The token is checked first:
// without one nothing is told, not even what paths there are.
func (c *call) answer() (any, error) {
	var err error
	if c.grant, err = c.h.Callers.Login(c.Request, c.URL.Path, c.now.Std()); err != nil {
		return nil, unverified(err)
	}
	r, vars, methods := find(c.Method, c.URL.Path)
	needed := access.Manage // it takes Manage to be told that there is no such path
	if r != nil {
		needed = r.right
	}
	switch {
	case !c.grant.Rights.Has(needed):
		return nil, refuse(http.StatusForbidden, "This request needs the right %v, which the token does not give.", needed)
	case methods != nil:
		c.w.Header().Set("Allow", strings.Join(methods, ", "))
		return nil, refuse(http.StatusMethodNotAllowed, "This path allows %s, not %.20q.", strings.Join(methods, ", "), c.Method)
	case r == nil:
		return nil, refuse(http.StatusNotFound, "There is no such request; docs/guide/ledger-api.md lists those of this version.")
	}
	c.vars = vars
	if c.query, err = url.ParseQuery(c.URL.RawQuery); err != nil {
		return nil, refuse(http.StatusBadRequest, "The query of the request cannot be read; in it, percent signs and semicolons are percent-encoded.")
	}
	if !r.takesQuery() && len(c.query) > 0 {
		return nil, refuse(http.StatusBadRequest, "This request has no parameter %.20q; what it takes stands in its path and its body.",
			slices.Min(slices.Collect(maps.Keys(c.query))))
	}
	if c.Method != http.MethodGet {
		if err := c.read(); err != nil {
			return nil, err
		}
	}
	return r.answer(c)
}

// read reads what a request brings along beside its path: a body and a reason.
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
	// A page of another origin can make a browser send a body of other types without asking.
	if name, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || name != wire.ContentType {
		return refuse(http.StatusUnsupportedMediaType, "The Content-Type of a body must be %s.", wire.ContentType)
	}
	return nil
}

// arguments reads what the body says into a value with a field for each argument.
func (c *call) arguments(into any) error {
	if err := wire.Arguments(c.body, into); err != nil {
		return refuse(http.StatusBadRequest, "%s.", sentence(err))
	}
	return nil
}

// takes lets a request take longer than others. Nothing keeps a client from going away earlier.
func (c *call) takes(most time.Duration) {
	until := time.Now().Add(most)
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(until) // at which the server takes the client for gone
	_ = control.SetWriteDeadline(until)
}

// origin says where a change comes from.
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
	_, _ = c.w.Write(text) // whoever asked may have gone
}
