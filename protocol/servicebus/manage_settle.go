package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const (
	needsTokens    = "The request needs 'lock-tokens', an array of uuid."
	badSessionText = "The 'session-id' of the request must be a string."
)

// renewLock moves the ends of locks: of all tokens or none (semantics.md 6.2).
func (c *conn) renewLock(req *request, body amqp.Map) {
	tokens, ok := lockTokens(body)
	if !ok {
		c.badRequest(req, needsTokens)
		return
	}
	t := req.l.target
	at := t.OfToken(tokens[0])
	cmd := &engine.Renew{Entity: t.Entity, Slice: t.Slice(at), SubQueue: t.SubQueue, Origin: req.l.origin, Tokens: tokens}
	c.ask(req, at, cmd, func(req *request, r *engine.Reply) {
		expirations := amqp.Array{Elem: amqp.CodeTimestamp}
		for _, at := range r.Times() {
			expirations.Values = append(expirations.Values, amqp.Timestamp(at))
		}
		c.succeed(req, amqp.Map{{Key: "expirations", Value: expirations}})
	})
}

// updateDisposition settles by token: deferred messages, or ones whose link is gone. All tokens or none (semantics.md 5.3).
func (c *conn) updateDisposition(req *request, body amqp.Map) {
	tokens, ok := lockTokens(body)
	if !ok {
		c.badRequest(req, needsTokens)
		return
	}
	id, named, ok := sessionID(body)
	if !ok {
		c.badRequest(req, badSessionText)
		return
	}
	w, e := dispositionOf(body)
	t := req.l.target
	if e == nil && w.outcome == engine.MoveToDeadLetter && t.SubQueue != event.Main {
		e = &amqp.Error{Condition: amqp.CondNotAllowed, Description: "A message of a dead-letter queue cannot be dead-lettered."}
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
	at := t.OfToken(tokens[0])
	cmd := &engine.Settle{
		Entity: t.Entity, Slice: t.Slice(at), SubQueue: t.SubQueue, Origin: req.l.origin, Token: tokens[0], More: tokens[1:], Sessions: held,
		Outcome: w.outcome, Changes: w.changes, Unread: len(w.changes) > 0, Reason: w.reason, Description: w.description,
	}
	c.ask(req, at, cmd, func(req *request, r *engine.Reply) { c.settledByToken(req, cmd, r) })
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
	c.ask(req, again.Slice.Partition, &again, func(req *request, r *engine.Reply) { c.settledByToken(req, &again, r) })
}

// headerSize is how many bytes of a stored message stand beside its body. Of a large message no more than its beginning is read.
func (c *conn) headerSize(t engine.Target, d *engine.Delivery, ahead *readAhead) (int, error) {
	start := d.Body
	start.Size = min(start.Size, uint32(c.limits.HeaderSize)+headerRoom)
	host := t.Host(t.OfSequence(d.Sequence))
	if err := ahead.fill(c.broker, host, &start, false); err != nil {
		return 0, err
	}
	b := (*ahead.buf)[:start.Size]
	s, err := splitSections(b)
	if err != nil { // damaged, or from when more was allowed: its sum tells
		if b, err = ahead.blob(c.broker, host, &d.Body, false); err != nil {
			return 0, err
		}
		if s, err = splitSections(b); err != nil {
			return 0, err
		}
	}
	return len(b) - len(s.tail), nil
}

// headerRoom is what a stored message may have beside its body above the limit: the message-id that the broker gave it, and
// where its body begins.
const headerRoom = 1 << 10

// dispositionOf reads the fields of update-disposition.
func dispositionOf(body amqp.Map) (settlement, *amqp.Error) {
	modify, _ := body.Get("properties-to-modify")
	properties, _ := modify.(amqp.Map)
	w := settlement{}
	switch status := textOf(body, "disposition-status"); status {
	case "completed":
		return settlement{outcome: engine.Complete}, nil
	case "abandoned":
		w.outcome = engine.Abandon
	case "defered", "deferred":
		w.outcome = engine.Defer
	case "suspended":
		for _, p := range [...][2]string{{"deadletter-reason", deadLetterReason}, {"deadletter-description", deadLetterDescription}} {
			if v, ok := body.Get(p[0]); ok && v != nil {
				properties = append(without(properties, p[1]), amqp.Pair{Key: p[1], Value: v})
			}
		}
		return deadLetter(properties)
	default:
		return w, argumentError("The disposition status '%s' is not known.", clip([]byte(status)))
	}
	var e *amqp.Error
	w.changes, e = encodeChanges(properties)
	return w, e
}

// without is m without the entries of a key.
func without(m amqp.Map, key string) amqp.Map {
	var kept amqp.Map
	for _, p := range m {
		if k := fmt.Sprint(p.Key); k != key {
			kept = append(kept, p)
		}
	}
	return kept
}
