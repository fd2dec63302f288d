package filter

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Column is a column of a table whose rows are messages.
type Column struct {
	Name string
	Time bool // its values are instants. A condition compares them with texts that spell a time
}

// Condition selects rows of a table of messages. It is written in the language of SQL filters, in
// which more can be named: a name without a scope is a column, in any letter case, sys. and user.
// are properties of the message as in a rule, and body. is a member of a JSON body, such as
// body.order.id or body.items.0.id. A body that is not JSON, a missing member, an object and an
// array are null.
//
// A Condition has one owner at a time.
type Condition struct {
	parts   [needs]*program // joined by AND; nil: true
	machine machine
	empty   Message
}

// need says what must be read to evaluate an expression. The larger one includes the smaller ones.
type need uint8

const (
	needsRow need = iota
	needsProperties
	needsBody
	needs
)

// NewCondition compiles a condition on rows with the columns. An error is an [*Error].
func NewCondition(text string, columns []Column) (*Condition, error) {
	c := &Condition{}
	if err := c.compile(text, columns); err != nil {
		err.Part = "condition"
		return nil, err
	}
	return c, nil
}

func (c *Condition) compile(text string, columns []Column) *Error {
	if err := checkText("", text, nil); err != nil {
		return err
	}
	p := &parser{lexer: lexer{src: text, pos: 1}, ofRows: true}
	p.advance()
	tree := p.whole()
	if p.err != nil {
		return p.err
	}
	c.machine.document = &document{}
	var parts [needs]*expr
	tree.distribute(&parts)
	for i, part := range parts {
		if part == nil {
			continue
		}
		compiler := &compiler{columns: columns, document: c.machine.document}
		compiler.root = compiler.condition(part)
		if compiler.err != nil {
			return compiler.err
		}
		c.parts[i] = &compiler.program
	}
	return nil
}

// distribute adds the operands of AND to the part that has what they need. The result of the whole
// is the same in any order, and what is cheap to evaluate comes first.
func (e *expr) distribute(parts *[needs]*expr) {
	if e.op == opAnd {
		e.kids[0].distribute(parts)
		e.kids[1].distribute(parts)
		return
	}
	part := &parts[e.needs()]
	if *part != nil {
		e = &expr{op: opAnd, pos: e.pos, kids: []*expr{*part, e}}
	}
	*part = e
}

func (e *expr) needs() (n need) {
	switch e.op {
	case opUser, opSystem, opNamed:
		n = needsProperties
	case opMember:
		n = needsBody
	}
	for _, k := range e.kids {
		n = max(n, k.needs())
	}
	return n
}

// ReadsProperties reports whether the condition names properties of messages.
func (c *Condition) ReadsProperties() bool { return c.names(opUser, opSystem, opUnknown, opNamed) }

// ReadsBodies reports whether the condition names members of bodies.
func (c *Condition) ReadsBodies() bool { return c.names(opMember) }

func (c *Condition) names(ops ...op) bool {
	for _, p := range c.parts {
		if p == nil {
			continue
		}
		for i := range p.nodes {
			for _, o := range ops {
				if p.nodes[i].op == o {
					return true
				}
			}
		}
	}
	return false
}

// MatchRow begins the evaluation for a message, with the values of the columns in their order. It
// reports whether the part of the condition that names columns alone is true. An error is an
// [*EvalError].
func (c *Condition) MatchRow(row []event.Value) (bool, error) {
	c.machine.row = row
	c.machine.begin(&c.empty, func() [16]byte { return [16]byte{} })
	return c.isTrue(needsRow)
}

// MatchMessage reports whether the rest of the condition is true for the message whose row
// [Condition.MatchRow] got. m is nil unless [Condition.ReadsProperties], and body unless
// [Condition.ReadsBodies] or if there is none; it must not change meanwhile.
func (c *Condition) MatchMessage(m *Message, body []byte) (bool, error) {
	if m == nil {
		m = &c.empty
	}
	c.machine.view.look(m)
	c.machine.document.look(body)
	return c.matchRest()
}

