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
	cmd := &engine.Renew{Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Tokens: tokens}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		expirations := amqp.Array{Elem: amqp.CodeTimestamp}
		for _, at := range r.Times {
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
	if named && ofSessions(t) {
		if _, held := c.sessionLock(req, id, true); !held {
			c.refuseSession(req)
			return
		}
	}
	cmd := &engine.Settle{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Token: tokens[0], More: tokens[1:],
		Outcome: w.outcome, Changes: w.changes, Reason: w.reason, Description: w.description,
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		c.settledElsewhere(tokens)
		c.succeed(req, nil)
	})
}

// settledElsewhere forgets deliveries of this connection's links that were settled by their tokens.
func (c *conn) settledElsewhere(tokens []event.LockToken) {
	gone := make(map[event.LockToken]bool, len(tokens))
	for _, t := range tokens {
		gone[t] = true
	}
	for _, s := range c.sessions {
		for id, u := range s.unsettled {
			if !gone[u.token] {
				continue
			}
			delete(s.unsettled, id)
			c.locked--
			u.link.receiver.pass()
			if delete(gone, u.token); len(gone) == 0 {
				return
			}
		}
	}
}

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
