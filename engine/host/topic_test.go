package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// entity creates an entity with default properties.
func (b *broker) entity(t testing.TB, kind event.EntityKind, path string, rules ...event.Rule) *engine.Entity {
	t.Helper()
	e, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: kind, Path: path, Properties: engine.DefaultProperties(kind), Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// visible returns what filters see of a message with texts as properties.
func visible(id string, properties map[string]string) *filter.Message {
	m := new(filter.Message)
	m.System[filter.MessageID] = event.Value{Type: event.String, Text: id}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		m.User = append(m.User, event.Property{Name: name, Value: event.Value{Type: event.String, Text: properties[name]}})
	}
	return m
}

// packed returns a body that says what filters see of it.
func packed(see *filter.Message) []byte {
	b, err := json.Marshal(see)
	if err != nil {
		panic(err)
	}
	return b
}

// readPacked reads what filters see of a body made by packed.
func readPacked(message []byte, into *filter.Message) (int, error) {
	return 0, json.Unmarshal(message, into)
}

// publish sends one message to a topic.
func (b *broker) publish(t testing.TB, topic *engine.Entity, id string, at event.Time, properties map[string]string) {
	t.Helper()
	see := visible(id, properties)
	cmd := &engine.Send{Entity: topic, Slice: event.Slice{Entity: topic.ID}, Messages: []engine.Message{{ID: []byte(id), Body: packed(see), Properties: see, ScheduledFor: at}}}
	if _, err := b.ask(t.Context(), topic.Hosts[0], cmd); err != nil {
		t.Fatal(err)
	}
}

// holds returns the ids, as they were sent, of the messages that are active in a subscription.
func (b *broker) holds(t testing.TB, sub *engine.Entity) (ids []string) {
	t.Helper()
	reply, err := b.ask(t.Context(), sub.Hosts[0], &engine.Peek{Slice: event.Slice{Entity: sub.ID}, From: 1, Count: 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range reply.Messages() {
		body := make([]byte, m.Body.Size)
		if _, err := b.ReadInto(sub.Hosts[0], m.Body, body); err != nil || event.Sum(body) != m.Body.Sum {
			t.Fatalf("%+v; want event.Sum(body) == m.Body.Sum", err)
		}
		var see filter.Message
		if _, err := readPacked(body, &see); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, see.System[filter.MessageID].Text)
	}
	return ids
}

func sql(name, text string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: text}}
}