// MatchUnread does the same for a message that cannot be read: each property, each member, and
// whether it exists, is unknown.
func (c *Condition) MatchUnread() (bool, error) {
	c.machine.view.look(&c.empty)
	c.machine.document.look(nil)
	c.machine.unread = true
	defer func() { c.machine.unread = false }()
	return c.matchRest()
}

func (c *Condition) matchRest() (bool, error) {
	ok, err := c.isTrue(needsProperties)
	if ok {
		ok, err = c.isTrue(needsBody)
	}
	return ok, err
}

func (c *Condition) isTrue(part need) (bool, error) {
	if c.parts[part] == nil {
		return true, nil
	}
	t, err := c.machine.filter(c.parts[part])
	if err != nil {
		return false, err
	}
	return t == yes, nil
}

// rowProperty is scoped for a condition on rows.
func (p *parser) rowProperty(t token) *expr {
	e := &expr{op: opColumn, pos: t.pos, name: t.text}
	name, ok := p.member()
	switch {
	case !ok:
		return e
	case t.kind == tokenName && strings.EqualFold(t.text, "sys"):
		e.op, e.name = opSystem, name
	case t.kind == tokenName && strings.EqualFold(t.text, "user"):
		e.op, e.name = opUser, name
	case t.kind == tokenName && strings.EqualFold(t.text, "body"):
		for e.op = opMember; ok; name, ok = p.member() {
			e.path = append(e.path, name)
		}
		if p.tok.kind == tokenDelimited {
			p.fail(p.tok.pos, "unexpected %s; a point precedes each member and each number of an element, as in body.items.0.sku", &p.tok)
		}
	default:
		p.fail(t.pos, "%s is none of sys, user and body; for a member of a JSON body write body.NAME", t.text)
	}
	return e
}

// member reads a point and the name after it, if a point is next. The name may be the number of an
// element, which the lexer takes as a fraction: .0
func (p *parser) member() (name string, ok bool) {
	if p.tok.kind == tokenConstant && strings.HasPrefix(p.tok.text, ".") && strings.Trim(p.tok.text[1:], "0123456789") == "" {
		name = p.tok.text[1:]
		p.advance()
		return name, true
	}
	if p.tok.kind != tokenSymbol || !p.accept(".") {
		return "", false
	}
	return p.name().text, p.err == nil
}

// resolveRow resolves what only a condition on rows has.
func (c *compiler) resolveRow(e *expr, n *node) {
	switch n.op {
	case opColumn:
		if n.a = c.column(e.name); n.a < 0 {
			c.fail(e.pos, "unknown column %s; the columns are %s; properties of the message are sys.NAME and user.NAME, and members of a JSON body are body.NAME; a text is in single quotes",
				quoteName(e.name), columnNames(c.columns))
		}
	case opMember:
		n.a = c.document.add(e.path)
	case opUnknown:
		c.fail(e.pos, "unknown system property %s; the system properties are %s", quoteName(e.name), strings.Join(systemNames[:], ", "))
	case opEq, opNe, opLt, opLe, opGt, opGe:
		c.parseTime(n.a, n.b)
		c.parseTime(n.b, n.a)
	case opIn:
		for _, k := range n.list {
			c.parseTime(n.a, k)
		}
	}
}

// column returns the index of a column, -1 if there is none.
func (c *compiler) column(name string) int32 {
	for i := range c.columns {
		if strings.EqualFold(c.columns[i].Name, name) {
			return int32(i)
		}
	}
	return -1
}

func columnNames(columns []Column) string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return strings.Join(names, ", ")
}

// parseTime turns a constant text that is compared with a time into one: the language has no
// constants for times.
func (c *compiler) parseTime(column, constant int32) {
	n, k := &c.nodes[column], &c.nodes[constant]
	if n.op != opColumn || n.a < 0 || !c.columns[n.a].Time || k.op != opConst || k.value.Type != event.String {
		return
	}
	at, ok := event.ParseInstant(k.value.Text)
	if !ok {
		if c.err == nil {
			c.err = &Error{Text: fmt.Sprintf("%s is compared with '%.40s', which is no time such as 2026-11-03T03:12:00Z", c.columns[n.a].Name, k.value.Text)}
		}
		return
	}
	k.value = known(at)
}
