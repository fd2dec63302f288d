// Package ledger answers the broker's own requests, /$ledger/v1/…, on the port of the management
// API and with the same tokens. It serves what Service Bus has no request for.
// docs/guide/ledger-api.md describes the requests; package wire has their JSON.
//
//	h := ledger.New(ledger.Options{Operations: namespace, Callers: authenticator, Now: namespace.Now})
//	if ledger.Owns(r.URL.Path) { h.ServeHTTP(w, r) }
//
// Every request is a row of one table (routes.go): its method, its path, the right that it needs,
// and the function that answers it. A caller without a token learns nothing, not even which paths
// exist. A caller whose token lacks the right learns only that. The package holds no state.
package ledger
