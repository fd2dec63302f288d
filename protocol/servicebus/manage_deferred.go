package servicebus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxDeferred bounds the messages that one request receives by number, because one answer has to
// hold all of them.
const maxDeferred = 1000

// maxTaking bounds a connection's unanswered requests for messages by number or for rules: their
// answers are in memory until the peer has credit for them (reliability.md P23).
const maxTaking = 16

const (
	tooManyAnswers = "Too many bytes of answers wait for credit."
	unreadable     = "The stored messages cannot be read now."
	tooManyTaking  = "Too many requests with large answers have no answer yet."
)

// receiveDeferred receives deferred messages by their numbers: all or none (semantics.md 14.1).
func receiveDeferred(req *request, body amqp.Map) {
	c := req.l.c
	numbers, ok := message.SequenceNumbers(body)
	switch {
	case !ok:
		req.bad(needsNumbers)
		return
	case len(numbers) > maxDeferred:
		req.bad(fmt.Sprintf("The request asks for %d messages; the limit is %d.", len(numbers), maxDeferred))
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		req.bad(badSessionText)
		return
	}
	t := req.l.target
	d := &deferredWalk{cmd: engine.ReceiveDeferred{Entity: t.Entity, SubQueue: t.SubQueue, Origin: req.l.origin}, numbers: numbers}
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
	if cmd.Mode == engine.ReceiveAndDelete {
		cmd.Sequences = numbers
		req.room = cmd.MaxAnswer(messageSizeLimit(c.broker, t.Entity))
		if len(byPartition(numbers, t.OfSequence)) > 1 || !c.memory.reserve(req.room) {
			// a deleted message cannot be returned, and a lock can
			cmd.Mode, d.removes = engine.PeekLock, true
			// until the locks are there, when the size is known
			req.room = 0
		}
	}
	req.takes, req.deletes = true, cmd.Mode == engine.ReceiveAndDelete
	d.ask(req)
}

// deferredWalk is a request for deferred messages on its way through the partitions, in the order
// of the first number that each has in the request. If one refuses, or there is no memory for the
// answer, the locks of the others are released.
type deferredWalk struct {
	cmd     engine.ReceiveDeferred // for the current partition
	numbers []event.SequenceNumber // all requested numbers
	left    []event.SequenceNumber // those of partitions not asked yet
	found   []engine.Delivery
	size    int  // bytes of the found messages
	removes bool // they are deleted once all are locked
}

func (d *deferredWalk) ask(req *request) {
	t := req.l.target
	if d.found == nil {
		d.left = d.numbers
	}
	at := t.OfSequence(d.left[0])
	// the message is of another session than the held one
	if d.cmd.Session != (event.LockToken{}) && t.OfToken(d.cmd.Session) != at {
		d.giveBack(req)
		req.refuseAs(engine.NotDeferred())
		return
	}
	cmd := d.cmd
	cmd.Slice, cmd.Sequences, cmd.Before = t.Slice(at), nil, int64(d.size)
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

// giveBack releases the locks that were taken for a refused request.
func (d *deferredWalk) giveBack(req *request) {
	req.releaseLate(&engine.Reply{Answer: engine.Messages(d.found)})
}

func (d *deferredWalk) answered(req *request, r *engine.Reply) {
	taken := r.Messages()
	d.found = append(d.found, taken...)
	for i := range taken {
		d.size += int(taken[i].Stored())
	}
	if len(d.left) > 0 {
		d.ask(req)
		return
	}
	place := map[event.SequenceNumber]int{}
	for i, n := range d.numbers {
		place[n] = i
	}
	slices.SortFunc(d.found, func(a, b engine.Delivery) int { return cmp.Compare(place[a.Sequence], place[b.Sequence]) })
	if d.removes {
		removeTaken(req, d)
		return
	}
	if d.cmd.Mode == engine.PeekLock && !req.l.c.memory.reserve(d.size) {
		d.giveBack(req)
		req.refuseAs(errNoMemory)
		return
	}
	answerTaken(req, d.found, message.View{LockToken: d.cmd.Mode == engine.PeekLock})
}

// answerTaken answers with the received messages.
func answerTaken(req *request, found []engine.Delivery, v message.View) {
	messages := req.l.c.stored.list(req.l.target, found, v, math.MaxInt)
	if len(messages) == 0 {
		req.refuse(503, amqp.CondServerBusy, unreadable)
		return
	}
	req.succeed(amqp.Map{{Key: "messages", Value: messages}})
}

// deleteWalk is the second half of a request that receives and deletes deferred messages of several
// partitions, after all of them were locked. It completes them partition by partition, and the
// answer has the messages whose deletion is durable. A partition refuses if it no longer serves or
// a lock has ended. Then the walk ends: messages that are not deleted are deferred again and not in
// the answer. If nothing was deleted, the refusal is the answer. If the log of a partition fails
// meanwhile, the outcome is unknown: the answer has none of its messages, and they may be deleted,
// as with receive and delete.
type deleteWalk struct {
	cmd   engine.Settle
	found []engine.Delivery // in the order of the request
	parts []share[event.LockToken]
	next  int // the current partition; those before it have deleted
}

// removeTaken deletes the messages that were locked for a request.
func removeTaken(req *request, d *deferredWalk) {
	r := &deleteWalk{
		cmd:   engine.Settle{Entity: d.cmd.Entity, SubQueue: d.cmd.SubQueue, Origin: d.cmd.Origin, Outcome: engine.Complete},
		found: d.found,
	}
	var tokens []event.LockToken
	for i := range d.found {
		tokens = append(tokens, d.found[i].Token)
	}
	r.parts = byPartition(tokens, req.l.target.OfToken)
	req.deletes, req.room = true, d.size
	req.onRefused, req.onFailed = r.giveBack, r.failed
	r.ask(req)
}

func (r *deleteWalk) ask(req *request) {
	cmd, part := r.cmd, r.parts[r.next]
	cmd.Slice, cmd.Token, cmd.More = req.l.target.Slice(part.partition), part.of[0], part.of[1:]
	req.ask(part.partition, &cmd, r.answered)
}

func (r *deleteWalk) answered(req *request, _ *engine.Reply) {
	if r.next++; r.next < len(r.parts) {
		r.ask(req)
		return
	}
	r.answer(req)
}

// failed answers with the deleted messages, if there are any.
func (r *deleteWalk) failed(req *request, err error) bool {
	if !errors.Is(err, engine.ErrUnknown) {
		r.release(req, r.parts[r.next])
	}
	if r.next == 0 {
		return false
	}
	r.answer(req)
	return true
}

// giveBack releases the locks of messages that will not be deleted.
func (r *deleteWalk) giveBack(req *request) {
	for _, part := range r.parts[r.next+1:] {
		r.release(req, part)
	}
}

func (r *deleteWalk) release(req *request, part share[event.LockToken]) {
	of := make(engine.Messages, len(part.of))
	for i, token := range part.of {
		of[i].Token = token
	}
	req.releaseLate(&engine.Reply{Answer: of})
}

// answer answers with the messages of the partitions that have deleted theirs. They have no lock
// any more.
func (r *deleteWalk) answer(req *request) {
	deleted := slices.DeleteFunc(r.found, func(d engine.Delivery) bool {
		at := req.l.target.OfToken(d.Token)
		return slices.ContainsFunc(r.parts[r.next:], func(s share[event.LockToken]) bool { return s.partition == at })
	})
	for i := range deleted {
		deleted[i].Token, deleted[i].LockedUntil = event.LockToken{}, 0
	}
	answerTaken(req, deleted, message.View{})
}
