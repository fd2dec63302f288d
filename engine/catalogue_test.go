package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// put makes a partition create a queue, and applies the events.
func put(p *Partition, path string) error {
	out := p.Decide(1, &PutEntity{Kind: event.Queue, Path: path, Properties: testQueue()})
	for _, ev := range out.Events {
		p.Apply(1, ev)
	}
	return out.Reply.Err
}

// SM-326, SM-102: the length of a path, in characters, and that no queue is created at the path of
// a sub-queue. Package settings decides which characters a path may have.
func TestPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Code{
		"": InvalidArgument, "a": 0, strings.Repeat("a", 260): 0, strings.Repeat("a", 261): InvalidArgument,
		strings.Repeat("e", 260): 0, strings.Repeat("e", 261): InvalidArgument,
		"orders/$DeadLetterQueue": InvalidArgument, "orders/$deadletterqueue": InvalidArgument,
		"orders/$Transfer/$DeadLetterQueue": InvalidArgument, "orders/deadletterqueue": 0,
	} {
		p := NewPartition(0, 1, index.New())
		if err := put(p, "orders"); err != nil {
			t.Fatal(err)
		}
		if err := put(p, path); code(err) != want {
			t.Errorf("%q: %v; want code(err) == want", path, err)
		}
		if n := p.index.Catalogue.Roots(); (n == 2) != (want == 0) {
			t.Errorf("%q: %d entities", path, n)
		}
	}
}

// SM-321, S4-68: the quota of entities in a namespace, some of them partitioned: each counts once.
// Existing ones can be changed, and a deleted one makes room.
func TestTooManyEntities(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	p.Split(sixteen)
	const wide = 50
	for i := range wide {
		if err := askCatalogue(p, &PutEntity{Kind: event.Topic, Path: fmt.Sprint("t", i), Properties: splitTopic()}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxEntities - wide {
		if err := put(p, fmt.Sprint("q", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(p, "more"); code(err) != QuotaExceeded || !strings.Contains(err.Error(), "10000") {
		t.Errorf("number %d: %v", maxEntities+1, err)
	}
	changed := testQueue()
	changed.MaxDeliveryCount++
	if out := p.Decide(1, &PutEntity{Kind: event.Queue, Path: "q7", Properties: changed}); out.Reply.Err != nil || len(out.Events) != 1 {
		t.Errorf("changing one that exists: %v", out.Reply.Err)
	}
	for _, ev := range p.Decide(1, &DeleteEntity{Path: "q7"}).Events {
		p.Apply(1, ev)
	}
	if err := put(p, "more"); err != nil {
		t.Errorf("in the place of a deleted one: %v", err)
	}
}

func code(err error) Code {
	if e, ok := err.(*Error); ok {
		return e.Code
	}
	return 0
}

func sql(name, text string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: text}}
}

// An update that is refused for its rules changes no property, names no origin, and adds no event
// at all.
func TestRefusedUpdateOfRules(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	sub := PutEntity{Kind: event.Subscription, Path: "t/Subscriptions/s", Properties: DefaultProperties(event.Subscription)}
	for _, cmd := range []*PutEntity{{Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic)}, &sub} {
		out := p.Decide(1, cmd)
		adopt(p, &out)
	}
	sub.Mode, sub.OnlyRules, sub.Origin = UpdateOnly, true, &Origin{Connection: 1}
	sub.Properties.MaxDeliveryCount++
	sub.Rules = []event.Rule{sql("a", "1=1"), sql("A", "1=1")}
	out := p.Decide(1, &sub)
	if err, ok := out.Reply.Err.(*Error); !ok || err.Code != AlreadyExists || len(out.Events) != 0 {
		t.Fatalf("two rules of one name: %v, %d events", out.Reply.Err, len(out.Events))
	}
	sub.Rules = sub.Rules[:1]
	if out = p.Decide(1, &sub); out.Reply.Err != nil || len(out.Events) != 4 {
		t.Errorf("one rule: %v, %d events, not an origin, an update, a rule removed and one added", out.Reply.Err, len(out.Events))
	}
}
