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
func receiveDeferred(req *request, body amqp.Map) {
	c := req.l.c
	numbers, ok := message.SequenceNumbers(body)
	switch {
	case !ok:
		req.bad(needsNumbers)
		return
	case len(numbers) > maxDeferred:
		req.bad(fmt.Sprintf("The request asks for %d messages; %d is the most.", len(numbers), maxDeferred))
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		req.bad(badSessionText)
		return
	}
	t := req.l.target
	at := t.OfSequence(numbers[0])
	cmd := &engine.ReceiveDeferred{
		Entity: t.Entity, Slice: t.Slice(at), SubQueue: t.SubQueue, Origin: req.l.origin, Sequences: numbers,
	}
	switch mode, ok := message.Integer(body, "receiver-settle-mode"); {
	case !ok || mode == 1:
	case mode == 0:
		cmd.Mode = engine.ReceiveAndDelete
	default:
		req.bad("The 'receiver-settle-mode' of the request must be 0 or 1.")
		return
	}
	if ofSessions(t) {
		var held bool
		if cmd.Session, held = req.messageSessionLock(id, named); !held {
			req.refuseMessageSession()
			return
		}
	}
	if c.pendings.taking >= maxTaking {
		req.refuse(503, amqp.CondServerBusy, tooManyTaking)
		return
	}
	req.takes, req.deletes = true, cmd.Mode == engine.ReceiveAndDelete
	v := message.View{LockToken: cmd.Mode == engine.PeekLock}
	req.ask(at, cmd, func(req *request, r *engine.Reply) {
		messages := c.stored.list(req.l.target, r.Messages(), v, math.MaxInt)
		if len(messages) == 0 {
			req.refuse(503, amqp.CondServerBusy, unreadable)
			return
		}
		req.succeed(amqp.Map{{Key: "messages", Value: messages}})
	})
}
