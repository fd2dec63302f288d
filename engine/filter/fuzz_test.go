package filter

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var fuzzParams = []event.Property{
	{Name: "@n", Value: whole(5)}, {Name: "@s", Value: text("a%")}, {Name: "@t", Value: newYear}, {Name: "@d", Value: tenSeconds},
}

// fuzzMessage returns a message that has a property of each type under a short name.
func fuzzMessage() *Message {
	m := typed()
	for name, v := range map[string]event.Value{
		"a": longValue(1), "b": longValue(-7), "c": text("abc"), "d": doubleValue(2.5), "e": text(""), "f": truthValue(no), "t": truthValue(yes),
		"x": whole(3), "y": text("x"), "z": longValue(0), "color": text("blue"), "quantity": longValue(12), "price": doubleValue(19.99),
	} {
		m.User = append(m.User, event.Property{Name: name, Value: v})
	}
	slices.SortFunc(m.User, func(p, q event.Property) int { return strings.Compare(p.Name, q.Name) })
	return m
}

// inexact reports whether a text may calculate with decimals that the oracle, which has no limit of
// digits, computes otherwise.
func inexact(s string) bool {
	// calls may have room before their bracket
	s = strings.Join(strings.Fields(strings.ToLower(s)), "")
	return (strings.Contains(s, "dec") || strings.Contains(s, "huge") || strings.Contains(s, "p(") || strings.Contains(s, "property")) &&
		(strings.ContainsAny(s, "/*+") || strings.Contains(s, "["))
}

// FuzzFilter: no text panics; a text that parses prints to a text with the same tree; the compiled
// filter returns the result of the oracle for the tree.
func FuzzFilter(f *testing.F) {
	for _, s := range filterSeeds {
		f.Add(s)
	}
	m := fuzzMessage()
	f.Fuzz(func(t *testing.T, s string) {
		r := event.Rule{Name: "r", Filter: event.Filter{Kind: event.SQLFilter, Text: s, Parameters: fuzzParams}}
		if err := Check(&r); err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Position < 0 || e.Position > maxLength+1 {
				t.Fatalf("%q is refused with %v", s, err)
			}
			return
		}
		tree, err := parseFilter(s)
		if err != nil {
			t.Fatal(err)
		}
		printed := tree.String()
		again, err := parseFilter(printed)
		if err != nil {
			t.Fatalf("%q is printed %q: %v", s, printed, err)
		}
		if again.String() != printed || !same(tree, again) {
			t.Fatalf("%q is printed %q, and that %q", s, printed, again)
		}
		got := result(t, s, m, fuzzParams...)
		if strings.Contains(got, "steps") || inexact(s) {
			return
		}
		got, _, _ = strings.Cut(got, ":")
		o := oracle{m: m, params: fuzzParams, newID: ids()}
		if want := o.verdict(tree); got != want {
			t.Fatalf("%q (%s) is %s, the oracle says %s", s, printed, got, want)
		}
	})
}

// same reports whether two trees are equal except for positions.
func same(a, b *expr) bool {
	return a.op == b.op && a.not == b.not && a.name == b.name && a.value == b.value && slices.EqualFunc(a.kids, b.kids, same)
}

// FuzzAction: no text panics; a text that parses prints to a text with the same tree; after a run
// every property has the value that the oracle computes.
func FuzzAction(f *testing.F) {
	for _, s := range actionSeeds {
		f.Add(s)
	}
	m := fuzzMessage()
	f.Fuzz(func(t *testing.T, s string) {
		r := event.Rule{Name: "r", Filter: event.Filter{Kind: event.TrueFilter}, Action: event.Action{Text: s, Parameters: fuzzParams}}
		if s == "" || Check(&r) != nil {
			return
		}
		tree, err := parseAction(s)
		if err != nil {
			t.Fatal(err)
		}
		printed := printAction(tree)
		again, err := parseAction(printed)
		if err != nil || printAction(again) != printed {
			t.Fatalf("%q is printed %q, and that %q, %v", s, printed, printAction(again), err)
		}
		set := NewSet()
		if err := set.Put(1, r); err != nil {
			t.Fatal(err)
		}
		var c Changes
		failed := set.Match(m, nil)[0].Actions[0].Run(m, ids(), &c)
		if failed != nil && strings.Contains(failed.Error(), "longer") || inexact(s) {
			return
		}
		var values event.RuleChanges
		c.Values(&values)
		values.Append(nil)
		compareAction(t, s, tree, m, &c, failed)
	})
}

func printAction(tree []*statement) string {
	var out []string
	for _, s := range tree {
		out = append(out, s.String())
	}
	return strings.Join(out, "; ")
}

