package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-267: what rules make of messages that arrive together is bounded for each of them, as if it were sent alone: those behind the first do not find
// the room used up, and what would be too much at once is taken the next time.
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
