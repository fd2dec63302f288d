// Package atom is the management API over HTTP: entities, rules and the namespace as ATOM documents, the way administration
// clients of Service Bus create, change, list and delete them (management-api.md).
//
// It turns requests into calls of [engine.Admin] and the answers into documents. It holds no state of its own: who asks
// is found out by [caller.Authenticator] at every request, before it is known whether the thing is there; the rest is asked of the
// engine, and nothing is answered before a change is durable. What a document looks like is known to package document alone.
//
//	h := atom.New(atom.Options{Admin: namespace, Callers: authenticator, Namespace: "local", Now: namespace.Now})
//	http.Serve(listener, h)
package atom
