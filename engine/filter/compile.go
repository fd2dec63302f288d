package filter

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// program is a compiled filter, or all values of an action: nodes, each after those that it needs.
type program struct {
	nodes    []node
	root     int32
	volatile bool // it has newid(): no two evaluations are the same
}

// node is a node of the tree in which everything that does not depend on the message is resolved.
type node struct {
	op      op
	not     bool
	escape  bool // of opLike: c is its escape character
	system  SystemProperty
	a, b, c int32   // operands
	list    []int32 // of opIn
	name    string
	hash    uint64 // of name
	value   event.Value
	pattern *pattern // of opLike with a constant pattern
}

type compiler struct {
	program
	params []event.Property
	err    *Error

	// of a condition on rows
	columns  []Column
	document *document // nil: it is a filter or an action
}

// compileFilter parses and compiles the text of an SQL filter.
func compileFilter(text string, params []event.Property) (*program, *Error) {
	tree, err := parseFilter(text)
	if err != nil {
		return nil, err
	}
	c := &compiler{params: params}
	c.root = c.condition(tree)
	if c.err != nil {
		c.err.Part = "filter"
		return nil, c.err
	}
	p := c.program
	return &p, nil
}

func (c *compiler) fail(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Position: pos, Text: fmt.Sprintf(format, args...)}
	}
}

// condition compiles an expression that must be a boolean. It refuses a constant, a parameter or a
// calculation of another type, which certainly is not one (semantics.md 15.4). The type of a
// property is known only from the message.
func (c *compiler) condition(e *expr) int32 {
	i := c.compile(e)
	switch v := c.nodes[i].value; {
	case e.op == opNewID:
		c.fail(e.pos, "newid() is not a condition")
	case e.op >= opPlus && e.op <= opMod:
		c.fail(e.pos, "a calculation is not a condition")
	case v.Type != event.Bool && v.Type != event.Null:
		c.fail(e.pos, "%s is not a condition", typeName(v.Type))
	}
	return i
}

// compile appends the nodes of an expression and returns the index of the last one.
func (c *compiler) compile(e *expr) int32 {
	start := len(c.nodes)
	n := node{op: e.op, not: e.not, name: e.name, value: e.value}
	pure := len(e.kids) > 0
	for i, k := range e.kids {
		var at int32
		if e.op >= opNot {
			at = c.condition(k)
		} else {
			at = c.compile(k)
		}
		pure = pure && c.nodes[at].op == opConst
		switch {
		case i == 0:
			n.a = at
		case e.op == opIn:
			n.list = append(n.list, at)
		case i == 1:
			n.b = at
		default:
			n.c, n.escape = at, true
		}
	}
	c.resolve(e, &n)
	if c.document != nil {
		c.resolveRow(e, &n)
	}
	c.nodes = append(c.nodes, n)
	if pure {
		c.evaluate(start)
	}
	return int32(len(c.nodes) - 1)
}

func (c *compiler) resolve(e *expr, n *node) {
	switch n.op {
	case opParam:
		p := c.parameter(e.name)
		if p == nil {
			c.fail(e.pos, "the parameter @%s has no value", e.name)
			return
		}
		n.op, n.value = opConst, known(p.Value)
	case opUser:
		n.hash = hashName(n.name)
	case opSystem:
		var ok bool
		if n.system, ok = systemNamed(n.name); !ok {
			n.op = opUnknown // an error when it is evaluated, not before
		}
	case opNewID:
		c.volatile = true
	case opLike:
		n.pattern = c.pattern(n)
	}
}

// parameter finds the value of a parameter. Rules name it with and without the @; the exact
// spelling is tried first.
func (c *compiler) parameter(name string) *event.Property {
	var found *event.Property
	for i := range c.params {
		p := &c.params[i]
		switch n := strings.TrimPrefix(p.Name, "@"); {
		case n == name:
			return p
		case found == nil && strings.EqualFold(n, name):
			found = p
		}
	}
	return found
}

// pattern prepares the pattern of a LIKE if it is constant and valid.
func (c *compiler) pattern(n *node) *pattern {
	text := &c.nodes[n.b]
	if text.op != opConst || text.value.Type != event.String {
		return nil
	}
	escape := rune(-1)
	if n.escape {
		by := &c.nodes[n.c]
		var ok bool
		if by.op != opConst || by.value.Type != event.String {
			return nil
		}
		if escape, ok = escapeOf(by.value.Text); !ok {
			return nil
		}
	}
	return newPattern(text.value.Text, escape, func(words int) bool { return words <= maxSteps*charactersPerStep })
}

// evaluate replaces all nodes from start by the value of the last node, whose operands are
// constants. A node that cannot be evaluated stays: that is an error of the evaluation, not of the
// rule.
func (c *compiler) evaluate(start int) {
	switch last := &c.nodes[len(c.nodes)-1]; last.op {
	case opNamed, opIsNull, opExists:
		return
	}
	var m machine
	m.begin(&Message{}, nil)
	v := m.eval(&c.program, int32(len(c.nodes)-1))
	if m.err == nil {
		c.nodes = append(c.nodes[:start], node{op: opConst, value: v})
	}
}

// constant reports whether the result is the same for all messages.
func (p *program) constant() (event.Value, bool) {
	n := &p.nodes[p.root]
	return n.value, n.op == opConst
}
