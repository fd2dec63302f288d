package atom

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// maxFilter bounds the bytes of a filter.
const maxFilter = 1024

// filter selects entries of a list: those for which all comparisons of at least one alternative
// hold (management-api.md 2.6).
type filter [][]comparison

// comparison compares a property of an entry with a value; the field of the property's type holds
// the value.
type comparison struct {
	property *property
	operator string // of operators, or startsWith
	negated  bool   // of startsWith
	text     string // in lower case
	number   int64
	at       time.Time
}

// property is a property that a filter can compare.
type property struct {
	name  string // in lower case
	kinds string // of the lists that have it: q, t, s and r
	held  bool   // a count or size, which is known only if the list asked for the entity's content
	// compare compares the property of an entry with the value; false: the property is not known.
	compare func(*document.Entry, *comparison) (int, bool)
	// read reads a value, quoted or not.
	read func(c *comparison, text string, quoted bool) bool
	of   string // name of the type of value, for messages
}

const startsWith = "startswith"

// operators maps each operator to the results of [cmp.Compare] that fulfil it.
var operators = map[string][]int{"eq": {0}, "ne": {-1, 1}, "gt": {1}, "ge": {0, 1}, "lt": {-1}, "le": {-1, 0}}

// filterProperties are the properties that Microsoft documents for NamespaceManager, and the name
// that its clients use for ModifiedAt.
var filterProperties = []property{
	{"path", "qt", false, comparePath, readText, "a text in single quotes"},
	{"createdat", "qtsr", false, compareCreated, readInstant, timeForms},
	{"updatedat", "qts", false, compareUpdated, readInstant, timeForms},
	{"modifiedat", "qts", false, compareUpdated, readInstant, timeForms},
	{"accessedat", "qts", true, compareAccessed, readInstant, timeForms},
	{"messagecount", "qts", true, compareCount, readNumber, "a whole number"},
}

const timeForms = "a time such as '2026-01-31T08:00:00Z' or '1/31/2026 08:00:00'"

// timeLayouts are the forms of a time: RFC 3339, with or without a zone, and the forms that .NET
// writes. Without a zone it is UTC.
var timeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly,
	"1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM", "1/2/2006",
}

func comparePath(e *document.Entry, c *comparison) (int, bool) {
	path := strings.ToLower(e.Title)
	if c.operator != startsWith {
		return strings.Compare(path, c.text), true
	}
	if strings.HasPrefix(path, c.text) != c.negated {
		return 0, true
	}
	return 1, true
}

func compareCreated(e *document.Entry, c *comparison) (int, bool) {
	return e.Published.Std().Compare(c.at), true
}

func compareUpdated(e *document.Entry, c *comparison) (int, bool) {
	return e.Updated.Std().Compare(c.at), true
}

func compareAccessed(e *document.Entry, c *comparison) (int, bool) {
	at := time.Time{} // the value that a list shows for an entity that was never used
	if e.Entity.AccessedAt != 0 {
		at = e.Entity.AccessedAt.Std()
	}
	return at.Compare(c.at), true
}

func compareCount(e *document.Entry, c *comparison) (int, bool) {
	r := &e.Entity.Runtime
	return cmp.Compare(int64(r.Total()), c.number), !r.Unknown && !r.Limited
}

func readText(c *comparison, text string, quoted bool) bool {
	c.text = strings.ToLower(text)
	return quoted
}

func readNumber(c *comparison, text string, quoted bool) (ok bool) {
	var err error
	c.number, err = strconv.ParseInt(text, 10, 64)
	return err == nil && !quoted
}

func readInstant(c *comparison, text string, _ bool) bool {
	return slices.ContainsFunc(timeLayouts, func(layout string) bool {
		var err error
		c.at, err = time.Parse(layout, text)
		return err == nil
	})
}

// verdict says whether a filter selects an entry.
type verdict uint8

const (
	no verdict = iota
	unknown
	yes
)

// judge reports whether the filter selects an entry. The result is unknown if it depends on an
// unknown property. held says that the entry has the counts and sizes.
func (f filter) judge(e *document.Entry, held bool) verdict {
	best := no
	for _, all := range f {
		worst := yes
		for i := range all {
			worst = min(worst, all[i].judge(e, held))
		}
		best = max(best, worst)
	}
	return best
}

func (c *comparison) judge(e *document.Entry, held bool) verdict {
	if c.property.held && !held {
		return unknown
	}
	result, known := c.property.compare(e, c)
	switch {
	case !known:
		return unknown
	case c.operator == startsWith && result == 0, slices.Contains(operators[c.operator], result):
		return yes
	}
	return no
}

// parseFilter reads a filter of the list of a kind: q, t, s or r.
func parseFilter(text string, kind byte) (filter, error) {
	if len(text) > maxFilter {
		return nil, invalidFilter("It has more than %d bytes.", maxFilter)
	}
	p := &filterParser{rest: text, kind: kind}
	f := filter{nil}
	for {
		c, err := p.readComparison()
		if err != nil {
			return nil, err
		}
		f[len(f)-1] = append(f[len(f)-1], c)
		switch t := p.next(); {
		case t.text == "" && !t.quoted:
			return f, nil
		case t.is("and"):
		case t.is("or"):
			f = append(f, nil)
		default:
			return nil, invalidFilter("'and' or 'or' is expected, not %s.", t)
		}
	}
}

