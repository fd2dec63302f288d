package servicebus

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const operationPrefix = "com.microsoft:"

// operation is one thing a $management node can do.
type operation struct {
	right access.Rights
	about concern
	run   func(*conn, *request, amqp.Map)
}

// concern is what an operation is about. Not every kind of entity has it.
type concern uint8

const (
	ofReceived concern = iota // messages that can be received: of queues and subscriptions
	ofSent                    // messages that are sent: to queues and topics
	ofRules                   // of subscriptions
)

// operations of queues, topics and subscriptions (6.3). The others of the service answer 501.
var operations = map[string]operation{
	"renew-lock":                 {access.Listen, ofReceived, (*conn).renewLock},
	"update-disposition":         {access.Listen, ofReceived, (*conn).updateDisposition},
	"peek-message":               {access.Listen, ofReceived, (*conn).peekMessage},
	"schedule-message":           {access.Send, ofSent, (*conn).scheduleMessage},
	"cancel-scheduled-message":   {access.Send, ofSent, (*conn).cancelScheduled},
	"receive-by-sequence-number": {access.Listen, ofReceived, (*conn).receiveDeferred},
	"renew-session-lock":         {access.Listen, ofReceived, (*conn).renewSessionLock},
	"set-session-state":          {access.Listen, ofReceived, (*conn).setSessionState},
	"get-session-state":          {access.Listen, ofReceived, (*conn).getSessionState},
	"get-message-sessions":       {access.Listen, ofReceived, (*conn).listSessions},
	"batch-delete-messages":      {access.Listen, ofReceived, (*conn).batchDelete},
	"add-rule":                   {access.Manage, ofRules, (*conn).addRule},
	"remove-rule":                {access.Manage, ofRules, (*conn).removeRule},
	"enumerate-rules":            {access.Manage, ofRules, (*conn).enumerateRules},
}

// absent says why a target has nothing of what an operation is about; it is empty when it has.
func (about concern) absent(t engine.Target) string {
	kind := t.Entity.Kind
	switch {
	case about == ofReceived && kind == event.Topic:
		return fromTopicText
	case about == ofSent && kind == event.Subscription:
		return toSubscriptionText
	case about == ofRules && (kind != event.Subscription || t.SubQueue != event.Main):
		return noRulesText
	}
	return ""
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
		c.refuseRequest(req, 401, amqp.CondUnauthorizedAccess, c.unauthorized(op.right, req.l.at))
		return
	}
	t := req.l.target
	if t.Entity == nil || len(t.Entity.Hosts) != 1 {
		c.refuseRequest(req, 501, amqp.CondNotImplemented, "Partitioned entities are not implemented.")
		return
	}
	if text := op.about.absent(t); text != "" {
		c.refuseRequest(req, 400, amqp.CondNotAllowed, text)
		return
	}
	switch {
	case c.memory.answersWait():
		c.refuseRequest(req, 503, amqp.CondServerBusy, tooManyAnswers)
		return
	case c.pendings.requests >= c.limits.Requests:
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
	c.batch.add(req.l.target.Host(0), c.asking(req, cmd, answer))
}

// askCatalogue sends a command about rules, behind the requests that came before it.
func (c *conn) askCatalogue(req *request, cmd engine.Command, answer func(*request, *engine.Reply)) {
	c.batch.submit()
	c.broker.Manage(c.asking(req, cmd, answer))
}

// asking books a request that the engine is going to answer.
func (c *conn) asking(req *request, cmd engine.Command, answer func(*request, *engine.Reply)) engine.Request {
	req.answer = answer
	c.limitTime(req)
	tag := c.pendings.add(pending{kind: pendingRequest, link: req.l, request: req, size: uint32(req.size), expected: uint32(expectedSize(cmd))})
	return engine.Request{Command: cmd, Sink: c.outbox, Tag: tag}
}

// expectedSize is how many bytes the engine's answer to a command may take, where that is more than a request does: whoever asks for a
// thousand messages in a few bytes, and again before the answer comes, waits (reliability.md P23). What makes a partition look at many
// messages counts as a large answer does: others wait for it, too.
func expectedSize(cmd engine.Command) int {
	switch cmd := cmd.(type) {
	case *engine.Peek:
		return cmd.Count * deliveryCost
	case *engine.ReceiveDeferred:
		return len(cmd.Sequences) * deliveryCost
	case *engine.ListSessions, *engine.BatchDelete:
		return maxPeek * deliveryCost
	}
	return 0
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
