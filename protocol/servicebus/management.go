package servicebus

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const operationPrefix = "com.microsoft:"

// operation is one thing a $management node can do.
type operation struct {
	right Rights
	run   func(*conn, *request, amqp.Map)
}

// operations of queues (6.3). The others of the service answer 501.
var operations = map[string]operation{
	"renew-lock":         {Listen, (*conn).renewLock},
	"peek-message":       {Listen, (*conn).peekMessage},
	"update-disposition": {Listen, (*conn).updateDisposition},
}

// manage handles a request to a $management node (6.2). The right is checked again for each one (reliability.md S10).
func (c *conn) manage(req *request) {
	c.touchAssociated(req)
	name := req.text("operation")
	op, ok := operations[strings.TrimPrefix(name, operationPrefix)]
	if !ok || !strings.HasPrefix(name, operationPrefix) {
		c.refuseRequest(req, 501, amqp.CondNotImplemented, fmt.Sprintf("The operation '%s' is not implemented.", clip([]byte(name))))
		return
	}
	if _, ok := c.claims.allow(req.l.at.claimPath(), op.right, c.now); !ok {
		c.refuseRequest(req, 401, amqp.CondUnauthorizedAccess, c.unauthorized(op.right, req.l.at.path))
		return
	}
	e := req.l.target.Entity
	switch {
	case e == nil || e.Kind != event.Queue || len(e.Hosts) != 1:
		c.refuseRequest(req, 501, amqp.CondNotImplemented, "Only queues of one partition are implemented.")
		return
	case c.requests >= c.limits.Requests:
		c.refuseRequest(req, 503, amqp.CondServerBusy, "Too many requests have no answer yet.")
		return
	}
	body, ok := req.body.(amqp.Map)
	if !ok {
		c.refuseRequest(req, 400, amqp.CondArgumentError, "The body of the request must be a map.")
		return
	}
	op.run(c, req, body)
}

// touchAssociated lets the request count as activity of the link it names (1.8).
func (c *conn) touchAssociated(req *request) {
	name := req.text("associated-link-name")
	if name == "" {
		return
	}
	for _, role := range [...]amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		if l := c.names[linkName{name, role}]; l != nil {
			l.touch()
		}
	}
}

// ask sends a command to the entity's partition; answer handles its success.
func (c *conn) ask(req *request, cmd engine.Command, answer func(*request, *engine.Reply)) {
	req.answer = answer
	c.requests++
	tag := c.pendings.add(pending{kind: pendingRequest, link: req.l, request: req})
	c.batch.add(req.l.target.Host(0), engine.Request{Command: cmd, Sink: c.outbox, Tag: tag})
}

// succeed answers 200 with a body or without.
func (c *conn) succeed(req *request, body amqp.Map) { c.answer(req, 200, "", "OK", body) }

func (c *conn) refuseRequest(req *request, status int32, symbol amqp.Symbol, text string) {
	c.log.Info("servicebus: request refused", "operation", clip([]byte(req.text("operation"))), "entity", req.l.at.path,
		"status", status, "condition", symbol, "text", text)
	c.answer(req, status, symbol, c.suffixed(text, req.l.at.path, c.now), nil)
}

func (c *conn) answer(req *request, status int32, symbol amqp.Symbol, text string, body amqp.Map) {
	p := amqp.Map{{Key: "statusCode", Value: status}, {Key: "statusDescription", Value: text}}
	if symbol != "" {
		p = append(p, amqp.Pair{Key: "errorCondition", Value: symbol})
	}
	if id := req.text("com.microsoft:tracking-id"); id != "" {
		p = append(p, amqp.Pair{Key: "com.microsoft:tracking-id", Value: id})
	}
	c.respond(req, p, body)
}

