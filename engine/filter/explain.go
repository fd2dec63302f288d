package filter

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Explanation tells what a rule does with a message, and why.
type Explanation struct {
	Matches bool
	// Changes are the changes that the action of a matching rule makes in the copy.
	Changes event.RuleChanges
	// Err is an [EvalError] of the filter or of the action (semantics.md 15.6); nil: both could be
	// evaluated.
	Err error

	// The following fields belong to a rule that does not match. Part is the first part of its
	// condition that is not true, in the language of filters.
	Part string
	// the part is not false but unknown: a property in it is not set, or has another type
	Unknown bool
	Values  []Observed // the values in the part, in its order
}

// Observed is a property that a condition names, as a message has it.
type Observed struct {
	Name  string // as the condition spells it; a system property begins with sys.
	Set   bool   // the message has it
	Type  string // a string, a number and so on; "" if it is not set
	Value string // as a text; "" where filters cannot see it
}

// Explain tells what a single rule does with a message, and why. An error is that of [Check].
func Explain(r *event.Rule, m *Message, newID func() [16]byte) (x Explanation, err error) {
	s := NewSet()
	if err := s.Put(1, *r); err != nil {
		return x, err
	}
	if matches := s.Match(m, newID); len(matches) > 0 {
		x.of(&matches[0], m, newID)
		return x, nil
	}
	e := explainer{m: m, params: r.Filter.Parameters}
	e.machine.begin(m, newID)
	switch r.Filter.Kind {
	case event.SQLFilter:
		tree, err := parseFilter(r.Filter.Text)
		if err != nil {
			return x, err
		}
		x.Part, x.Unknown, x.Values = e.first(tree)
	case event.CorrelationFilter:
		x.Part, x.Unknown, x.Values = e.correlation(&r.Filter)
	default:
		x.Part = constantText(truthValue(no))
	}
	return x, nil
}

// of fills in the result of a rule that matches, or cannot be evaluated.
func (x *Explanation) of(match *Match, m *Message, newID func() [16]byte) {
	if x.Err = match.Err; x.Err != nil {
		return
	}
	x.Matches = true
	for _, rule := range match.Actions {
		var c Changes
		if x.Err = rule.Run(m, newID, &c); x.Err == nil {
			c.Values(&x.Changes)
		}
	}
}

// explainer looks for the part of a condition that is not true.
type explainer struct {
	m       *Message
	params  []event.Property
	machine machine
}

// Properties returns the names of the properties that the text of an SQL filter reads. A system
// property begins with sys.; a property() whose name is not constant is returned as that call.
func Properties(text string) ([]string, error) {
	tree, err := parseFilter(text)
	if err != nil {
		return nil, err
	}
	return tree.properties(nil), nil
}

func (e *expr) properties(list []string) []string {
	switch {
	case e.op == opUser:
		return append(list, e.name)
	case e.op == opSystem:
		return append(list, e.String())
	case e.op == opNamed && e.kids[0].op == opConst && e.kids[0].value.Type == event.String:
		return append(list, e.kids[0].value.Text)
	case e.op == opNamed:
		return append(list, e.String())
	}
	for _, k := range e.kids {
		list = k.properties(list)
	}
	return list
}

// truth returns the truth value of a part of a condition for the message. A part that cannot be
// evaluated is unknown.
func (e *explainer) truth(x *expr) truth {
	c := &compiler{params: e.params}
	c.root = c.condition(x)
	if c.err != nil {
		return unknown
	}
	t, err := e.machine.filter(&c.program)
	if err != nil {
		return unknown
	}
	return t
}

// first returns the first part of a condition that keeps it from being true. The condition must not
// be true.
func (e *explainer) first(x *expr) (part string, isUnknown bool, values []Observed) {
	if x.op == opAnd {
		left, right := e.truth(x.kids[0]), e.truth(x.kids[1])
		if left == no || left == unknown && right != no { // false decides, even with unknowns
			return e.first(x.kids[0])
		}
		return e.first(x.kids[1])
	}
	return x.String(), e.truth(x) == unknown, e.observed(x, nil)
}

// observed adds the properties that a part names, each once.
func (e *explainer) observed(x *expr, list []Observed) []Observed {
	var v event.Value
	var name string
	there := false
	switch x.op {
	case opUser:
		name = quoteName(x.name)
		v, there = e.user(x.name)
	case opSystem:
		name = "sys." + quoteName(x.name)
		if p, ok := systemNamed(x.name); ok {
			v = e.m.System[p]
		}
		there = v.Type != event.Null
	case opNamed:
		c := &compiler{params: e.params}
		c.root = c.compile(x.kids[0])
		e.machine.restart()
		if of := e.machine.eval(&c.program, c.root); c.err == nil && of.Type == event.String {
			name = x.String()
			v, there = e.user(of.Text)
		}
	}
	if name != "" {
		list = addObserved(list, name, v, there)
	}
	for _, k := range x.kids {
		list = e.observed(k, list)
	}
	return list
}

func addObserved(list []Observed, name string, v event.Value, there bool) []Observed {
	for i := range list {
		if list[i].Name == name {
			return list
		}
	}
	if !there {
		return append(list, Observed{Name: name})
	}
	return append(list, Observe(name, v))
}

// Observe returns a property of a message as filters see it.
func Observe(name string, v event.Value) Observed {
	o := Observed{Name: name, Set: true, Type: "a value that filters do not see"}
	if v = known(v); v.Type != event.Null {
		o.Type, o.Value = typeName(v.Type), string(appendText(nil, v))
	}
	return o
}

// user returns an application property of the message, and whether it has one with the name.
func (e *explainer) user(name string) (event.Value, bool) {
	at := e.machine.view.find(name, hashName(name))
	if at < 0 {
		return event.Value{}, false
	}
	return e.m.User[at].Value, true
}

// correlation returns the first condition of a correlation filter that a message does not meet.
func (e *explainer) correlation(f *event.Filter) (part string, isUnknown bool, values []Observed) {
	for _, c := range f.Conditions {
		p := fields[c.Field]
		if v := known(e.m.System[p]); v.Type == event.Null || !equal(event.Value{Type: event.String, Text: c.Text}, v) {
			name := "sys." + p.String()
			return fmt.Sprintf("%s = %s", name, constantText(event.Value{Type: event.String, Text: c.Text})), v.Type == event.Null, addObserved(nil, name, v, v.Type != event.Null)
		}
	}
	for i := range f.Properties {
		p := &f.Properties[i]
		v, there := e.user(p.Name)
		if seen := known(v); seen.Type == event.Null || !equal(known(p.Value), seen) {
			name := quoteName(p.Name)
			return name + " = " + shown(known(p.Value)), seen.Type == event.Null, addObserved(nil, name, v, there)
		}
	}
	return "", false, nil
}

// shown returns a value of a rule in the language of filters, as far as that can express it.
func shown(v event.Value) string {
	switch v.Type {
	case event.Bool, event.Long, event.String:
		return constantText(v)
	}
	return string(appendText(nil, v))
}
