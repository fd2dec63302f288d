// Package ledger answers the broker's own requests: /$ledger/v1/… beside the management API, on the
// same port and by the same tokens. What Service Bus has no word for is asked here;
// docs/guide/ledger-api.md is its description, package wire its JSON.
//
//	h := ledger.New(ledger.Options{Operations: namespace, Callers: authenticator, Now: namespace.Now})
//	if ledger.Owns(r.URL.Path) { h.ServeHTTP(w, r) }
//
// Every request is a row of one table (routes.go): method, path, the right that it takes, and what
// answers it. A caller without a token is told nothing, not even what paths there are; one whose
// token lacks the right, only that. The package holds no state of its own.
package ledger
