package servicebus

import "github.com/ledgerbus/ledgerbus/internal/budget"

// allowance holds the limits of a peer: they are small before its first valid token.
type allowance struct {
	limits   *Limits
	loggedIn bool // the peer has presented a valid token
	shut     bool // there is no memory for transfers
}

// login notes the first valid token.
func (a *allowance) login() { a.loggedIn = true }

// buffers returns the bytes that may wait on the connection: of sends, and of output.
func (a *allowance) buffers() (in, out int) {
	l := a.limits
	if a.loggedIn && a.shut {
		return l.BufferedIn, min(l.BufferedOut, budget.Promised)
	}
	if a.loggedIn {
		return l.BufferedIn, l.BufferedOut
	}
	return min(l.BufferedLogin, l.BufferedIn), min(l.BufferedLogin, l.BufferedOut)
}

// held returns the number of bytes that the connection may keep.
func (a *allowance) held() int {
	if a.loggedIn {
		return a.limits.Held
	}
	return min(a.limits.BufferedLogin, a.limits.Held)
}

// window returns the incoming window of sessions. A session that began before the login gets the
// larger one with its next flow.
func (a *allowance) window() uint32 {
	if a.shut {
		return 0
	}
	if a.loggedIn {
		return a.limits.Window
	}
	return min(a.limits.WindowLogin, a.limits.Window)
}

func (a *allowance) sessions() int {
	if a.loggedIn {
		return a.limits.Sessions
	}
	return a.limits.SessionsLogin
}

// declared returns the number of transactions that may be open. Clients have one in each session,
// or many in one.
func (a *allowance) declared() int {
	if a.loggedIn {
		return max(a.limits.Transactions, a.limits.Sessions)
	}
	return a.limits.SessionsLogin
}

func (a *allowance) links() int {
	if a.loggedIn {
		return a.limits.Links
	}
	return 2 * a.limits.SessionsLogin
}

// detached returns the number of links that may wait for the peer's detach: twice the number of
// links, because a peer may lose all of them at once and attach them again before it has detached
// the old ones.
func (a *allowance) detached() int {
	if a.loggedIn {
		return 2 * a.limits.Links
	}
	return 2 * a.limits.SessionsLogin
}

// spareOutput returns the maximum number of bytes kept for the next output.
func (a *allowance) spareOutput() int {
	if a.loggedIn {
		return 4 * highWater
	}
	return smallChunk
}
