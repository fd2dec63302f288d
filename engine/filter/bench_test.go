package filter

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// benchMessage returns a message as in an order system: eight properties, label and session.
func benchMessage() *Message {
	m := &Message{User: []event.Property{
		{Name: "tenant", Value: text("t-17")}, {Name: "region", Value: text("eu-north")}, {Name: "priority", Value: whole(3)},
		{Name: "amount", Value: doubleValue(129.5)}, {Name: "customer", Value: text("c-4711")}, {Name: "express", Value: truthValue(yes)},
		{Name: "created", Value: newYear}, {Name: "trace", Value: sampleID},
	}}
	m.System[Label] = text("order.created")
	m.System[SessionID] = text("c-4711")
	m.System[MessageID] = text("0a1b2c3d")
	return m
}

func benchMatch(b *testing.B, s *Set, want int) {
	m := benchMessage()
	b.ReportAllocs()
	for b.Loop() {
		if got := len(s.Match(m, nil)); got != want {
			b.Fatalf("%d match, want %d", got, want)
		}
	}
}

// BenchmarkMatch measures a publish to topics with different numbers of rules.
func BenchmarkMatch(b *testing.B) {
	b.Run("sql=100,matching=10", func(b *testing.B) {
		s := NewSet()
		for i := range 100 {
			put(b, s, event.EntityID(i+1), sqlRule("r", fmt.Sprintf("tenant = 't-%d' AND priority >= 2 AND amount > %d OR sys.Label LIKE 'order.%%.%d'", 17+i/10, i, i), ""))
		}
		benchMatch(b, s, 10)
	})
	b.Run("sql=2000,same text", func(b *testing.B) {
		s := NewSet()
		for i := range 2000 {
			put(b, s, event.EntityID(i+1), sqlRule("r", "tenant = 't-17' AND priority >= 2", ""))
		}
		benchMatch(b, s, 2000)
	})
	b.Run("true=2000", func(b *testing.B) {
		s := NewSet()
		for i := range 2000 {
			put(b, s, event.EntityID(i+1), kindRule("$Default", event.TrueFilter, ""))
		}
		benchMatch(b, s, 2000)
	})
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("correlation=%d", n), func(b *testing.B) { benchMatch(b, correlated(b, n), 10) })
	}
	b.Run("correlation=100000,own property each", func(b *testing.B) {
		s := NewSet()
		for i := range 100_000 {
			put(b, s, event.EntityID(i+1), event.Rule{Name: "r", Filter: event.Filter{Kind: event.CorrelationFilter,
				Properties: []event.Property{{Name: "tenant", Value: text("t-17")}, {Name: fmt.Sprint("p", i), Value: whole(1)}}}})
		}
		benchMatch(b, s, 0)
	})
}

// correlated returns a set of n correlation filters in 2,000 subscriptions at most, of which 10
// match.
func correlated(tb testing.TB, n int) *Set {
	s := NewSet()
	for i := range n {
		customer := fmt.Sprint("c-", i)
		if i%(n/10) == 0 {
			customer = "c-4711"
		} else if customer == "c-4711" {
			customer = "c"
		}
		put(tb, s, event.EntityID(1+i%min(n, 1999)), correlation(fmt.Sprint("r", i), customer))
	}
	return s
}

func correlation(name, customer string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: event.CorrelationFilter,
		Conditions: []event.Condition{{Field: event.FieldLabel, Text: "order.created"}},
		Properties: []event.Property{{Name: "Customer", Value: text(customer)}}}}
}

// BenchmarkChange measures adding a rule and removing it again.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("correlation=%d", n), func(b *testing.B) {
			s := correlated(b, n)
			b.ReportAllocs()
			for b.Loop() {
				put(b, s, 5, correlation("new", "c-new"))
				s.Remove(5, "new")
			}
		})
	}
}

// BenchmarkFilter measures one filter.
func BenchmarkFilter(b *testing.B) {
	for _, text := range []string{
		"tenant = 't-17'", "region IN ('us', 'asia', 'eu-north') AND NOT priority < 3", "customer LIKE 'c-_7%1'", "amount * 2 + 1 > 100", "'' + priority = '3'",
	} {
		b.Run(text, func(b *testing.B) {
			p, err := compileFilter(text, nil)
			if err != nil {
				b.Fatal(err)
			}
			var m machine
			m.begin(benchMessage(), nil)
			b.ReportAllocs()
			for b.Loop() {
				if got, err := m.filter(p); got != yes || err != nil {
					b.Fatalf("%+v %+v; want got == yes", got, err)
				}
			}
		})
	}
}

// BenchmarkRun measures an action and the encoding of its changes.
func BenchmarkRun(b *testing.B) {
	r := compiledAction(b, "SET priority = priority + 1; SET sys.Label = 'urgent'; REMOVE trace", nil)
	m := benchMessage()
	var c Changes
	var values event.RuleChanges
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Run(m, nil, &c); err != nil {
			b.Fatal(err)
		}
		c.Values(&values, event.Property{Name: "RuleName", Value: text(r.Name())})
		dst = values.Append(dst[:0])
	}
}
