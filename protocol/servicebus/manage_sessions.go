package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// ofSessions reports whether messages of a target are received under message sessions. Those of
// dead-letter queues never are.
func ofSessions(t engine.Target) bool {
	return t.Entity.Properties.RequiresSession && t.SubQueue == event.Main
}

// refuseMessageSession answers that the client does not hold the session of its request.
func (req *request) refuseMessageSession() {
	req.refuse(410, amqp.CondSessionLockLost, engine.SessionLostText)
}

const needsSession = "The request needs 'session-id', a string."

// renewSessionLock extends the lock of a session that a link of this connection holds.
func renewSessionLock(req *request, body amqp.Map) {
	id, lock, ok := req.messageSession(body)
	if !ok {
		return
	}
	t := req.l.target
	at := t.OfToken(lock)
	cmd := &engine.RenewSession{Entity: t.Entity, Slice: t.Slice(at), Origin: req.l.origin, SessionID: []byte(id), Session: lock}
	req.ask(at, cmd, func(req *request, r *engine.Reply) {
		req.succeed(amqp.Map{{Key: "expiration", Value: amqp.Timestamp(r.Times()[0])}})
	})
}

// setSessionState replaces or clears the state of a session that a link of this connection holds:
// empty and null are the same.
func setSessionState(req *request, body amqp.Map) {
	id, lock, ok := req.messageSession(body)
	if !ok {
		return
	}
	v, given := body.Get("session-state")
	state, binary := v.([]byte)
	if !given || v != nil && !binary {
		req.bad("The request needs 'session-state', binary or null.")
		return
	}
	t := req.l.target
	at := t.OfToken(lock)
	cmd := &engine.SetSessionState{
		Entity: t.Entity, Slice: t.Slice(at), Origin: req.l.origin, SessionID: []byte(id), Session: lock, State: state,
	}
	req.ask(at, cmd, func(req *request, _ *engine.Reply) { req.succeed(nil) })
}

// messageSession returns the session of a request, and its lock. If there is none, it refuses the
// request.
func (req *request) messageSession(body amqp.Map) (id string, lock event.LockToken, ok bool) {
	id, named, _ := message.SessionID(body)
	if !named {
		req.bad(needsSession)
		return id, lock, false
	}
	if lock, ok = req.messageSessionLock(id, true); !ok {
		req.refuseMessageSession()
	}
	return id, lock, ok
}

// getSessionState returns the state of a session. Any client may read it (semantics.md 8.4), but a
// client that names the link by which it holds the session must hold it.
func getSessionState(req *request, body amqp.Map) {
	id, named, _ := message.SessionID(body)
	if !named {
		req.bad(needsSession)
		return
	}
	if req.text(keyAssociatedLink) != "" {
		if _, held := req.messageSessionLock(id, true); !held {
			req.refuseMessageSession()
			return
		}
	}
	t := req.l.target
	at := req.partitionOfSession(id)
	cmd := &engine.GetSessionState{Entity: t.Entity, Slice: t.Slice(at), SessionID: []byte(id)}
	req.ask(at, cmd, func(req *request, r *engine.Reply) { answerState(req, t.Host(at), r) })
}

func answerState(req *request, host engine.PartitionID, r *engine.Reply) {
	c := req.l.c
	var state any // the key is always in the answer
	if stored := r.SessionState(); stored != nil {
		if !c.memory.reserve(int(stored.Size)) {
			req.refuseAs(errNoMemory)
			return
		}
		var ahead readAhead
		defer ahead.drop()
		b, err := ahead.blob(c.broker, host, stored, false)
		if err != nil {
			c.log.Error("servicebus: session state unreadable: "+unreadableBecause(err), "entity", req.l.at.path,
				"partition", host, "position", uint64(stored.Position), "error", err)
			c.broker.ReportDamage(host, event.LockToken{}, err)
			req.refuse(503, amqp.CondServerBusy, "The stored session state cannot be read now.")
			return
		}
		state = append([]byte{}, b...)
	}
	req.succeed(amqp.Map{{Key: "session-state", Value: state}})
}

// maxSessions bounds the ids of one answer.
const maxSessions = 10_000

// listSessions lists sessions: those with active messages or a state or, if the request has a time
// other than the end of time, those whose state was set after it (semantics.md 8.6).
func listSessions(req *request, body amqp.Map) {
	v, _ := body.Get("last-updated-time")
	since, ok := v.(amqp.Timestamp)
	skip, ok1 := message.Integer(body, "skip")
	top, ok2 := message.Integer(body, "top")
	if !ok || !ok1 || !ok2 || skip < 0 || top <= 0 {
		req.bad("The request needs 'last-updated-time', a timestamp, 'skip' and a positive 'top'.")
		return
	}
	t := req.l.target
	if t.SubQueue != event.Main {
		req.nothing()
		return
	}
	first, last := t.Partitions(0)
	l := &sessionListWalk{partitionWalk: partitionWalk{last: last}, skip: int(skip)}
	l.cmd = engine.ListSessions{
		Slice: t.Slice(first), Since: event.Time(since), All: event.Time(since) >= event.EndOfTime,
		Skip: int(skip), Top: int(min(top, maxSessions)),
	}
	l.ask(req)
}
