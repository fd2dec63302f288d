package servicebus

import (
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// claims holds the grants of a connection's tokens (2.4, 2.6). The connection owns it.
type claims struct {
	granted  map[string]access.Grant // by path of the audience
	limit    int
	verifier *access.Verifier
}

// verify checks a token. The type that the client gives does not help: azure-servicebus for Python
// sends a shared access signature as a "jwt", and the token itself shows its type.
func (c *claims) verify(token, kind, audience string, now time.Time) (access.Grant, error) {
	switch signature := strings.HasPrefix(token, access.SASPrefix); {
	case signature, kind == "jwt", kind == "amqp:jwt":
		return c.verifier.Verify(token, audience, now)
	case kind == "servicebus.windows.net:sastoken":
		return access.Grant{}, access.ErrMalformed
	}
	return access.Grant{}, access.ErrUnsupported
}

// put stores a claim, which replaces an older one for the same path. It refuses if there are too
// many.
func (c *claims) put(g access.Grant) bool {
	if c.granted == nil {
		c.granted = make(map[string]access.Grant)
	}
	if _, ok := c.granted[g.Path]; !ok && len(c.granted) >= c.limit {
		return false
	}
	g.Path = strings.Clone(g.Path) // without the rest of the audience that it was cut from
	c.granted[g.Path] = g
	return true
}

// cost returns the bytes of memory of the claims.
func (c *claims) cost() int { return tokenCost * len(c.granted) }

// allow finds a claim that gives a right for a path now, the closest one first. The path is
// lower-case and clean. The rule behind the claim is looked up each time, because it may have
// changed (reliability.md S10).
func (c *claims) allow(path string, right access.Rights, now time.Time) (access.Grant, bool) {
	for p := path; ; {
		if g, ok := c.granted[p]; ok && c.verifier.Allows(g, path, right, now) {
			return g, true
		}
		if p == "" {
			return access.Grant{}, false
		}
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			p = p[:i]
		} else {
			p = ""
		}
	}
}

// sweep removes expired claims and reports whether there were any.
func (c *claims) sweep(now time.Time) bool {
	found := false
	for path, g := range c.granted {
		if g.Expired(now) {
			delete(c.granted, path)
			found = true
		}
	}
	return found
}

// next returns the earliest expiry, zero if nothing expires.
func (c *claims) next() time.Time {
	var at time.Time
	for _, g := range c.granted {
		if !g.Expires.IsZero() && (at.IsZero() || g.Expires.Before(at)) {
			at = g.Expires
		}
	}
	return at
}
