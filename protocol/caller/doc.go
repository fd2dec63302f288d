// Package caller finds out who makes a request over HTTP, and what they say of why: the same for
// the management API (package atom) and for the broker's own requests (package ledger).
//
//	authenticator := &caller.Authenticator{Access: verifier, Failures: failures}
//	grant, err := authenticator.Login(r, "orders", now)
//	if err == nil && grant.Rights.Has(access.Manage) { … authenticator.Origin(r, grant, "management", "orders") … }
//
// It decides nothing: package access knows what a token allows, and the caller of this package what
// to answer to a request without one.
package caller
