package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// said returns an explanation in one line.
func said(x Explanation) string {
	switch {
	case x.Err != nil:
		return "error: " + x.Err.Error()
	case x.Matches:
		text := "matches"
		for _, p := range x.Changes.Set {
			text += fmt.Sprintf(", %s becomes %s", p.Name, appendText(nil, p.Value))
		}
		for _, name := range x.Changes.Removed {
			text += ", without " + name
		}
		for _, p := range x.Changes.System {
			text += fmt.Sprintf(", sys.%s becomes %s", p.Name, appendText(nil, p.Value))
		}
		return text
	}
	is := "false"
	if x.Unknown {
		is = "unknown"
	}
	text := x.Part + " is " + is
	for _, v := range x.Values {
		if v.Set {
			text += fmt.Sprintf("; %s is %s %s", v.Name, v.Type, v.Value)
		} else {
			text += fmt.Sprintf("; %s is not set", v.Name)
		}
	}
	return text
}

func TestExplain(t *testing.T) {
	t.Parallel()
	m := &Message{User: []event.Property{{Name: "qty", Value: whole(7)}, {Name: "Region", Value: text("eu")}, {Name: "blob", Value: event.Value{Type: Opaque}}}}
	m.System[Label] = text("order")
	for _, c := range []struct{ filter, action, want string }{
		{"qty > 5", "", "matches"},
		{"qty > 5 AND region = 'us' AND colour = 'red'", "", "region = 'us' is false; region is a string eu"},
		{"qty > 5 AND (colour = 'red' AND region = 'eu')", "", "colour = 'red' is unknown; colour is not set"},
		{"colour = 'red' AND qty > 50", "", "qty > 50 is false; qty is a number 7"},
		{"qty > 50 OR region = 'us'", "", "qty > 50 OR region = 'us' is false; qty is a number 7; region is a string eu"},
		{"qty > 50 OR colour = 'red'", "", "qty > 50 OR colour = 'red' is unknown; qty is a number 7; colour is not set"},
		{"NOT (qty > 5 AND sys.Label = 'order')", "", "NOT (qty > 5 AND sys.Label = 'order') is false; qty is a number 7; sys.Label is a string order"},
		{"blob = 'x'", "", "blob = 'x' is unknown; blob is a value that filters do not see "},
		{"property('qty') = 8", "", "property('qty') = 8 is false; property('qty') is a number 7"},
		{"EXISTS(sys.To)", "", "EXISTS(sys.To) is false; sys.To is not set"},
		{"qty + qty IN (1, 2) AND qty > 1", "", "qty + qty IN (1, 2) is false; qty is a number 7"},
		{"1 = 2", "", "1 = 2 is false"},
		{"qty > 'a'", "", "error: "},
		{"qty > 5", "SET qty = qty + 1; REMOVE region; SET sys.Label = 'big'", "matches, qty becomes 8, without Region, sys.Label becomes big"},
		{"qty > 5", "SET qty = qty / 0", "error: "},
		{"qty LIKE '%'", "", "error: "},
	} {
		r := sqlRule("r", c.filter, c.action)
		x, err := Explain(&r, m, ids())
		if got := said(x); err != nil || got != c.want && (!strings.HasSuffix(c.want, ": ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %s, %v; want %s", c.filter, got, err, c.want)
		}
	}
	for _, c := range []struct {
		filter event.Filter
		want   string
	}{
		{event.Filter{Kind: event.TrueFilter}, "matches"},
		{event.Filter{Kind: event.FalseFilter}, "FALSE is false"},
		{event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "order"}}}, "matches"},
		{event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "order"}, {Field: event.FieldTo, Text: "x"}}}, "sys.To = 'x' is unknown; sys.To is not set"},
		{event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "bill"}}}, "sys.Label = 'bill' is false; sys.Label is a string order"},
		{event.Filter{Kind: event.CorrelationFilter, Properties: []event.Property{{Name: "QTY", Value: whole(7)}, {Name: "region", Value: text("us")}}}, "region = 'us' is false; region is a string eu"},
		{event.Filter{Kind: event.CorrelationFilter, Properties: []event.Property{{Name: "qty", Value: whole(9)}}}, "qty = 9 is false; qty is a number 7"},
	} {
		x, err := Explain(&event.Rule{Name: "r", Filter: c.filter}, m, ids())
		if got := said(x); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v; want %s", c.filter, got, err, c.want)
		}
	}
	if _, err := Explain(&event.Rule{Filter: event.Filter{Kind: event.SQLFilter, Text: "qty >"}}, m, ids()); err == nil {
		t.Error("a filter that is none is explained")
	}
}

// Whatever the condition is, the named part is not true for the message, and an unknown part is not
// false.
func FuzzExplain(f *testing.F) {
	for _, text := range []string{"a = 1 AND b = 'x'", "NOT (a > 1 OR sys.Label LIKE '%x') AND EXISTS(c)", "property(b) IN (1, 'y', 3.5) AND a IS NULL", "a / 0 > 1 AND FALSE", "newid() = newid()"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := fuzzMessage()
		r := sqlRule("r", text, "")
		x, err := Explain(&r, m, ids())
		if err != nil || x.Matches || x.Err != nil {
			return
		}
		part := sqlRule("part", x.Part, "")
		again, err := Explain(&part, m, ids())
		if err != nil && len(x.Part) <= maxLength {
			if _, parseErr := parseFilter(x.Part); parseErr == nil {
				return // it has parameters, or is only a constant, which is not a rule
			}
			t.Fatalf("%q: the part %q is not a condition: %v", text, x.Part, err)
		}
		if again.Matches && !strings.Contains(strings.ToLower(text), "newid") {
			t.Fatalf("%q: the part %q is true", text, x.Part)
		}
	})
}

// Properties names each property that a text reads, wherever it reads it.
func TestProperties(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1 = 1": "", "TRUE OR a = 'b' AND NOT c LIKE 'x%'": "a c", "EXISTS([a b]) OR user.x IS NULL": "a b x", "sys.Label = a + b * -c": "sys.Label a b c",
		"property('x') = 1 AND P(y) = 2": "x property(y)", "a IN (b, 'c')": "a b",
	} {
		if got, err := Properties(text); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := Properties("a ="); err == nil {
		t.Error("half a comparison has properties")
	}
}
