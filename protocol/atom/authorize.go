package atom

import (
	"errors"
	"net/http"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// authenticate checks the token of a request for its path, and looks up the queue or topic there.
func (r *request) authenticate() error {
	var err error
	r.grant, err = r.h.Callers.Login(r.Request, r.route.path, r.now.Std())
	switch {
	case errors.Is(err, access.ErrScope) && !r.route.isClean():
		// no token covers such a path, but this one is signed: its owner may know what is wrong
		return nil
	case errors.Is(err, caller.ErrNoToken):
		return refuse(http.StatusUnauthorized, 0, "MissingToken: The authorization header was not found.")
	case errors.Is(err, caller.ErrPlain):
		return refuse(http.StatusUnauthorized, 40100, "Unauthorized: Basic authentication is accepted only over TLS and on loopback; elsewhere others could read the key.")
	case errors.Is(err, caller.ErrAddress):
		return refuse(http.StatusTooManyRequests, 0, "Too many tokens from this address were invalid; try again in a minute.")
	case err != nil:
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

// unverified returns the refusal for a token that was not accepted.
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
		return refuse(status, 40103, "InvalidSignature: The token is signed with an unknown key, or its signature is wrong.")
	}
	return refuse(status, 40100, "Unauthorized: Tokens of this kind are not accepted.")
}

// operations are the names that 401 texts have for reading, listing, writing and deleting a part of
// a topic.
var operations = map[routeKind]map[string]string{
	subscriptionsPath: {http.MethodGet: "EnumerateSubscriptions"},
	subscriptionPath:  {http.MethodGet: "GetSubscription", http.MethodPut: "CreateOrUpdateSubscription", http.MethodDelete: "DeleteSubscription"},
	rulesPath:         {http.MethodGet: "EnumerateRules", http.MethodPut: "CreateOrUpdateRule"},
	rulePath:          {http.MethodGet: "GetRule", http.MethodPut: "CreateOrUpdateRule", http.MethodDelete: "DeleteRule"},
}

// authorize checks that the token gives the right for the request (management-api.md 5.1). The
// answers do not depend on what exists, with one exception that clients test for: with any token
// for a path, the answer says whether the queue or topic exists.
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

// Limits of a client's texts in an answer, in bytes.
const (
	maxShown = 400
	maxName  = 128
)

// origin returns the origin of a change: the caller and its address.
func (r *request) origin() *engine.Origin {
	return r.h.Callers.Origin(r.Request, r.grant, "management", r.route.path)
}
