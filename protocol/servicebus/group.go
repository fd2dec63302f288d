package servicebus

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// keyDestination names, on a sender's link, the entity that its messages are for: the one it leads
// to only hands them over (3.5).
const keyDestination = "com.microsoft:transfer-destination-address"

const badDestinationText = "The property '" + keyDestination + "' of the link must be a string."

// group is a session of a client that wants transactions over several entities. Such a client says
// so by nothing but the order of its links: a coordinator comes before all that lead to entities.
// Then everything goes through the entity of the first of those links (docs/decisions/0037).
type group struct {
	begun   bool   // a link has led to an entity
	grouped bool   // a coordinator came before
	via     string // the path of the queue or topic of the first link; "": there was none
}

// attached notes a link of the session that is going to be answered. Links to nodes do not count:
// clients have them in any session.
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

// transfer says where the messages of a sender's link go when its target only hands them over. The
// zero value: they stay in the target.
type transfer struct {
	destination *engine.Entity
	to          address // of that
}

// find finds out whether the messages of a link are to be handed over, and by what: that is the
// link's target then.
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

// named has the messages of a link handed over to the entity that it names. That needs the right to
// send to both.
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

// through has the messages for the entity that a link leads to handed over by another one, at path.
// The right to send to the link's entity is enough: what the client may do with the other was
// checked for the link that brought it into the group.
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
