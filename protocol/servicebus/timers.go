package servicebus

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

var errGrace = errors.New("servicebus: the peer did not answer the close")

// timers holds everything that a connection does at a certain time. One timer wakes the loop at the
// earliest deadline; if a deadline has moved, that is found when the timer fires.
type timers struct {
	timer   *time.Timer
	at      time.Time // when the timer fires
	began   time.Time
	heard   time.Time // last bytes from the peer
	spoke   time.Time // last bytes to it
	noLinks time.Time // since when there are no links; zero: there are links
	// attached links except those to $cbs, which alone must not keep an unused connection open
	links   int
	hadLink bool
	closeBy time.Time // end of the peer's time after the broker's close
	// since when the connection has exceeded its share while memory is short; zero: it has not
	stuck time.Time
}

func (t *timers) start(c *conn) {
	t.began, t.heard, t.spoke, t.noLinks = c.now, c.now, c.now, c.now
	t.at = c.now.Add(c.limits.Handshake)
	t.timer = time.NewTimer(c.limits.Handshake)
}

// by makes the timer fire at a certain time at the latest.
func (t *timers) by(c *conn, at time.Time) {
	if at.Before(t.at) {
		t.at = at
		t.timer.Reset(max(0, at.Sub(c.now)))
	}
}

func (t *timers) opened(c *conn) { t.rearm(c) }

func (t *timers) closing(c *conn) {
	t.closeBy = c.now.Add(c.limits.Close)
	t.by(c, t.closeBy)
}

func (t *timers) attached(c *conn) {
	t.links++
	t.noLinks, t.hadLink = time.Time{}, true
	t.by(c, c.now.Add(c.limits.LinkIdle))
}

func (t *timers) detached(c *conn) {
	if t.links--; t.links == 0 {
		t.noLinks = c.now
		t.by(c, c.now.Add(c.limits.NoLinks))
	}
}

// fire does what is due and sets the timer again.
func (t *timers) fire(c *conn) {
	due := func(at time.Time) bool { return !at.IsZero() && !c.now.Before(at) }
	switch {
	case c.phase == over:
	case c.phase == closing:
		if due(t.closeBy) {
			c.phase = over
			c.failed = errGrace
		}
	case c.phase < opened:
		if due(t.began.Add(c.limits.Handshake)) {
			c.log.Info("servicebus: open timed out")
			c.phase = over
		}
	case !c.allowed.loggedIn && due(t.began.Add(c.limits.FirstToken)):
		c.log.Info("servicebus: login timed out")
		t.force(c, "The connection was closed because no valid token was put in time.")
	case due(t.silence(c)):
		t.force(c, fmt.Sprintf("The connection was inactive for more than the allowed %d milliseconds.", c.limits.IdleTimeout.Milliseconds()))
	case due(t.linkless(c)):
		t.force(c, fmt.Sprintf("The connection was inactive for more than the allowed %d milliseconds and is closed by container 'LinkTracker'.",
			t.linklessLimit(c).Milliseconds()))
	default:
		if c.claims.sweep(c.now) {
			c.teardown.recheckClaims()
			c.tearDown()
		}
		for l := range c.sessions.links() {
			l.detachIdle()
		}
		c.transactions.expire(c.now)
		if due(c.outstanding.next()) {
			c.outstanding.forgetExpired(c.sessions, c.broker, c.now)
		}
		for _, req := range c.deadlines.passed(c.now) {
			req.timedOut()
		}
		if due(t.heartbeat(c)) {
			c.out.heartbeat()
			t.spoke = c.now
		}
	}
	t.rearm(c)
}

// force closes an unused connection. If it still has links, the peer has fallen silent, and they
// count as lost.
func (t *timers) force(c *conn, text string) {
	c.closeFor(event.ClosedConnection, amqp.CondConnectionForced, text)
}

// rearm sets the timer to the earliest deadline.
func (t *timers) rearm(c *conn) {
	var at time.Time
	earliest := func(d time.Time) {
		if !d.IsZero() && (at.IsZero() || d.Before(at)) {
			at = d
		}
	}
	if c.login.waits(c.now) {
		earliest(c.login.frozen)
	}
	switch {
	case c.phase == over:
		earliest(c.now.Add(c.limits.Close))
	case c.phase == closing:
		earliest(t.closeBy)
	case c.phase < opened:
		earliest(t.began.Add(c.limits.Handshake))
	default:
		if !c.allowed.loggedIn {
			earliest(t.began.Add(c.limits.FirstToken))
		}
		earliest(t.silence(c))
		earliest(t.linkless(c))
		earliest(t.heartbeat(c))
		earliest(c.claims.next())
		earliest(c.sessions.nextIdle(c.limits.LinkIdle))
		earliest(c.deadlines.next())
		earliest(c.transactions.next())
		earliest(c.outstanding.next())
	}
	t.at = at
	t.timer.Reset(max(0, at.Sub(c.now)))
}

func (t *timers) silence(c *conn) time.Time { return t.heard.Add(c.limits.IdleTimeout) }

func (t *timers) linklessLimit(c *conn) time.Duration {
	if t.hadLink {
		return c.limits.NoLinks
	}
	return c.limits.NoLinksFresh
}

func (t *timers) linkless(c *conn) time.Time {
	if t.noLinks.IsZero() {
		return time.Time{}
	}
	return t.noLinks.Add(t.linklessLimit(c))
}

// heartbeat returns when the peer must receive something: at half of its idle timeout, or a little
// earlier (1.8).
func (t *timers) heartbeat(c *conn) time.Time {
	if c.peer.idle == 0 {
		return time.Time{}
	}
	return t.spoke.Add(max(c.peer.idle/2-c.peer.idle/16, 10*time.Millisecond))
}
