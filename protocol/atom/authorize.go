package atom

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// authenticate checks the token of a request for the path it is about, and looks up the queue or topic there.
func (r *request) authenticate() error {
	r.token = r.Header.Get("Authorization")
	if r.token == "" {
		return refuse(http.StatusUnauthorized, 0, "MissingToken: The authorization header was not found.")
	}
	if r.refusedAddress() {
		return refuse(http.StatusTooManyRequests, 0, "Too many tokens of this address were bad; try again in a minute.")
	}
	var err error
	r.grant, err = r.h.Access.VerifyPath(r.token, r.route.path, r.now.Std())
	if errors.Is(err, access.ErrScope) && !r.route.isClean() {
		return nil // no token covers such a path, but this one is signed: its owner may know what is wrong
	}
	if err != nil {
		r.loginFailed(err)
		return unverified(err)
	}
	switch r.route.kind {
	case queuesPath, topicsPath, namespacePath:
	default:
		if e, ok := r.h.Admin.Find(r.route.entity); ok && e.Kind != event.Subscription {
			r.entity = e
		}
	}
	return nil
}

// peer is the address a request came from, without port.
func (r *request) peer() string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (r *request) refusedAddress() bool {
	return r.h.Failures != nil && r.h.Failures.Refused(r.peer(), r.now.Std())
}

// loginFailed counts a token that nobody signed, and lets its sender wait when there have been many. One that has expired, or is
// for another resource, was signed with a key.
func (r *request) loginFailed(err error) {
	if r.h.Failures == nil || errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrScope) {
		return
	}
	wait, refused := r.h.Failures.Failed(r.peer(), r.now.Std())
	if refused {
		r.h.logger.Warn("atom: address refused after bad tokens", "address", r.peer())
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// unverified tells what is wrong with a token.
func unverified(err error) error {
	const status = http.StatusUnauthorized
	switch {
	case errors.Is(err, access.ErrExpired):
		return refuse(status, 40106, "ExpiredToken: The token has expired.")
	case errors.Is(err, access.ErrScope):
		return refuse(status, 40104, "InvalidAudience: The token is not for this resource.")
	case errors.Is(err, access.ErrMalformed):
		return refuse(status, 40105, "MalformedToken: The token cannot be read; a claim is empty or missing.")
	case errors.Is(err, access.ErrSignature):
		return refuse(status, 40103, "InvalidSignature: The token is of an unknown key or badly signed.")
	}
	return refuse(status, 40100, "Unauthorized: Tokens of this kind are not accepted.")
}

// operations are what 401 texts call reading, listing, writing and deleting of what belongs to a topic.
var operations = map[routeKind]map[string]string{
	subscriptionsPath: {http.MethodGet: "EnumerateSubscriptions"},
	subscriptionPath:  {http.MethodGet: "GetSubscription", http.MethodPut: "CreateOrUpdateSubscription", http.MethodDelete: "DeleteSubscription"},
	rulesPath:         {http.MethodGet: "EnumerateRules", http.MethodPut: "CreateOrUpdateRule"},
	rulePath:          {http.MethodGet: "GetRule", http.MethodPut: "CreateOrUpdateRule", http.MethodDelete: "DeleteRule"},
}

// authorize checks that the token gives the right to do what is asked (management-api.md 5.1). The answers do not depend on what
// there is, but for one that clients test: that there is no queue or topic is told to whoever has a token for its path.
func (r *request) authorize() error {
	rights := r.grant.Rights
	switch r.route.kind {
	case namespacePath:
		if rights != 0 {
			return nil
		}
		return unauthorized("Manage,EntityRead claims required for this operation.")
	case rulesPath, rulePath:
		if r.Method == http.MethodGet && rights.Has(access.Listen) {
			return nil
		}
	}
	if rights.Has(access.Manage) {
		return nil
	}
	if operation := operations[r.route.kind][r.Method]; operation != "" {
		return refuse(http.StatusUnauthorized, 0, "401 SubCode=40100: Unauthorized : Unauthorized access for '%s' operation on endpoint 'sb://%s/%s'.",
			operation, r.Host, r.route.path)
	}
	switch r.Method {
	case http.MethodPut:
		return unauthorized("Authorization failed for specified action: Manage,EntityWrite.")
	case http.MethodDelete:
		return unauthorized("Authorization failed for specified action: Manage,EntityDelete.")
	}
	if r.route.kind == entityPath && r.entity == nil {
		return nil
	}
	return unauthorized("Manage,EntityRead claims required for this operation.")
}

func unauthorized(text string) error {
	return refuse(http.StatusUnauthorized, 0, "%s", text)
}

// Bounds of what a client can put into the audit.
const (
	maxProduct = 128
	maxAddress = 64
	maxPath    = 400

	maxRequestID = 256
)

// origin says where a change comes from.
func (r *request) origin() *engine.Origin {
	return &engine.Origin{
		Connection: firstConnection + r.h.requests.Add(1), RemoteAddress: clip(r.RemoteAddr, maxAddress), Product: clip(r.UserAgent(), maxProduct),
		Principal: clip(r.grant.Rule, maxProduct), Link: "management", Entity: clip(r.route.path, maxPath),
	}
}

// clip cuts a text to so many bytes, at the end of a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
