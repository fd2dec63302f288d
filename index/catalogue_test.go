package index

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// catalogue makes events of the catalogue: entities come and go, rules are added, replaced and
// taken away.
func (w *walk) catalogue() {
	all := w.x.Catalogue.All()
	if len(all) == 0 || w.rng.IntN(2+len(all)) < 2 {
		w.create(all)
		return
	}
	e := &all[w.rng.IntN(len(all))]
	env := event.Envelope{Slice: event.Slice{Entity: e.ID}}
	switch op := w.rng.IntN(10); {
	case op == 0:
		w.apply(&event.EntityUpdated{Envelope: env, Properties: w.properties(), Before: e.Properties})
	case op == 1:
		for _, sub := range w.x.Catalogue.Subscriptions(e.ID) {
			w.apply(&event.EntityDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: sub}}, Reason: "client"})
		}
		w.apply(&event.EntityDeleted{Envelope: env, Reason: "client", EntityKind: e.Kind, Path: e.Path, Before: e.Properties})
	case op == 2:
		w.apply(&event.EntityTouched{Envelope: env, AccessedAt: w.now})
	case e.Kind == event.Subscription:
		w.rule(env, op)
	}
}

// policy says something of history, with one of few patterns.
func (w *walk) policy() {
	ev := &event.HistoryPolicySet{Pattern: []string{"", "*", "Queue*", "queue*", "*no7", "TopicNo2"}[w.rng.IntN(6)], Removed: w.rng.IntN(4) == 0}
	if !ev.Removed {
		ev.Policy = event.HistoryPolicy{Events: event.Retention(w.rng.IntN(100) - 2), Undo: event.Retention(w.rng.IntN(3) - 2)}
	}
	if ev.Pattern == "" && !ev.Removed {
		ev.Share, ev.BeforeSends = uint32(w.rng.IntN(101)), w.rng.IntN(2) == 0
	}
	w.apply(ev)
}

func (w *walk) create(all []Entity) {
	id := w.x.Catalogue.NextID()
	ev := &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: id}}, EntityKind: event.EntityKind(1 + w.rng.IntN(3)),
		HashVersion: 1, Hosts: []byte{byte(id)}, Properties: w.properties()}
	ev.Path = fmt.Sprintf("%vNo%d", ev.EntityKind, id)
	if ev.EntityKind == event.Subscription {
		topics := slices.DeleteFunc(all, func(e Entity) bool { return e.Kind != event.Topic })
		if len(topics) == 0 {
			return
		}
		t := &topics[w.rng.IntN(len(topics))]
		ev.Topic, ev.Path = t.ID, t.Path+"/Subscriptions/"+ev.Path
	}
	w.apply(ev)
}

func (w *walk) properties() event.Properties {
	p := event.Properties{LockDuration: time.Minute, RequiresSession: w.rng.IntN(2) == 0, UserMetadata: fmt.Sprint(w.now),
		EnablePartitioning: w.rng.IntN(2) == 0, SupportOrdering: true}
	if w.rng.IntN(2) == 0 {
		p.AccessRules = []event.AccessRule{{Name: "r", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "s", CreatedAt: w.now, ModifiedAt: w.now}}
	}
	return p
}

// rule adds, replaces or removes one of few names, in any spelling.
func (w *walk) rule(env event.Envelope, op int) {
	name := []string{"Alpha", "alpha", "BETA", "beta", "$Default", "Ärger", "ärger", "z"}[w.rng.IntN(8)]
	has := w.x.Catalogue.Rule(env.Slice.Entity, name)
	r := event.Rule{Name: name, Filter: w.filter(), CreatedAt: w.now}
	switch {
	case has == nil:
		w.apply(&event.RuleAdded{Envelope: env, Rule: r})
	case op < 6:
		w.apply(&event.RuleRemoved{Envelope: env, Rule: *has})
	default:
		r.Name, r.CreatedAt = has.Name, has.CreatedAt
		w.apply(&event.RuleUpdated{Envelope: env, Rule: r, Before: *has})
	}
}

func (w *walk) filter() event.Filter {
	f := event.Filter{Kind: event.FilterKind(1 + w.rng.IntN(4))}
	parameters := []event.Property{{Name: "@a", Value: event.Value{Type: event.Int, Bits: uint64(w.rng.Int64())}}, {Name: "@b"}}
	switch f.Kind {
	case event.SQLFilter:
		f.Text, f.Parameters = fmt.Sprintf("x > %d", w.rng.IntN(9)), parameters
	case event.CorrelationFilter:
		f.Conditions = []event.Condition{{Field: event.FieldLabel, Text: fmt.Sprint(w.rng.IntN(9))}}
		f.Properties = parameters[:w.rng.IntN(3)]
	}
	return f
}

