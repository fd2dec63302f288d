package loop

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ordersCommand gives a partition the standing orders of an entity: where the messages of its
// queues move, if they do.
type ordersCommand struct {
	engine.Internal
	entity *engine.Entity
	// destination of the messages of its main queue; nil: they stay. 0: they move, but the path
	// names no entity
	forward *event.EntityID
	dead    *event.EntityID // destination of the messages of its dead-letter queue
}

// Order returns the command that tells the partitions of an entity where its messages move. It is
// sent again whenever one of its destinations is created or deleted, and after the settings. find
// looks an entity up by its lower-cased path.
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

// ToMove returns how many messages of a slice are to move.
func (l *Loop) ToMove(id event.Slice) int { return l.transfers.countToMove(id) }
