package servicebus

import (
	"strings"
	"time"
)

// claims is what a connection's tokens allow (2.4, 2.6). Owned by the connection; dies with it.
type claims struct {
	granted map[string]grant // by path of the audience
	limit   int
}

// put stores a claim in the place of an older one for the same path. It refuses when there are too many.
func (c *claims) put(g grant) bool {
	if c.granted == nil {
		c.granted = make(map[string]grant)
	}
	if _, ok := c.granted[g.path]; !ok && len(c.granted) >= c.limit {
		return false
	}
	c.granted[g.path] = g
	return true
}

// allow finds a live claim with a right for a path, the closest one first. The path is lower-case and clean.
func (c *claims) allow(path string, right Rights, now time.Time) (grant, bool) {
	for p := path; ; {
		if g, ok := c.granted[p]; ok && g.rights.Has(right) && !g.expired(now) {
			return g, true
		}
		if p == "" {
			return grant{}, false
		}
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			p = p[:i]
		} else {
			p = ""
		}
	}
}

// sweep forgets expired claims and reports whether there were any.
func (c *claims) sweep(now time.Time) bool {
	found := false
	for path, g := range c.granted {
		if g.expired(now) {
			delete(c.granted, path)
			found = true
		}
	}
	return found
}

// next is the earliest expiry, zero when nothing expires.
func (c *claims) next() time.Time {
	var at time.Time
	for _, g := range c.granted {
		if !g.expires.IsZero() && (at.IsZero() || g.expires.Before(at)) {
			at = g.expires
		}
	}
	return at
}

func (g grant) expired(now time.Time) bool { return !g.expires.IsZero() && !now.Before(g.expires) }