// filterParser parses a filter.
type filterParser struct {
	rest string
	kind byte
}

// token is a word, a text in quotes (without the quotes), or a sign. The last one is empty.
type token struct {
	text   string
	quoted bool
	open   bool // a text without its closing quote
}

func (t token) is(word string) bool { return !t.quoted && strings.EqualFold(t.text, word) }

// String returns the token as messages show it.
func (t token) String() string {
	switch {
	case t.open:
		return "a text without its closing quote"
	case t.text == "" && !t.quoted:
		return "the end"
	case t.is("("), t.is(")"):
		return t.text + ": parentheses are allowed only after startswith"
	}
	return "'" + caller.Clip(t.text, maxName) + "'"
}

const wordEnds = " \t\r\n'(),"

// next reads a token. In a text two quotes mean one.
func (p *filterParser) next() token {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return token{}
	}
	if p.rest[0] == '\'' {
		var text strings.Builder
		for p.rest = p.rest[1:]; ; p.rest = p.rest[1:] {
			part, rest, ok := strings.Cut(p.rest, "'")
			text.WriteString(part)
			if p.rest = rest; !ok || !strings.HasPrefix(rest, "'") {
				return token{text: text.String(), quoted: true, open: !ok}
			}
			text.WriteByte('\'')
		}
	}
	n := strings.IndexAny(p.rest, wordEnds)
	switch {
	case n < 0:
		n = len(p.rest)
	case n == 0: // a sign
		n = 1
	}
	t := token{text: p.rest[:n]}
	p.rest = p.rest[n:]
	return t
}

// readSign reads a sign that must be next.
func (p *filterParser) readSign(want string) error {
	if t := p.next(); !t.is(want) {
		return invalidFilter("'%s' is expected, not %s.", want, t)
	}
	return nil
}

func (p *filterParser) readComparison() (comparison, error) {
	first := p.next()
	if first.is(startsWith) {
		return p.readStartsWith()
	}
	var c comparison
	if err := p.readProperty(first, &c); err != nil {
		return c, err
	}
	t := p.next()
	c.operator = strings.ToLower(t.text)
	if operators[c.operator] == nil || t.quoted {
		return c, invalidFilter("After '%s' one of eq, ne, gt, ge, lt, le is expected, not %s.", caller.Clip(first.text, maxName), t)
	}
	return c, p.readValue(&c)
}

// readStartsWith reads the rest of a comparison after the name of the function. Some clients leave
// out the comparison with true.
func (p *filterParser) readStartsWith() (comparison, error) {
	c := comparison{operator: startsWith}
	if p.kind != 'q' && p.kind != 't' {
		// the service's words
		return c, invalidFilter("StartsWith is not allowed in the filter expression.")
	}
	if err := p.readSign("("); err != nil {
		return c, err
	}
	name := p.next()
	if !name.is("path") {
		return c, invalidFilter("StartsWith takes 'path', not %s.", name)
	}
	err := cmp.Or(p.readProperty(name, &c), p.readSign(","))
	if err == nil {
		err = cmp.Or(p.readValue(&c), p.readSign(")"))
	}
	before := p.rest
	operator := p.next()
	if err != nil || !operator.is("eq") && !operator.is("ne") {
		p.rest = before
		return c, err
	}
	value := p.next()
	if !value.is("true") && !value.is("false") {
		return c, invalidFilter("StartsWith is compared with true or false, not with %s.", value)
	}
	c.negated = operator.is("ne") == value.is("true")
	return c, nil
}

func (p *filterParser) readProperty(name token, c *comparison) error {
	for i := range filterProperties {
		if of := &filterProperties[i]; name.is(of.name) && strings.IndexByte(of.kinds, p.kind) >= 0 {
			c.property = of
			return nil
		}
	}
	if name.text == "" || name.quoted || strings.Contains(wordEnds, name.text) {
		return invalidFilter("A property is expected, not %s.", name)
	}
	// the service's words
	return invalidFilter("The specified property '%s' does not exist or is not allowed.", caller.Clip(name.text, maxName))
}

// readValue reads the value that a property is compared with. A time may have the form of OData,
// datetime'2026-01-31T08:00:00Z'.
func (p *filterParser) readValue(c *comparison) error {
	t := p.next()
	if t.is("datetime") && strings.HasPrefix(p.rest, "'") && c.property.of == timeForms {
		t = p.next()
	}
	if t.open || !c.property.read(c, t.text, t.quoted) {
		return invalidFilter("'%s' is compared with %s, not with %s.", c.property.name, c.property.of, t)
	}
	return nil
}

// invalidFilter returns a refusal that begins with the service's words.
func invalidFilter(format string, args ...any) error {
	return badRequest("Invalid Filter. "+format, args...)
}
