package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// ofSessions tells whether what is received from a target is received under message sessions. Dead-letter queues never are.
func ofSessions(t engine.Target) bool {
	return t.Entity.Properties.RequiresSession && t.SubQueue == event.Main
}

// refuseSession tells that the client does not hold the session that it acts on.
func (c *conn) refuseSession(req *request) {
	c.refuseRequest(req, 410, amqp.CondSessionLockLost, engine.SessionLostText)
}

const needsSession = "The request needs 'session-id', a string."

// renewSessionLock moves the end of the lock of a session that a link of this connection holds.
func (c *conn) renewSessionLock(req *request, body amqp.Map) {
	id, lock, ok := c.needSession(req, body)
	if !ok {
		return
	}
	t := req.l.target
	cmd := &engine.RenewSession{Entity: t.Entity, Slice: t.Slice(0), Origin: req.l.origin, SessionID: []byte(id), Session: lock}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		c.succeed(req, amqp.Map{{Key: "expiration", Value: amqp.Timestamp(r.Times()[0])}})
	})
}

// setSessionState replaces the state of a session that a link of this connection holds, or clears it: empty and null are the same.
func (c *conn) setSessionState(req *request, body amqp.Map) {
	id, lock, ok := c.needSession(req, body)
	if !ok {
		return
	}
	v, given := body.Get("session-state")
	state, binary := v.([]byte)
	if !given || v != nil && !binary {
		c.badRequest(req, "The request needs 'session-state', binary or null.")
		return
	}
	t := req.l.target
	cmd := &engine.SetSessionState{
		Entity: t.Entity, Slice: t.Slice(0), Origin: req.l.origin, SessionID: []byte(id), Session: lock, State: state,
	}
	c.ask(req, cmd, func(req *request, _ *engine.Reply) { c.succeed(req, nil) })
}

// needSession is the session that a request is about, and its lock. Where that is missing the request is refused.
func (c *conn) needSession(req *request, body amqp.Map) (id string, lock event.LockToken, ok bool) {
	id, named, _ := message.SessionID(body)
	if !named {
		c.badRequest(req, needsSession)
		return id, lock, false
	}
	if lock, ok = c.sessionLock(req, id, true); !ok {
		c.refuseSession(req)
	}
	return id, lock, ok
}

// getSessionState shows the state of a session. Anybody may look (semantics.md 8.4), but a client that says by which link
// it holds the session must hold it.
func (c *conn) getSessionState(req *request, body amqp.Map) {
	id, named, _ := message.SessionID(body)
	if !named {
		c.badRequest(req, needsSession)
		return
	}
	if req.text(keyAssociatedLink) != "" {
		if _, held := c.sessionLock(req, id, true); !held {
			c.refuseSession(req)
			return
		}
	}
	t := req.l.target
	cmd := &engine.GetSessionState{Entity: t.Entity, Slice: t.Slice(0), SessionID: []byte(id)}
	c.ask(req, cmd, c.answerState)
}

func (c *conn) answerState(req *request, r *engine.Reply) {
	var state any // the key is there in any case
	if stored := r.SessionState(); stored != nil {
		var ahead readAhead
		defer ahead.drop()
		host := req.l.target.Host(0)
		b, err := ahead.blob(c.broker, host, stored, false)
		if err != nil {
			c.log.Error("servicebus: session state not shown, its stored bytes are damaged", "entity", req.l.at.path,
				"partition", host, "position", uint64(stored.Position), "error", err)
			c.broker.ReportDamage(host, err)
			c.refuseRequest(req, 503, amqp.CondServerBusy, "The stored session state cannot be read now.")
			return
		}
		state = append([]byte{}, b...)
	}
	c.succeed(req, amqp.Map{{Key: "session-state", Value: state}})
}

// maxSessions bounds the ids of one answer.
const maxSessions = 10_000

// listSessions names sessions: those with active messages or a state or, with a time that is not the end of time, those
// whose state was set after it (semantics.md 8.6).
func (c *conn) listSessions(req *request, body amqp.Map) {
	v, _ := body.Get("last-updated-time")
	since, ok := v.(amqp.Timestamp)
	skip, ok1 := message.Integer(body, "skip")
	top, ok2 := message.Integer(body, "top")
	if !ok || !ok1 || !ok2 || skip < 0 || top <= 0 {
		c.badRequest(req, "The request needs 'last-updated-time', a timestamp, 'skip' and a positive 'top'.")
		return
	}
	cmd := &engine.ListSessions{
		Slice: req.l.target.Slice(0), Since: event.Time(since), All: event.Time(since) >= event.EndOfTime,
		Skip: int(skip), Top: int(min(top, maxSessions)),
	}
	if req.l.target.SubQueue != event.Main {
		c.nothing(req)
		return
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) {
		found := r.SessionIDs()
		if len(found) == 0 {
			c.nothing(req)
			return
		}
		ids := amqp.Array{Elem: amqp.CodeStr8}
		for _, id := range found {
			ids.Values = append(ids.Values, id)
		}
		c.succeed(req, amqp.Map{{Key: "skip", Value: int32(min(skip+int64(len(found)), 1<<31-1))}, {Key: "sessions-ids", Value: ids}})
	})
}
