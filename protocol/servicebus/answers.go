package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// verdict is an outcome that carries no text, so that equal ones can leave as one range.
type verdict uint8

const (
	noVerdict verdict = iota
	accepted
	released
	abandoned
	deferred
	deadLettered
)

var verdictStates = [...]amqp.DeliveryState{
	accepted:     amqp.StateAccepted,
	released:     amqp.StateReleased,
	abandoned:    amqp.Modified{},
	deferred:     amqp.Modified{UndeliverableHere: true},
	deadLettered: amqp.Rejected{}, // with a null error: it did what was asked (0.8)
}

var verdictOf = [...]verdict{
	engine.Complete: accepted, engine.Abandon: abandoned, engine.Release: released,
	engine.Defer: deferred, engine.MoveToDeadLetter: deadLettered,
}

// maxConfirmed bounds a range of confirmed settlements: a go-amqp receiver looks at all of a range once for each delivery
// in it.
const maxConfirmed = 16

// answers joins dispositions of contiguous delivery-ids with the same outcome into one frame.
type answers struct {
	out         *output
	s           *session
	role        amqp.Role
	verdict     verdict
	first, last uint32
}

// settle answers one delivery. role is ours: receiver to a sending peer, sender to a receiving one.
func (a *answers) settle(s *session, role amqp.Role, id uint32, v verdict) {
	if a.verdict == v && a.s == s && a.role == role && id == a.last+1 && (role == amqp.RoleReceiver || id-a.first < maxConfirmed) {
		a.last = id
		return
	}
	a.flush()
	a.s, a.role, a.verdict, a.first, a.last = s, role, v, id, id
}

// reject answers one delivery with an error.
func (a *answers) reject(s *session, role amqp.Role, id uint32, symbol amqp.Symbol, text string) {
	a.rejectRange(s, role, id, id, symbol, text)
}

func (a *answers) rejectRange(s *session, role amqp.Role, first, last uint32, symbol amqp.Symbol, text string) {
	a.flush()
	a.write(s, role, first, last, amqp.Rejected{Error: &amqp.Error{Condition: symbol, Description: text}})
}

// flush writes the range that is open.
func (a *answers) flush() {
	if a.verdict == noVerdict {
		return
	}
	v := a.verdict
	a.verdict = noVerdict
	a.write(a.s, a.role, a.first, a.last, verdictStates[v])
	a.s = nil
}

func (a *answers) write(s *session, role amqp.Role, first, last uint32, state amqp.DeliveryState) {
	if s.ended {
		return
	}
	a.out.disposition(s.channel, &amqp.Disposition{
		Role: role, First: first, Last: amqp.Some(last), Settled: true, State: state,
	})
}

// drain handles what partitions have posted.
func (c *conn) drain() {
	replies, changes, recheck := c.outbox.take(c.replies)
	c.replies = replies
	for i := range replies {
		c.reply(&replies[i])
	}
	for i := range changes {
		if c.sessions.concern(&changes[i]) {
			c.changes = append(c.changes, changes[i])
		}
	}
	c.recheck = c.recheck || recheck
	c.part()
}

// part takes links or the connection away, once all that the engine was asked on the connection is answered: an answer that
// nobody hears makes a client do again what is done (SM-002, SM-054). Until then the connection takes no frames, so this is not for long.
func (c *conn) part() {
	if c.pendings.unanswered > 0 {
		return
	}
	changes, recheck := c.changes, c.recheck
	c.changes, c.recheck = nil, false
	for i := range changes {
		for l := range c.sessions.links() {
			l.entityChanged(&changes[i])
		}
	}
	if recheck {
		for l := range c.sessions.links() {
			l.detachUnclaimed()
		}
	}
	if c.stopping {
		c.shutdown()
	}
}

// parting tells that something waits for part.
func (c *conn) parting() bool { return c.stopping || c.recheck || len(c.changes) > 0 }

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
			p.link.messageSessionLost(r.Err)
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
		entry.link.sender.sent(entry.delivery, entry.settled, r.Err)
	case pendingSettle:
		c.settled(&entry, r.Err)
	case pendingRequest:
		entry.request.answered(r)
	}
}
