package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// idleGrace is the time after a start during which nothing is deleted for idleness (semantics.md
// 7.7): clients come back first.
const idleGrace = time.Minute

// notedEvery is the time between two notes of the last use of an entity that is not deleted.
const notedEvery = 10 * time.Minute

// idleness tells which entities have been unused for too long, and which last uses the log should
// get (semantics.md 7.7).
type idleness struct {
	started       event.Time
	busy          map[event.EntityID]bool
	subscriptions map[event.EntityID][]*Entity // subscriptions, by topic
}

// NewIdleness takes the time at which the broker started, all entities, and the ids of entities
// that are in use although no client uses them.
func NewIdleness(started event.Time, entities []*Entity, busy []event.EntityID) *idleness {
	i := &idleness{started: started, busy: make(map[event.EntityID]bool, len(busy)), subscriptions: map[event.EntityID][]*Entity{}}
	for _, id := range busy {
		i.busy[id] = true
	}
	for _, e := range entities {
		if e.Kind == event.Subscription {
			i.subscriptions[e.Topic] = append(i.subscriptions[e.Topic], e)
		}
	}
	return i
}

// Quiet returns how long an entity has been unused. A topic is in use if one of its subscriptions
// is. An entity that forwards has a receiver that never leaves (S0-50, docs/decisions/0020).
func (i *idleness) Quiet(now event.Time, e *Entity) time.Duration {
	if e.Properties.ForwardTo != "" || e.Properties.ForwardDeadLetteredMessagesTo != "" {
		return 0
	}
	if i.busy[e.ID] {
		return 0
	}
	quiet := now.Sub(max(e.LastUse(), e.UpdatedAt, event.Time(e.activity.ruled.Load())))
	for _, sub := range i.subscriptions[e.ID] {
		quiet = min(quiet, i.Quiet(now, sub))
	}
	return quiet
}

// Over reports whether an entity has been unused for so long that it must be deleted.
func (i *idleness) Over(now event.Time, e *Entity) bool {
	idle := e.Properties.AutoDeleteOnIdle
	return idle != event.Forever && i.Quiet(now, e) >= idle && now.Sub(i.started) >= idleGrace
}

// Note returns the command, for partition 0, that notes the last use of an entity that is not
// deleted; nil if the log has a note that is recent enough.
func (i *idleness) Note(now event.Time, e *Entity) Command {
	every := notedEvery
	if idle := e.Properties.AutoDeleteOnIdle; idle != event.Forever {
		every = max(time.Minute, idle/10)
		if i.busy[e.ID] {
			e.Use(now) // so that the next start knows
		}
	}
	at := e.LastUse()
	if at.Sub(e.noted()) < every {
		return nil
	}
	e.activity.noted.Store(int64(at))
	return &touch{e.ID, at}
}

// touch notes in the catalogue when an entity was last used.
type touch struct {
	entity event.EntityID
	at     event.Time
}

func (*touch) command() {}

// touch adds the note of an entity's last use, unless it was deleted since.
func (c catalogueDecision) touch(cmd *touch) {
	if _, ok := c.there.Get(cmd.entity); !ok {
		return
	}
	ev := add[*event.EntityTouched](c.decision, event.KindEntityTouched)
	ev.Envelope, ev.AccessedAt = about(cmd.entity, 0), cmd.at
	c.early = true
}
