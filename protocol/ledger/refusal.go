package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// A refusal is an answer with a status of 400 or more.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// codes maps each status to the code that programs read.
var codes = map[int]string{
	http.StatusBadRequest:            "invalid",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "not-found",
	http.StatusMethodNotAllowed:      "method-not-allowed",
	http.StatusConflict:              "conflict",
	http.StatusRequestEntityTooLarge: "too-large",
	http.StatusUnsupportedMediaType:  "not-json",
	http.StatusTooManyRequests:       "too-many-bad-tokens",
	http.StatusInternalServerError:   "internal",
	http.StatusServiceUnavailable:    "busy",
}

func internal() *refusal {
	return refuse(http.StatusInternalServerError, "The request could not be carried out; the broker's log says why.")
}

// unverified returns the answer to a request whose token was not accepted.
func unverified(err error) *refusal {
	const status = http.StatusUnauthorized
	switch {
	case errors.Is(err, caller.ErrNoToken):
		return refuse(status, "Missing Authorization header; send a shared access signature or the name and key (Basic) of an access rule of the namespace, or a bearer token.")
	case errors.Is(err, caller.ErrPlain):
		return refuse(status, "Basic authentication is accepted only over TLS and on loopback; elsewhere others could read the key.")
	case errors.Is(err, caller.ErrAddress):
		return refuse(http.StatusTooManyRequests, "Too many tokens from this address were invalid; try again in a minute.")
	case errors.Is(err, access.ErrExpired):
		return refuse(status, "The token has expired.")
	case errors.Is(err, access.ErrScope):
		return refuse(status, "The token is for another resource; a token for the namespace is needed.")
	case errors.Is(err, access.ErrMalformed):
		return refuse(status, "The token cannot be read.")
	case errors.Is(err, access.ErrSignature):
		return refuse(status, "The token is signed with an unknown key, its signature is wrong, or no rule has this name and key.")
	}
	return refuse(status, "Tokens of this kind are not accepted.")
}

// refused turns an error into an answer. For refusals of the engine the answer has the engine's
// text.
func (c *call) refused(err error) *refusal {
	if r, ok := err.(*refusal); ok {
		return r
	}
	var e *engine.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// the client has disconnected, or the deadline has passed
		return refuse(http.StatusServiceUnavailable, "The request timed out; it may still be carried out.")
	default:
		c.h.Logger.Error("ledger: request failed", "method", c.Method, "path", c.URL.Path, "error", err)
		return internal()
	}
	status := http.StatusBadRequest
	switch e.Code {
	case engine.NotFound:
		status = http.StatusNotFound
	case engine.NotAllowed, engine.AlreadyExists:
		status = http.StatusConflict
	case engine.Busy, engine.Timeout:
		status = http.StatusServiceUnavailable
	}
	return refuse(status, "%s", e.Text)
}

// fail answers with an error.
func (c *call) fail(e *refusal) {
	c.h.Logger.Debug("ledger: refused", "method", c.Method, "path", c.URL.Path, "status", e.status, "text", e.text)
	switch e.status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		c.w.Header().Set("Retry-After", "1")
	}
	c.write(e.status, wire.Failure{Error: wire.Error{Code: codes[e.status], Message: e.text}})
}

// sentence returns an error as the beginning of a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
