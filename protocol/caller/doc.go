// Package caller identifies the caller of an HTTP request and reads the reason it gives. The
// management API (package atom) and the broker's own requests (package ledger) share it.
//
//	authenticator := &caller.Authenticator{Access: verifier, Failures: failures}
//	grant, err := authenticator.Login(r, "orders", now)
//	if err == nil && grant.Rights.Has(access.Manage) { … authenticator.Origin(r, grant, "management", "orders") … }
//
// It makes no decisions: package access knows which operations a token allows, and the user of this
// package decides how to answer a request without one.
package caller
