package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// drain handles everything that partitions have posted.
func (c *conn) drain() {
	replies, changes, recheck := c.outbox.take(c.replies)
	c.replies = replies
	for i := range replies {
		c.reply(&replies[i])
	}
	for i := range changes {
		if c.sessions.concern(&changes[i]) {
			c.teardown.changed(changes[i])
		}
	}
	if recheck {
		c.teardown.recheckClaims()
	}
	if short, goes := c.outbox.takePress(); short && c.phase == opened {
		if adjustMemory(c); goes {
			closeEvicted(c)
		}
	}
	c.tearDown()
}

// tearDown ends links or the connection, unless answers are still expected.
func (c *conn) tearDown() {
	if c.pendings.unanswered > 0 {
		return
	}
	due := c.teardown.take()
	for i := range due.changes {
		for l := range c.sessions.links() {
			l.entityChanged(&due.changes[i])
		}
	}
	if due.recheck {
		for l := range c.sessions.links() {
			l.detachUnclaimed()
		}
	}
	if due.stopping {
		c.shutdown()
	}
}

// reply hands an answer of the engine to its link or request.
func (c *conn) reply(r *engine.Reply) {
	p := c.pendings.get(r.Tag)
	if p == nil {
		return
	}
	switch p.kind {
	case pendingReceiver:
		switch r.Kind {
		case engine.ReplyDelivery:
			p.link.receiver.assigned(r.Delivery())
		case engine.ReplyDrained:
			p.link.receiver.drained()
		case engine.ReplyEnded:
			p.link.receiver.ended(r.Err)
		case engine.ReplyDone:
			p.link.receiver.done(r)
		}
		return
	case pendingDetach:
		l := p.link
		c.pendings.remove(r.Tag)
		c.pendings.remove(l.receiver.tag)
		return
	}
	entry := *p
	c.pendings.remove(r.Tag)
	switch entry.kind {
	case pendingSend:
		entry.link.sender.sent(&entry, r.Err)
	case pendingSettle:
		entry.link.settled(&entry, r.Err)
	case pendingRequest:
		entry.request.answered(r)
	case pendingDischarge:
		entry.link.sender.discharged(&entry, r.Err)
	case pendingRollback:
		c.transactions.over(entry.in, false, r.Err)
	}
}