// renewLock moves the ends of locks: of all tokens or none (semantics.md 6.2).
func (c *conn) renewLock(req *request, body amqp.Map) {
	tokens, ok := lockTokens(body)
	if !ok {
		c.refuseRequest(req, 400, amqp.CondArgumentError, "The request needs 'lock-tokens', an array of uuid.")
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

// maxPeek bounds one answer's messages; fewer than asked is fine (6.3).
const maxPeek = 1000

// peekMessage shows messages without touching them (semantics.md 14.2).
func (c *conn) peekMessage(req *request, body amqp.Map) {
	from, ok1 := integer(body, "from-sequence-number")
	count, ok2 := integer(body, "message-count")
	if !ok1 || !ok2 || count <= 0 {
		c.refuseRequest(req, 400, amqp.CondArgumentError, "The request needs 'from-sequence-number' and a positive 'message-count'.")
		return
	}
	omit, _ := body.Get("omit-message-body")
	v := view{peek: true, omitBody: omit == true}
	cmd := &engine.Peek{
		Slice: req.l.target.Slice(0), SubQueue: req.l.target.SubQueue, From: event.SequenceNumber(max(from, 0)),
		Count: int(min(count, maxPeek)), MaxBytes: max(int(req.l.target.Entity.Properties.MaxMessageSizeKilobytes)<<10, 256<<10),
	}
	if id, ok := body.Get("session-id"); ok && id != nil {
		cmd.SessionID, cmd.HasSession = []byte(fmt.Sprint(id)), true
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) { c.peeked(req, r, v) })
}

func (c *conn) peeked(req *request, r *engine.Reply, v view) {
	var ahead readAhead
	defer ahead.drop()
	var messages amqp.List
	for i := range r.Messages {
		d := &r.Messages[i]
		b, err := c.encode(nil, req.l.target, d, v, &ahead, i+1 < len(r.Messages))
		if err != nil {
			c.damage(req.l.target, d, err)
			continue
		}
		messages = append(messages, amqp.Map{{Key: "message", Value: b}})
	}
	if len(messages) == 0 {
		c.answer(req, 204, "", "No content", nil)
		return
	}
	c.succeed(req, amqp.Map{{Key: "messages", Value: messages}})
}

// updateDisposition settles by token: deferred messages, or ones whose link is gone. All tokens or none (semantics.md 5.3).
func (c *conn) updateDisposition(req *request, body amqp.Map) {
	tokens, ok := lockTokens(body)
	if !ok {
		c.refuseRequest(req, 400, amqp.CondArgumentError, "The request needs 'lock-tokens', an array of uuid.")
		return
	}
	w, e := dispositionOf(body)
	t := req.l.target
	if e == nil && w.outcome == engine.MoveToDeadLetter && t.SubQueue != event.Main {
		e = &amqp.Error{Condition: amqp.CondNotAllowed, Description: "A message of a dead-letter queue cannot be dead-lettered."}
	}
	if e != nil {
		c.refuseRequest(req, 400, e.Condition, e.Description)
		return
	}
	cmd := &engine.Settle{
		Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Token: tokens[0], More: tokens[1:],
		Outcome: w.outcome, Changes: w.changes, Reason: w.reason, Description: w.description,
	}
	c.ask(req, cmd, func(req *request, r *engine.Reply) { c.succeed(req, nil) })
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

// lockTokens reads an array or list of uuid with at least one element.
func lockTokens(body amqp.Map) ([]event.LockToken, bool) {
	v, _ := body.Get("lock-tokens")
	var values []any
	switch v := v.(type) {
	case amqp.Array:
		values = v.Values
	case amqp.List:
		values = v
	}
	tokens := make([]event.LockToken, 0, len(values))
	for _, v := range values {
		u, ok := v.(amqp.UUID)
		if !ok {
			return nil, false
		}
		tokens = append(tokens, event.LockToken(u))
	}
	return tokens, len(tokens) > 0
}

// integer reads a number of any integer type (6.2).
func integer(m amqp.Map, key string) (int64, bool) {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(min(v, 1<<63-1)), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}
