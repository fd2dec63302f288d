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
	"renew-lock":                 {Listen, (*conn).renewLock},
	"update-disposition":         {Listen, (*conn).updateDisposition},
	"peek-message":               {Listen, (*conn).peekMessage},
	"schedule-message":           {Send, (*conn).scheduleMessage},
	"cancel-scheduled-message":   {Send, (*conn).cancelScheduled},
	"receive-by-sequence-number": {Listen, (*conn).receiveDeferred},
	"renew-session-lock":         {Listen, (*conn).renewSessionLock},
	"set-session-state":          {Listen, (*conn).setSessionState},
	"get-session-state":          {Listen, (*conn).getSessionState},
	"get-message-sessions":       {Listen, (*conn).listSessions},
	"batch-delete-messages":      {Listen, (*conn).batchDelete},
}

// keyAssociatedLink names, in a request, the link of the connection on whose behalf it is made.
const keyAssociatedLink = "associated-link-name"

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
	case c.answered > c.limits.BufferedOut:
		c.refuseRequest(req, 503, amqp.CondServerBusy, tooManyAnswers)
		return
	case c.requests >= c.limits.Requests:
		c.refuseRequest(req, 503, amqp.CondServerBusy, "Too many requests have no answer yet.")
		return
	}
	body, ok := req.body.(amqp.Map)
	if !ok {
		c.badRequest(req, "The body of the request must be a map.")
		return
	}
	op.run(c, req, body)
}

// touchAssociated lets the request count as activity of the link it names (1.8).
func (c *conn) touchAssociated(req *request) {
	name := req.text(keyAssociatedLink)
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
	c.bufferIn += req.size
	c.limitTime(req)
	tag := c.pendings.add(pending{kind: pendingRequest, link: req.l, request: req, size: uint32(req.size)})
	c.batch.add(req.l.target.Host(0), engine.Request{Command: cmd, Sink: c.outbox, Tag: tag})
}

// succeed answers 200 with a body or without.
func (c *conn) succeed(req *request, body amqp.Map) { c.answer(req, 200, "", "OK", body) }

// nothing answers 204: there is nothing to show, and nothing empty is ever sent (0.13).
func (c *conn) nothing(req *request) { c.answer(req, 204, "", "No content", nil) }

// badRequest refuses a request whose fields are not what the operation needs.
func (c *conn) badRequest(req *request, text string) {
	c.refuseRequest(req, 400, amqp.CondArgumentError, text)
}

// refuseFor refuses a request with an error that was found before the engine was asked.
func (c *conn) refuseFor(req *request, e *amqp.Error) {
	c.refuseRequest(req, 400, e.Condition, e.Description)
}

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
