package sim

import (
	"encoding/binary"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Transactions: what clients ask for is staged now and then, several transactions beside one
// another and beside what is asked for without one, and ends together, or not at all. Some are left
// open, until their time is up or the process dies.

// transaction is one as its client knows it.
type transaction struct {
	id     model.TransactionID
	top    *queue // the entity that its work is about, or the topic of the subscriptions
	staged []*ask // that were accepted
	seen   []*want
	ended  bool // its client has asked for that
}

// top is the entity that a transaction with work on this one counts as being about.
func (q *queue) top() *queue {
	if q.topic != nil {
		return q.topic
	}
	return q
}

// transactional are the operations that can be part of one (12.1).
func (op operation) transactional() bool {
	switch op {
	case opSend, opBatch, opSettle, opSettleMany, opStale, opCancel, opSetState:
		return true
	}
	return false
}

// mayStage makes what a client is about to ask for part of a transaction, in some worlds, now and
// then.
func (w *world) mayStage(a *ask) {
	if !w.o.transactions || !a.op.transactional() || !w.chance(50) {
		return
	}
	if s := a.sending(); s != nil && s.Others > 0 {
		return // it needs a key (10.7)
	}
	if s, ok := a.cmd.(*engine.Settle); ok && s.Unread {
		return // it is asked again
	} else if ok {
		s.Final = w.chance(40)
	}
	var mine []*transaction
	for _, t := range w.transactions {
		if t.top == a.q.top() && (!t.ended || w.chance(3)) {
			mine = append(mine, t)
		}
	}
	if len(mine) == 0 || w.chance(20) && len(mine) < 5 {
		mine = []*transaction{w.begin(a.q.top())}
	}
	a.txn = mine[w.rng.IntN(len(mine))]
	bytes := 0
	for _, m := range a.sent {
		bytes += len(m.body)
	}
	if s, ok := a.cmd.(*engine.Send); ok && (a.to != nil || slices.ContainsFunc(a.sent, func(m *sent) bool { return m.due == 0 })) {
		s.Numbers = false // a client that schedules wants to know them
	}
	a.alone, a.cmd = a.cmd, &engine.Stage{Transaction: event.TransactionID(a.txn.id), Operation: a.cmd, Bytes: bytes}
}

// begin is a new transaction: the broker hears of it with its first operation.
func (w *world) begin(top *queue) *transaction {
	t := &transaction{top: top}
	binary.BigEndian.PutUint64(t.id[:], w.tag())
	w.transactions = append(w.transactions, t)
	return t
}

// discharge asks for the end of a transaction, mostly of one that is open.
func (w *world) discharge(a *ask) bool {
	var some []*transaction
	for _, t := range w.transactions {
		if !t.ended || w.chance(5) {
			some = append(some, t)
		}
	}
	if len(some) == 0 {
		return false
	}
	w.end(a, some[w.rng.IntN(len(some))])
	return true
}

func (w *world) end(a *ask, t *transaction) {
	t.ended, a.txn, a.q, a.sub = true, t, t.top, model.Main
	if id := event.TransactionID(t.id); a.op == opCommit {
		a.cmd = &engine.Commit{Transaction: id, Slice: a.q.slice, Origin: w.origin()}
	} else {
		a.cause = pick(w.rng, event.AbortRolledBack, event.AbortLost)
		a.cmd = &engine.Rollback{Transaction: id, Slice: a.q.slice, Origin: w.origin(), Cause: a.cause}
	}
}

// endTransactions has clients end what they have open.
func (w *world) endTransactions() {
	// also those that have ended: something was staged later, maybe
	for _, t := range w.transactions {
		a := &ask{op: pick(w.rng, opCommit, opRollback), tag: w.tag(), asked: w.broker()}
		w.end(a, t)
		w.submit(a)
	}
	w.pump()
}

// plain is the command of a client, in a transaction or not.
func (a *ask) plain() engine.Command {
	if a.alone != nil {
		return a.alone
	}
	return a.cmd
}

// drafts are messages to be sent as the model wants them.
func (a *ask) drafts() (drafts []model.Draft) {
	for _, m := range a.sent {
		drafts = append(drafts, model.Draft{Body: m.body, ID: m.identity(), Session: m.session, HasSession: m.hasSession, TTL: m.ttl, For: m.due,
			Color: m.color, N: m.n, Header: m.header})
	}
	return drafts
}

// stage is what an operation in a transaction comes to.
func (s *shadow) stage(now int64, a *ask, x *want) {
	op := model.Operation{Queue: a.q.model, Sub: a.sub, Tokens: a.tokens, How: a.how, Change: a.change, Headers: a.read, Seqs: a.seqs}
	switch cmd := a.alone.(type) {
	case *engine.Send:
		op.Kind, op.Drafts, op.Numbered = model.Sends, a.drafts(), cmd.Numbers
		if a.to != nil {
			op.Via, op.Largest = a.to.n+1, a.largest()
		}
	case *engine.Settle:
		op.Kind, op.Final = model.Settles, cmd.Final
	case *engine.CancelScheduled:
		op.Kind = model.Cancels
	case *engine.SetSessionState:
		op.Kind, op.Session, op.Token, op.State = model.SetsState, *a.session, a.token, a.state
	}
	before := s.m.Records
	x.numbers, x.refusal = s.m.Stage(now, a.txn.id, op)
	x.unwritten = x.refusal == model.Accepted && s.m.Records == before
}

// aborted notes the record of a transaction that ended without a trace.
func (s *shadow) aborted(now int64, id model.TransactionID, cause model.Cause, alone bool) {
	s.p.facts[s.m.Records] = noted{kind: event.KindTransactionAborted, transaction: id, cause: causes[cause], more: !alone}
	if alone {
		s.lazy(now)
	} else {
		s.w.stats.GivenBack++
	}
}

var causes = map[model.Cause]event.AbortCause{model.RolledBack: event.AbortRolledBack, model.OutOfTime: event.AbortTimedOut,
	model.ClientLost: event.AbortLost, model.Failed: event.AbortFailed}

var aborts = map[event.AbortCause]model.Cause{event.AbortRolledBack: model.RolledBack, event.AbortLost: model.ClientLost}

// stagedAnswered takes in what was answered to an operation in a transaction: nothing has happened
// yet.
func (h *history) stagedAnswered(a *ask, x *want) {
	if x.refusal == model.Accepted {
		a.txn.staged, a.txn.seen = append(a.txn.staged, a), append(a.txn.seen, x)
		return
	}
	if a.op == opSetState {
		h.stateAnswered(a, x, false)
	}
	if a.op == opSend || a.op == opBatch {
		h.sent(a, x, &engine.Reply{}, false)
	}
}

// discharged takes in what a transaction came to: all of it, or nothing.
func (h *history) discharged(a *ask, x *want) {
	ok := a.op == opCommit && x.refusal == model.Accepted
	if x.refusal == model.UnknownTransaction {
		return // it may have ended in any way
	}
	t := a.txn
	for i, b := range t.staged {
		y := *t.seen[i]
		if y.at = x.at; !ok {
			y.refusal = model.TransactionFailed
		}
		switch b.op {
		case opSend, opBatch:
			h.sent(b, &y, &engine.Reply{}, ok)
		case opCancel:
			if ok {
				h.cancelled(b)
			}
		case opSetState:
			h.stateAnswered(b, &y, ok)
		default:
			if ok {
				h.settled(b, &y)
				continue
			}
			if s, ok := b.alone.(*engine.Settle); ok && s.Final {
				continue // its client has forgotten it
			}
			for _, token := range b.tokens { // they are good again
				h.locked(b.q, b.sub, token)
			}
		}
	}
	t.staged, t.seen = nil, nil
	h.w.transactions = slices.DeleteFunc(h.w.transactions, func(o *transaction) bool { return o == t && h.w.chance(80) })
}
