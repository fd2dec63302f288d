package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// entityChanged detaches a link of an entity that has changed: after an update with a condition on
// which clients attach again, and find the new settings; after a deletion because it is no more
// (4.7). Links to the management node outlive an update: they have no settings, and
// azure-servicebus for Python reports the loss of one to its caller (docs/decisions/0013). Claims
// stay, as far as the access rules they come from do.
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

// concerns reports whether a change is of the entity that a link leads to, or lets a receiver have
// more than it was made for.
func concerns(change *engine.Change, l *link) bool {
	if change.Entity != nil {
		return l.leadsTo(change.Entity)
	}
	return !l.detached && l.receiver != nil && l.receiver.lacks(change.Back)
}

// refresh has a link find the settings of its entity anew. It reports false when that cannot be
// found now.
func (l *link) refresh() bool {
	target, err := l.c.broker.Resolve(l.at.path)
	if err == nil {
		l.target = target
	}
	return err == nil
}