// modelEntity is an entity with its rules in the order in which they were added.
type modelEntity struct {
	Entity
	rules []event.Rule
}

func (m *model) at(id event.EntityID) int {
	return slices.IndexFunc(m.entities, func(e modelEntity) bool { return e.ID == id })
}

func (m *model) catalogue(at event.Time, ev event.Event) {
	id := ev.Common().Slice.Entity
	i := m.at(id)
	ruleAt := func(name string) int {
		return slices.IndexFunc(m.entities[i].rules, func(r event.Rule) bool { return strings.EqualFold(r.Name, name) })
	}
	switch ev := ev.(type) {
	case *event.EntityCreated:
		m.entities = append(m.entities, modelEntity{Entity: Entity{ID: id, Kind: ev.EntityKind, Path: ev.Path, HashVersion: ev.HashVersion,
			Hosts: ev.Hosts, Properties: ev.Properties, Topic: ev.Topic, CreatedAt: at, UpdatedAt: at}})
	case *event.EntityUpdated:
		m.entities[i].Properties, m.entities[i].UpdatedAt = ev.Properties, at
	case *event.EntityTouched:
		m.entities[i].AccessedAt = ev.AccessedAt
	case *event.EntityDeleted:
		m.entities = slices.Delete(m.entities, i, i+1)
	case *event.RuleAdded:
		m.entities[i].rules = append(m.entities[i].rules, ev.Rule)
	case *event.RuleUpdated:
		m.entities[i].rules[ruleAt(ev.Rule.Name)] = ev.Rule
	case *event.RuleRemoved:
		j := ruleAt(ev.Rule.Name)
		m.entities[i].rules = slices.Delete(m.entities[i].rules, j, j+1)
	}
}

// compareCatalogue compares with words: empty values may be nil.
func (m *model) compareCatalogue(c *Catalogue) error {
	var b strings.Builder
	roots, split := 0, 0
	for i := range m.entities {
		e := &m.entities[i]
		if e.Kind != event.Subscription {
			if roots++; e.Properties.EnablePartitioning {
				split++
			}
		}
		var subs []event.EntityID
		sql, correlation := 0, 0
		for _, s := range m.entities {
			if e.Kind != event.Topic || s.Topic != e.ID {
				continue
			}
			subs = append(subs, s.ID)
			for _, r := range s.rules {
				if r.Filter.Kind == event.CorrelationFilter {
					correlation++
				} else {
					sql++
				}
			}
		}
		write(&b, &e.Entity, subs, sql, correlation, e.rules, sorted(e.rules))
		for _, r := range e.rules {
			if got := c.Rule(e.ID, strings.ToUpper(r.Name)); got == nil || !reflect.DeepEqual(*got, r) {
				return fmt.Errorf("rule %+v of entity %d is %+v", r, e.ID, got)
			}
		}
		if got, ok := c.Find(strings.ToUpper(e.Path)); !ok || got.ID != e.ID {
			return fmt.Errorf("%q is entity %d, found %d", e.Path, e.ID, got.ID)
		}
	}
	fmt.Fprintln(&b, roots, split)
	if got, want := describe(c), b.String(); got != want {
		return fmt.Errorf("the catalogue is\n%s, want\n%s", got, want)
	}
	return nil
}

func write(b *strings.Builder, e *Entity, subs []event.EntityID, sql, correlation int, rules, sorted []event.Rule) {
	fmt.Fprintln(b, e.ID, e.Kind, e.Path, e.HashVersion, e.Hosts, e.Properties, e.Topic, e.CreatedAt, e.UpdatedAt, e.AccessedAt,
		subs, sql, correlation, rules, sorted)
}

// describe is everything a catalogue knows.
func describe(c *Catalogue) string {
	var b strings.Builder
	for _, e := range c.All() {
		sql, correlation := c.Filters(e.ID)
		subs := c.Subscriptions(e.ID)
		if len(subs) != c.SubscriptionCount(e.ID) {
			fmt.Fprintf(&b, "entity %d has %d subscriptions, counted are %d\n", e.ID, len(subs), c.SubscriptionCount(e.ID))
		}
		write(&b, &e, subs, sql, correlation, values(c.Rules(e.ID)), values(c.RulesByName(e.ID)))
	}
	fmt.Fprintln(&b, c.Roots(), c.Partitioned())
	return b.String()
}

