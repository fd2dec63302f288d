package filter

import (
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// action is a compiled action: statements whose values are nodes of one program.
type action struct {
	program
	steps []step
}

// step is a compiled statement.
type step struct {
	remove  bool
	system  SystemProperty // SystemCount: the application property with the name
	unknown bool           // a system property whose name does not exist
	name    string
	hash    uint64
	value   int32
}

// compileAction parses and compiles the text of an action.
func compileAction(text string, params []event.Property) (*action, *Error) {
	tree, err := parseAction(text)
	if err != nil {
		return nil, err
	}
	c := &compiler{params: params}
	var steps []step
	for _, s := range tree {
		t := step{remove: s.value == nil, system: SystemCount, name: s.target.name, hash: hashName(s.target.name)}
		if s.target.op == opSystem {
			var ok bool
			t.system, ok = systemNamed(t.name)
			t.unknown = !ok
		}
		if s.value != nil {
			t.value = c.compile(s.value)
		}
		steps = append(steps, t)
	}
	if c.err != nil {
		c.err.Part = "action"
		return nil, c.err
	}
	return &action{c.program, steps}, nil
}

// Run runs the rule's action on a message and collects its changes in c, whose earlier content is
// dropped. The message stays as it is. An error is an [EvalError]; c is then useless (semantics.md
// 15.5). A rule without an action changes nothing.
func (r *Rule) Run(m *Message, newID func() [16]byte, c *Changes) error {
	c.begin(m, newID)
	if r.action == nil {
		return nil
	}
	for i := range r.action.steps {
		s := &r.action.steps[i]
		var v event.Value
		if !s.remove {
			v = c.machine.eval(&r.action.program, s.value)
		}
		if c.machine.err == nil {
			c.apply(s, v)
		}
		if c.machine.err != nil {
			return c.machine.err
		}
	}
	return nil
}

func (c *Changes) apply(s *step, v event.Value) {
	switch {
	case s.unknown:
		c.machine.fail(noSystemText, s.name)
	case s.system != SystemCount:
		c.setSystem(s.system, v)
	case s.remove:
		c.remove(s.name, s.hash)
	default:
		c.set(s.name, s.hash, v)
	}
}

// set sets an application property. An existing one keeps its spelling and, if possible, its type.
func (c *Changes) set(name string, hash uint64, v event.Value) {
	at := c.machine.view.find(name, hash)
	there := at >= 0
	if there {
		v = convert(v, c.work.User[at].Value.Type)
	} else {
		at = len(c.work.User)
		c.work.User = append(c.work.User, event.Property{Name: name})
		c.machine.view.look(&c.work)
	}
	v = portable(v)
	p := &c.work.User[at]
	p.Value = v
	if len(v.Text) > maxProperty {
		c.machine.fail("The property '%s' would be longer than %d bytes.", p.Name, maxProperty)
		return
	}
	u := c.change(p.Name, there)
	u.value, u.removed = v, false
	c.checkSize()
}

// remove removes an application property, in all spellings of its name that the message has.
func (c *Changes) remove(name string, hash uint64) {
	for at := c.machine.view.find(name, hash); at >= 0; at = c.machine.view.find(name, hash) {
		u := c.change(c.work.User[at].Name, true)
		u.value, u.removed = event.Value{}, true
		c.work.User = append(c.work.User[:at], c.work.User[at+1:]...)
		c.machine.view.look(&c.work)
	}
}

// setSystem sets a system property; null clears it (semantics.md 15.5).
func (c *Changes) setSystem(p SystemProperty, v event.Value) {
	limit := maxProperty
	switch p {
	case MessageID, PartitionKey, ReplyToSessionID, SessionID:
		limit = maxID
	case ContentType, CorrelationID, Label, ReplyTo, To:
	case ScheduledEnqueueTimeUtc:
		c.mustBe(p, v, event.Instant)
	case TimeToLive:
		c.mustBe(p, v, event.Span)
		if v.Type == event.Span && int64(v.Bits) <= 0 {
			c.machine.fail("sys.%s must be set to a positive time span.", p)
		}
	default:
		c.machine.fail("sys.%s cannot be changed.", p)
	}
	if c.machine.err != nil {
		return
	}
	if p != ScheduledEnqueueTimeUtc && p != TimeToLive {
		v = convert(v, event.String)
		if len(v.Text) > limit && (limit != maxID || utf8.RuneCountInString(v.Text) > limit) {
			c.machine.fail("sys.%s would be longer than %d characters.", p, limit)
			return
		}
	}
	c.work.System[p] = v
	c.system |= 1 << p
	c.checkSize()
}

func (c *Changes) mustBe(p SystemProperty, v event.Value, t event.ValueType) {
	if v.Type != t && v.Type != event.Null {
		c.machine.fail("sys.%s cannot be set to %s.", p, typeName(v.Type))
	}
}

// checkSize fails an action whose changes alone are longer than all properties of a message may be.
func (c *Changes) checkSize() {
	n := 0
	for i := range c.user {
		n += len(c.user[i].name) + len(c.user[i].value.Text)
	}
	for p := range SystemCount {
		if c.system>>p&1 == 1 {
			n += len(c.work.System[p].Text)
		}
	}
	if n > maxText {
		c.machine.fail("The changed properties would be longer than %d bytes.", maxText)
	}
}

const (
	maxProperty = 32 << 10 // bytes of an application property (semantics.md 2.1)
	maxID       = 128      // characters of ids and keys (semantics.md 16.3)
)
