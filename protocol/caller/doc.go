// Package caller finds out who makes a request over HTTP, and what they say of why: the same for the management API (package atom) and for
// the broker's own requests (package ledger).
//
//	desk := &caller.Desk{Access: verifier, Failures: failures}
//	grant, err := desk.Login(r, "orders", now)
//	if err == nil && grant.Rights.Has(access.Manage) { … desk.Origin(r, grant, "orders") … }
//
// It decides nothing: what a token allows is known to package access, what is answered to whoever has none to those who ask.
package caller