func values(rules []*event.Rule) (list []event.Rule) {
	for _, r := range rules {
		list = append(list, *r)
	}
	return list
}

// entity is a catalogue entry as it is encoded.
func entity(id event.EntityID, kind event.EntityKind, path string, topic event.EntityID, names ...string) *Entity {
	e := &Entity{ID: id, Kind: kind, Path: path, HashVersion: 1, Hosts: []byte{0}, Topic: topic}
	for _, n := range names {
		e.added = append(e.added, &event.Rule{Name: n, Filter: event.Filter{Kind: event.TrueFilter}})
	}
	return e
}

// A checkpoint with right checksums is accepted only if its contents are possible.
func TestDecodeRefusesCatalogue(t *testing.T) {
	t.Parallel()
	queue, topic, sub := entity(1, event.Queue, "q", 0), entity(2, event.Topic, "t", 0), entity(3, event.Subscription, "t/Subscriptions/s", 2, "a", "b")
	for _, c := range []struct {
		name     string
		entities []*Entity
		ok       bool
	}{
		{"nothing", nil, true},
		{"queue, topic, subscription", []*Entity{queue, topic, sub}, true},
		{"subscription without topic", []*Entity{entity(3, event.Subscription, "s", 0)}, false},
		{"subscription of nothing", []*Entity{queue, topic, entity(3, event.Subscription, "s", 9)}, false},
		{"subscription of a queue", []*Entity{queue, entity(3, event.Subscription, "s", 1)}, false},
		{"subscription of a subscription", []*Entity{topic, sub, entity(4, event.Subscription, "s", 3)}, false},
		{"subscription of itself", []*Entity{entity(3, event.Subscription, "s", 3)}, false},
		{"topic behind its subscription", []*Entity{sub, topic}, false},
		{"topic with a greater number", []*Entity{entity(3, event.Subscription, "s", 4), entity(4, event.Topic, "t", 0)}, false},
		{"ids that fall", []*Entity{topic, queue}, false},
		{"an id twice", []*Entity{queue, entity(1, event.Queue, "other", 0)}, false},
		{"id 0", []*Entity{entity(0, event.Queue, "q", 0)}, false},
		{"an id not given out yet", []*Entity{entity(10, event.Queue, "q", 0)}, false},
		{"a path twice", []*Entity{queue, entity(2, event.Topic, "Q", 0)}, false},
		{"a queue of a topic", []*Entity{topic, entity(3, event.Queue, "q", 2)}, false},
		{"a queue of nothing", []*Entity{entity(3, event.Queue, "q", 1)}, false},
		{"no kind", []*Entity{entity(1, 0, "q", 0)}, false},
		{"an unknown kind", []*Entity{entity(1, 4, "q", 0)}, false},
		{"a rule twice", []*Entity{topic, entity(3, event.Subscription, "s", 2, "Rule", "other", "rULE")}, false},
		{"rules of a queue", []*Entity{topic, {ID: 3, Kind: event.Queue, Path: "x", added: sub.added}}, false},
	} {
		src := New().Encode(nil)
		src = append(src[:3:3], 9, byte(len(c.entities))) // the newest id ever is 9
		for _, e := range c.entities {
			src = encoded(src, func(w *stateEncoder) {
				if w.entity(e); e.Kind == event.Queue && e.added != nil {
					w.rules(e.added)
				}
			})
		}
		src = append(src, 0) // no slices
		x, err := Decode(src)
		if ok := err == nil; ok != c.ok {
			t.Errorf("%s: %v; want ok == c.ok", c.name, err)
		}
		if err == nil && !bytes.Equal(x.Encode(nil), src) {
			t.Errorf("%s: encodings differ", c.name)
		}
	}
}

// mustPanic applies an impossible event, which is a bug of its author: Apply must panic, with a
// text that says what is wrong.
func mustPanic(t *testing.T, x *Index, ev event.Event, want string) {
	t.Helper()
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("%T: %v, want %q", ev, v, want)
		}
	}()
	x.Apply(1, ev)
}

