package servicebus

import (
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxSpan bounds the delivery-ids of one disposition. Its cost depends on how many of them it
// settles.
const maxSpan = 1 << 20

// disposition handles the peer's outcomes (4.6). A disposition in its role as sender settles
// nothing that the broker waits for.
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
	w := s.c.transactions.readDisposition(d)
	// received: not an outcome, whatever the number of deliveries
	if w.Outcome == 0 && w.bad == nil && !d.Settled {
		if d := s.unsettled.find(first); d != nil {
			d.link.touch()
		}
		return
	}
	asked := !d.Settled
	var lost lostRun
	from := first
	var few [32]uint32 // nearly always enough, and no allocation
	ids := s.unsettled.in(few[:0], first, n)
	if uint64(len(ids)) <= uint64(n) { // some are not waiting to be settled
		w.part.in.fail()
	}
	for _, id := range ids {
		u := s.unsettled.find(id)
		if u == nil {
			continue // settled together with an earlier one
		}
		if asked {
			lost.add(s, from, id-from)
		}
		from = id + 1
		lost.answer(s)
		if s.settle(u, &w); s.ended {
			return
		}
	}
	if asked {
		lost.add(s, from, last-from+1)
	}
	lost.answer(s)
}

// lostRun is a run of deliveries that are not waiting to be settled, or no longer. They are
// answered in one frame.
type lostRun struct {
	first, n       uint32
	messageSession bool   // they were delivered under message sessions
	path           string // of their entity
	// the session's only entity, after the first delivery of an unknown entity
	only *string
}

// add takes n deliveries in a row, except those that need no answer. It works on runs, not on
// single deliveries.
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
	s.c.answers.rejectRange(answer{s: s, role: amqp.RoleSender}, r.first, r.first+r.n-1, symbol, s.c.texts.suffixed(text, r.path, s.c.now))
	r.n = 0
}

// settleRequest is the request of a disposition.
type settleRequest struct {
	message.Settlement
	part    part
	settled bool        // the peer waits for no answer
	bad     *amqp.Error // why it is refused, for every delivery of the disposition
	why     engine.Code // the same reason for the log
}

// readDisposition reads a disposition.
func (t *transactions) readDisposition(d *amqp.Disposition) (w settleRequest) {
	state := d.State
	if marked, ok := state.(amqp.TransactionalState); ok {
		w.part, state = t.partOf(state), marked.Outcome
	}
	w.settled, w.why = d.Settled, engine.InvalidArgument
	w.Settlement, w.bad = message.SettlementOf(state)
	switch {
	case w.part.unknown != nil:
		cond, text := conditionOf(w.part.unknown)
		w.bad, w.why = refusal(cond.symbol, text), w.part.unknown.Code
	case w.part.marked && w.Outcome == 0 && w.bad == nil:
		w.bad = refusal(amqp.CondInvalidField, "The transactional state of a disposition has no outcome.")
	}
	return w
}

// settle applies an outcome to one delivery. A delivery that is settled in a transaction, by a peer
// that waits for the answer, is kept until the transaction ends. A browsed delivery has no lock
// that a transaction could end, and is settled at once.
func (s *session) settle(of *deliveryEntry, w *settleRequest) {
	id, u := of.id, of.unsettledDelivery
	l := u.link
	l.touch()
	switch {
	case !w.part.marked || w.settled || l.browses:
		s.drop(of)
	case l.detached:
		s.silent.note(id)
	}
	// no answer can reach the client, which will settle again elsewhere, so the message has to stay
	// locked
	if l.detached && !w.settled {
		w.part.in.fail()
		return
	}
	bad, why := w.bad, w.why
	switch {
	case bad != nil:
	case w.Outcome == 0:
		return // settled without an outcome: the lock expires
	case w.Outcome == engine.MoveToDeadLetter && l.target.SubQueue != event.Main && !l.browses:
		bad, why = refusal(amqp.CondNotAllowed, engine.DeadLetteredText), engine.NotAllowed
	}
	switch {
	case bad != nil:
		l.refuseSettlement(id, &u, w, bad, why)
	case !l.browses:
		l.settle(id, &u, w)
	case !w.settled: // there is no lock that the outcome could end
		s.c.answers.settleIn(w.part.in.name(), s, amqp.RoleSender, id, verdictOf[w.Outcome])
	}
}

