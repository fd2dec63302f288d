package servicebus

import "time"

// login counts what a peer has sent before its first valid token, and delays it after failures.
type login struct {
	early  int       // bytes received before the first valid token
	frozen time.Time // until then nothing is read or written
}

// received counts bytes, and reports whether the peer may send that many before its first valid
// token.
func (l *login) received(bytes int, a *allowance) bool {
	if a.loggedIn {
		return true
	}
	l.early += bytes
	return l.early <= earlyShare*a.limits.BufferedLogin
}

// failed counts a failed login against the peer's address and delays the peer after many of them.
func (l *login) failed(c *conn) {
	wait := c.onFail()
	if wait == 0 {
		return
	}
	if l.frozen.Before(c.now) {
		l.frozen = c.now
	}
	l.frozen = l.frozen.Add(wait)
	c.timers.by(c, l.frozen)
}

// waits reports whether the peer is delayed.
func (l *login) waits(now time.Time) bool { return now.Before(l.frozen) }
