package filter

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenDelimited // a name in [] or ""
	tokenKeyword   // text is in capitals
	tokenParameter // text is without the @
	tokenConstant
	tokenSymbol
)

type token struct {
	kind  tokenKind
	pos   int    // of its first character, from 1
	text  string // a name, a keyword, a symbol; of a constant as written
	value event.Value
}

// String returns the token as error texts quote it.
func (t *token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenDelimited:
		return inBrackets(t.text)
	case tokenParameter:
		return "@" + t.text
	}
	return t.text
}

// inBrackets returns a name in brackets, for places where it would otherwise mean something else.
func inBrackets(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }

var keywords = []string{"AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "EXISTS", "TRUE", "FALSE", "SET", "REMOVE"}

// keyword returns the keyword that a word spells, in capitals, or "".
func keyword(word string) string {
	for _, k := range keywords {
		if strings.EqualFold(k, word) {
			return k
		}
	}
	return ""
}

// lexer cuts a text into tokens (semantics.md 15.4). After an error it returns only the end, so
// that the parser needs to look at the error only once.
type lexer struct {
	src string
	at  int // byte
	pos int // character, from 1
	err *Error
}

func (l *lexer) fail(pos int, format string, args ...any) {
	if l.err == nil {
		l.err = &Error{Position: pos, Text: fmt.Sprintf(format, args...)}
	}
	l.at = len(l.src)
}

// peek returns the character at l.at; 0 at the end.
func (l *lexer) peek() rune {
	if l.at >= len(l.src) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(l.src[l.at:])
	return r
}

func (l *lexer) skip() {
	_, n := utf8.DecodeRuneInString(l.src[l.at:])
	l.at += n
	l.pos++
}

// run skips the characters that fit and returns them.
func (l *lexer) run(fits func(rune) bool) string {
	start := l.at
	for l.at < len(l.src) && fits(l.peek()) {
		l.skip()
	}
	return l.src[start:l.at]
}

func inName(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
func digit(r rune) bool  { return '0' <= r && r <= '9' }

func (l *lexer) next() token {
	l.run(unicode.IsSpace)
	t := token{pos: l.pos}
	if l.at >= len(l.src) {
		return t
	}
	switch r := l.peek(); {
	case unicode.IsLetter(r):
		t.kind, t.text = tokenName, l.run(inName)
		if k := keyword(t.text); k != "" {
			t.kind, t.text = tokenKeyword, k
		}
	case digit(r), r == '.' && l.at+1 < len(l.src) && digit(rune(l.src[l.at+1])):
		l.number(&t)
	case r == '\'':
		t.kind, t.value.Type = tokenConstant, event.String
		t.value.Text = l.quoted('\'')
		t.text = "'" + strings.ReplaceAll(t.value.Text, "'", "''") + "'"
	case r == '[', r == '"':
		t.kind = tokenDelimited
		if r == '[' {
			r = ']'
		}
		if t.text = l.quoted(r); t.text == "" {
			l.fail(t.pos, "empty name")
		}
	case r == '@':
		l.skip()
		t.kind, t.text = tokenParameter, l.run(inName)
		if t.text == "" {
			l.fail(t.pos, "missing parameter name after @")
		}
	default:
		l.symbol(&t)
	}
	if l.err != nil {
		return token{pos: t.pos}
	}
	return t
}

// quoted reads the text between two quotes; the lexer is at the first. A doubled closing quote is
// one character of the text.
func (l *lexer) quoted(last rune) string {
	start := l.pos
	var b strings.Builder
	for l.skip(); l.at < len(l.src); l.skip() {
		r := l.peek()
		if r == last {
			l.skip()
			if l.peek() != last {
				return b.String()
			}
		}
		b.WriteRune(r)
	}
	l.fail(start, "missing closing %c", last)
	return ""
}

// number reads an integer of 64 bits, or a double: with a point, an exponent, or both.
func (l *lexer) number(t *token) {
	t.kind = tokenConstant
	start := l.at
	l.run(digit)
	integer := true
	if l.peek() == '.' {
		integer = false
		l.skip()
		l.run(digit)
	}
	if r := l.peek(); r == 'e' || r == 'E' {
		integer = false
		l.skip()
		if r := l.peek(); r == '+' || r == '-' {
			l.skip()
		}
		if l.run(digit) == "" {
			l.fail(t.pos, "the exponent of a number has no digits")
			return
		}
	}
	t.text = l.src[start:l.at]
	if inName(l.peek()) {
		l.fail(l.pos, "a letter follows a number")
		return
	}
	if integer {
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			l.fail(t.pos, "the integer %s has more than 64 bits", t.text)
		}
		t.value = event.Value{Type: event.Long, Bits: uint64(n)}
		return
	}
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		l.fail(t.pos, "the number %s is out of range", t.text)
	}
	t.value = event.Value{Type: event.Double, Bits: math.Float64bits(f)}
}

// symbols lists longer symbols before those that they begin with.
var symbols = []string{"<>", "!=", "<=", ">=", "<", ">", "=", "(", ")", ",", ";", "+", "-", "*", "/", "%", "."}

func (l *lexer) symbol(t *token) {
	for _, s := range symbols {
		if strings.HasPrefix(l.src[l.at:], s) {
			t.kind, t.text = tokenSymbol, s
			l.at += len(s)
			l.pos += len(s)
			return
		}
	}
	l.fail(l.pos, "unexpected %q", l.peek())
}