// settle hands an outcome to the engine, or to a transaction.
func (l *link) settle(id uint32, of *unsettledDelivery, w *settleRequest) {
	c, at := l.c, l.target.OfToken(of.token)
	cmd := engine.Settle{
		Entity: l.target.Entity, Slice: l.target.Slice(at), SubQueue: l.target.SubQueue, Origin: l.origin,
		Token: of.token, Outcome: w.Outcome, Changes: w.Changes, Header: int(of.header), Reason: w.Reason, Description: w.Description,
	}
	var req engine.Request
	if x := w.part.in; x == nil {
		req.Command = cmd.Recycled()
	} else {
		kept := cmd
		kept.Final = w.settled
		asked, err := c.transactions.stage(x, &kept, stagedOperation{on: l.target, partition: at, bytes: changesSize(w.Changes), key: keyOfGrant(l.receiver.grant)}, c.now)
		if err != nil {
			cond, text := l.describe(err)
			l.refuseSettlement(id, of, w, refusal(cond.symbol, text), err.Code)
			return
		}
		req.Command = asked
	}
	// neither the peer nor the broker waits for an answer, which would only wake this connection
	if w.settled {
		c.in.short = false // the settlement is on its way to the log; see input.acknowledge
	} else {
		req.Sink, req.Tag = c.outbox, c.pendings.add(pendingEntry{kind: pendingSettle, link: l, delivery: id, outcome: w.Outcome, in: w.part.in})
	}
	if w.Outcome == engine.Release {
		l.receiver.stepBack()
	}
	c.batch.add(l.target.Host(at), req)
}

// changesSize returns the bytes of changes of properties.
func changesSize(changes event.Changes) (bytes int) {
	for i := range changes {
		bytes += propertySize + len(changes[i].Name) + len(changes[i].Value.Text)
	}
	return bytes
}

// refuseSettlement refuses an outcome without asking the engine. The transaction of the settlement
// has failed. The lock counts as ended after the time that this connection knows.
func (l *link) refuseSettlement(id uint32, of *unsettledDelivery, w *settleRequest, bad *amqp.Error, why engine.Code) {
	c := l.c
	w.part.in.fail()
	if !l.browses {
		l.noteRefused(of.token, w.Outcome, why)
	}
	if !w.settled {
		if of := l.s.unsettled.find(id); of != nil && of.expired(c.broker.Now()) {
			l.s.drop(of)
		}
		l.s.rejectSettlement(id, l.at.path, bad.Condition, bad.Description)
	} else if w.part.in != nil {
		c.transactions.lose(w.part.in, lostDelivery{l.receiver, of.token})
	}
}

// rejectSettlement tells the peer that an outcome was refused, with the path of the entity. A
// delivery that is still known, because its settlement was part of a transaction, can be settled
// again (7.3).
func (s *session) rejectSettlement(id uint32, path string, symbol amqp.Symbol, text string) {
	as := answer{s: s, role: amqp.RoleSender, open: s.unsettled.find(id) != nil}
	s.c.answers.rejectRange(as, id, id, symbol, s.c.texts.suffixed(text, path, s.c.now))
}

// stagedIn notes the result of a settlement in a transaction. A delivery whose lock has ended is no
// longer kept. A delivery that is settled in a transaction still has its lock, although a second
// settlement is refused as if it had none.
func (s *session) stagedIn(p *pendingEntry, err error) {
	of := s.unsettled.find(p.delivery)
	switch {
	case err == nil && of != nil:
		of.in, of.verdict = p.in, verdictOf[p.outcome]
		p.in.settled = append(p.in.settled, sentDelivery{s, p.delivery})
	case err != nil:
		p.in.refused(err)
		if of != nil && of.in == nil && isLockEnded(err) {
			s.drop(of)
		}
	}
}

// isLockEnded reports whether a settlement was refused because there is no lock.
func isLockEnded(err error) bool {
	var refused *engine.Error
	return errors.As(err, &refused) && slices.Contains([]engine.Code{engine.LockLost, engine.SessionLockLost, engine.NotFound}, refused.Code)
}

// settled handles the engine's answer to a settlement: the same outcome, settled unless it waits
// for a commit; or rejected with the error (0.8, 0.9, 7.3).
func (l *link) settled(p *pendingEntry, err error) {
	c := l.c
	if p.in != nil {
		l.s.stagedIn(p, err)
	}
	if p.settled || l.s.ended || l.detached {
		return // the peer wants no answer, or is gone
	}
	switch {
	case err == nil && p.in != nil:
		c.answers.stage(p.in.id, l.s, p.delivery, verdictOf[p.outcome])
		return
	case err == nil:
		c.answers.settle(l.s, amqp.RoleSender, p.delivery, verdictOf[p.outcome])
		return
	}
	cond, text := l.describe(err)
	if cond.ends == endsLink && cond.symbol == amqp.CondDetachForced {
		l.end(cond.symbol, text)
		return
	}
	l.s.rejectSettlement(p.delivery, l.at.path, cond.symbol, text)
}
