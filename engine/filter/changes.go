package filter

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Changes is what an action changes in a copy of a message. The zero value has none. It may be used again and again; its
// texts are valid as long as those of the message and of the rule.
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
	sent    bool // the message had it
}

// Reset takes all changes back and keeps the room.
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

// change returns the entry of a property, by its exact spelling. there says that it is not new in the copy.
func (c *Changes) change(name string, there bool) *change {
	for i := range c.user {
		if c.user[i].name == name {
			return &c.user[i]
		}
	}
	c.user = append(c.user, change{name: name, sent: there})
	return &c.user[len(c.user)-1]
}

// System returns a system property of the copy, null if it has none, and whether the action changed it.
func (c *Changes) System(p SystemProperty) (v event.Value, changed bool) {
	return c.work.System[p], c.system>>p&1 == 1
}

// Append appends the encoded changes and further application properties to set, which go before those the action set. It is
// an AMQP list of three:
//
//   - a map of application properties to set, by name;
//   - a list of the names of those to remove, spelled as the message has them;
//   - a map of the system properties changed, by the name of semantics.md 15.4; null: removed.
//
// Types are as in [appendValue]. Whoever applies it removes first; names are exact.
func (c *Changes) Append(dst []byte, extra ...event.Property) []byte {
	extraHas := func(name string) bool {
		return slices.ContainsFunc(extra, func(p event.Property) bool { return p.Name == name })
	}
	list := beginCompound(&dst, codeList32)
	set := beginCompound(&dst, codeMap32)
	for i := range extra {
		dst = appendValue(appendString(dst, extra[i].Name), extra[i].Value)
		set.count += 2
	}
	for i := range c.user {
		if u := &c.user[i]; !u.removed && !extraHas(u.name) {
			dst = appendValue(appendString(dst, u.name), u.value)
			set.count += 2
		}
	}
	set.end(dst)
	names := beginCompound(&dst, codeList32)
	for i := range c.user {
		if u := &c.user[i]; u.removed && u.sent && !extraHas(u.name) {
			dst = appendString(dst, u.name)
			names.count++
		}
	}
	names.end(dst)
	system := beginCompound(&dst, codeMap32)
	for p := range SystemCount {
		if v, changed := c.System(p); changed {
			dst = appendValue(appendString(dst, p.String()), v)
			system.count += 2
		}
	}
	system.end(dst)
	list.count = 3
	list.end(dst)
	return dst
}
