package filter

import "strings"

const (
	// maxDepth bounds the nesting of parentheses, and so the stack that parsing and evaluating use.
	maxDepth = 100
	// maxStatements is the most statements in an action (semantics.md 15.5).
	maxStatements = 32
)

// parser reads the grammars of semantics.md 15.4 and 15.5, with one method for each rule.
type parser struct {
	lexer
	tok    token
	depth  int
	ofRows bool // the text is a condition on rows: see [Condition]
}

// parseFilter parses the text of an SQL filter.
func parseFilter(text string) (*expr, *Error) {
	p := &parser{lexer: lexer{src: text, pos: 1}}
	p.advance()
	e := p.whole()
	if p.err != nil {
		p.err.Part = "filter"
		return nil, p.err
	}
	return e, nil
}

// whole parses a condition to the end of the text.
func (p *parser) whole() *expr {
	e := p.or()
	if p.tok.kind != tokenEnd {
		p.fail(p.tok.pos, "unexpected %s", &p.tok)
	}
	return e
}

// parseAction parses the text of an action.
func parseAction(text string) ([]*statement, *Error) {
	p := &parser{lexer: lexer{src: text, pos: 1}}
	p.advance()
	var out []*statement
	for {
		pos := p.tok.pos
		s := p.statement()
		if out = append(out, s); len(out) > maxStatements {
			p.fail(pos, "more than %d statements", maxStatements)
		}
		p.accept(";")
		if p.tok.kind == tokenEnd {
			break
		}
	}
	if p.err != nil {
		p.err.Part = "action"
		return nil, p.err
	}
	return out, nil
}

func (p *parser) fail(pos int, format string, args ...any) {
	p.lexer.fail(pos, format, args...)
	p.tok = token{pos: pos}
}

func (p *parser) advance() { p.tok = p.next() }

// accept skips a symbol or keyword if it is next.
func (p *parser) accept(text string) bool {
	if (p.tok.kind != tokenSymbol && p.tok.kind != tokenKeyword) || p.tok.text != text {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail(p.tok.pos, "expected %s, found %s", text, &p.tok)
	}
}

func (p *parser) statement() *statement {
	switch {
	case p.accept("SET"):
		s := &statement{target: p.property()}
		p.expect("=")
		s.value = p.sum()
		return s
	case p.accept("REMOVE"):
		return &statement{target: p.property()}
	}
	p.fail(p.tok.pos, "expected SET or REMOVE, found %s", &p.tok)
	return nil
}

func (p *parser) or() *expr {
	e := p.and()
	for pos := p.tok.pos; p.accept("OR"); pos = p.tok.pos {
		e = &expr{op: opOr, pos: pos, kids: []*expr{e, p.and()}}
	}
	return e
}

func (p *parser) and() *expr {
	e := p.not()
	for pos := p.tok.pos; p.accept("AND"); pos = p.tok.pos {
		e = &expr{op: opAnd, pos: pos, kids: []*expr{e, p.not()}}
	}
	return e
}

func (p *parser) not() *expr {
	if pos := p.tok.pos; p.accept("NOT") {
		return &expr{op: opNot, pos: pos, kids: []*expr{p.predicate()}}
	}
	return p.predicate()
}

func (p *parser) predicate() *expr {
	pos := p.tok.pos
	if p.accept("EXISTS") {
		p.expect("(")
		e := &expr{op: opExists, pos: pos, kids: []*expr{p.property()}}
		p.expect(")")
		return e
	}
	left := p.sum()
	pos = p.tok.pos
	if op, ok := p.operator(opEq, opGe); ok {
		return &expr{op: op, pos: pos, kids: []*expr{left, p.sum()}}
	}
	if p.accept("!=") {
		return &expr{op: opNe, pos: pos, kids: []*expr{left, p.sum()}}
	}
	if p.accept("IS") {
		e := &expr{op: opIsNull, pos: pos, not: p.accept("NOT"), kids: []*expr{left}}
		p.expect("NULL")
		switch left.op {
		case opUser, opSystem, opNamed, opColumn, opMember:
		default:
			p.fail(pos, "IS NULL applies only to a property")
		}
		return e
	}
	not := p.accept("NOT")
	switch {
	case p.accept("IN"):
		return p.in(pos, not, left)
	case p.accept("LIKE"):
		e := &expr{op: opLike, pos: pos, not: not, kids: []*expr{left, p.sum()}}
		if p.accept("ESCAPE") {
			e.kids = append(e.kids, p.sum())
		}
		return e
	case not:
		p.fail(p.tok.pos, "expected IN or LIKE, found %s", &p.tok)
	}
	return left
}