// SM-280, SM-290, SM-292, MA-086: rules are in force as soon as the command is answered, and after
// a start, also for scheduled messages.
func TestTopicOverRestarts(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), &manualTime{}
	b := openAt(t, dir, d)
	topic := b.entity(t, event.Topic, "events")
	all := b.entity(t, event.Subscription, "events/Subscriptions/all")
	red := b.entity(t, event.Subscription, "events/Subscriptions/red", sql("red", "color = 'red'"))
	b.publish(t, topic, "a", 0, map[string]string{"color": "red"})
	b.publish(t, topic, "b", 0, map[string]string{"color": "blue"})
	b.publish(t, topic, "later", b.Now().Add(time.Hour), map[string]string{"color": "green"})
	if _, err := b.PutRule(t.Context(), engine.PutRule{Subscription: red.Path, Rule: sql("blue", "color = 'blue'"), Mode: engine.CreateOnly}); err != nil {
		t.Fatal(err)
	}
	b.publish(t, topic, "c", 0, map[string]string{"color": "blue"})
	check := func(step, ofAll, ofRed string) {
		t.Helper()
		if a, r := fmt.Sprint(b.holds(t, all)), fmt.Sprint(b.holds(t, red)); a != ofAll || r != ofRed {
			t.Fatalf("%s: all %s, red %s", step, a, r)
		}
	}
	check("sent", "[a b c]", "[a c]")

	b.close(t)
	b = openAt(t, dir, d)
	check("started again", "[a b c]", "[a c]")
	topic, all, red = b.must(t, "Events"), b.must(t, "events/subscriptions/ALL"), b.must(t, "events/subscriptions/red")
	b.publish(t, topic, "d", 0, map[string]string{"color": "red"})
	check("sent again", "[a b c d]", "[a c d]")
	if err := b.DeleteRule(t.Context(), engine.DeleteRule{Subscription: red.Path, Name: "RED"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutRule(t.Context(), engine.PutRule{Subscription: red.Path, Rule: sql("Blue", "color = 'green'"), Mode: engine.UpdateOnly}); err != nil {
		t.Fatal(err)
	}
	b.publish(t, topic, "e", 0, map[string]string{"color": "red"})
	d.turn(2 * time.Hour)
	b.publish(t, topic, "f", b.Now(), nil) // wakes the loop
	check("activated", "[a b c d e f later]", "[a c d later]")

	rules, err := b.Rules(t.Context(), red.Path, 0, 10)
	if err != nil || len(rules) != 1 || rules[0].Name != "blue" || rules[0].Filter.Text != "color = 'green'" || rules[0].CreatedAt == 0 {
		t.Errorf(`%v %+v; want len(rules) == 1 && rules[0].Name == "blue" && rules[0].Filter.Text == "color = 'green'" && rules[0].CreatedAt != 0`, err, rules)
	}
	run, err := b.Runtime(t.Context(), []*engine.Entity{topic, red})
	if err != nil || run[0].Subscriptions != 2 || run[0].SQLFilters != 2 || run[0].Scheduled != 0 || run[1].Active != 4 || run[0].SizeBytes <= run[1].SizeBytes {
		t.Errorf("%v %+v; want run[0].Subscriptions == 2 && run[0].SQLFilters == 2 && run[0].Scheduled == 0 && run[1].Active == 4 && run[0].SizeBytes > run[1].SizeBytes", err, run)
	}
	b.close(t)
}

// A scheduled message whose time comes before its frame is in the log is published as soon as the
// frame is.
func TestScheduledAtOnce(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	topic := b.entity(t, event.Topic, "events")
	all := b.entity(t, event.Subscription, "events/Subscriptions/all")
	a := make(answer, 200)
	var requests []engine.Request
	for i := range 100 { // one turn: scheduled, and due by the next turn
		see := visible(fmt.Sprint(i), nil)
		requests = append(requests, engine.Request{Sink: a, Command: &engine.Send{Entity: topic, Slice: event.Slice{Entity: topic.ID},
			Messages: []engine.Message{{ID: fmt.Append(nil, i), Body: packed(see), Properties: see, ScheduledFor: b.Now() + 1}}}})
	}
	b.Submit(topic.Hosts[0], requests)
	d.turn(10 * time.Millisecond)
	b.Submit(topic.Hosts[0], requests)
	for range 200 {
		if r := <-a; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		run, err := b.Runtime(t.Context(), []*engine.Entity{all, topic})
		if err != nil {
			t.Fatal(err)
		}
		if run[1].Scheduled == 0 && run[0].Active == 200 {
			b.close(t)
			return
		}
	}
	t.Error("not all messages became active")
}

// Entities and rules that are not allowed are refused, and a refused change has no effect (MA-113).
func TestCatalogueRefusals(t *testing.T) {
	t.Parallel()
	b := openAt(t, t.TempDir(), &manualTime{})
	b.entity(t, event.Queue, "orders")
	b.entity(t, event.Topic, "events")
	sub := b.entity(t, event.Subscription, "events/Subscriptions/all")
	before := len(b.Entities())
	for _, c := range []struct {
		name string
		cmd  engine.PutEntity
		want engine.Code
	}{
		{"SM-310", engine.PutEntity{Kind: event.Topic, Path: "Orders"}, engine.AlreadyExists},
		{"MA-032", engine.PutEntity{Kind: event.Queue, Path: "orders", Mode: engine.CreateOnly}, engine.AlreadyExists},
		{"MA-033", engine.PutEntity{Kind: event.Subscription, Path: "events/subscriptions/ALL", Mode: engine.CreateOnly}, engine.AlreadyExists},
		{"MA-035", engine.PutEntity{Kind: event.Queue, Path: "nothing", Mode: engine.UpdateOnly}, engine.NotFound},
		{"update of another kind", engine.PutEntity{Kind: event.Topic, Path: "orders", Mode: engine.UpdateOnly}, engine.NotFound},
		{"no topic", engine.PutEntity{Kind: event.Subscription, Path: "nothing/Subscriptions/s"}, engine.NotFound},
		{"a queue has no subscriptions", engine.PutEntity{Kind: event.Subscription, Path: "orders/Subscriptions/s"}, engine.NotFound},
		{"no subscription's path", engine.PutEntity{Kind: event.Subscription, Path: "events/s"}, engine.InvalidArgument},
		{"reserved", engine.PutEntity{Kind: event.Queue, Path: "a/subscriptions/b"}, engine.InvalidArgument},
		{"sub-queue", engine.PutEntity{Kind: event.Queue, Path: "a/$DeadLetterQueue"}, engine.InvalidArgument},
		{"rule twice", engine.PutEntity{Kind: event.Subscription, Path: "events/Subscriptions/x", Rules: []event.Rule{sql("a", "1=1"), sql("A", "1=1")}}, engine.AlreadyExists},
		{"MA-087", engine.PutEntity{Kind: event.Subscription, Path: "events/Subscriptions/x", Rules: []event.Rule{sql("a", "1 +")}}, engine.InvalidArgument},
	} {
		c.cmd.Properties = engine.DefaultProperties(c.cmd.Kind)
		_, err := b.PutEntity(t.Context(), c.cmd)
		if refusal := (*engine.Error)(nil); !errors.As(err, &refusal) || refusal.Code != c.want {
			t.Errorf("%s: %v; want errors.As(err, &refusal) && refusal.Code == c.want", c.name, err)
		}
	}
	changed := engine.DefaultProperties(event.Subscription)
	changed.RequiresSession = true
	_, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Subscription, Path: sub.Path, Properties: changed, Mode: engine.UpdateOnly})
	if refusal := (*engine.Error)(nil); !errors.As(err, &refusal) || refusal.Text != "The value for the RequiresSession property of an existing Subscription cannot be changed." {
		t.Errorf("MA-038: %v", err)
	}
	if n := len(b.Entities()); n != before {
		t.Errorf("%d entities, %d before", n, before)
	}
	if _, err := b.Rule(t.Context(), sub.Path, "nothing"); err == nil {
		t.Error("a rule that is not there")
	}
	b.close(t)
}