func TestCatalogueAssertions(t *testing.T) {
	t.Parallel()
	x := New()
	at := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	x.Apply(1, &event.EntityCreated{Envelope: at(1), EntityKind: event.Queue, Path: "q"})
	x.Apply(1, &event.EntityCreated{Envelope: at(2), EntityKind: event.Topic, Path: "t"})
	x.Apply(1, &event.EntityCreated{Envelope: at(3), EntityKind: event.Subscription, Path: "t/Subscriptions/s", Topic: 2})
	x.Apply(1, &event.RuleAdded{Envelope: at(3), Rule: event.Rule{Name: "R"}})
	for _, c := range []struct {
		ev   event.Event
		want string
	}{
		{&event.EntityCreated{Envelope: at(2), EntityKind: event.Queue, Path: "x"}, "created after 3"},
		{&event.EntityCreated{Envelope: at(4), EntityKind: event.Subscription, Path: "x", Topic: 1}, "of entity 1, which is a Queue"},
		{&event.EntityCreated{Envelope: at(5), EntityKind: event.Subscription, Path: "x", Topic: 77}, "does not exist"},
		{&event.EntityDeleted{Envelope: at(2)}, "deleted with 1 subscriptions"},
		{&event.EntityDeleted{Envelope: at(9)}, "does not exist"},
		{&event.RuleAdded{Envelope: at(1), Rule: event.Rule{Name: "R"}}, "can have none"},
		{&event.RuleAdded{Envelope: at(3), Rule: event.Rule{Name: "r"}}, "which has it"},
		{&event.RuleUpdated{Envelope: at(1), Rule: event.Rule{Name: "R"}}, "does not exist"},
		{&event.RuleUpdated{Envelope: at(3), Rule: event.Rule{Name: "other"}}, "does not exist"},
		{&event.RuleRemoved{Envelope: at(2), Rule: event.Rule{Name: "R"}}, "does not exist"},
	} {
		mustPanic(t, x, c.ev, c.want)
	}
}

// namespace is a catalogue of n entities: topics with four subscriptions each, every one of them
// with the rule it is made with.
func namespace(n int) *Index {
	x := New()
	p := event.Properties{LockDuration: time.Minute, MaxSizeMegabytes: 1024, DefaultMessageTimeToLive: event.Forever, MaxDeliveryCount: 10,
		AutoDeleteOnIdle: event.Forever, EnableBatchedOperations: true, DeadLetteringOnFilterError: true}
	var topic event.EntityID
	for i := range n {
		id := event.EntityID(i + 1)
		ev := &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: id}}, EntityKind: event.Topic,
			Path: fmt.Sprintf("department-%05d/orders", i), HashVersion: 1, Hosts: []byte{1}, Properties: p}
		if i%5 == 0 {
			topic = id
		} else {
			ev.EntityKind, ev.Topic = event.Subscription, topic
			ev.Path = fmt.Sprintf("department-%05d/orders/Subscriptions/reader-%d", i/5*5, i%5)
		}
		x.Apply(1000, ev)
		if ev.EntityKind == event.Subscription {
			x.Apply(1000, &event.RuleAdded{Envelope: ev.Envelope, Rule: event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}, CreatedAt: 1000}})
		}
	}
	return x
}

// BenchmarkIdleEntities makes a namespace of 10,000 unused entities and reports the memory of each.
func BenchmarkIdleEntities(b *testing.B) {
	const n = 10_000
	bytes := held(n, func() any { return namespace(n) })
	x := namespace(n)
	src := x.Encode(nil)
	for b.Loop() {
		var err error
		if x, err = Decode(src); err != nil {
			b.Fatal(err)
		}
	}
	runtime.KeepAlive(x)
	b.ReportMetric(bytes, "heap-B/entity")
	b.ReportMetric(float64(len(src))/n, "file-B/entity")
}

// BenchmarkManyRules reads a subscription with as many correlation filters as a topic may have
// (semantics.md 16.3).
func BenchmarkManyRules(b *testing.B) {
	const n = 100_000
	x := namespace(2)
	for i := range n {
		x.Apply(1, &event.RuleAdded{Envelope: event.Envelope{Slice: event.Slice{Entity: 2}}, Rule: event.Rule{
			Name:   fmt.Sprintf("rule-%06d", i*7919%n),
			Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "x"}}}}})
	}
	src := x.Encode(nil)
	for b.Loop() {
		if _, err := Decode(src); err != nil {
			b.Fatal(err)
		}
	}
	if names := slices.Collect(maps.Keys(x.Catalogue.entities)); len(names) != 2 {
		b.Fatalf("%+v; want len(names) == 2", names)
	}
}
