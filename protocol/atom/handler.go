package atom

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// Options configures the API. All fields except Logger and Hosts are required.
type Options struct {
	Admin     engine.Admin
	Callers   *caller.Authenticator
	Namespace string      // name in documents and error texts
	Tier      engine.Tier // limits the values of entities
	Created   time.Time   // when the namespace was made
	Now       func() event.Time
	Logger    *slog.Logger // nil: slog.Default
	// Hosts are the host names, without port, that requests may use, besides localhost and
	// addresses (reliability.md S24); nil: any.
	Hosts []string
}

type handler struct {
	// set once in New
	Options
	logger *slog.Logger
	hosts  map[string]bool // nil: any

	answers atomic.Uint64 // number of not-found feeds, for their ids
}

// New returns the handler of the API. It does not answer /health, the only path that needs no
// token: package listen does.
func New(o Options) http.Handler {
	h := &handler{Options: o, logger: o.Logger}
	if h.logger == nil {
		h.logger = slog.Default()
	}
	if o.Hosts != nil {
		h.hosts = map[string]bool{"localhost": true}
		for _, name := range o.Hosts {
			h.hosts[hostName(name)] = true
		}
	}
	return h
}

// request is a request that is being answered.
type request struct {
	*http.Request
	h       *handler
	route   route
	version document.Version
	now     event.Time
	grant   access.Grant
	why     event.ReasonGiven
	entity  *engine.Entity    // the queue or topic of the path; nil: it does not exist
	quota   int               // sub-code of the quota that a change may exceed
	options map[string]string // of a list, see optionsOf
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, h: h, now: h.Now(), quota: overEntities}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default: // nothing has been written: every answer is written whole, at the end
			h.logger.Error("atom: panic", "method", hr.Method, "path", hr.URL.Path, "panic", p, "stack", string(debug.Stack()))
			r.fail(w, internal())
		}
	}()
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store") // answers contain keys
	if id := caller.RequestID(hr); id != "" {
		head.Set(caller.RequestHeader, id)
	}
	if err := r.answer(w); err != nil {
		r.fail(w, err)
	}
}

// answer answers a request, or returns an error and has written nothing. It checks the token first:
// a caller without one learns nothing, not even which paths exist (reliability.md S21).
func (r *request) answer(w http.ResponseWriter) error {
	if !r.h.knownHost(r.Host) {
		return refuse(http.StatusMisdirectedRequest, 0, "Unknown host name; the setting hosts lists the names of this broker.")
	}
	r.route = parseRoute(r.URL.Path)
	if err := r.authenticate(); err != nil {
		return err
	}
	// whatever rights the token gives: the rights for messages are not checked here
	if name := r.messaging(); name != "" {
		return r.notImplemented(name)
	}
	if !r.route.isClean() {
		return badRequest("The path '%s' has an empty segment, a segment of dots, a dot at its end, or a character that no name can have.", shownPath(r.Request))
	}
	serve, err := r.method()
	if err != nil {
		return err
	}
	if err := r.authorize(); err != nil {
		return err
	}
	if err := r.acceptable(); err != nil {
		return err
	}
	if r.entity != nil {
		w.Header().Set("ETag", etag(r.entity))
		// an entity made by an older version has one partition
		if r.entity.Properties.EnablePartitioning {
			w.Header().Set("Ledgerbus-Partitions", strconv.Itoa(len(r.entity.Hosts)))
		}
	}
	return serve(r, w)
}

// acceptable checks what every request must have besides a token: a version, and with a body the
// type of a document.
func (r *request) acceptable() error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("The query of the request cannot be read; percent signs and semicolons in it must be percent-encoded.")
	}
	if r.options, err = optionsOf(q, r.route.kind); err != nil {
		return err
	}
	var ok bool
	r.version, ok = document.ParseVersion(q.Get("api-version"))
	// the root has nothing that depends on the version
	if root := r.route.path == "" && r.Method == http.MethodGet && !q.Has("api-version"); !ok && !root {
		return badRequest("The api-version in the query of the request is missing or is not a year and a month, such as 2021-05.")
	}
	if r.Method == http.MethodGet {
		return nil
	}
	if r.why, err = caller.Why(r.Request); err != nil {
		return badRequest("%s", err)
	}
	if r.ContentLength == 0 {
		return nil
	}
	for _, text := range r.Header.Values("Content-Type") { // old tools send none
		if !isXML(text) {
			return refuse(http.StatusUnsupportedMediaType, 40000, "The Content-Type of the request is not an XML type, such as application/atom+xml.")
		}
	}
	return nil
}

// isXML reports whether a Content-Type is an XML type, whatever its parameters.
func isXML(contentType string) bool {
	name, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	return name == "application/xml" || name == "text/xml" || strings.HasSuffix(name, "+xml")
}

// method returns the function for a request. Reads change nothing, whatever their body.
func (r *request) method() (func(*request, http.ResponseWriter) error, error) {
	if r.route.kind == subQueue {
		return nil, r.wrongMethod(http.StatusBadRequest)
	}
	of := methods[r.route.kind]
	switch r.Method {
	case http.MethodGet:
		if of.get != nil {
			return of.get, nil
		}
	case http.MethodPut:
		if of.put != nil {
			return of.put, nil
		}
	case http.MethodDelete:
		if of.delete != nil {
			return of.delete, nil
		}
	}
	return nil, r.wrongMethod(http.StatusMethodNotAllowed)
}

func (r *request) wrongMethod(status int) error {
	return refuse(status, 0, "The specified HTTP verb (%s) is not valid.", r.Method)
}

// methods maps the kind of a path to its operations (management-api.md 1.2).
var methods [routeKinds]struct {
	get, put, delete func(*request, http.ResponseWriter) error
}

func init() {
	methods[entityPath].get, methods[entityPath].put, methods[entityPath].delete = (*request).getEntity, (*request).putEntity, (*request).deleteEntity
	methods[subscriptionPath] = methods[entityPath]
	methods[rulePath].get, methods[rulePath].put, methods[rulePath].delete = (*request).getRule, (*request).putRule, (*request).deleteRule
	methods[rulesPath].get, methods[rulesPath].put = (*request).listRules, (*request).putRule
	methods[subscriptionsPath].get = (*request).listSubscriptions
	methods[queuesPath].get, methods[topicsPath].get = (*request).listEntities, (*request).listEntities
	methods[namespacePath].get = (*request).getNamespace
}

// body reads the body and decodes its entry.
func (r *request) body(w http.ResponseWriter) (*document.Entry, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(document.RequestLimits.Bytes)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, 40000, "The body has more than %d bytes.", large.Limit)
	case err != nil:
		return nil, badRequest("The body of the request could not be read.")
	}
	doc, err := document.Parse(data, document.Options{Limits: document.RequestLimits, Defaults: r.h.defaults})
	var value *document.ValueError
	switch {
	case errors.As(err, &value):
		return nil, badRequest("%s", value.Text)
	case err != nil:
		return nil, badRequest("The body of the request cannot be read as a document: %s.", caller.Clip(err.Error(), maxShown))
	case doc.Entry == nil:
		return nil, badRequest("The body of the request is not an entry.")
	}
	return doc.Entry, nil
}
