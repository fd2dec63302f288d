package loop

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ordersCommand gives a partition the standing orders of an entity: where the messages of its
// queues go, if they go anywhere.
type ordersCommand struct {
	engine.Internal
	entity *engine.Entity
	// of the messages of its main queue; nil: they stay. 0: they go, and the path names nothing
	forward *event.EntityID
	dead    *event.EntityID // of those of its dead-letter queue
}

// Order is the command that tells the partitions that host an entity where its messages go. It is
// given again whenever an entity that they go to is made or deleted. find looks an entity up by its
// lower-cased path. It is sent behind the settings.
func Order(e *engine.Entity, find func(lower string) *engine.Entity) engine.Command {
	to := func(property string) *event.EntityID {
		if property == "" {
			return nil
		}
		var id event.EntityID
		if d := find(strings.ToLower(engine.ForwardPath(property))); d != nil && d.Kind != event.Subscription {
			id = d.ID
		}
		return &id
	}
	return &ordersCommand{entity: e, forward: to(e.Properties.ForwardTo), dead: to(e.Properties.ForwardDeadLetteredMessagesTo)}
}

// ToMove is how many messages of a slice are to move.
func (l *Loop) ToMove(id event.Slice) int { return l.transfers.countToMove(id) }
