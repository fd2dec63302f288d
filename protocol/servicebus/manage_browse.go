package servicebus

import (
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxPeek bounds one answer's messages; fewer than asked is fine (6.3).
const maxPeek = 1000

// peekMessage shows messages without touching them (semantics.md 14.2).
func (c *conn) peekMessage(req *request, body amqp.Map) {
	from, ok1 := message.Integer(body, "from-sequence-number")
	count, ok2 := message.Integer(body, "message-count")
	if !ok1 || !ok2 || count <= 0 {
		c.badRequest(req, "The request needs 'from-sequence-number' and a positive 'message-count'.")
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		c.badRequest(req, badSessionText)
		return
	}
	omit, _ := body.Get("omit-message-body")
	v := message.View{Peek: true, OmitBody: omit == true}
	t := req.l.target
	room := math.MaxInt32
	if r := c.replyLink(req); r != nil {
		room = r.maxSize
	}
	// No more than a message of the entity may have, and than the peer's link takes.
	size := min(max(c.messageSize(t.Entity), 256<<10), room)
	cmd := &engine.Peek{
		Slice: t.Slice(0), SubQueue: t.SubQueue, From: event.SequenceNumber(max(from, 0)),
		Count: int(min(count, maxPeek)), MaxBytes: size, SessionID: []byte(id), HasSession: named,
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		messages := c.encodeAll(req, r.Messages(), v, room-answerRoom)
		if len(messages) == 0 {
			c.nothing(req)
			return
		}
		c.succeed(req, amqp.Map{{Key: "messages", Value: messages}})
	})
}

// encodeAll makes the list of messages of an answer, cut where it would have more than room bytes; the first one is there
// in any case.
func (c *conn) encodeAll(req *request, deliveries []engine.Delivery, v message.View, room int) amqp.List {
	var ahead readAhead
	defer ahead.drop()
	var messages amqp.List
	for i := range deliveries {
		d := &deliveries[i]
		b, err := c.encode(nil, req.l.target, d, v, &ahead, i+1 < len(deliveries))
		for range readTries {
			if !notNow(err) {
				break
			}
			b, err = c.encode(nil, req.l.target, d, v, &ahead, i+1 < len(deliveries))
		}
		if notNow(err) {
			break
		}
		if err != nil {
			c.damage(req.l.target, d, err)
			continue
		}
		if room -= len(b) + entryRoom; room < 0 && len(messages) > 0 {
			break
		}
		entry := amqp.Map{{Key: "message", Value: b}}
		if v.LockToken {
			entry = append(amqp.Map{{Key: "lock-token", Value: amqp.UUID(d.Token)}}, entry...)
		}
		messages = append(messages, entry)
	}
	return messages
}

// readTries is how often reading a message for an answer is tried again; each try waits a moment. The answer holds what was read by then.
const readTries = 20

const (
	answerRoom = 1 << 10 // what an answer is besides its messages, at most
	entryRoom  = 64      // what the entry of a message is besides the message
)

// batchDelete removes active messages, oldest first (semantics.md 14.3).
func (c *conn) batchDelete(req *request, body amqp.Map) {
	count, ok := message.Integer(body, "message-count")
	if !ok || count <= 0 {
		c.badRequest(req, "The request needs a positive 'message-count'.")
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		c.badRequest(req, badSessionText)
		return
	}
	t := req.l.target
	cmd := &engine.BatchDelete{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin,
		Count: int(min(count, 1<<31-1)), SessionID: []byte(id), HasSession: named,
	}
	switch v, _ := body.Get("enqueued-time-utc"); v := v.(type) {
	case nil: // now
	case amqp.Timestamp:
		cmd.Before = min(max(event.Time(v), 1), event.EndOfTime)
	default:
		c.badRequest(req, "The 'enqueued-time-utc' of the request must be a timestamp.")
		return
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		if r.Deleted() == 0 {
			c.nothing(req)
			return
		}
		c.succeed(req, amqp.Map{{Key: "message-count", Value: int32(r.Deleted())}})
	})
}
