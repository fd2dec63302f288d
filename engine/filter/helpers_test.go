package filter

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var (
	sampleID   = event.Value{Type: event.UUID, Text: "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"}
	newYear    = instant(638396640000000000) // 2024-01-01
	tenSeconds = span(100_000_000)
)

func text(s string) event.Value     { return event.Value{Type: event.String, Text: s} }
func whole(n int64) event.Value     { return event.Value{Type: event.Int, Bits: uint64(n)} }
func instant(t int64) event.Value   { return event.Value{Type: event.Instant, Bits: uint64(t)} }
func span(t int64) event.Value      { return event.Value{Type: event.Span, Bits: uint64(t)} }
func decimals(s string) event.Value { return event.Value{Type: event.Decimal, Text: s} }

// typed returns the message of the tables: values that no constant of the language can write, and
// system properties.
func typed() *Message {
	m := &Message{User: []event.Property{
		{Name: "id", Value: sampleID},
		{Name: "start", Value: newYear},
		{Name: "end", Value: instant(int64(newYear.Bits) + int64(tenSeconds.Bits))},
		{Name: "span", Value: tenSeconds},
		{Name: "dec", Value: decimals("19.99")},
		{Name: "huge", Value: decimals("18446744073709551615")},
		{Name: "int", Value: whole(7)},
		{Name: "nan", Value: doubleValue(math.NaN())},
		{Name: "blob", Value: event.Value{Type: Opaque}},
		{Name: "nothing", Value: event.Value{}},
	}}
	m.System[Label] = text("orders")
	m.System[MessageID] = text("m-1")
	m.System[SessionID] = text("s-1")
	m.System[DeliveryCount] = longValue(0)
	m.System[EnqueuedTimeUtc] = newYear
	m.System[TimeToLive] = tenSeconds
	return m
}

// message returns typed with further properties, as in "color='blue' n=5 d=1.5 [a b]=TRUE x=NULL".
func message(t testing.TB, properties string) *Message {
	t.Helper()
	m := typed()
	p := &parser{lexer: lexer{src: properties, pos: 1}}
	for p.advance(); p.tok.kind != tokenEnd; {
		name := p.name().text
		p.expect("=")
		e := p.unary()
		v := e.value
		if e.op == opMinus {
			var x machine
			v = x.sign(opMinus, e.kids[0].value)
		}
		m.User = append(m.User, event.Property{Name: name, Value: v})
	}
	if p.err != nil {
		t.Fatalf("%s: %v", properties, p.err)
	}
	return m
}

// ids returns a source of uuids that all differ and are the same in every run.
func ids() func() [16]byte {
	n := byte(0)
	return func() [16]byte {
		n++
		return [16]byte{15: n}
	}
}

// result evaluates a filter: T, F, U, or "error: " and the reason.
func result(t testing.TB, filter string, m *Message, params ...event.Property) string {
	t.Helper()
	p, err := compileFilter(filter, params)
	if err != nil {
		t.Errorf("%s: %v", filter, err)
		return "refused"
	}
	var x machine
	x.begin(m, ids())
	got, failed := x.filter(p)
	if failed != nil {
		return "error: " + failed.Text
	}
	return [...]string{unknown: "U", yes: "T", no: "F"}[got]
}

// filterCase is a row of a table: a filter, properties of the message in addition to those of
// typed, and T, F, U, or part of the error's text.
type filterCase struct{ filter, properties, want string }

func runFilters(t *testing.T, cases []filterCase) {
	t.Helper()
	for _, c := range cases {
		got := result(t, c.filter, message(t, c.properties))
		if got != c.want && (!strings.HasPrefix(got, "error: ") || len(c.want) == 1 || !strings.Contains(got, c.want)) {
			t.Errorf("%s with {%s} is %s, want %s", c.filter, c.properties, got, c.want)
		}
	}
}

func sqlRule(name, filter, action string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: filter}, Action: event.Action{Text: action}}
}

// refused checks that a rule is refused at a character, for a reason.
func refused(t *testing.T, r event.Rule, position int, reason string) {
	t.Helper()
	err := Check(&r)
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%q %q: got %v, want it refused at %d: %s", r.Filter.Text, r.Action.Text, err, position, reason)
		return
	}
	if e.Position != position || !strings.Contains(e.Text, reason) {
		t.Errorf("%q %q: refused with %v, want character %d: %s", r.Filter.Text, r.Action.Text, err, position, reason)
	}
	if put := NewSet().Put(1, r); put == nil || put.Error() != err.Error() {
		t.Errorf("Put says %v, Check says %v", put, err)
	}
}
