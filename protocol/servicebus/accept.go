package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// pendingAttach is a receiver's attach that has no answer yet, because the engine has no message
// session for it so far (4.2). Until then nothing may be written for the link, and the peer's flow
// for it is kept.
type pendingAttach struct {
	frame  []byte    // the attach as it was received, so that its size is known
	flow   amqp.Flow // the last flow
	flowed bool
}

// attach decodes the frame again. It was valid when it was received.
func (w *pendingAttach) attach(c *conn) *amqp.Attach {
	p, _, err := amqp.DecodePerformative(w.frame, c.decoder.Limits)
	a, ok := p.(*amqp.Attach)
	if err != nil || !ok {
		panic(fmt.Sprintf("servicebus: an attach that could be read is a %T, %v", p, err))
	}
	return a
}

// accepted answers the attach, with the message session that the engine has given to the receiver
// or with its refusal.
func (l *link) accepted(reply *engine.Reply) {
	c := l.c
	grant := reply.SessionGrant()
	if reply.Err != nil || grant == nil {
		cond, text := l.describe(reply.Err)
		if cond.symbol == amqp.CondTimeout {
			text = noSessionText(l.attaching.attach(c))
		}
		l.end(cond.symbol, text)
		return
	}
	held, attach := l.attaching, l.attaching.attach(c)
	l.attaching = nil
	l.hold(-len(held.frame))
	l.receiver.grant = grant
	c.links.hold(l)
	l.touch()
	c.timers.by(c, c.now.Add(c.limits.LinkIdle))
	if !l.writeAttach(attach) {
		return
	}
	c.log.Debug("servicebus: session accepted", "link", loggable(l.name), "entity", l.at.path, "session", grant.ID)
	if held.flowed {
		l.receiver.flow(&held.flow)
	}
}

// noSessionText returns the text for an attach for which no session became available in the time
// the client gave (8.4).
func noSessionText(a *amqp.Attach) string {
	wait, ok := message.ClientTimeout(a.Properties)
	if !ok {
		wait = message.DefaultSessionWait
	}
	return fmt.Sprintf("The operation did not complete within the allotted timeout of %s. The time allotted to this operation may have been a portion of a longer timeout.", hms(wait))
}

// messageSession returns the message session that the link holds.
func (l *link) messageSession() messageSession {
	return messageSession{l.target.Entity.ID, l.receiver.grant.ID}
}

// messageSessionLost ends the link because its message session is no longer held. Settlements that
// are still under way arrive after the loss, so all of them fail. They are answered first, because
// nothing may follow the detach.
func (l *link) messageSessionLost(err error) {
	if l.detached {
		return
	}
	c := l.c
	cond, text := l.describe(err)
	for i := range c.pendings.table {
		if p := &c.pendings.table[i]; p.kind == pendingSettle && p.link == l && !p.settled {
			p.settled = true
			c.answers.reject(l.s, amqp.RoleSender, p.delivery, cond.symbol, c.texts.suffixed(text, l.at.path, c.now))
		}
	}
	l.end(cond.symbol, text)
}

// messageSessionLock returns the session lock for a request: that of the receiver it names as its
// associated link or, if it names none, of the receiver of this connection that holds the session
// with the id (6.3). It returns false if that receiver holds no session or another one than the
// requested.
func (req *request) messageSessionLock(id string, hasID bool) (event.LockToken, bool) {
	entity := req.l.target.Entity.ID
	var l *link
	if name := req.text(keyAssociatedLink); name != "" {
		l = req.l.c.links.named(name, amqp.RoleReceiver)
	} else if hasID {
		l = req.l.c.links.holder(messageSession{entity, id})
	}
	if l == nil || l.receiver.grant == nil || l.target.Entity.ID != entity || hasID && l.receiver.grant.ID != id {
		return event.LockToken{}, false
	}
	return l.receiver.grant.Token, true
}

// partitionOfSession returns the entity partition in which a link of the connection holds a
// session, or else the partition of the session's id. The two differ for a session that the action
// of a rule has set: copies stay in the partition of their message.
func (req *request) partitionOfSession(id string) uint8 {
	if lock, held := req.messageSessionLock(id, true); held {
		return req.l.target.OfToken(lock)
	}
	return req.l.target.OfSession([]byte(id))
}

// messageSessionLocks returns the session locks that allow a settlement by token (semantics.md
// 8.4): the lock of the session that the request names, by id or by link. If it names none, these
// are the locks of all sessions of its entity that the connection holds. The result is nil if there
// is none.
func (req *request) messageSessionLocks(id string, hasID bool) (held []event.LockToken) {
	if hasID || req.text(keyAssociatedLink) != "" {
		if token, ok := req.messageSessionLock(id, hasID); ok {
			held = append(held, token)
		}
		return held
	}
	return req.l.c.links.locks(req.l.target.Entity.ID)
}
