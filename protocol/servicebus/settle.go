package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxSpan is how many delivery-ids one disposition may name. What it costs depends on how many of them it settles.
const maxSpan = 1 << 20

// disposition takes the peer's outcomes (4.6). As sender of transfers it settles nothing we wait for.
func (s *session) disposition(d *amqp.Disposition) {
	if d.Role == amqp.RoleSender {
		return
	}
	first, last := d.First, d.Last.Or(d.First)
	n := last - first
	if n >= maxSpan {
		s.end(amqp.CondInvalidField, "The range of a disposition is empty or too large.")
		return
	}
	w, e := message.SettlementOf(d.State)
	if w.Outcome == 0 && e == nil && !d.Settled { // received: not an outcome, however many it names
		if d := s.unsettled.find(first); d != nil {
			d.link.touch()
		}
		return
	}
	asked := !d.Settled
	var lost lostRun
	from := first
	var few [32]uint32 // nearly always enough, and no allocation
	for _, id := range s.unsettled.in(few[:0], first, n) {
		u := s.unsettled.find(id)
		if u == nil {
			continue // went with what was settled before it
		}
		if asked {
			lost.add(s, from, id-from)
		}
		from = id + 1
		lost.answer(s)
		if s.settle(u, d, &w, e); s.ended {
			return
		}
	}
	if asked {
		lost.add(s, from, last-from+1)
	}
	lost.answer(s)
}

// lostRun is deliveries in a row that are not (any more) waiting to be settled. They are answered in one frame.
type lostRun struct {
	first, n       uint32
	messageSession bool    // they were delivered under message sessions
	path           string  // of their entity
	only           *string // the session's only entity, once one is met of which nothing is known
}

// add takes n deliveries in a row, but for those of which nobody waits for an answer. It looks at runs, not at each.
func (r *lostRun) add(s *session, id, n uint32) {
	for n > 0 {
		silent, run := s.silent.run(id, n)
		if !silent {
			var messageSession bool
			var path string
			messageSession, run = s.messageSessions.run(id, run)
			path, run = s.settled.run(id, run)
			r.join(s, id, run, messageSession, path)
		}
		id += run
		n -= run
	}
}

func (r *lostRun) join(s *session, id, n uint32, messageSession bool, path string) {
	if path == "" {
		if r.only == nil {
			only := s.onlyEntity()
			r.only = &only
		}
		path = *r.only
	}
	if r.n > 0 && (id != r.first+r.n || messageSession != r.messageSession || path != r.path) {
		r.answer(s)
	}
	if r.n == 0 {
		r.first, r.messageSession, r.path = id, messageSession, path
	}
	r.n += n
}

func (r *lostRun) answer(s *session) {
	if r.n == 0 {
		return
	}
	symbol, text := amqp.CondMessageLockLost, engine.LockLostText
	if r.messageSession {
		symbol, text = amqp.CondSessionLockLost, engine.SessionLostText
	}
	s.c.answers.rejectRange(s, amqp.RoleSender, r.first, r.first+r.n-1, symbol, s.c.texts.suffixed(text, r.path, s.c.now))
	r.n = 0
}

// settle applies an outcome to one delivery.
func (s *session) settle(of *delivered, d *amqp.Disposition, w *message.Settlement, bad *amqp.Error) {
	c := s.c
	id, u := of.id, s.forget(of)
	l := u.link
	l.touch()
	s.settled.note(id, l.at.path)
	if l.detached {
		s.silent.note(id)
		if !d.Settled { // nobody hears the answer, so the client asks again elsewhere: the message has to wait for that
			return
		}
	}
	l.receiver.pass()
	why := engine.InvalidArgument
	switch {
	case bad != nil:
	case w.Outcome == 0:
		return // settled without an outcome: the lock runs out
	case w.Outcome == engine.MoveToDeadLetter && l.target.SubQueue != event.Main && !l.browses:
		bad, why = &amqp.Error{Condition: amqp.CondNotAllowed, Description: engine.DeadLetteredText}, engine.NotAllowed
	}
	if bad != nil {
		if !l.browses {
			l.noteRefused(u.token, w.Outcome, why)
		}
		if !d.Settled {
			c.answers.reject(s, amqp.RoleSender, id, bad.Condition, c.texts.suffixed(bad.Description, l.at.path, c.now))
		}
		return
	}
	if l.browses { // there is no lock that the outcome could end
		if !d.Settled {
			c.answers.settle(s, amqp.RoleSender, id, verdictOf[w.Outcome])
		}
		return
	}
	at := l.target.OfToken(u.token)
	cmd := engine.Settle{
		Entity: l.target.Entity, Slice: l.target.Slice(at), SubQueue: l.target.SubQueue, Origin: l.origin,
		Token: u.token, Outcome: w.Outcome, Changes: w.Changes, Header: int(u.header), Reason: w.Reason, Description: w.Description,
	}
	req := engine.Request{Command: cmd.Recycled()}
	if d.Settled { // nobody waits for an answer, we neither: it would wake this connection for nothing
		c.in.short = false // the settlement is on its way to the log; see input.acknowledge
	} else {
		req.Sink, req.Tag = c.outbox, c.pendings.add(pending{kind: pendingSettle, link: l, delivery: id, outcome: w.Outcome})
	}
	c.batch.add(l.target.Host(at), req)
}

// settled handles the engine's answer to a settlement: the same outcome, settled; or rejected with the error (0.8, 0.9).
func (l *link) settled(p *pending, err error) {
	c := l.c
	if p.settled || l.s.ended || l.detached {
		return // the peer wants no answer, or nobody is there to get it
	}
	if err == nil {
		c.answers.settle(l.s, amqp.RoleSender, p.delivery, verdictOf[p.outcome])
		return
	}
	cond, text := l.told(err)
	if cond.ends == endsLink && cond.symbol == amqp.CondDetachForced {
		l.end(cond.symbol, text)
		return
	}
	c.answers.reject(l.s, amqp.RoleSender, p.delivery, cond.symbol, c.texts.suffixed(text, l.at.path, c.now))
}
