// Package access decides who may do what: one authorisation for AMQP and HTTP (reliability.md S5 to
// S10, management-api.md 5). It knows tokens, access rules and paths; it knows no connection, and
// of entities only the rules it is told.
//
// A [Verifier] turns a token into a [Grant] for the resource it was shown for, and says later
// whether the grant still holds:
//
//	v := access.New(access.Options{Rules: rules, Hosts: []string{"bus.example"}})
//	g, err := v.Verify(token, "sb://bus.example/orders", now)
//	if err == nil && v.Allows(g, "orders/$deadletterqueue", access.Listen, now) { … }
//
// Tokens are shared access signatures, or JWTs of the one issuer that was configured (see
// [NewJWT]). Whatever goes wrong, the answer is no.
//
// A Verifier may be used from many goroutines; its rules can be replaced while it is in use.
package access
