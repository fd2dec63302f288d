// Package access decides which operations a caller is allowed: one authorisation for AMQP and HTTP
// (reliability.md S5 to S10, management-api.md 5). It knows tokens, access rules and paths. It
// knows no connections, and of entities only the rules it is given.
//
// A [Verifier] turns a token into a [Grant] for the resource that it was presented for, and later
// reports whether the grant still holds:
//
//	v := access.New(access.Options{Rules: rules, Hosts: []string{"bus.example"}})
//	g, err := v.Verify(token, "sb://bus.example/orders", now)
//	if err == nil && v.Allows(g, "orders/$deadletterqueue", access.Listen, now) { … }
//
// Tokens are shared access signatures, or JWTs of the one configured issuer (see [NewJWT]). Every
// error refuses access.
//
// A Verifier may be used from many goroutines. Its rules can be replaced while it is in use.
package access
