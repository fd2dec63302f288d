package engine

import "github.com/ledgerbus/ledgerbus/log/event"

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
