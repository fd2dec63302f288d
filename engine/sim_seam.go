package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a simulation that drives loops by hand needs of what [Namespace] does: see [DropSlice], too.

// Enforce is the command that puts an entity's settings in force where it lives and, if ruled, the rules of a subscription instead
// of those it had. [Namespace] sends it when the change is durable.
func Enforce(e *Entity, ruled bool, rules []event.Rule) Command {
	return &configure{entity: e, ruled: ruled, rules: rules}
}

// EnforceRule is the command that puts a rule of a subscription in force, new or changed, or takes the one named out of force.
func EnforceRule(sub *Entity, put *event.Rule, remove string) Command {
	return &configure{entity: sub, put: put, remove: remove}
}

// Runtimes is what the management plane is told of slices: how much there is in each.
func (p *Partition) Runtimes(slices []event.Slice) []Runtime { return p.inspect(slices) }

// Usage is the command that asks a partition which of its entities are in use without anything being asked of them, for
// [NewIdleness]. [Reply.Busy] reads the answer.
func Usage() Command { return &usage{} }

// Busy is the answer to a [Usage], else nil.
func (r *Reply) Busy() []event.EntityID {
	busy, _ := r.Answer.(inUse)
	return busy
}

// View is an entity of the catalogue as clients are given it. A new version shares its use with the one before, if there is one.
func View(e index.Entity, before *Entity) *Entity {
	v := view(e)
	if before != nil {
		v.activity = before.activity
	}
	return v
}

// Ruled notes that a rule of a subscription was changed.
func (e *Entity) Ruled(at event.Time) { e.activity.ruled.Store(int64(at)) }
