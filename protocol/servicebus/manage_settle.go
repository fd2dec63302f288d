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

// renewLock moves the ends of locks: of all tokens or none, in each partition (semantics.md 6.2).
func renewLock(req *request, body amqp.Map) {
	tokens, ok := message.LockTokens(body)
	if !ok {
		req.bad(needsTokens)
		return
	}
	t := req.l.target
	r := &renewing{cmd: engine.Renew{Entity: t.Entity, SubQueue: t.SubQueue, Origin: req.l.origin}, tokens: tokens, parts: byPartition(tokens, t.OfToken),
		until: map[event.LockToken]event.Time{}}
	r.ask(req)
}

// updateDisposition settles by token: deferred messages, or ones whose link is gone. All tokens or none (semantics.md 5.3).
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
	if !inOnePartition(req, tokens, t.OfToken) {
		return
	}
	at := t.OfToken(tokens[0])
	cmd := &engine.Settle{
		Entity: t.Entity, Slice: t.Slice(at), SubQueue: t.SubQueue, Origin: req.l.origin, Token: tokens[0], More: tokens[1:], Sessions: held,
		Outcome: w.Outcome, Changes: w.Changes, Unread: len(w.Changes) > 0, Reason: w.Reason, Description: w.Description,
	}
	req.ask(at, cmd, func(req *request, r *engine.Reply) { settledByToken(req, cmd, r) })
}

// settledByToken answers a settlement, or asks for it once more with the header sizes of the stored messages, if the engine needs them.
func settledByToken(req *request, cmd *engine.Settle, r *engine.Reply) {
	c := req.l.c
	unread := r.Messages()
	if len(unread) == 0 {
		tokens := append([]event.LockToken{cmd.Token}, cmd.More...)
		if x := req.part.in; x != nil {
			x.tokens = append(x.tokens, tokens...)
		} else {
			c.outstanding.settledByToken(c.sessions, tokens)
		}
		req.succeed(nil)
		return
	}
	var ahead readAhead
	defer ahead.drop()
	again := *cmd
	again.Unread = false
	for i := range unread {
		d := &unread[i]
		n, err := c.stored.headerSize(req.l.target, d, &ahead)
		switch {
		case err != nil:
			c.stored.damaged(req.l.target, d, err)
			req.refuse(503, amqp.CondServerBusy, unreadable)
			return
		case i == 0:
			again.Header = n
		default:
			again.Headers = append(again.Headers, n)
		}
	}
	req.ask(again.Slice.Partition, &again, func(req *request, r *engine.Reply) { settledByToken(req, &again, r) })
}
