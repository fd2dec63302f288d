package atom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// refusal is an answer with a status of 400 or more (management-api.md 2.10).
type refusal struct {
	status  int
	subCode int // 0: not shown
	text    string
}

func (e *refusal) Error() string { return e.text }

func refuse(status, subCode int, format string, args ...any) *refusal {
	return &refusal{status: status, subCode: subCode, text: fmt.Sprintf(format, args...)}
}

// Sub-codes of quotas. Clients only require that they are not 40301.
const (
	overEntities           = 40300 // and authorization rules
	overSQLFilters         = 40501
	overCorrelationFilters = 40502
	overSubscriptions      = 40503
)

func badRequest(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, 40000, format, args...)
}

func internal() *refusal {
	return refuse(http.StatusInternalServerError, 50002, "The server was unable to process the request; please retry the operation.")
}

// Texts that clients look for.
func conflict() *refusal { return refuse(http.StatusConflict, 40900, "Conflict.") }

func noOperation() *refusal {
	return refuse(http.StatusNotFound, 40400, "Not Found. The Operation doesn't exist.")
}

func noService() *refusal {
	return refuse(http.StatusNotFound, 0, "No service is hosted at the specified address.")
}

// shownPath returns the path of a request for error texts: decoded, or as it was sent if it does
// not decode to text, such as /per%cent.
func shownPath(r *http.Request) string {
	path := r.URL.Path
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		path = r.URL.EscapedPath()
	}
	return caller.Clip(path, maxShown)
}

// messagingEntity returns the name of the request's subscription or rule for texts.
func (r *request) messagingEntity() string {
	name := r.h.Namespace + ":Topic:" + r.route.entity + "|" + r.route.subscription
	if r.route.rule != "" {
		name += "|" + r.route.rule
	}
	return name
}

func (r *request) couldNotBeFound() *refusal {
	return refuse(http.StatusNotFound, 0, "The messaging entity '%s' could not be found.", r.messagingEntity())
}

func (r *request) alreadyExists() *refusal {
	if r.route.kind == entityPath {
		return conflict()
	}
	return refuse(http.StatusConflict, 0, "The messaging entity '%s' already exists.", r.messagingEntity())
}

// ruleNotFound returns the answer to a read or change of a rule that does not exist.
func (r *request) ruleNotFound() *refusal {
	return refuse(http.StatusNotFound, 0, "Entity '%s' was not found.", r.messagingEntity())
}

// refused turns an error of the engine into an answer; missing is the answer if the entity or rule
// does not exist.
func (r *request) refused(err error, missing *refusal) error {
	var e *engine.Error
	var ours *refusal
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// the client has disconnected, or no longer waits
		return refuse(http.StatusServiceUnavailable, 50004, "The server is busy; please retry the operation.")
	default:
		r.h.logger.Error("atom: request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		return internal()
	}
	switch e.Code {
	case engine.NotFound:
		return missing
	case engine.AlreadyExists:
		return r.alreadyExists()
	case engine.QuotaExceeded, engine.EntityFull:
		return refuse(http.StatusForbidden, r.quota, "%s", e.Text)
	case engine.Busy, engine.Timeout:
		return refuse(http.StatusServiceUnavailable, 50004, "The server is busy; please retry the operation. %s", e.Text)
	}
	return badRequest("%s", e.Text)
}

// fail answers with an error. SDKs log the whole text, and users quote it in questions.
func (r *request) fail(w http.ResponseWriter, err error) {
	e, ok := err.(*refusal)
	if !ok {
		r.h.logger.Error("atom: request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		e = internal()
	}
	detail, tracker := e.text, "NoSystemTracker"
	if e.subCode != 0 {
		detail = fmt.Sprintf("SubCode=%d. %s", e.subCode, e.text)
		tracker = caller.Clip(hostName(r.Host), maxShown) + ":" + shownPath(r.Request)
	}
	id := uuid.NewString()
	detail += fmt.Sprintf(" To know more visit https://aka.ms/sbResourceMgrExceptions. . TrackingId:%s_G0, SystemTracker:%s, Timestamp:%s",
		id, tracker, r.now.Std().Format("2006-01-02T15:04:05"))
	r.h.logger.Debug("atom: refused", "method", r.Method, "path", r.URL.Path, "status", e.status, "text", e.text, "tracking", id)
	if e.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", r.route.allowed())
	}
	write(w, e.status, "application/xml; charset=utf-8", document.AppendError(nil, &document.Error{Code: e.status, Detail: detail}))
}
