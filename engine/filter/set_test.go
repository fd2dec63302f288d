package filter

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// matches describes a result: a row per subscription, "3 plain" or "3 r1,r2" or "3 failed r1",
// joined by "; ".
func matches(ms []Match) string {
	var out []string
	for _, m := range ms {
		s := fmt.Sprint(m.Subscription)
		if m.Plain {
			s += " plain"
		}
		for _, r := range m.Actions {
			s += " " + r.Name()
		}
		if m.Failed != nil {
			s += " failed " + m.Failed.Name() + ": " + m.Err.Error()
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func put(t testing.TB, s *Set, sub event.EntityID, r event.Rule) {
	t.Helper()
	if err := s.Put(sub, r); err != nil {
		t.Fatal(err)
	}
}

func kindRule(name string, kind event.FilterKind, action string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: kind}, Action: event.Action{Text: action}}
}

// counts says how many rules in force have SQL filters, true and false ones included, and how many
// correlation filters.
func (s *Set) counts() (sql, correlation int) {
	for _, of := range s.subscriptions {
		for _, r := range of.rules {
			if r.kind == event.CorrelationFilter {
				correlation++
			} else {
				sql++
			}
		}
	}
	return sql, correlation
}

// SM-282, SM-283: any number of rules without action make one copy, each with action a further one,
// in order of addition.
func TestCopies(t *testing.T) {
	t.Parallel()
	s := NewSet()
	put(t, s, 7, kindRule("plain", event.TrueFilter, ""))
	put(t, s, 7, sqlRule("z", "color = 'blue'", "SET a = 1"))
	put(t, s, 7, sqlRule("second", "color = 'blue'", ""))
	put(t, s, 7, kindRule("a", event.TrueFilter, "SET a = 2"))
	put(t, s, 7, kindRule("never", event.FalseFilter, ""))
	put(t, s, 3, sqlRule("only", "color = 'red'", ""))
	put(t, s, 5, kindRule("never", event.FalseFilter, "SET a = 1"))
	for properties, want := range map[string]string{
		"color='blue'": "7 plain z a",
		"color='red'":  "3 plain; 7 plain a",
		"":             "7 plain a",
	} {
		if got := matches(s.Match(message(t, properties), nil)); got != want {
			t.Errorf("{%s}: %s, want %s", properties, got, want)
		}
	}
	if sql, correlation := s.counts(); sql != 7 || correlation != 0 {
		t.Errorf("%d SQL filters and %d correlation filters", sql, correlation)
	}
}

// SM-281, SM-285, SM-286: rules come, change in their place and go; names are compared without
// regard to case.
func TestPutRemove(t *testing.T) {
	t.Parallel()
	s := NewSet()
	now := func(want string) {
		t.Helper()
		if got := matches(s.Match(message(t, "color='blue'"), nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	now("")
	s.Remove(1, "none")
	s.Drop(1)
	put(t, s, 1, kindRule("one", event.TrueFilter, "SET a = 1"))
	put(t, s, 1, sqlRule("two", "color = 'blue'", "SET a = 1"))
	put(t, s, 1, kindRule("three", event.TrueFilter, "SET a = 1"))
	now("1 one two three")
	put(t, s, 1, event.Rule{Name: "ONE", Action: event.Action{Text: "REMOVE a"}, Filter: event.Filter{Kind: event.CorrelationFilter,
		Properties: []event.Property{{Name: "COLOR", Value: text("blue")}}}})
	now("1 ONE two three")
	if sql, correlation := s.counts(); sql != 2 || correlation != 1 {
		t.Errorf("%d SQL filters and %d correlation filters", sql, correlation)
	}
	s.Remove(1, "Two")
	s.Remove(1, "two")
	now("1 ONE three")
	put(t, s, 1, kindRule("two", event.TrueFilter, "SET a = 1"))
	now("1 ONE three two")
	if err := s.Put(1, sqlRule("three", "1", "")); err == nil {
		t.Error("a rule that cannot be was put in force")
	}
	now("1 ONE three two")
	s.Drop(1)
	now("")
	if sql, correlation := s.counts(); sql != 0 || correlation != 0 || len(s.correlations.shapes)+len(s.correlations.anchors)+len(s.byText) != 0 {
		t.Errorf("%d SQL filters and %d correlation filters", sql, correlation)
	}
}

// A time in a rule is the same instant whatever the zone it is shown with.
func TestZonesOfTimes(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", event.NoZone, "+02:00"} {
		at := event.Property{Name: "start", Value: event.Value{Type: event.Instant, Bits: newYear.Bits, Text: zone}}
		parameter := at
		parameter.Name = "@at"
		for _, filter := range []string{"start = @at", "start IN (@at)", "start >= @at AND start <= @at", "@at = sys.EnqueuedTimeUtc"} {
			if got := result(t, filter, typed(), parameter); got != "T" {
				t.Errorf("%s with %q: %s", filter, zone, got)
			}
		}
		s := NewSet()
		put(t, s, 7, event.Rule{Name: "equal", Filter: event.Filter{Kind: event.CorrelationFilter, Properties: []event.Property{at}}})
		put(t, s, 7, event.Rule{Name: "set", Filter: event.Filter{Kind: event.TrueFilter}, Action: event.Action{Text: "SET [start] = @at", Parameters: []event.Property{parameter}}})
		if got := matches(s.Match(typed(), ids())); got != "7 plain set" {
			t.Errorf(`%q: %s, want "7 plain set"`, zone, got)
		}
	}
}

// SM-291: a filter that cannot be evaluated leaves other rules and subscriptions as they are; the
// first one is named.
func TestFailed(t *testing.T) {
	t.Parallel()
	s := NewSet()
	put(t, s, 1, sqlRule("bad", "sys.NoSuchProp = 1", ""))
	put(t, s, 1, sqlRule("worse", "1/0 = 1", "SET a = 1"))
	put(t, s, 1, kindRule("good", event.TrueFilter, "SET a = 1"))
	put(t, s, 2, kindRule("$Default", event.TrueFilter, ""))
	put(t, s, 3, sqlRule("bad", "sys.NoSuchProp = 1", ""))
	want := "1 good failed bad: There is no system property 'NoSuchProp'.; 2 plain; 3 failed bad: There is no system property 'NoSuchProp'."
	if got := matches(s.Match(typed(), nil)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, m := range s.Match(typed(), nil) {
		if m.Failed != nil {
			if _, ok := m.Err.(*EvalError); !ok {
				t.Errorf("%T; want ok", m.Err)
			}
		} else if m.Err != nil {
			t.Error(m.Err)
		}
	}
}

// SM-287: all fields must match; values are case-sensitive, names are not.
func TestCorrelation(t *testing.T) {
	t.Parallel()
	label := event.Condition{Field: event.FieldLabel, Text: "orders"}
	for _, c := range []struct {
		conditions []event.Condition
		filter     string // its application properties
		properties string // of the message
		want       bool
	}{
		{[]event.Condition{label}, "", "", true},
		{[]event.Condition{{Field: event.FieldLabel, Text: "Orders"}}, "", "", false},
		{[]event.Condition{label, {Field: event.FieldMessageID, Text: "m-1"}}, "", "", true},
		{[]event.Condition{label, {Field: event.FieldMessageID, Text: "m-2"}}, "", "", false},
		{[]event.Condition{{Field: event.FieldTo, Text: ""}}, "", "", false}, // absent is not empty
		{[]event.Condition{label}, "color='blue'", "color='blue'", true},
		{[]event.Condition{label}, "color='blue'", "", false},
		{nil, "Color='blue'", "color='blue'", true},
		{nil, "color='blue'", "COLOR='blue'", true},
		{nil, "color='blue'", "color='Blue'", false},
		// the first of two spellings counts
		{nil, "color='blue'", "Color='red' color='blue'", false},
		{nil, "color='blue'", "Color='blue' color='red'", true},
		{nil, "color='blue' COLOR='red'", "color='blue'", false},
		{nil, "color='blue' COLOR='blue'", "color='blue'", true},
		{nil, "größe=1", "GRÖßE=1", true},
		{nil, "n=1", "n=1.0", true},
		{nil, "n=0.0", "n=-0.0", true},
		{nil, "int=7.0", "", true},
		{nil, "int=7", "", true},
		{nil, "dec=19.99", "", true},
		{nil, "n=1", "n='1'", false},
		{nil, "n=1", "n=TRUE", false},
		{nil, "n=TRUE", "n=TRUE", true},
		{nil, "n=9007199254740993", "n=9007199254740992", false}, // the same double
		{nil, "n=1 m=2", "m=2 x=3 n=1", true},
		{nil, "nothing='x'", "", false},
		{nil, "blob='x'", "", false},
	} {
		s := NewSet()
		f := event.Filter{Kind: event.CorrelationFilter, Conditions: c.conditions, Properties: message(t, c.filter).User[len(typed().User):]}
		put(t, s, 1, event.Rule{Name: "r", Filter: f})
		if got := len(s.Match(message(t, c.properties), nil)) == 1; got != c.want {
			t.Errorf("%v {%s} of {%s} is %v", c.conditions, c.filter, c.properties, got)
		}
	}
}

// Each field of a correlation filter is that system property.
func TestCorrelationFields(t *testing.T) {
	t.Parallel()
	for f := event.FieldCorrelationID; f <= event.FieldContentType; f++ {
		s := NewSet()
		put(t, s, 1, event.Rule{Name: "r", Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: f, Text: "x"}}}})
		for p := range SystemCount {
			m := &Message{}
			m.System[p] = text("x")
			if got := len(s.Match(m, nil)) == 1; got != (p.String() == f.String()) {
				t.Errorf("%s is found in sys.%s: %v", f, p, got)
			}
		}
	}
}

// A message with very many properties, and names that differ in nothing but case, give the same as
// one with few.
func TestManyProperties(t *testing.T) {
	t.Parallel()
	s := NewSet()
	put(t, s, 1, sqlRule("r", "P17 = 17 AND p('p999') = 999 AND NOT EXISTS(p1000)", ""))
	put(t, s, 2, event.Rule{Name: "r", Filter: event.Filter{Kind: event.CorrelationFilter, Properties: []event.Property{{Name: "p500", Value: whole(500)}}}})
	m := &Message{}
	for i := range 1000 {
		m.User = append(m.User, event.Property{Name: fmt.Sprintf("p%d", i), Value: whole(int64(i))})
	}
	for i := range 1000 {
		m.User = append(m.User, event.Property{Name: fmt.Sprintf("P%d", i), Value: whole(-1)})
	}
	if got := matches(s.Match(m, nil)); got != "1 plain; 2 plain" {
		t.Errorf(`%+v, want "1 plain; 2 plain"`, got)
	}
}

// Of rules with newid() each has its own, in the order of subscriptions and rules, whatever the
// order they came in.
func TestNewID(t *testing.T) {
	t.Parallel()
	want := ""
	for seed := range uint64(5) {
		rules := []int{1, 2, 3, 4}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(4, func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		s := NewSet()
		for _, i := range rules {
			put(t, s, event.EntityID(i), sqlRule("r", fmt.Sprintf("'' + newid() LIKE '%%%d'", i), ""))
		}
		got := matches(s.Match(&Message{}, ids()))
		if want == "" {
			want = got
		}
		if got != want || got != "1 plain; 2 plain; 3 plain; 4 plain" {
			t.Errorf(`%v: %s; want got == want && got == "1 plain; 2 plain; 3 plain; 4 plain"`, rules, got)
		}
	}
}

// world makes random rules and messages out of few names and values, so that much matches.
type world struct{ *rand.Rand }

func (w world) pick(of ...string) string { return of[w.IntN(len(of))] }

func (w world) value() event.Value {
	return []event.Value{text("x"), text("y"), whole(1), longValue(1), doubleValue(1), longValue(2), decimals("1.0"), truthValue(yes), sampleID, newYear, tenSeconds,
		longValue(1<<53 + 1), doubleValue(1 << 53), decimals("9007199254740993")}[w.IntN(14)]
}

func (w world) properties(n int) (out []event.Property) {
	for range n {
		out = append(out, event.Property{Name: w.pick("a", "A", "b", "c", "d", "ü", "Ü", "e"), Value: w.value()})
	}
	return out
}

func (w world) message() *Message {
	m := &Message{User: w.properties(w.IntN(16))}
	for _, p := range fields[1:] {
		if w.IntN(2) == 0 {
			m.System[p] = text(w.pick("x", "y"))
		}
	}
	return m
}

func (w world) rule(name string) event.Rule {
	r := event.Rule{Name: name, Filter: event.Filter{Kind: event.FilterKind(1 + w.IntN(4))}}
	if w.IntN(3) == 0 {
		r.Action.Text = "SET a = 1"
	}
	switch f := &r.Filter; f.Kind {
	case event.SQLFilter:
		f.Text = w.pick("a = 1", "a = @p", "b = 'x' OR sys.Label = 'y'", "1=1", "1=0", "a > 1", "sys.No = 1", "NOT EXISTS(ü)", "a IN (1, 'x') AND b IS NULL")
		f.Parameters = []event.Property{{Name: "@p", Value: w.value()}}
	case event.CorrelationFilter:
		f.Properties = w.properties(w.IntN(3))
		for i := w.IntN(3); i > 0 || len(f.Properties) == 0 && len(f.Conditions) == 0; i-- {
			f.Conditions = append(f.Conditions, event.Condition{Field: event.Field(1 + w.IntN(8)), Text: w.pick("x", "y")})
		}
	}
	return r
}

// naive is a set as a list of rules, of which each is looked at.
type naive struct {
	sub   event.EntityID
	place int
	rule  event.Rule
}

// says is T, F, U or error of one rule, with the oracle for texts.
func (n *naive) says(m *Message) string {
	f := &n.rule.Filter
	switch f.Kind {
	case event.TrueFilter:
		return "T"
	case event.FalseFilter:
		return "F"
	case event.SQLFilter:
		tree, _ := parseFilter(f.Text)
		o := oracle{m: m, params: f.Parameters}
		return o.verdict(tree)
	}
	o := oracle{m: m}
	for _, c := range f.Conditions {
		if o.system(c.Field.String()) != c.Text {
			return "F"
		}
	}
	for _, p := range f.Properties {
		v, _ := o.lookup(p.Name)
		if x := native(v); x == nil || compared(opEq, native(p.Value), x) != true {
			return "F"
		}
	}
	return "T"
}

func naiveMatches(rules []naive, m *Message) string {
	slices.SortFunc(rules, func(a, b naive) int {
		return cmp.Or(cmp.Compare(a.sub, b.sub), cmp.Compare(a.place, b.place))
	})
	var out []Match
	for i := range rules {
		n := &rules[i]
		verdict := n.says(m)
		if verdict != "T" && verdict != "error" {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Subscription != n.sub {
			out = append(out, Match{Subscription: n.sub})
		}
		o := &out[len(out)-1]
		switch r := (&Rule{name: n.rule.Name}); {
		case verdict == "error":
			if o.Failed == nil {
				o.Failed, o.Err = r, &EvalError{}
			}
		case n.rule.Action.Text == "":
			o.Plain = true
		default:
			o.Actions = append(o.Actions, r)
		}
	}
	return matches(out)
}

// A set says what looking at every rule says, through any history of changes.
func TestSetAgainstNaive(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := world{rand.New(rand.NewPCG(seed, 1))}
	for range 12 {
		s, rules, place := NewSet(), []naive(nil), 0
		for range 300 {
			sub, name := event.EntityID(1+w.IntN(6)), fmt.Sprint("r", w.IntN(12))
			is := func(n naive) bool { return n.sub == sub && strings.EqualFold(n.rule.Name, name) }
			switch at := slices.IndexFunc(rules, is); w.IntN(12) {
			case 0:
				s.Drop(sub)
				rules = slices.DeleteFunc(rules, func(n naive) bool { return n.sub == sub })
			case 1, 2, 3:
				s.Remove(sub, strings.ToUpper(name))
				rules = slices.DeleteFunc(rules, is)
			default:
				r := w.rule(w.pick(name, strings.ToUpper(name)))
				put(t, s, sub, r)
				if at >= 0 {
					rules[at].rule = r
				} else {
					place++
					rules = append(rules, naive{sub, place, r})
				}
			}
			m := w.message()
			got, want := matches(s.Match(m, nil)), naiveMatches(rules, m)
			if stripped := reasons.ReplaceAllString(got, ": "); stripped != want {
				t.Fatalf("seed %d: %+v\nthe set says %s\nlooking at every rule says %s", seed, m, got, want)
			}
			sql, correlation := s.counts()
			if n := len(slices.DeleteFunc(slices.Clone(rules), func(n naive) bool { return n.rule.Filter.Kind == event.CorrelationFilter })); sql != n || correlation != len(rules)-n {
				t.Fatalf("seed %d: %d, %d", seed, sql, correlation)
			}
		}
	}
}

// reasons are the texts of errors, which the oracle does not have.
var reasons = regexp.MustCompile(`: [A-Z][^.]*\.`)

// Matching allocates nothing, whatever kinds of rules there are.
func TestMatchAllocatesNothing(t *testing.T) {
	s := correlated(t, 200)
	for i, f := range []string{"tenant = 't-17' AND priority >= 2", "customer LIKE 'c-_7%1'", "amount * 2 + 1 > 100 OR sys.Label IN ('a', 'b')", "p('region') = 'eu'", "1=1"} {
		put(t, s, event.EntityID(i+1), sqlRule("sql", f, "SET a = 1"))
	}
	m := benchMessage()
	if n := testing.AllocsPerRun(50, func() { s.Match(m, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
