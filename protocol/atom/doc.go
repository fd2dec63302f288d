// Package atom is the management API over HTTP. Administration clients of Service Bus use it to
// create, change, list and delete entities and rules, as ATOM documents (management-api.md).
//
// It turns requests into calls of [engine.Admin] and the answers into documents. It holds no state.
// [caller.Authenticator] identifies the caller of every request before anything is looked up, and
// the engine knows the rest. A change is answered once it is durable. Only package document knows
// the form of a document.
//
//	h := atom.New(atom.Options{Admin: namespace, Callers: authenticator, Namespace: "local", Now: namespace.Now})
//	http.Serve(listener, h)
package atom
