package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// scheduleMessage stores messages that become active later, and answers with their numbers
// (semantics.md 7.6). Everything that an entry has besides its message is in the message as well.
func scheduleMessage(req *request, body amqp.Map) {
	t := req.l.target
	if t.SubQueue != event.Main {
		req.refuse(400, amqp.CondNotAllowed, toSubQueueText)
		return
	}
	cmd := &engine.Send{Entity: t.Entity, Origin: req.l.origin, Numbers: true}
	if e := req.collect(cmd, message.Elements(body, "messages")); e != nil {
		req.refuseFor(e)
		return
	}
	if seen, ok := cmd.Buffer.(*filterInput); ok {
		req.size += seen.size()
	}
	if err := t.Place(cmd); err != nil {
		releaseBuffer(cmd)
		req.refuseAs(err)
		return
	}
	req.ask(cmd.Slice.Partition, cmd, func(req *request, r *engine.Reply) {
		numbers := amqp.Array{Elem: amqp.CodeLong}
		for _, n := range r.Numbers() {
			numbers.Values = append(numbers.Values, int64(n))
		}
		req.succeed(amqp.Map{{Key: "sequence-numbers", Value: numbers}})
	})
}

// collect adds the messages of a request to a send. If it refuses, the send holds no buffer.
func (req *request) collect(cmd *engine.Send, entries []any) *amqp.Error {
	if len(entries) == 0 {
		return message.ArgumentError("The request needs 'messages', a list with at least one.")
	}
	seen := newFilterInput(cmd, len(entries))
	for _, v := range entries {
		entry, _ := v.(amqp.Map)
		raw, _ := entry.Get("message")
		b, ok := raw.([]byte)
		if !ok {
			seen.drop()
			return message.ArgumentError("Each of the 'messages' must be a map with a binary 'message'.")
		}
		in, e := req.l.c.inspect(b)
		if e != nil {
			seen.drop()
			return e
		}
		req.l.c.complete(&in, nil, nil, seen)
		cmd.Messages = append(cmd.Messages, in.Message)
	}
	cmd.Buffer = seen.with(nil)
	return nil
}

const needsNumbers = "The request needs 'sequence-numbers', an array of long."

// cancelScheduled cancels messages that are not active yet: all or none.
func cancelScheduled(req *request, body amqp.Map) {
	numbers, ok := message.SequenceNumbers(body)
	t := req.l.target
	switch {
	case !ok:
		req.bad(needsNumbers)
		return
	case t.SubQueue != event.Main:
		req.refuse(400, amqp.CondNotAllowed, "There are no scheduled messages in a sub-queue.")
		return
	}
	parts := byPartition(numbers, t.OfSequence)
	// as for all operations of a transaction
	if req.part.in != nil && len(parts) > 1 && !inOnePartition(req, numbers, t.OfSequence) {
		return
	}
	c := &cancelWalk{cmd: engine.CancelScheduled{Entity: t.Entity, Origin: req.l.origin, Try: len(parts) > 1}, parts: parts}
	c.ask(req)
}