// List is in the order of lower-cased paths, page by page (MA-070).
func TestList(t *testing.T) {
	t.Parallel()
	b := openAt(t, t.TempDir(), &manualTime{})
	for i := range 25 {
		b.entity(t, event.Queue, fmt.Sprintf("Q%d", i))
	}
	b.entity(t, event.Topic, "a")
	b.entity(t, event.Topic, "a-b")
	b.entity(t, event.Subscription, "a/Subscriptions/Y")
	b.entity(t, event.Subscription, "a/Subscriptions/x")
	b.entity(t, event.Subscription, "a-b/Subscriptions/z")
	var got []string
	for skip := 0; ; skip += 10 {
		page := b.List(event.Queue, "", skip, 10)
		for _, e := range page {
			got = append(got, e.Path)
		}
		if len(page) < 10 {
			break
		}
	}
	if fmt.Sprint(got[:4], len(got)) != "[q0 q1 q10 q11] 25" {
		t.Errorf(`%+v; want fmt.Sprint(got[:4], len(got)) == "[q0 q1 q10 q11] 25"`, got)
	}
	got = nil
	for _, e := range b.List(event.Subscription, "A", 0, 100) {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got, len(b.List(event.Topic, "", 0, 100)), len(b.List(event.Subscription, "none", 0, 9))) != "[x Y] 2 0" {
		t.Errorf(`%+v; want fmt.Sprint(got, len(b.List(event.Topic, "", 0, 100)), len(b.List(event.Subscription, "none", 0, 9))) == "[x Y] 2 0"`, got)
	}
	b.close(t)
}

func (b *broker) must(t testing.TB, path string) *engine.Entity {
	t.Helper()
	e, ok := b.Find(path)
	if !ok {
		t.Fatalf("%s is not there", path)
	}
	return e
}

// The caller of a change may leave at any instant (MA-110, MA-113): a change that was begun is
// completed, so that nothing is durable but cannot be found.
func TestWhoAsksGoesAway(t *testing.T) {
	t.Parallel()
	b := openAt(t, t.TempDir(), &manualTime{})
	defer b.close(t)
	topic := b.entity(t, event.Topic, "events")
	rng := rand.New(rand.NewPCG(1, 2))
	done := 0
	for i := range 200 {
		path := engine.SubscriptionPath("events", fmt.Sprint("s", i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(300))*time.Microsecond)
		_, err := b.PutEntity(ctx, engine.PutEntity{Kind: event.Subscription, Path: path, Properties: engine.DefaultProperties(event.Subscription)})
		cancel()
		if err == nil {
			done++
		}
		_, there := b.Find(path)
		_, again := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Subscription, Path: path, Properties: engine.DefaultProperties(event.Subscription), Mode: engine.CreateOnly})
		if there != (again != nil) || there != (err == nil) {
			t.Fatalf("%s: %v; found: %t; made again: %v", path, err, there, again)
		}
	}
	b.publish(t, topic, "m", 0, nil)
	for _, e := range b.Entities() {
		if e.Kind == event.Subscription && len(b.holds(t, e)) != 1 {
			t.Errorf("%s has no rule in force", e.Path)
		}
	}
	t.Logf("%d of 200 were carried out", done)
}
