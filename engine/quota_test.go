package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// askCatalogue decides a command of the catalogue and applies the events.
func askCatalogue(p *Partition, cmd Command) error {
	out := p.Decide(1, cmd)
	for _, ev := range out.Events {
		p.Apply(1, ev)
	}
	return out.Reply.Err
}

// SM-320, SM-324, S4-67: what a namespace and a topic may have, to the last one.
func TestTopicQuotas(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	must := func(cmd Command) {
		t.Helper()
		if err := askCatalogue(p, cmd); err != nil {
			t.Fatal(err)
		}
	}
	split := DefaultProperties(event.Queue)
	split.EnablePartitioning = true
	for i := range maxPartitioned {
		must(&PutEntity{Kind: event.Queue, Path: fmt.Sprint("p", i), Properties: split})
	}
	if err := askCatalogue(p, &PutEntity{Kind: event.Topic, Path: "more", Properties: split}); code(err) != QuotaExceeded {
		t.Errorf("partitioned entity %d: %v", maxPartitioned+1, err)
	}
	p.SplitAtMost(maxPartitioned + 1) // as settings may say
	must(&PutEntity{Kind: event.Topic, Path: "more", Properties: split})

	must(&PutEntity{Kind: event.Topic, Path: "wide", Properties: DefaultProperties(event.Topic)})
	sub := func(topic string, i int, rules ...event.Rule) *PutEntity {
		return &PutEntity{Kind: event.Subscription, Path: SubscriptionPath(topic, fmt.Sprint("s", i)), Properties: DefaultProperties(event.Subscription), Rules: rules}
	}
	for i := range maxSubscriptions {
		must(sub("wide", i, []event.Rule{}...))
	}
	if err := askCatalogue(p, sub("wide", maxSubscriptions)); code(err) != QuotaExceeded {
		t.Errorf("subscription %d: %v", maxSubscriptions+1, err)
	}

	must(&PutEntity{Kind: event.Topic, Path: "ruled", Properties: DefaultProperties(event.Topic)})
	var rules []event.Rule
	for i := range maxSQLFilters {
		rules = append(rules, sql(fmt.Sprint("r", i), fmt.Sprintf("n = %d", i)))
	}
	must(sub("ruled", 0, rules...))
	more := sql("more", "n = 0")
	for name, cmd := range map[string]Command{
		"rule": &PutRule{Subscription: "ruled/Subscriptions/s0", Rule: more}, "subscription": sub("ruled", 1),
	} {
		if err := askCatalogue(p, cmd); code(err) != QuotaExceeded {
			t.Errorf("%s with SQL filter %d: %v", name, maxSQLFilters+1, err)
		}
	}
	if err := askCatalogue(p, &PutRule{Subscription: "ruled/Subscriptions/s0", Rule: sql("R7", "n > 7"), Mode: UpdateOnly}); err != nil {
		t.Errorf("a full topic's rule cannot be changed: %v", err)
	}
	must(&DeleteRule{Subscription: "ruled/Subscriptions/s0", Name: "R8"})
	must(&PutRule{Subscription: "ruled/Subscriptions/s0", Rule: more})

	for i := range maxCorrelations / maxRulesAtOnce {
		batch := make([]event.Rule, maxRulesAtOnce)
		for j := range batch {
			batch[j] = event.Rule{Name: fmt.Sprint("c", j), Filter: correlation([]string{fmt.Sprintf("n=%d", j)})}
		}
		must(sub("ruled", 10+i, batch...))
	}
	if err := askCatalogue(p, &PutRule{Subscription: "ruled/Subscriptions/s10", Rule: event.Rule{Name: "more", Filter: correlation([]string{"n=1"})}}); code(err) != QuotaExceeded {
		t.Errorf("correlation filter %d: %v", maxCorrelations+1, err)
	}
}

// SM-325, SM-326: lengths, at the limit and one beyond.
func TestLengths(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	if err := askCatalogue(p, &PutEntity{Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic)}); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]Code{50: 0, 51: InvalidArgument} {
		path := "t/Subscriptions/" + strings.Repeat("s", n)
		if err := askCatalogue(p, &PutEntity{Kind: event.Subscription, Path: path, Properties: DefaultProperties(event.Subscription)}); code(err) != want {
			t.Errorf("subscription's name of %d characters: %v", n, err)
		}
	}
	sub := "t/Subscriptions/" + strings.Repeat("s", 50)
	for n, want := range map[int]Code{50: 0, 51: InvalidArgument} {
		if err := askCatalogue(p, &PutRule{Subscription: sub, Rule: sql(strings.Repeat("r", n), "1=1")}); code(err) != want {
			t.Errorf("rule's name of %d characters: %v", n, err)
		}
	}
	for n, want := range map[int]Code{1024: 0, 1025: InvalidArgument} {
		text := "a = '" + strings.Repeat("x", n-6) + "'"
		if err := askCatalogue(p, &PutRule{Subscription: sub, Rule: sql(fmt.Sprint("f", n), text)}); code(err) != want {
			t.Errorf("filter of %d characters: %v", len(text), err)
		}
		rule := sql(fmt.Sprint("a", n), "1=1")
		rule.Action.Text = "SET a = '" + strings.Repeat("x", n-10) + "'"
		if err := askCatalogue(p, &PutRule{Subscription: sub, Rule: rule}); code(err) != want {
			t.Errorf("action of %d characters: %v", len(rule.Action.Text), err)
		}
	}
	for n, want := range map[int]Code{32: 0, 33: InvalidArgument} {
		rule := sql(fmt.Sprint("e", n), "1=1")
		rule.Action.Text = strings.Repeat("SET a = 1; ", n)
		if err := askCatalogue(p, &PutRule{Subscription: sub, Rule: rule}); code(err) != want {
			t.Errorf("action of %d expressions: %v", n, err)
		}
	}
}

