package filter

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Trees are printed as texts: parts of a condition for people, and texts that parse to the same
// tree.

// How tightly nodes bind. A child that binds less tightly than its place requires is printed in
// parentheses.
const (
	levelOr = iota
	levelAnd
	levelNot
	levelPredicate
	levelSum
	levelTerm
	levelUnary
	levelPrimary
)

func (e *expr) level() int {
	switch e.op {
	case opOr:
		return levelOr
	case opAnd:
		return levelAnd
	case opNot:
		return levelNot
	case opEq, opNe, opLt, opLe, opGt, opGe, opIn, opLike, opIsNull, opExists:
		return levelPredicate
	case opAdd, opSub:
		return levelSum
	case opMul, opDiv, opMod:
		return levelTerm
	case opPlus, opMinus:
		return levelUnary
	}
	return levelPrimary
}

// String prints the expression so that parsing it gives the same tree.
func (e *expr) String() string {
	var b strings.Builder
	e.print(&b, levelOr)
	return b.String()
}

func (e *expr) print(b *strings.Builder, least int) {
	level := e.level()
	if level < least {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	switch e.op {
	case opConst:
		b.WriteString(constantText(e.value))
	case opParam:
		b.WriteString("@" + e.name)
	case opUser, opColumn:
		b.WriteString(quoteName(e.name))
	case opSystem:
		b.WriteString("sys." + quoteName(e.name))
	case opMember:
		b.WriteString("body")
		for _, name := range e.path {
			b.WriteString("." + quoteName(name))
		}
	case opNewID:
		b.WriteString("newid()")
	case opNamed:
		b.WriteString("property(")
		e.kids[0].print(b, levelSum)
		b.WriteByte(')')
	case opPlus, opMinus:
		b.WriteString(symbolOf[e.op])
		e.kids[0].print(b, levelPrimary)
	case opNot:
		b.WriteString(symbolOf[e.op])
		e.kids[0].print(b, levelPredicate)
	case opIn, opLike, opIsNull, opExists:
		e.printPredicate(b)
	default:
		left := level
		if level == levelPredicate {
			left++ // a comparison cannot be an operand of another one
		}
		e.kids[0].print(b, left)
		b.WriteString(" " + symbolOf[e.op] + " ")
		e.kids[1].print(b, level+1)
	}
}

func (e *expr) printPredicate(b *strings.Builder) {
	if e.op == opExists {
		b.WriteString("EXISTS(")
		e.kids[0].print(b, levelPrimary)
		b.WriteByte(')')
		return
	}
	e.kids[0].print(b, levelSum)
	not := ""
	if e.not {
		not = " NOT"
	}
	switch e.op {
	case opIsNull:
		b.WriteString(" IS" + not + " NULL")
	case opIn:
		b.WriteString(not + " IN (")
		for i, k := range e.kids[1:] {
			if i > 0 {
				b.WriteString(", ")
			}
			k.print(b, levelSum)
		}
		b.WriteByte(')')
	case opLike:
		b.WriteString(not + " LIKE ")
		e.kids[1].print(b, levelSum)
		if len(e.kids) == 3 {
			b.WriteString(" ESCAPE ")
			e.kids[2].print(b, levelSum)
		}
	}
}

func constantText(v event.Value) string {
	switch v.Type {
	case event.Bool:
		if v.Bits == 0 {
			return "FALSE"
		}
		return "TRUE"
	case event.Long:
		return strconv.FormatInt(int64(v.Bits), 10)
	case event.Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'E', -1, 64)
	case event.String:
		return "'" + strings.ReplaceAll(v.Text, "'", "''") + "'"
	}
	return "NULL"
}

// quoteName prints a name, in brackets if it needs them.
func quoteName(name string) string {
	plain := keyword(name) == ""
	for i, r := range name {
		plain = plain && inName(r) && (i > 0 || unicode.IsLetter(r))
	}
	if plain {
		return name
	}
	return inBrackets(name)
}
