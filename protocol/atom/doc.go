// Package atom is the management API over HTTP: entities, rules and the namespace as ATOM
// documents, the way administration clients of Service Bus create, change, list and delete them
// (management-api.md).
//
// It turns requests into calls of [engine.Admin] and the answers into documents. It holds no state
// of its own: [caller.Authenticator] finds out who asks, at every request and before anything is
// looked up, the engine is asked for the rest, and nothing is answered before a change is durable.
// Only package document knows what a document looks like.
//
//	h := atom.New(atom.Options{Admin: namespace, Callers: authenticator, Namespace: "local", Now: namespace.Now})
//	http.Serve(listener, h)
package atom
