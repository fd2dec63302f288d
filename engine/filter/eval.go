package filter

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxSteps bounds the evaluation of a rule for a message (reliability.md T4). A node is a step;
	// reading texts costs more.
	maxSteps = 10_000
	// maxText bounds texts that an evaluation makes, in bytes: the limit of all properties of a
	// message together.
	maxText = 64 << 10
)

// machine evaluates programs. The first error stays and ends the evaluation; results after it do
// not matter.
type machine struct {
	view  view
	newID func() [16]byte
	steps int // left
	err   *EvalError
	text  []byte
	state []uint64

	// of a condition on rows
	row      []event.Value
	document *document
	unread   bool // nothing but the row is known
}

// begin prepares the machine for a message and one rule.
func (m *machine) begin(msg *Message, newID func() [16]byte) {
	m.view.look(msg)
	m.newID = newID
	m.restart()
}

// restart prepares the machine for another rule and the same message.
func (m *machine) restart() { m.steps, m.err = maxSteps, nil }

func (m *machine) fail(format string, args ...any) event.Value {
	if m.err == nil {
		m.err = &EvalError{fmt.Sprintf(format, args...)}
	}
	return event.Value{}
}

// charge uses up steps, and reports whether that many were left.
func (m *machine) charge(steps int) bool {
	if m.err != nil {
		return false
	}
	if m.steps -= steps; m.steps < 0 {
		m.fail("The evaluation takes more than %d steps.", maxSteps)
		return false
	}
	return true
}

// filter evaluates a filter for the message.
func (m *machine) filter(p *program) (truth, *EvalError) {
	m.restart()
	t := m.condition(p, p.root)
	return t, m.err
}

// condition evaluates a node that must be a boolean.
func (m *machine) condition(p *program, i int32) truth {
	n := &p.nodes[i]
	if n.op < opEq || n.op > opOr {
		v := m.eval(p, i)
		switch v.Type {
		case event.Null:
			return unknown
		case event.Bool:
			return truthOf(v.Bits != 0)
		}
		m.fail("A condition must be a boolean, not %s.", typeName(v.Type))
		return unknown
	}
	if !m.charge(1) {
		return unknown
	}
	switch n.op {
	case opIn:
		return m.in(p, n)
	case opLike:
		return m.like(p, n)
	case opIsNull:
		v := m.eval(p, n.a)
		if m.unread && p.nodes[n.a].op != opColumn {
			return unknown
		}
		return truthOf((v.Type == event.Null) != n.not)
	case opExists:
		return m.exists(&p.nodes[n.a])
	case opNot:
		return m.condition(p, n.a).not()
	case opAnd:
		return m.and(p, n)
	case opOr:
		return m.or(p, n)
	}
	return m.compare(n.op, m.eval(p, n.a), m.eval(p, n.b))
}

// and is the three-valued AND. The right side is not evaluated if the left is false, so an error in
// it does not count.
func (m *machine) and(p *program, n *node) truth {
	a := m.condition(p, n.a)
	if a == no || m.err != nil {
		return a
	}
	if b := m.condition(p, n.b); b != yes {
		return b
	}
	return a
}

func (m *machine) or(p *program, n *node) truth {
	a := m.condition(p, n.a)
	if a == yes || m.err != nil {
		return a
	}
	if b := m.condition(p, n.b); b != no {
		return b
	}
	return a
}

func (m *machine) compare(o op, a, b event.Value) truth {
	if a.Type == event.Null || b.Type == event.Null || !m.charge(min(len(a.Text), len(b.Text))>>10) {
		return unknown
	}
	if o == opEq || o == opNe {
		return truthOf(equal(a, b) == (o == opEq))
	}
	c, ok := order(a, b)
	if !ok {
		m.fail("%s and %s cannot be ordered.", capital(typeName(a.Type)), typeName(b.Type))
		return unknown
	}
	switch o {
	case opLt:
		return truthOf(c == -1)
	case opLe:
		return truthOf(c == -1 || c == 0)
	case opGt:
		return truthOf(c == 1)
	}
	return truthOf(c == 1 || c == 0)
}

