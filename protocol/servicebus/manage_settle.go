package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

const (
	needsTokens    = "The request needs 'lock-tokens', an array of uuid."
	badSessionText = "The 'session-id' of the request must be a string."
)

// renewLock extends locks: of all tokens or none, in each partition (semantics.md 6.2).
func renewLock(req *request, body amqp.Map) {
	tokens, ok := message.LockTokens(body)
	if !ok {
		req.bad(needsTokens)
		return
	}
	t := req.l.target
	r := &renewWalk{cmd: engine.Renew{Entity: t.Entity, SubQueue: t.SubQueue, Origin: req.l.origin}, tokens: tokens, parts: byPartition(tokens, t.OfToken),
		until: map[event.LockToken]event.Time{}}
	r.ask(req)
}

// updateDisposition settles by token: deferred messages, or messages whose link is gone. It settles
// all tokens or none (semantics.md 5.3).
func updateDisposition(req *request, body amqp.Map) {
	tokens, ok := message.LockTokens(body)
	if !ok {
		req.bad(needsTokens)
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		req.bad(badSessionText)
		return
	}
	w, e := message.DispositionOf(body)
	t, why := req.l.target, engine.InvalidArgument
	if e == nil && w.Outcome == engine.MoveToDeadLetter && t.SubQueue != event.Main {
		e, why = &amqp.Error{Condition: amqp.CondNotAllowed, Description: engine.DeadLetteredText}, engine.NotAllowed
	}
	if e != nil {
		req.l.noteRefused(tokens[0], w.Outcome, why)
		req.refuseFor(e)
		return
	}
	var held []event.LockToken
	if ofSessions(t) {
		if held = req.messageSessionLocks(id, named); held == nil {
			req.l.noteRefused(tokens[0], w.Outcome, engine.SessionLockLost)
			req.refuseMessageSession()
			return
		}
		if named {
			req.key = keyOfSession([]byte(id))
		}
	}
	parts := byPartition(tokens, t.OfToken)
	// as for all operations of a transaction
	if req.part.in != nil && len(parts) > 1 && !inOnePartition(req, tokens, t.OfToken) {
		return
	}
	p := &settleWalk{parts: parts, try: len(parts) > 1, cmd: engine.Settle{
		Entity: t.Entity, SubQueue: t.SubQueue, Origin: req.l.origin, Sessions: held,
		Outcome: w.Outcome, Changes: w.Changes, Reason: w.Reason, Description: w.Description,
	}}
	p.ask(req)
}

// settleWalk is a settlement by tokens on its way through the partitions. If the tokens are in
// several partitions, each is first asked whether it could settle its own, so that a refused
// request settles nothing. Between the two steps a lock can end, or a partition stop serving. Then
// the messages of the partitions before it stay settled.
type settleWalk struct {
	cmd   engine.Settle
	parts []share[event.LockToken]
	next  int
	try   bool // the partitions are asked whether they could settle
}

func (p *settleWalk) ask(req *request) {
	cmd, part := p.cmd, p.parts[p.next]
	cmd.Slice, cmd.Token, cmd.More = req.l.target.Slice(part.partition), part.of[0], part.of[1:]
	cmd.Try, cmd.Unread = p.try, len(cmd.Changes) > 0
	req.ask(part.partition, &cmd, func(req *request, r *engine.Reply) { p.answered(req, &cmd, r) })
}

// answered continues with the next partition. It asks the same one again if that needs the header
// sizes of the stored messages.
func (p *settleWalk) answered(req *request, cmd *engine.Settle, r *engine.Reply) {
	if unread := r.Messages(); len(unread) > 0 {
		p.askAgain(req, *cmd, unread)
		return
	}
	if !p.try {
		settledByToken(req, p.parts[p.next].of)
	}
	switch p.next++; {
	case p.next < len(p.parts):
		p.ask(req)
	case p.try:
		p.try, p.next = false, 0
		p.ask(req)
	default:
		req.succeed(nil)
	}
}

// settledByToken notes that the peer has settled messages by token.
func settledByToken(req *request, tokens []event.LockToken) {
	if x := req.part.in; x != nil {
		x.tokens = append(x.tokens, tokens...)
	} else {
		req.l.c.outstanding.settledByToken(req.l.c.sessions, tokens)
	}
}

func (p *settleWalk) askAgain(req *request, again engine.Settle, unread []engine.Delivery) {
	c := req.l.c
	var ahead readAhead
	defer ahead.drop()
	again.Unread = false
	for i := range unread {
		d := &unread[i]
		n, err := c.stored.headerSize(req.l.target, d, &ahead)
		switch {
		case err != nil:
			c.stored.reportDamage(req.l.target, d, err)
			req.refuse(503, amqp.CondServerBusy, unreadable)
			return
		case i == 0:
			again.Header = n
		default:
			again.Headers = append(again.Headers, n)
		}
	}
	req.ask(again.Slice.Partition, &again, func(req *request, r *engine.Reply) { p.answered(req, &again, r) })
}
