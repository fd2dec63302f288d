package filter

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Changes holds what an action changes in a copy of a message. The zero value has no changes. It is
// reusable; its texts are valid as long as those of the message and of the rule.
type Changes struct {
	work    Message // the message as later statements see it
	machine machine
	user    []change
	system  uint32 // bit by SystemProperty: changed
}

// change is an application property that was set or removed, by the exact spelling of its name.
type change struct {
	name    string
	value   event.Value
	removed bool
	sent    bool // the message as sent has it
}

// Reset forgets all changes and keeps the memory.
func (c *Changes) Reset() {
	c.work.Reset()
	clear(c.user)
	c.user, c.system = c.user[:0], 0
}

func (c *Changes) begin(m *Message, newID func() [16]byte) {
	c.Reset()
	c.work.System = m.System
	c.work.User = append(c.work.User, m.User...)
	c.machine.begin(&c.work, newID)
}

// change returns the entry of a property, by its exact spelling. there means that the message
// already has it.
func (c *Changes) change(name string, there bool) *change {
	for i := range c.user {
		if c.user[i].name == name {
			return &c.user[i]
		}
	}
	c.user = append(c.user, change{name: name, sent: there})
	return &c.user[len(c.user)-1]
}

// System returns a system property of the copy, null if it has none, and whether the action changed
// it.
func (c *Changes) System(p SystemProperty) (v event.Value, changed bool) {
	return c.work.System[p], c.system>>p&1 == 1
}

// Values fills in the changes of the action and further application properties to set, which take
// precedence over those that the action set. Earlier content of into is dropped, and its memory
// reused.
func (c *Changes) Values(into *event.RuleChanges, extra ...event.Property) {
	extraHas := func(name string) bool {
		return slices.ContainsFunc(extra, func(p event.Property) bool { return p.Name == name })
	}
	into.Set, into.Removed, into.System = append(into.Set[:0], extra...), into.Removed[:0], into.System[:0]
	for i := range c.user {
		switch u := &c.user[i]; {
		case extraHas(u.name):
		case !u.removed:
			into.Set = append(into.Set, event.Property{Name: u.name, Value: u.value})
		case u.sent:
			into.Removed = append(into.Removed, u.name)
		}
	}
	for p := range SystemCount {
		if v, changed := c.System(p); changed {
			into.System = append(into.System, event.Property{Name: p.String(), Value: v})
		}
	}
}
