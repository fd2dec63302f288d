package servicebus

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

const operationPrefix = "com.microsoft:"

// operation is an operation of a $management node.
type operation struct {
	right access.Rights
	about concern
	as    role
	run   func(*request, amqp.Map)
}

// role says how an operation behaves that is requested as part of a transaction.
type role uint8

const (
	apart     role = iota // it is done at once, and not undone
	inside                // it takes effect with the transaction
	unallowed             // it cannot be part of a transaction
)

// concern is the subject of an operation. Not every kind of entity has it.
type concern uint8

const (
	ofReceived concern = iota // messages that can be received: of queues and subscriptions
	// messages that can be browsed: those of ofReceived, and the scheduled ones of topics
	ofShown
	ofSent  // messages that are sent: to queues and topics
	ofRules // of subscriptions
)

// operations of queues, topics and subscriptions (6.3). Other operations of the service answer 501.
var operations = map[string]operation{
	"renew-lock":                 {access.Listen, ofReceived, apart, renewLock},
	"update-disposition":         {access.Listen, ofReceived, inside, updateDisposition},
	"peek-message":               {access.Listen, ofShown, apart, peekMessage},
	"schedule-message":           {access.Send, ofSent, inside, scheduleMessage},
	"cancel-scheduled-message":   {access.Send, ofSent, inside, cancelScheduled},
	"receive-by-sequence-number": {access.Listen, ofReceived, apart, receiveDeferred},
	"renew-session-lock":         {access.Listen, ofReceived, apart, renewSessionLock},
	"set-session-state":          {access.Listen, ofReceived, inside, setSessionState},
	"get-session-state":          {access.Listen, ofReceived, apart, getSessionState},
	"get-message-sessions":       {access.Listen, ofReceived, apart, listSessions},
	"batch-delete-messages":      {access.Listen, ofReceived, unallowed, batchDelete},
	"add-rule":                   {access.Manage, ofRules, unallowed, addRule},
	"remove-rule":                {access.Manage, ofRules, unallowed, removeRule},
	"enumerate-rules":            {access.Manage, ofRules, apart, enumerateRules},
}

// absent returns why a target does not have the subject of an operation; "": it has.
func (about concern) absent(t engine.Target) string {
	kind := t.Entity.Kind
	switch {
	case about == ofReceived && nothingToReceive(t), about == ofShown && nothingToReceive(t) && t.SubQueue != event.Main:
		return fromTopicText
	case about == ofSent && kind == event.Subscription:
		return toSubscriptionText
	case about == ofRules && (kind != event.Subscription || t.SubQueue != event.Main):
		return noRulesText
	}
	return ""
}

const notInsideText = "The operation cannot be part of a transaction: it concerns the entity, or messages without a lock."

// keyAssociatedLink names, in a request, the link of the connection that the request belongs to.
const keyAssociatedLink = "associated-link-name"

// manage handles a request to a $management node (6.2). It checks the right again for each request
// (reliability.md S10).
func (req *request) manage() {
	c := req.l.c
	req.touchAssociated()
	name := req.text("operation")
	op, ok := operations[strings.TrimPrefix(name, operationPrefix)]
	if !ok || !strings.HasPrefix(name, operationPrefix) {
		req.refuse(501, amqp.CondNotImplemented, fmt.Sprintf("The operation '%s' is not implemented.", clip([]byte(name))))
		return
	}
	if _, ok := c.claims.allow(req.l.at.claimPath(), op.right, c.now); !ok {
		req.refuse(401, amqp.CondUnauthorizedAccess, c.unauthorized(op.right, req.l.at))
		return
	}
	t := req.l.target
	if text := op.about.absent(t); text != "" {
		req.refuse(400, amqp.CondNotAllowed, text)
		return
	}
	req.stages = op.as == inside
	switch {
	case req.part.unknown != nil:
		req.refuseAs(req.part.unknown)
		return
	case req.part.marked && op.as == unallowed:
		req.refuse(400, amqp.CondNotAllowed, notInsideText)
		return
	case c.memory.answersWait():
		req.refuse(503, amqp.CondServerBusy, tooManyAnswers)
		return
	case c.pendings.requests >= c.limits.Requests:
		req.refuse(503, amqp.CondServerBusy, "Too many requests have no answer yet.")
		return
	}
	body, ok := req.body.(amqp.Map)
	if !ok {
		req.bad("The body of the request must be a map.")
		return
	}
	op.run(req, body)
}

// Application properties of a request: its reason, and the client's own id of it.
const (
	keyReason     = "ledgerbus:reason"
	keyTrackingID = operationPrefix + "tracking-id"
)

// maxTrackingID bounds the bytes of tracking ids that are kept. Clients send UUIDs.
const maxTrackingID = 256

// why returns the reason that the client gives for a change; false: it was invalid, and the request
// has been refused.
func (req *request) why() (why event.ReasonGiven, ok bool) {
	v, _ := req.properties.Get(keyReason)
	if why.Reason, ok = message.Text(v); !ok && v != nil {
		req.bad("The property '" + keyReason + "' of the request must be a string.")
		return why, false
	}
	if err := engine.CheckReason(why.Reason); err != nil {
		req.bad(err.Text)
		return why, false
	}
	if id := req.text(keyTrackingID); len(id) <= maxTrackingID {
		why.TrackingID = id
	}
	return why, true
}

