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

// renewLock moves the ends of locks: of all tokens or none (semantics.md 6.2).
func (c *conn) renewLock(req *request, body amqp.Map) {
	tokens, ok := message.LockTokens(body)
	if !ok {
		c.badRequest(req, needsTokens)
		return
	}
	t := req.l.target
	cmd := &engine.Renew{Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Tokens: tokens}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		expirations := amqp.Array{Elem: amqp.CodeTimestamp}
		for _, at := range r.Times() {
			expirations.Values = append(expirations.Values, amqp.Timestamp(at))
		}
		c.succeed(req, amqp.Map{{Key: "expirations", Value: expirations}})
	})
}

// updateDisposition settles by token: deferred messages, or ones whose link is gone. All tokens or none (semantics.md 5.3).
func (c *conn) updateDisposition(req *request, body amqp.Map) {
	tokens, ok := message.LockTokens(body)
	if !ok {
		c.badRequest(req, needsTokens)
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		c.badRequest(req, badSessionText)
		return
	}
	w, e := message.DispositionOf(body)
	t := req.l.target
	if e == nil && w.Outcome == engine.MoveToDeadLetter && t.SubQueue != event.Main {
		e = &amqp.Error{Condition: amqp.CondNotAllowed, Description: engine.DeadLetteredText}
	}
	if e != nil {
		c.refuseFor(req, e)
		return
	}
	var held []event.LockToken
	if ofSessions(t) {
		if held = c.sessionLocks(req, id, named); held == nil {
			c.refuseSession(req)
			return
		}
	}
	cmd := &engine.Settle{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Token: tokens[0], More: tokens[1:], Sessions: held,
		Outcome: w.Outcome, Changes: w.Changes, Unread: len(w.Changes) > 0, Reason: w.Reason, Description: w.Description,
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) { c.settledByToken(req, cmd, r) })
}

// settledByToken answers a settlement, or asks for it once more with what had to be read first.
func (c *conn) settledByToken(req *request, cmd *engine.Settle, r *engine.Reply) {
	unread := r.Messages()
	if len(unread) == 0 {
		c.settledElsewhere(append([]event.LockToken{cmd.Token}, cmd.More...))
		c.succeed(req, nil)
		return
	}
	var ahead readAhead
	defer ahead.drop()
	again := *cmd
	again.Unread = false
	for i := range unread {
		d := &unread[i]
		n, err := c.headerSize(req.l.target, d, &ahead)
		switch {
		case err != nil:
			c.damage(req.l.target, d, err)
			c.refuseRequest(req, 503, amqp.CondServerBusy, unreadable)
			return
		case i == 0:
			again.Header = n
		default:
			again.Headers = append(again.Headers, n)
		}
	}
	c.ask(req, &again, func(req *request, r *engine.Reply) { c.settledByToken(req, &again, r) })
}

// headerSize is how many bytes of a stored message stand beside its body. Of a large message no more than its beginning is read.
func (c *conn) headerSize(t engine.Target, d *engine.Delivery, ahead *readAhead) (int, error) {
	start := d.Body
	start.Size = min(start.Size, uint32(c.limits.HeaderSize)+headerRoom)
	if err := ahead.fill(c.broker, t.Host(0), &start, false); err != nil {
		return 0, err
	}
	b := (*ahead.buf)[:start.Size]
	n, err := message.HeaderSize(b)
	if err == nil {
		return n, nil
	}
	if b, err = ahead.blob(c.broker, t.Host(0), &d.Body, false); err != nil { // damaged, or from when more was allowed: its sum tells
		return 0, err
	}
	return message.HeaderSize(b)
}

// headerRoom is what a stored message may have beside its body above the limit: the message-id that the broker gave it, and
// where its body begins.
const headerRoom = 1 << 10