// in compares with =. An unknown member equals nothing: only the left side can make the result
// unknown.
func (m *machine) in(p *program, n *node) truth {
	left := m.eval(p, n.a)
	if left.Type == event.Null {
		return unknown
	}
	for _, i := range n.list {
		if v := m.eval(p, i); m.compare(opEq, left, v) == yes {
			return truthOf(!n.not)
		}
	}
	return truthOf(n.not)
}

func (m *machine) like(p *program, n *node) truth {
	text := m.eval(p, n.a)
	pat := n.pattern
	if pat == nil {
		by, escape := m.eval(p, n.b), event.Value{Type: event.String}
		if n.escape {
			escape = m.eval(p, n.c)
		}
		if text.Type == event.Null || by.Type == event.Null || escape.Type == event.Null {
			return unknown
		}
		if pat = m.pattern(by, escape, n.escape); pat == nil {
			return unknown
		}
	}
	switch {
	case text.Type == event.Null:
		return unknown
	case text.Type != event.String:
		m.fail("LIKE takes strings, not %s.", typeName(text.Type))
		return unknown
	case !m.charge(len(text.Text) * pat.words / charactersPerStep):
		return unknown
	}
	if len(m.state) < pat.words {
		m.state = make([]uint64, pat.words)
	}
	return truthOf(pat.match(text.Text, m.state[:pat.words]) != n.not)
}

// pattern prepares a pattern that depends on the message; nil: it is not valid.
func (m *machine) pattern(by, escape event.Value, escaped bool) *pattern {
	if by.Type != event.String || escape.Type != event.String {
		m.fail("The pattern and the escape character of LIKE must be strings, not %s and %s.", typeName(by.Type), typeName(escape.Type))
		return nil
	}
	char := rune(-1)
	if escaped {
		var ok bool
		if char, ok = escapeOf(escape.Text); !ok {
			m.fail("The escape of LIKE must be one character, not %d.", utf8.RuneCountInString(escape.Text))
			return nil
		}
	}
	if !m.charge(len(by.Text) / charactersPerStep) {
		return nil
	}
	return newPattern(by.Text, char, func(words int) bool { return m.charge(words / charactersPerStep) })
}

func escapeOf(text string) (rune, bool) {
	r, n := utf8.DecodeRuneInString(text)
	return r, n > 0 && n == len(text)
}

func (m *machine) exists(n *node) truth {
	if m.unread && n.op != opColumn {
		return unknown
	}
	switch n.op {
	case opUser:
		return truthOf(m.view.find(n.name, n.hash) >= 0)
	case opSystem:
		return truthOf(m.view.m.System[n.system].Type != event.Null)
	case opColumn:
		return truthOf(m.row[n.a].Type != event.Null)
	case opMember:
		return truthOf(m.document.member(n.a, m).exists)
	}
	m.fail(noSystemText, n.name)
	return unknown
}

const noSystemText = "There is no system property '%s'."

// eval evaluates any node; unknown is null.
func (m *machine) eval(p *program, i int32) event.Value {
	n := &p.nodes[i]
	if n.op >= opEq && n.op <= opOr {
		return truthValue(m.condition(p, i))
	}
	if !m.charge(1) {
		return event.Value{}
	}
	switch n.op {
	case opConst:
		return n.value
	case opUser:
		return m.view.user(n.name, n.hash)
	case opSystem:
		return known(m.view.m.System[n.system])
	case opUnknown:
		return m.fail(noSystemText, n.name)
	case opColumn:
		return m.row[n.a]
	case opMember:
		return m.document.member(n.a, m).value
	case opNamed:
		return m.named(m.eval(p, n.a))
	case opNewID:
		id := m.newID()
		return event.Value{Type: event.UUID, Text: string(id[:])}
	case opPlus, opMinus:
		return m.sign(n.op, m.eval(p, n.a))
	}
	return m.calculate(n.op, m.eval(p, n.a), m.eval(p, n.b))
}

