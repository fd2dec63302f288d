package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-267: the copies that rules make of messages that arrive together are bounded for each message,
// as if it were sent alone. The first one does not use up the room of those after it, and those
// that would be too much for one decision are taken with the next.
func TestImportToManyRules(t *testing.T) {
	t.Parallel()
	const messages, subscriptions = 256, 70
	see := &filter.Message{User: []event.Property{{Name: "note", Value: event.Value{Type: event.String, Text: strings.Repeat("x", 1000)}}}}
	var rules [][]event.Rule
	for range subscriptions {
		r := sql("r", "1 = 1")
		r.Action = event.Action{Text: "SET a = note; SET b = note; SET c = note; SET d = note"}
		rules = append(rules, []event.Rule{r})
	}
	p := NewPartition(0, 1, index.New())
	topicOf(t, p, rules...)
	topic, _ := p.Entity(event.Slice{Entity: 1})
	cmd := Import{Entity: topic, Slice: event.Slice{Entity: 1}, Source: event.Slice{Entity: 99}, Floor: 1}
	for i := range messages {
		cmd.Items = append(cmd.Items, Arriving{Number: event.TransferNumber(i + 1), Hops: 1, First: 1,
			Message: Message{ID: fmt.Append(nil, i), Body: []byte("hello"), Properties: see}})
	}
	out := p.Decide(1000, &cmd)
	became, _ := out.Reply.Answer.(Arrivals)
	if len(became) == 0 || len(became) == messages {
		t.Fatalf("%d of %d messages are taken at once", len(became), messages)
	}
	for _, ev := range out.Events {
		published, ok := ev.(*event.MessagePublished)
		if !ok {
			continue
		}
		if len(published.Copies) != subscriptions {
			t.Errorf("message %d has %d copies", published.Sequence, len(published.Copies))
		}
		for _, c := range published.Copies {
			if c.Cause != 0 {
				t.Fatalf("a copy of message %d is dead-lettered: %v", published.Sequence, c.Cause)
			}
		}
	}
}

// Decision 35: forgetting a source of which nothing is known writes nothing, whether nothing ever
// came or it was already forgotten.
func TestForgetSource(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	topicOf(t, p, []event.Rule{sql("r", "1 = 1")})
	topic, _ := p.Entity(event.Slice{Entity: 1})
	forget := ForgetSource{Slice: event.Slice{Entity: 1}, Source: event.Slice{Entity: 99}}
	carryOut := func(cmd Command) int {
		out := p.Decide(1000, cmd)
		for _, ev := range out.Events {
			p.Apply(1000, ev)
		}
		return len(out.Events)
	}
	for _, unknown := range []ForgetSource{forget, {Slice: event.Slice{Entity: 55}, Source: forget.Source}} {
		if n := carryOut(&unknown); n != 0 {
			t.Errorf("%d events of what never came", n)
		}
	}
	carryOut(&Import{Entity: topic, Slice: forget.Slice, Source: forget.Source, Floor: 1, Items: []Arriving{{Number: 1, Hops: 1, First: 1,
		Message: Message{ID: []byte("1"), Body: []byte("hello"), Properties: &filter.Message{}}}}})
	if first, again := carryOut(&forget), carryOut(&forget); first != 1 || again != 0 {
		t.Errorf("%d events, then %d", first, again)
	}
}

// Semantics.md 13.3: a message that was moved to a topic and waited there until its time is shown
// to the rules with the number of its first submission.
func TestFirstNumberOfWhatWaited(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	topicOf(t, p, []event.Rule{sql("first", "sys.EnqueuedSequenceNumber = 7")}, []event.Rule{sql("own", "sys.EnqueuedSequenceNumber <> 7")})
	topic, _ := p.Entity(event.Slice{Entity: 1})
	carryOut := func(now event.Time, cmd Command) []event.Event {
		out := p.Decide(now, cmd)
		for _, ev := range out.Events {
			p.Apply(now, ev)
		}
		return out.Events
	}
	carryOut(1000, &Import{Entity: topic, Slice: event.Slice{Entity: 1}, Source: event.Slice{Entity: 99}, Floor: 1, Items: []Arriving{{Number: 1, Hops: 1, First: 7,
		Message: Message{ID: []byte("1"), Body: []byte("hello"), ScheduledFor: 5000, Properties: &filter.Message{}}}}})
	for _, ev := range carryOut(6000, &Tick{Properties: &filter.Message{}}) {
		if due, ok := ev.(*event.ScheduledPublished); ok {
			if len(due.Copies) != 1 || due.Copies[0].Subscription != 2 {
				t.Errorf("copies %+v, not one for the rule that asks for the first number", due.Copies)
			}
			return
		}
	}
	t.Error("it did not become due")
}
