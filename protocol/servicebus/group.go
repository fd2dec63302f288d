package servicebus

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// keyDestination names, on a sender's link, the entity that its messages are for: the link's own
// entity only hands them over (3.5).
const keyDestination = "com.microsoft:transfer-destination-address"

const badDestinationText = "The property '" + keyDestination + "' of the link must be a string."

// group is a session of a client that wants transactions over several entities. Only the order of
// its links shows this: a coordinator is attached before all links to entities. Then all messages
// go through the entity of the first of those links (docs/decisions/0037).
type group struct {
	begun   bool   // a link to an entity was attached
	grouped bool   // a coordinator was attached before
	via     string // the path of the queue or topic of the first link; "": none yet
}

// attached notes a link of the session whose attach is about to be answered. Links to nodes do not
// count: clients have them in any session.
func (g *group) attached(l *link) {
	switch {
	case l.at.coordinator:
		g.grouped = g.grouped || !g.begun
	case l.at.node():
	default:
		if g.grouped && g.via == "" {
			g.via = l.target.Entity.TopicPath()
		}
		g.begun = true
	}
}

// transfer names the destination of a sender's messages if its target only hands them over. Zero
// value: they stay in the target.
type transfer struct {
	destination *engine.Entity
	to          address // of the destination
}

// find determines whether the messages of a link are handed over, and by which entity, which
// becomes the link's target.
func (t *transfer) find(l *link, a *amqp.Attach) *amqp.Error {
	sends := a.Role == amqp.RoleSender
	property, _ := a.Properties.Get(keyDestination)
	explicit := property != nil
	foreign := l.s.group.via != "" && !strings.EqualFold(l.s.group.via, l.target.Entity.TopicPath())
	switch {
	case foreign && (explicit || !sends):
		return refusal(amqp.CondNotAllowed, spanText)
	case sends && explicit:
		return t.named(l, property)
	case foreign:
		return t.through(l, l.s.group.via)
	}
	return nil
}

// named makes the link's messages be handed over to the entity that it names. That needs the right
// to send to both.
func (t *transfer) named(l *link, named any) *amqp.Error {
	text, ok := message.Text(named)
	if !ok {
		return refusal(amqp.CondInvalidField, badDestinationText)
	}
	c, at := l.c, parseAddress(text)
	if _, ok := c.claims.allow(at.claimPath(), access.Send, c.now); !ok {
		return refusal(amqp.CondUnauthorizedAccess, c.unauthorized(access.Send, at))
	}
	if at.node() {
		return refusal(amqp.CondNotAllowed, toNodeText)
	}
	to, err := c.broker.Resolve(at.path)
	if err != nil {
		cond, text := c.describeAt(err, at)
		return refusal(cond.symbol, text)
	}
	if e := takesMessages(to); e != nil || to.Entity.ID == l.target.Entity.ID {
		return e
	}
	t.to, t.destination = at, to.Entity
	return nil
}

// through makes another entity, at path, hand over the messages for the link's entity. The right to
// send to the link's entity is enough: the client's access to the other was checked for the link
// that brought it into the group.
func (t *transfer) through(l *link, path string) *amqp.Error {
	if e := takesMessages(l.target); e != nil {
		return e
	}
	via, err := l.c.broker.Resolve(path)
	if err != nil {
		cond, text := l.c.describeAt(err, address{path: path, text: path})
		return refusal(cond.symbol, text)
	}
	t.to, t.destination, l.target = l.at, l.target.Entity, via
	return nil
}

// takesMessages refuses a target that messages cannot be sent to.
func takesMessages(t engine.Target) *amqp.Error {
	switch {
	case t.SubQueue != event.Main:
		return refusal(amqp.CondNotAllowed, toSubQueueText)
	case t.Entity.Kind == event.Subscription:
		return refusal(amqp.CondNotAllowed, toSubscriptionText)
	}
	return nil
}

// endsAt reports whether messages are handed over to an entity.
func (t *transfer) endsAt(e *engine.Entity) bool {
	return t.destination != nil && t.destination.ID == e.ID
}