func (m *machine) named(name event.Value) event.Value {
	switch {
	case name.Type == event.Null:
		return name
	case name.Type != event.String:
		return m.fail("property() takes a string, not %s.", typeName(name.Type))
	case !m.charge(len(name.Text) / charactersPerStep):
		return event.Value{}
	}
	return m.view.user(name.Text, hashName(name.Text))
}

func (m *machine) sign(o op, v event.Value) event.Value {
	switch v.Type {
	case event.Null:
		return v
	case event.Int, event.Long, event.Span:
		if o == opMinus {
			v.Bits = -v.Bits
		}
		return v
	case event.Double:
		if o == opMinus {
			v = doubleValue(-double(v))
		}
		return v
	case event.Decimal:
		if o == opMinus {
			d := decimalOf(v)
			v = decimal{d.coef.Neg(d.coef), d.exp}.value()
		}
		return v
	}
	return m.fail("A sign cannot be applied to %s.", typeName(v.Type))
}

// calculate does the arithmetic of two operands with the promotions of semantics.md 15.4.
func (m *machine) calculate(o op, a, b event.Value) event.Value {
	switch {
	case a.Type == event.Null || b.Type == event.Null:
		return event.Value{}
	case o == opAdd && (isText(a.Type) || isText(b.Type)):
		return m.concatenate(a, b)
	case isInteger(a.Type) && isInteger(b.Type):
		return m.integers(o, int64(a.Bits), int64(b.Bits))
	case !isNumber(a.Type) || !isNumber(b.Type):
		return m.times(o, a, b)
	case a.Type == event.Double || b.Type == event.Double:
		return doubles(o, double(a), double(b))
	}
	d, ok := decimalOf(a).calculate(o, decimalOf(b))
	if !ok {
		return m.fail("A calculation divides by zero or its result is too large.")
	}
	return d.value()
}

func isText(t event.ValueType) bool { return t == event.String || t == event.UUID }

func (m *machine) concatenate(a, b event.Value) event.Value {
	n := len(a.Text) + len(b.Text)
	if n > maxText {
		return m.fail("A text would be longer than %d bytes.", maxText)
	}
	if !m.charge(n / charactersPerStep) {
		return event.Value{}
	}
	if a.Type == event.String && b.Type == event.String {
		return event.Value{Type: event.String, Text: a.Text + b.Text}
	}
	m.text = appendText(appendText(m.text[:0], a), b)
	return event.Value{Type: event.String, Text: string(m.text)}
}

func (m *machine) integers(o op, a, b int64) event.Value {
	if b == 0 && (o == opDiv || o == opMod) {
		return m.fail("An integer is divided by zero.")
	}
	switch o {
	case opAdd:
		a += b
	case opSub:
		a -= b
	case opMul:
		a *= b
	case opDiv:
		a /= b
	case opMod:
		a %= b
	}
	return longValue(a)
}

func doubles(o op, a, b float64) event.Value {
	switch o {
	case opAdd:
		a += b
	case opSub:
		a -= b
	case opMul:
		a *= b
	case opDiv:
		a /= b
	case opMod:
		a = math.Mod(a, b)
	}
	return doubleValue(a)
}

// times adds and subtracts timestamps and time spans.
func (m *machine) times(o op, a, b event.Value) event.Value {
	x, y := int64(a.Bits), int64(b.Bits)
	if o == opSub {
		y = -y
	}
	types := [2]event.ValueType{a.Type, b.Type}
	switch {
	case o != opAdd && o != opSub:
	case types == [2]event.ValueType{event.Span, event.Span}, types == [2]event.ValueType{event.Instant, event.Instant} && o == opSub:
		return event.Value{Type: event.Span, Bits: uint64(x + y)}
	case types == [2]event.ValueType{event.Instant, event.Span}, types == [2]event.ValueType{event.Span, event.Instant} && o == opAdd:
		if x+y < 0 || x+y > event.MaxTicks {
			return m.fail("A timestamp is outside the years 1 to 9999.")
		}
		return event.Value{Type: event.Instant, Bits: uint64(x + y)}
	}
	return m.fail("%s %s %s cannot be calculated.", capital(typeName(a.Type)), symbolOf[o], typeName(b.Type))
}