func (p *parser) in(pos int, not bool, left *expr) *expr {
	e := &expr{op: opIn, pos: pos, not: not, kids: []*expr{left}}
	p.expect("(")
	e.kids = append(e.kids, p.sum())
	for p.accept(",") {
		e.kids = append(e.kids, p.sum())
	}
	p.expect(")")
	return e
}

// operator accepts the symbol of one of the operators from first to last.
func (p *parser) operator(first, last op) (op, bool) {
	if p.tok.kind == tokenSymbol {
		for o := first; o <= last; o++ {
			if p.accept(symbolOf[o]) {
				return o, true
			}
		}
	}
	return 0, false
}

func (p *parser) sum() *expr {
	e := p.term()
	for {
		pos := p.tok.pos
		op, ok := p.operator(opAdd, opSub)
		if !ok {
			return e
		}
		e = &expr{op: op, pos: pos, kids: []*expr{e, p.term()}}
	}
}

func (p *parser) term() *expr {
	e := p.unary()
	for {
		pos := p.tok.pos
		op, ok := p.operator(opMul, opMod)
		if !ok {
			return e
		}
		e = &expr{op: op, pos: pos, kids: []*expr{e, p.unary()}}
	}
}

func (p *parser) unary() *expr {
	pos := p.tok.pos
	if op, ok := p.operator(opPlus, opMinus); ok {
		return &expr{op: op, pos: pos, kids: []*expr{p.primary()}}
	}
	return p.primary()
}

func (p *parser) primary() *expr {
	t := p.tok
	e := &expr{op: opConst, pos: t.pos}
	switch {
	case t.kind == tokenConstant:
		e.value = t.value
		p.advance()
	case t.kind == tokenParameter:
		e.op, e.name = opParam, t.text
		p.advance()
	case p.accept("TRUE"):
		e.value = truthValue(yes)
	case p.accept("FALSE"):
		e.value = truthValue(no)
	case p.accept("NULL"):
	case t.kind == tokenName, t.kind == tokenDelimited:
		p.advance()
		if t.kind == tokenName && p.accept("(") {
			return p.function(t)
		}
		return p.scoped(t)
	case p.accept("("):
		p.enter(t.pos)
		e = p.or()
		p.expect(")")
		p.depth--
	default:
		p.fail(t.pos, "expected a value, found %s", &t)
	}
	return e
}

// function reads the rest of a call, after the opening parenthesis.
func (p *parser) function(name token) *expr {
	e := &expr{pos: name.pos}
	switch {
	case strings.EqualFold(name.text, "newid"):
		e.op = opNewID
	case strings.EqualFold(name.text, "property"), strings.EqualFold(name.text, "p"):
		e.op = opNamed
		p.enter(name.pos)
		e.kids = []*expr{p.sum()}
		p.depth--
	default:
		p.fail(name.pos, "%s is not a function", name.text)
	}
	p.expect(")")
	return e
}

func (p *parser) enter(pos int) {
	if p.depth++; p.depth > maxDepth {
		p.fail(pos, "parentheses are nested more than %d deep", maxDepth)
	}
}

func (p *parser) property() *expr {
	t := p.name()
	return p.scoped(t)
}

func (p *parser) name() token {
	t := p.tok
	switch t.kind {
	case tokenName, tokenDelimited:
		p.advance()
	case tokenKeyword:
		p.fail(t.pos, "%[1]s is a keyword; to use it as a name, write [%[1]s]", t.text)
	default:
		p.fail(t.pos, "expected the name of a property, found %s", &t)
	}
	return t
}

// scoped returns a property for a name that was read. If the name is sys or user and a point
// follows, it is the property with the name after the point.
func (p *parser) scoped(t token) *expr {
	if p.ofRows {
		return p.rowProperty(t)
	}
	e := &expr{op: opUser, pos: t.pos, name: t.text}
	if t.kind != tokenName || p.tok.kind != tokenSymbol || p.tok.text != "." {
		return e
	}
	switch {
	case strings.EqualFold(t.text, "sys"):
		e.op = opSystem
	case !strings.EqualFold(t.text, "user"):
		p.fail(t.pos, "%s is neither sys nor user", t.text)
		return e
	}
	p.advance()
	e.name = p.name().text
	return e
}
