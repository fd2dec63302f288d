package servicebus

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
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
	d := &taking{cmd: engine.ReceiveDeferred{Entity: t.Entity, SubQueue: t.SubQueue, Origin: req.l.origin}, numbers: numbers}
	cmd := &d.cmd
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
	if cmd.Mode == engine.ReceiveAndDelete && !inOnePartition(req, numbers, t.OfSequence) { // what was deleted cannot be given back
		return
	}
	req.takes, req.deletes = true, cmd.Mode == engine.ReceiveAndDelete
	d.ask(req)
}

// taking is a request for deferred messages on its way: partition by partition, in the order of the first number that each has in the request.
// If one refuses, the locks that the others gave are given back.
type taking struct {
	cmd     engine.ReceiveDeferred // asked now
	numbers []event.SequenceNumber // all that were asked for
	left    []event.SequenceNumber // of other partitions than were asked
	found   []engine.Delivery
}

func (d *taking) ask(req *request) {
	t := req.l.target
	if d.found == nil {
		d.left = d.numbers
	}
	at := t.OfSequence(d.left[0])
	if d.cmd.Session != (event.LockToken{}) && t.OfToken(d.cmd.Session) != at { // it is of another session than the one held
		d.giveBack(req)
		req.refuseAs(engine.NotDeferred())
		return
	}
	cmd := d.cmd
	cmd.Slice = t.Slice(at)
	var others []event.SequenceNumber
	for _, n := range d.left {
		if t.OfSequence(n) == at {
			cmd.Sequences = append(cmd.Sequences, n)
		} else {
			others = append(others, n)
		}
	}
	d.left = others
	req.onRefused = d.giveBack
	req.ask(at, &cmd, d.answered)
}

// giveBack ends the locks that were taken for a request that is refused.
func (d *taking) giveBack(req *request) { req.tooLate(&engine.Reply{Answer: engine.Messages(d.found)}) }

func (d *taking) answered(req *request, r *engine.Reply) {
	d.found = append(d.found, r.Messages()...)
	if len(d.left) > 0 {
		d.ask(req)
		return
	}
	place := map[event.SequenceNumber]int{}
	for i, n := range d.numbers {
		place[n] = i
	}
	slices.SortFunc(d.found, func(a, b engine.Delivery) int { return cmp.Compare(place[a.Sequence], place[b.Sequence]) })
	v := message.View{LockToken: d.cmd.Mode == engine.PeekLock}
	messages := req.l.c.stored.list(req.l.target, d.found, v, math.MaxInt)
	if len(messages) == 0 {
		req.refuse(503, amqp.CondServerBusy, unreadable)
		return
	}
	req.succeed(amqp.Map{{Key: "messages", Value: messages}})
}