// touchAssociated counts the request as activity of the link that it names (1.8).
func (req *request) touchAssociated() {
	name := req.text(keyAssociatedLink)
	if name == "" {
		return
	}
	for _, role := range [...]amqp.Role{amqp.RoleSender, amqp.RoleReceiver} {
		if l := req.l.c.links.named(name, role); l != nil {
			l.touch()
		}
	}
}

// ask sends a command to a partition of the entity; onReply handles its success.
func (req *request) ask(partition uint8, cmd engine.Command, onReply func(*request, *engine.Reply)) {
	if x := req.part.in; x != nil && req.stages {
		s := stagedOperation{on: req.l.target, partition: partition, bytes: req.size, key: req.key}
		switch cmd := cmd.(type) {
		case *engine.Send:
			s.key = keyOfSend(cmd)
			// the data for filters belongs to the transaction as well
			s.messages, cmd.Buffer = len(cmd.Messages), nil
		case *engine.SetSessionState:
			s.key = keyOfSession(cmd.SessionID)
		}
		var err *engine.Error
		if cmd, err = req.l.c.transactions.stage(x, cmd, s, req.l.c.now); err != nil {
			req.refuseAs(err)
			return
		}
	}
	if !req.l.c.memory.reserve(expectedSize(cmd)*int(keeps(cmd)) + req.room) {
		if req.onRefused != nil {
			req.onRefused(req)
		}
		if req.onFailed == nil || !req.onFailed(req, errNoMemory) {
			req.refuseAs(errNoMemory)
		}
		return
	}
	req.l.c.batch.add(req.l.target.Host(partition), req.asking(cmd, onReply))
}

// askCatalogue sends a command about rules, after the requests that came before it.
func (req *request) askCatalogue(cmd engine.Command, onReply func(*request, *engine.Reply)) {
	c := req.l.c
	c.batch.submit()
	c.broker.Manage(req.asking(cmd, onReply))
}

// asking registers a request that the engine is going to answer.
func (req *request) asking(cmd engine.Command, onReply func(*request, *engine.Reply)) engine.Request {
	c := req.l.c
	req.onReply = onReply
	req.asked++
	req.limitTime()
	expected := uint32(expectedSize(cmd))
	tag := c.pendings.add(pendingEntry{kind: pendingRequest, link: req.l, request: req, size: uint32(req.size), expected: expected, kept: expected*keeps(cmd) + uint32(req.room)})
	return engine.Request{Command: cmd, Sink: c.outbox, Tag: tag, Read: req.read}
}

// expectedSize returns the bytes of the engine's answer to a command, if the answer may be larger
// than the request: a client that asks for a thousand messages in a few bytes, and again before the
// answer, has to wait (reliability.md P23). A command that makes a partition read many messages
// counts like one with a large answer, because others wait for it as well.
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

// keeps returns 1 for a command whose answer takes memory, and 0 for one whose answer is small,
// whatever expectedSize returns.
func keeps(cmd engine.Command) uint32 {
	if _, deletes := cmd.(*engine.BatchDelete); deletes {
		return 0
	}
	return 1
}

// succeed answers 200 with a body or without.
func (req *request) succeed(body amqp.Map) { req.answer(200, "", "OK", body) }

// nothing answers 204: there is nothing to return, and an empty result is never sent (0.13).
func (req *request) nothing() { req.answer(204, "", "No content", nil) }

// bad refuses a request whose fields are not valid for the operation.
func (req *request) bad(text string) {
	req.refuse(400, amqp.CondArgumentError, text)
}

// refuseFor refuses a request with an error found before the engine was asked.
func (req *request) refuseFor(e *amqp.Error) {
	status := int32(400)
	// the same status as when the engine finds a message too large
	if e.Condition == amqp.CondMessageSizeExceeded {
		status = 403
	}
	req.refuse(status, e.Condition, e.Description)
}

// refuseAs is refuse for a refusal that the engine might have made.
func (req *request) refuseAs(err *engine.Error) {
	cond, text := req.describe(err)
	req.refuse(cond.status, cond.symbol, text)
}

// refuse refuses a request. The transaction of the request is marked as failed.
func (req *request) refuse(status int32, symbol amqp.Symbol, text string) {
	c := req.l.c
	req.part.in.fail()
	c.log.Info("servicebus: request refused", "operation", clip([]byte(req.text("operation"))), "entity", req.l.at.path,
		"status", status, "condition", symbol, "text", text)
	req.answer(status, symbol, c.texts.suffixed(text, req.l.at.path, c.now), nil)
}

func (req *request) answer(status int32, symbol amqp.Symbol, text string, body amqp.Map) {
	p := amqp.Map{{Key: "statusCode", Value: status}, {Key: "statusDescription", Value: text}}
	if symbol != "" {
		p = append(p, amqp.Pair{Key: "errorCondition", Value: symbol})
	}
	if id := req.text(keyTrackingID); id != "" {
		p = append(p, amqp.Pair{Key: keyTrackingID, Value: id})
	}
	req.respond(p, body)
}
