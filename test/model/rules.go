package model

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Rule is one of a few kinds of rules (15.1). What it does with a message is worked out here once
// more, without a language.
type Rule struct {
	Name   string
	Filter Filter
	Action []Step // none: copies stay as they are
}

// Equal reports whether two rules do the same under the same name.
func (r *Rule) Equal(o *Rule) bool {
	return r.Name == o.Name && r.Filter == o.Filter && slices.Equal(r.Action, o.Action)
}

// Filter says which messages match.
type Filter struct {
	Kind FilterKind
	Text string
	N    int64
}

// FilterKind is what a filter looks at.
type FilterKind uint8

const (
	Everything  FilterKind = iota
	Nothing                // a false filter
	ColorIs                // correlation on an application property: Text
	NumberIs               // the same: N
	SessionIs              // correlation on the session id: Text
	NumberOver             // SQL: n > N
	ColorIn                // SQL: color is Text, or is not there
	ByZero                 // SQL: n / 0 = 1
	UnheardOf              // SQL: a system property there is none of
	EveryThird             // SQL: sys.EnqueuedSequenceNumber % 3 = N
	FilterKinds = iota
)

// Step is one statement of an action.
type Step struct {
	Kind StepKind
	Text string
}

// StepKind is what a statement does.
type StepKind uint8

const (
	Mark       StepKind = iota // SET mark = 7
	AddOne                     // SET n = n + 1
	Paint                      // SET color = Text
	Strip                      // REMOVE color
	JoinGroup                  // SET sys.SessionId = Text
	LeaveGroup                 // REMOVE sys.SessionId
	SetUnheard                 // SET sys.unheard = 1
	MarkByZero                 // SET mark = n / 0
	Stamp                      // SET id = newid()
	StepKinds  = iota
)

const (
	byZero  = "An integer is divided by zero."
	unheard = "There is no system property 'unheard'."
)

// matches reports whether a message with that number in its topic matches, or what is wrong (15.3,
// 15.4): a comparison with a property that is not there is neither true nor an error.
func (f *Filter) matches(d *Draft, number uint64) (yes bool, wrong string) {
	see := d.seen()
	color, painted := see.get("color").(string)
	n, isNumber := see.get("n").(int64)
	switch f.Kind {
	case Everything:
		return true, ""
	case ColorIs:
		return painted && color == f.Text, ""
	case NumberIs:
		return isNumber && n == f.N, ""
	case SessionIs:
		return d.HasSession && d.Session == f.Text, ""
	case NumberOver:
		return isNumber && n > f.N, ""
	case ColorIn:
		return !painted || color == f.Text, ""
	case ByZero:
		if isNumber {
			return false, byZero
		}
	case UnheardOf:
		return false, unheard
	case EveryThird:
		return int64(number)%3 == f.N, ""
	}
	return false, ""
}

// changed is what an action made of a message.
type changed struct {
	now []property // application properties as the next statement sees them
	// by the spelling of their names, in the order in which the action first touched them
	touched    []property
	session    string
	hasSession bool
	grouped    bool // the session id was set or removed
}

// property is an application property of a copy. Value is nil, an int64, a string or a Token, which
// stands for a UUID.
type property struct {
	name    string
	value   any
	removed bool
	sent    bool // the message had it
}

// act runs the action on a copy, statement by statement (15.5), or says what is wrong.
func (r *Rule) act(d *Draft, newID func() Token) (c changed, wrong string) {
	c.session, c.hasSession = d.Session, d.HasSession
	see := d.seen()
	for name, value := range see.Values {
		c.now = append(c.now, property{name: name, value: value})
	}
	for _, s := range r.Action {
		n, isNumber := c.get("n").(int64)
		switch s.Kind {
		case Mark:
			c.set("mark", int64(7))
		case AddOne:
			if isNumber {
				c.set("N", n+1)
			} else {
				c.set("N", nil)
			}
		case Paint:
			c.set("Color", s.Text)
		case Strip:
			c.remove("color")
		case JoinGroup:
			c.session, c.hasSession, c.grouped = s.Text, true, true
		case LeaveGroup:
			c.session, c.hasSession, c.grouped = "", false, true
		case SetUnheard:
			return c, unheard
		case MarkByZero:
			if isNumber {
				return c, byZero
			}
			c.set("mark", nil)
		case Stamp:
			c.set("id", newID())
		}
	}
	return c, ""
}

// find looks a property up by its name in any case.
func (c *changed) find(name string) int {
	return slices.IndexFunc(c.now, func(p property) bool { return strings.EqualFold(p.name, name) })
}

func (c *changed) get(name string) any {
	if i := c.find(name); i >= 0 {
		return c.now[i].value
	}
	return nil
}

// set gives a property a value. One that is there keeps its spelling.
func (c *changed) set(name string, value any) {
	i := c.find(name)
	there := i >= 0
	if !there {
		i = len(c.now)
		c.now = append(c.now, property{name: name})
	}
	c.now[i].value = value
	t := c.touch(c.now[i].name, there)
	t.value, t.removed = value, false
}

func (c *changed) remove(name string) {
	if i := c.find(name); i >= 0 {
		c.touch(c.now[i].name, true).removed = true
		c.now = slices.Delete(c.now, i, i+1)
	}
}

func (c *changed) touch(name string, sent bool) *property {
	i := slices.IndexFunc(c.touched, func(p property) bool { return p.name == name })
	if i < 0 {
		i = len(c.touched)
		c.touched = append(c.touched, property{name: name, sent: sent})
	}
	return &c.touched[i]
}

// encoded is the changes as they are stored with a copy: the names of properties to remove, those
// to set, RuleName first, then more of the broker's, and the system properties.
func (c *changed) encoded(rule string, more ...string) []byte {
	set, sets := entry("RuleName", rule), 1
	for ; len(more) > 0; more = more[2:] {
		set = append(set, entry(more[0], more[1])...)
		sets++
	}
	var names, system []byte
	removed, systems := 0, 0
	for _, p := range c.touched {
		switch {
		case !p.removed:
			set = append(set, entry(p.name, p.value)...)
			sets++
		case p.sent:
			names = append(names, text(p.name)...)
			removed++
		}
	}
	if c.grouped {
		var id any
		if c.hasSession {
			id = c.session
		}
		system, systems = entry("SessionId", id), 1
	}
	return stored(removed, names, sets, set, systems, system)
}

// stored is property changes in the form of docs/log-format.md, section 8.
func stored(removed int, names []byte, sets int, set []byte, systems int, system []byte) []byte {
	return slices.Concat([]byte{1}, number(uint64(removed)), names, number(uint64(sets)), set, number(uint64(systems)), system)
}

func number(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func text(s string) []byte { return append(number(uint64(len(s))), s...) }

// encodedValue is a value of which nothing is known but its bytes.
type encodedValue []byte

// entry is a property: its name, the type of its value, a number and a text, of which one is the
// value.
func entry(name string, v any) []byte {
	kind, n, s := byte(0), uint64(0), ""
	switch v := v.(type) {
	case int64:
		kind, n = 3, uint64(v)
	case string:
		kind, s = 6, v
	case Token:
		kind, s = 7, string(v[:])
	case encodedValue:
		kind, s = 254, string(v)
	}
	return slices.Concat(text(name), []byte{kind}, number(n), text(s))
}

// properties is changes that set properties to strings: names and values in turn.
func properties(words ...string) []byte {
	var set []byte
	for i := 0; i < len(words); i += 2 {
		set = append(set, entry(words[i], words[i+1])...)
	}
	return stored(0, nil, len(words)/2, set, 0, nil)
}
