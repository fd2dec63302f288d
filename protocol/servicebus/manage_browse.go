package servicebus

import (
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// maxPeek bounds the messages of one answer; fewer than requested are allowed (6.3).
const maxPeek = 1000

// peekMessage returns messages without changing them (semantics.md 14.2).
func peekMessage(req *request, body amqp.Map) {
	c := req.l.c
	from, ok1 := message.Integer(body, "from-sequence-number")
	count, ok2 := message.Integer(body, "message-count")
	if !ok1 || !ok2 || count <= 0 {
		req.bad("The request needs 'from-sequence-number' and a positive 'message-count'.")
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		req.bad(badSessionText)
		return
	}
	omit, _ := body.Get("omit-message-body")
	v := message.View{Peek: true, OmitBody: omit == true}
	t := req.l.target
	if forwards(t) {
		req.refuseAs(engine.Refuse(engine.NotAllowed, forwardingBrowserText))
		return
	}
	room := math.MaxInt32
	if r := req.l.c.sessions.replyLink(req); r != nil {
		room = r.maxSize
	}
	// At most the size of a message of the entity, and the size that the peer's link accepts.
	size := min(max(messageSizeLimit(c.broker, t.Entity), 256<<10), room)
	start := event.SequenceNumber(max(from, 0))
	first, last := t.Partitions(start)
	if first > last {
		req.nothing()
		return
	}
	if named && first < last {
		only := req.partitionOfSession(id)
		if only < first {
			req.nothing()
			return
		}
		if only > first {
			start = 0
		}
		first, last = only, only
	}
	p := &peekWalk{partitionWalk: partitionWalk{last: last}, view: v, size: size, room: room}
	p.cmd = engine.Peek{
		Slice: t.Slice(first), SubQueue: t.SubQueue, From: start,
		Count: int(min(count, maxPeek)), MaxBytes: size, SessionID: []byte(id), HasSession: named,
	}
	p.ask(req)
}

// batchDelete removes active messages, oldest first (semantics.md 14.3).
func batchDelete(req *request, body amqp.Map) {
	count, ok := message.Integer(body, "message-count")
	if !ok || count <= 0 {
		req.bad("The request needs a positive 'message-count'.")
		return
	}
	id, named, ok := message.SessionID(body)
	if !ok {
		req.bad(badSessionText)
		return
	}
	why, ok := req.why()
	if !ok {
		return
	}
	t := req.l.target
	if len(t.Entity.Hosts) > 1 {
		req.refuse(400, amqp.CondNotAllowed, "Messages of a partitioned entity cannot be deleted in batches.")
		return
	}
	cmd := &engine.BatchDelete{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Why: why,
		Count: int(min(count, 1<<31-1)), SessionID: []byte(id), HasSession: named,
	}
	switch v, _ := body.Get("enqueued-time-utc"); v := v.(type) {
	case nil: // now
	case amqp.Timestamp:
		cmd.Before = min(max(event.Time(v), 1), event.EndOfTime)
	default:
		req.bad("The 'enqueued-time-utc' of the request must be a timestamp.")
		return
	}
	req.ask(0, cmd, func(req *request, r *engine.Reply) {
		if r.Deleted() == 0 {
			req.nothing()
			return
		}
		req.succeed(amqp.Map{{Key: "message-count", Value: int32(r.Deleted())}})
	})
}
