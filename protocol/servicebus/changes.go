package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// entityChanged detaches a link whose entity has changed. After an update the condition makes
// clients attach again and find the new settings; after a deletion it says that the entity is gone
// (4.7). Links to the management node survive an update: they have no settings, and
// azure-servicebus for Python reports the loss of one to its caller (docs/decisions/0013). Claims
// stay, as far as their access rules do.
func (l *link) entityChanged(change *engine.Change) {
	switch {
	case !concerns(change, l):
	case change.Entity == nil:
		l.end(amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached by the broker: a part of the messaging entity that was not available is available again.", l.name))
	case change.Deleted:
		at := l.at
		if l.transfer.endsAt(change.Entity) {
			at = l.transfer.to
		}
		l.endFor(event.ReleaseEntityChanged, amqp.CondNotFound, l.c.missing(at))
	case l.at.management && l.refresh():
	default:
		kind := "consumer"
		if l.sender != nil {
			kind = "publisher"
		}
		l.endFor(event.ReleaseEntityChanged, amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached by the broker due to errors occurred in "+
			"%s(link%d). Detach origin: the messaging entity was updated.", l.name, kind, l.handle))
	}
}

// concerns reports whether a change is of the link's entity, or brings back a part of it that the
// receiver lacks.
func concerns(change *engine.Change, l *link) bool {
	if change.Entity != nil {
		return l.leadsTo(change.Entity)
	}
	return !l.detached && l.receiver != nil && l.receiver.lacks(change.Back)
}

// refresh makes a link look up the settings of its entity again. It returns false if they cannot be
// found now.
func (l *link) refresh() bool {
	target, err := l.c.broker.Resolve(l.at.path)
	if err == nil {
		l.target = target
	}
	return err == nil
}
