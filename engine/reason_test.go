package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// record returns the kinds of events of a record, with the reason in it and the entity that the
// reason is about.
func record(events []event.Event) string {
	var words []string
	for _, ev := range events {
		word := ev.Kind().String()
		if why, ok := ev.(*event.ReasonGiven); ok {
			word = fmt.Sprintf("because %q %q of %d by %d", why.Reason, why.TrackingID, why.Slice.Entity, why.Origin)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// The reason that an operator gives for a change is in the record of the change, with the named
// entity. If nothing changes, no reason is kept.
func TestReasons(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	by := &Origin{Link: "management"}
	said := func(reason, id string) event.ReasonGiven { return event.ReasonGiven{Reason: reason, TrackingID: id} }
	queue, sub := DefaultProperties(event.Queue), DefaultProperties(event.Subscription)
	const path = "t/Subscriptions/s"
	for _, step := range []struct {
		cmd  Command
		want string
	}{
		{&PutEntity{Kind: event.Queue, Path: "q", Properties: queue, Origin: by, Why: said("new shop", "7")},
			`OriginDefined, EntityCreated, because "new shop" "7" of 1 by 1`},
		{&PutEntity{Kind: event.Queue, Path: "q", Properties: queue, Origin: by, Why: said("again", "")}, ""},
		{&PutEntity{Kind: event.Queue, Path: "q", Properties: queue, Mode: UpdateOnly, Origin: by, Why: said("", "8")}, `EntityUpdated, because "" "8" of 1 by 1`},
		{&PutEntity{Kind: event.Queue, Path: "q", Properties: queue, Mode: UpdateOnly, Origin: by}, "EntityUpdated"},
		{&PutEntity{Kind: event.Queue, Path: "q", Mode: CreateOnly, Origin: by, Why: said("refused", "")}, ""},
		{&PutEntity{Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic), Why: said("no origin", "")}, `EntityCreated, because "no origin" "" of 2 by 0`},
		{&PutEntity{Kind: event.Subscription, Path: path, Properties: sub, Origin: by, Why: said("audit", "")},
			`EntityCreated, RuleAdded, because "audit" "" of 3 by 1`},
		{&PutEntity{Kind: event.Subscription, Path: path, Properties: sub, OnlyRules: true, Origin: by, Why: said("no rules", "")},
			`RuleRemoved, because "no rules" "" of 3 by 1`},
		{&PutRule{Subscription: path, Rule: sql("r", "1=1"), Origin: by, Why: said("all", "")}, `RuleAdded, because "all" "" of 3 by 1`},
		{&PutRule{Subscription: path, Rule: sql("r", "1=1"), Origin: by, Why: said("again", "")}, ""},
		{&PutRule{Subscription: path, Rule: sql("r", "1=0"), Mode: UpdateOnly, Origin: by, Why: said("none", "")}, `RuleUpdated, because "none" "" of 3 by 1`},
		{&DeleteRule{Subscription: path, Name: "r", Origin: by, Why: said("gone", "")}, `RuleRemoved, because "gone" "" of 3 by 1`},
		{&DeleteEntity{Path: "t", Origin: by, Why: said("closed down", "9")}, `EntityDeleted, EntityDeleted, because "closed down" "9" of 2 by 1`},
	} {
		out := p.Decide(1, step.cmd)
		if got := record(out.Events); got != step.want {
			t.Errorf("%+v:\n%s\nwant\n%s", step.cmd, got, step.want)
		}
		if len(out.Events) > 0 {
			adopt(p, &out)
		}
	}
}

// A deletion of messages has its reason in its first record. A tracking id alone, which clients
// send with each request, is not kept.
func TestReasonOfABatchDelete(t *testing.T) {
	t.Parallel()
	p := oneQueue()
	e := p.settings.entities[1]
	for range 3 {
		out := p.Decide(1, &Send{Entity: e, Slice: testSlice, Messages: []Message{{ID: []byte("m"), Body: []byte("b"), SessionID: []byte("a"), HasSession: true}}})
		adopt(p, &out)
	}
	for _, step := range []struct {
		why  event.ReasonGiven
		want string
	}{
		{event.ReasonGiven{TrackingID: "7"}, "MessagesBatchDeleted"},
		{event.ReasonGiven{Reason: "test data", TrackingID: "8"}, `MessagesBatchDeleted, because "test data" "8" of 1 by 0`},
		{event.ReasonGiven{Reason: "nothing is left"}, "MessagesBatchDeleted, because \"nothing is left\" \"\" of 1 by 0"},
		{event.ReasonGiven{Reason: "nothing is left"}, ""},
	} {
		out := p.Decide(2, &BatchDelete{Entity: e, Slice: testSlice, Count: 1, Why: step.why})
		if got := record(out.Events); got != step.want {
			t.Errorf("%+v: %s, want %s", step.why, got, step.want)
		}
		adopt(p, &out)
	}
}

// A deletion that continues in several records has its reason once.
func TestReasonIsSaidOnce(t *testing.T) {
	t.Parallel()
	p := oneQueue()
	e := p.settings.entities[1]
	e.Properties.RequiresSession = true
	messages := make([]Message, lookStep+1)
	for i := range messages {
		messages[i] = Message{ID: []byte("m"), Body: []byte("b"), SessionID: []byte("a"), HasSession: true}
	}
	out := p.Decide(1, &Send{Entity: e, Slice: testSlice, Messages: messages})
	adopt(p, &out)
	var records []string
	for cmd := Command(&BatchDelete{Entity: e, Slice: testSlice, Count: len(messages), SessionID: []byte("a"), HasSession: true, Why: event.ReasonGiven{Reason: "x"}}); cmd != nil; {
		out := p.Decide(2, cmd)
		if cmd = out.Rest; len(out.Events) > 0 {
			records = append(records, record(out.Events))
		}
		adopt(p, &out)
	}
	if got := strings.Join(records, "; "); got != `MessagesBatchDeleted, because "x" "" of 1 by 0; MessagesBatchDeleted` {
		t.Errorf("%+v, want `MessagesBatchDeleted, because \"x\" \"\" of 1 by 0; MessagesBatchDeleted`", got)
	}
}

func TestCheckReason(t *testing.T) {
	t.Parallel()
	for reason, ok := range map[string]bool{
		"": true, "Störung 4711, siehe Tafel": true, strings.Repeat("x", event.MaxReason): true,
		strings.Repeat("x", event.MaxReason+1): false, "two\nlines": false, "a\x00b": false, "\xff": false,
	} {
		if err := CheckReason(reason); (err == nil) != ok {
			t.Errorf("%.20q: %v; want (err == nil) == ok", reason, err)
		}
	}
}
