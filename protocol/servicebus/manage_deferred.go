package servicebus

import (
	"fmt"
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxDeferred bounds the messages one request takes by number, because all of them have to be in one answer.
const maxDeferred = 1000

// maxTaking bounds the requests of a connection that take messages by number or ask for rules and have no answer yet: what
// they get stands in memory until the peer has credit for it (reliability.md P23).
const maxTaking = 16

const (
	tooManyAnswers = "Too many bytes of answers wait for credit."
	unreadable     = "The stored messages cannot be read now."
	tooManyTaking  = "Too many requests with large answers have no answer yet."
)

// receiveDeferred takes deferred messages by their numbers: all of them or none (semantics.md 14.1).
func (c *conn) receiveDeferred(req *request, body amqp.Map) {
	numbers, ok := message.SequenceNumbers(body)
	switch {
	case !ok:
		c.badRequest(req, needsNumbers)
		return
	case len(numbers) > maxDeferred:
		c.badRequest(req, fmt.Sprintf("The request asks for %d messages; %d is the most.", len(numbers), maxDeferred))
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		c.badRequest(req, badSessionText)
		return
	}
	t := req.l.target
	cmd := &engine.ReceiveDeferred{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Sequences: numbers,
	}
	switch mode, ok := message.Integer(body, "receiver-settle-mode"); {
	case !ok || mode == 1:
	case mode == 0:
		cmd.Mode = engine.ReceiveAndDelete
	default:
		c.badRequest(req, "The 'receiver-settle-mode' of the request must be 0 or 1.")
		return
	}
	if ofSessions(t) {
		var held bool
		if cmd.Session, held = c.sessionLock(req, id, named); !held {
			c.refuseSession(req)
			return
		}
	}
	if c.taking >= maxTaking {
		c.refuseRequest(req, 503, amqp.CondServerBusy, tooManyTaking)
		return
	}
	req.takes, req.deletes = true, cmd.Mode == engine.ReceiveAndDelete
	c.taking++
	v := message.View{LockToken: cmd.Mode == engine.PeekLock}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		messages := c.encodeAll(req, r.Messages(), v, math.MaxInt)
		if len(messages) == 0 {
			c.refuseRequest(req, 503, amqp.CondServerBusy, unreadable)
			return
		}
		c.succeed(req, amqp.Map{{Key: "messages", Value: messages}})
	})
}
