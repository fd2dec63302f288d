package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// entityChanged detaches every link of an entity, its management node included: after an update with a condition on which
// clients attach again, and find the new settings; after a deletion because it is no more (4.7). Claims stay, as far as the access rules they come from do.
func (c *conn) entityChanged(change *engine.Change) {
	for _, s := range c.sessions {
		for _, l := range s.links {
			switch {
			case l.detached || l.target.Entity == nil || l.target.Entity.ID != change.Entity.ID:
			case change.Deleted:
				l.endFor(event.ReleaseEntityChanged, amqp.CondNotFound, c.missing(l.at.path))
			default:
				kind := "consumer"
				if l.sender != nil {
					kind = "publisher"
				}
				l.endFor(event.ReleaseEntityChanged, amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached by the broker due to errors occurred in "+
					"%s(link%d). Detach origin: the messaging entity was updated.", l.name, kind, l.handle))
			}
		}
	}
}
