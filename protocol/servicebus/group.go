package servicebus

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// keyDestination names, on a sender's link, the entity that its messages are for: the one it leads to only hands them over (3.5).
const keyDestination = "com.microsoft:transfer-destination-address"

const badDestinationText = "The property '" + keyDestination + "' of the link must be a string."

// group is a session of a client that wants transactions over several entities, and says so by nothing but the order of its links: a
// coordinator comes before all that lead to entities. Then the entity of the first of these is the one that everything goes through
// (docs/decisions/0037).
type group struct {
	begun   bool   // a link has led to an entity
	grouped bool   // a coordinator came before
	via     string // the path of the queue or topic of the first link; "": there was none
}

// attached notes a link of the session that is going to be answered. Links to nodes do not count: clients have them in any session.
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

// transfers finds what the messages of a link have to go through, where that is not the entity that they are for.
func (l *link) transfers(a *amqp.Attach) *amqp.Error {
	sends := a.Role == amqp.RoleSender
	property, _ := a.Properties.Get(keyDestination)
	explicit := property != nil
	foreign := l.s.group.via != "" && !strings.EqualFold(l.s.group.via, l.target.Entity.TopicPath())
	switch {
	case foreign && (explicit || !sends):
		return refusal(amqp.CondNotAllowed, spanText)
	case sends && explicit:
		return l.transfersTo(property)
	case foreign:
		return l.transfersThrough(l.s.group.via)
	}
	return nil
}

// transfersTo has the messages of the link handed over to the entity that it names. That needs the right to send to both.
func (l *link) transfersTo(named any) *amqp.Error {
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
		cond, text := c.toldAt(err, at)
		return refusal(cond.symbol, text)
	}
	if e := takesMessages(to); e != nil || to.Entity.ID == l.target.Entity.ID {
		return e
	}
	l.to, l.destination = at, to.Entity
	return nil
}

// transfersThrough has the messages for the entity that the link leads to go through another one. The right to send to the first is
// enough: what the client may do with the other says the link that brought it into the group.
func (l *link) transfersThrough(path string) *amqp.Error {
	if e := takesMessages(l.target); e != nil {
		return e
	}
	via, err := l.c.broker.Resolve(path)
	if err != nil {
		cond, text := l.c.toldAt(err, address{path: path, text: path})
		return refusal(cond.symbol, text)
	}
	l.to, l.destination, l.target = l.at, l.target.Entity, via
	return nil
}

// takesMessages refuses what nobody can send to.
func takesMessages(t engine.Target) *amqp.Error {
	switch {
	case t.SubQueue != event.Main:
		return refusal(amqp.CondNotAllowed, toSubQueueText)
	case t.Entity.Kind == event.Subscription:
		return refusal(amqp.CondNotAllowed, toSubscriptionText)
	case len(t.Entity.Hosts) != 1:
		return refusal(amqp.CondNotImplemented, partitionedText)
	}
	return nil
}

// isFor reports whether the messages of the link are for an entity that another one hands them over to.
func (l *link) isFor(e *engine.Entity) bool { return l.destination != nil && l.destination.ID == e.ID }