// What one send makes is bounded: more copies than that are refused, whole (reliability.md 8).
func TestTooManyCopies(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	if err := askCatalogue(p, &PutEntity{Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic)}); err != nil {
		t.Fatal(err)
	}
	for i := range maxSubscriptions {
		if err := askCatalogue(p, &PutEntity{Kind: event.Subscription, Path: SubscriptionPath("t", fmt.Sprint(i)), Properties: DefaultProperties(event.Subscription)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range p.index.Catalogue.All() {
		v := View(e, nil)
		p.Configure(v)
		if v.Kind == event.Subscription {
			if err := p.ConfigureRules(v, []event.Rule{sql("all", "1=1")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send := func(n int) Outcome {
		cmd := &Send{Slice: event.Slice{Entity: 1}}
		for i := range n {
			cmd.Messages = append(cmd.Messages, Message{ID: fmt.Append(nil, i), Body: []byte("x")})
		}
		return p.Decide(1, cmd)
	}
	if out := send(maxCopies / maxSubscriptions); out.Reply.Err != nil || len(out.Events) != maxCopies/maxSubscriptions {
		t.Errorf("%d events, %v", len(out.Events), out.Reply.Err)
	}
	if out := send(maxCopies/maxSubscriptions + 2); code(out.Reply.Err) != MessageTooLarge || len(out.Events) != 0 {
		t.Errorf("%d events, %v", len(out.Events), out.Reply.Err)
	}
	if send(1); cap(p.decision.fan.copies) > manyCopies {
		t.Errorf("room for %d copies is kept", cap(p.decision.fan.copies))
	}
}

// All that a rule holds is bounded before it comes near the log, even what its kind does not use:
// nobody can have a record written that cannot be read back (reliability.md S15).
func TestSizesOfRules(t *testing.T) {
	t.Parallel()
	texts := func(n int) map[string]event.Rule {
		s := strings.Repeat("x", n)
		pair := func(name, value string) []event.Property {
			return []event.Property{{Name: name, Value: event.Value{Type: event.String, Text: value}}}
		}
		conditions := []event.Condition{{Field: event.FieldLabel, Text: s}}
		correlated := func(p []event.Property) event.Filter {
			return event.Filter{Kind: event.CorrelationFilter, Properties: p}
		}
		always := event.Filter{Kind: event.TrueFilter}
		return map[string]event.Rule{
			"condition":                      {Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: conditions}},
			"value":                          {Filter: correlated(pair("p", s))},
			"name":                           {Filter: correlated(pair(s, "v"))},
			"parameter":                      {Filter: event.Filter{Kind: event.SQLFilter, Text: "a = @p", Parameters: pair("@p", s)}},
			"name of a parameter":            {Filter: event.Filter{Kind: event.SQLFilter, Text: "a = 1", Parameters: pair(s, "v")}},
			"parameter of an action":         {Filter: always, Action: event.Action{Text: "SET a = 1", Parameters: pair("@p", s)}},
			"parameter of no action":         {Filter: always, Action: event.Action{Parameters: pair("@p", s)}},
			"property of an SQL filter":      {Filter: event.Filter{Kind: event.SQLFilter, Text: "a = 1", Properties: pair("p", s)}},
			"parameter of a filter of truth": {Filter: event.Filter{Kind: event.TrueFilter, Parameters: pair("p", s)}},
		}
	}
	for n, want := range map[int]Code{32 << 10: 0, 32<<10 + 1: InvalidArgument, 70_000: InvalidArgument} {
		for what, rule := range texts(n) {
			p := NewPartition(0, 1, index.New())
			rule.Name = "r"
			for _, cmd := range []Command{
				&PutEntity{Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic)},
				&PutEntity{Kind: event.Subscription, Path: "t/Subscriptions/s", Properties: DefaultProperties(event.Subscription)},
			} {
				if err := askCatalogue(p, cmd); err != nil {
					t.Fatal(err)
				}
			}
			out := p.Decide(1, &PutRule{Subscription: "t/Subscriptions/s", Rule: rule})
			if code(out.Reply.Err) != want {
				t.Errorf("%s of %d bytes: %v", what, n, out.Reply.Err)
			}
			event.AppendRecord(nil, &memory{}, 1, out.Events) // which asserts what can be read back
		}
	}
	many := event.Rule{Name: "r", Filter: event.Filter{Kind: event.CorrelationFilter}}
	for i := range 5000 { // short ones, too many of them
		many.Filter.Properties = append(many.Filter.Properties, event.Property{Name: fmt.Sprint(i), Value: event.Value{Type: event.Long}})
	}
	if err := checkRule(&many); err == nil || err.Code != InvalidArgument {
		t.Errorf("5000 properties: %v", err)
	}
}