// compareAction runs an action with the oracle, on a copy of the message.
func compareAction(t *testing.T, s string, tree []*statement, m *Message, c *Changes, failed error) {
	o := oracle{m: &Message{System: m.System, User: slices.Clone(m.User)}, params: fuzzParams, newID: ids()}
	for _, st := range tree {
		if st.target.op == opSystem {
			return // that is the tables' matter
		}
		is := func(p event.Property) bool { return strings.EqualFold(p.Name, st.target.name) }
		if st.value == nil {
			o.m.User = slices.DeleteFunc(o.m.User, is)
			continue
		}
		v, ok := o.value(st.value)
		if !ok {
			if failed == nil {
				t.Fatalf("%q runs, the oracle says it fails", s)
			}
			return
		}
		at := slices.IndexFunc(o.m.User, is)
		if at < 0 {
			at = len(o.m.User)
			o.m.User = append(o.m.User, event.Property{Name: st.target.name})
		}
		old := &o.m.User[at].Value
		*old = convert(valueOf(v), old.Type)
	}
	if failed != nil {
		t.Fatalf("%q fails with %v, the oracle says it runs", s, failed)
	}
	equalProperties := func(p, q event.Property) bool {
		return p.Name == q.Name && (p.Value == q.Value || equal(p.Value, q.Value))
	}
	if !slices.EqualFunc(o.m.User, c.work.User, equalProperties) {
		t.Fatalf("%q gives %v, the oracle %v", s, c.work.User, o.m.User)
	}
}

// valueOf returns the inverse of native.
func valueOf(v any) event.Value {
	switch v := v.(type) {
	case bool:
		return truthValue(truthOf(v))
	case int64:
		return longValue(v)
	case float64:
		return event.Value{Type: event.Double, Bits: math.Float64bits(v)}
	case *big.Rat:
		return decimals(v.FloatString(20))
	case string:
		return text(v)
	case [16]byte:
		return event.Value{Type: event.UUID, Text: string(v[:])}
	case moment:
		return instant(int64(v))
	case lapse:
		return span(int64(v))
	}
	return event.Value{}
}

// FuzzLike: LIKE follows its definition, and patterns of any length cost no more than they are
// charged for.
func FuzzLike(f *testing.F) {
	f.Add("abc", "a%c", "")
	f.Add("100%", "100!%", "!")
	f.Add("aaaaaaaab", "%a_a%ab%", "")
	f.Add(strings.Repeat("ab", 100), "%"+strings.Repeat("a_", 70)+"%b", "")
	f.Add("äöü", "_ö%", "ö")
	f.Add("\xff", "_", "")
	f.Add("%", "%%", "%")
	f.Fuzz(func(t *testing.T, s, pat, escape string) {
		if len(s) > 500 || len(pat) > 500 {
			return
		}
		char := rune(-1)
		if e := []rune(escape); len(e) == 1 && e[0] != 0xfffd {
			char = e[0]
		}
		p := newPattern(pat, char, func(int) bool { return true })
		got := p.match(s, make([]uint64, p.words))
		// Bytes that are no character all look alike as characters, and a pattern without _
		// compares bytes.
		if want := naiveLike([]rune(s), []rune(pat), char); got != want && (p.plain == notPlain || strings.ToValidUTF8(s, "") == s) {
			t.Fatalf("%q LIKE %q ESCAPE %q is %v", s, pat, escape, got)
		}
	})
}

var filterSeeds = []string{
	"1=1", "1=0", "color = 'blue'", "color = 'blue' AND quantity = 10", "sys.Label LIKE '%bus%'", "sys.NoSuchProp = 1",
	"NOT color IN ('red', 'blue') OR quantity NOT IN (1, 2.5, 'x', absent)", "x IS NULL", "color IS NOT NULL AND EXISTS(sys.To)",
	"EXISTS(blob) AND NOT EXISTS(nothing)", "quantity * 2 + 1 >= price - -3 % 2 / 4", "a + 'x' + id + start + span + t",
	"property('col' + 'or') = p(y)", "newid() <> id", "id = id AND id < id", "[a b] = \"c d\"", "user.color <> 'it''s'",
	"c LIKE 'a!_%' ESCAPE '!'", "c NOT LIKE @s ESCAPE y", "start + @d > @t AND end - start = span", "(a = 1) = (t OR f)",
	"-d < +2.5E0 AND .5 = 0.5 AND 5. = 5", "1/z = 1 OR b/2 = -3", "größe = 1", "((((((((a))))))))", "nan = nan OR nan <> nan",
	"dec = 19.99 AND huge > 1", "int = 7", "NULL", "NOT (NOT (f))", "a != 1 AND a <= 1 AND a >= 1 AND a > 1", "b - z * @n = 9223372036854775807 + 1",
	"userId LIKE '%' + c", "StoreId IN ('Store1', 'Store2') OR sys.To = 'x' AND sys.SessionId IS NOT NULL",
}

var actionSeeds = []string{
	"SET a = a + 1; SET b = newid(); REMOVE c", "SET a = a + 1 SET b = newid() REMOVE c", "SET sys.Label = 'x';", "REMOVE sys.To",
	"SET [a b] = 'c' REMOVE [A B] SET Color = 5 SET color = '7'", "SET a = (b = 1)", "SET x = 2.5 SET x = '9' SET x = 99999999999",
	"SET d = 1 SET c = 1.5 SET t = 'false' SET f = 0", "SET new = @t + @d SET new = new - start", "SET a = 1/0", "REMOVE nothing; SET nothing = NULL",
	"SET c = c + c; SET c = c + c; SET c = c + c", "SET sys.TimeToLive = @d SET sys.MessageId = newid() SET sys.Size = 1", "SET id = '00000000-0000-0000-0000-000000000000'",
}
