package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// said returns the application properties of a request for its reason and for the client's id of
// it.
func said(reason any, id string) (more []amqp.Pair) {
	if reason != nil {
		more = append(more, amqp.Pair{Key: "ledgerbus:reason", Value: reason})
	}
	if id != "" {
		more = append(more, amqp.Pair{Key: "com.microsoft:tracking-id", Value: id})
	}
	return more
}

// The reason that a client gives for a change at a $management node is in the log with the change.
// The client's id of the request is kept for changes of rules, which are rare, but for messages
// only with a reason: clients delete messages as part of their work.
func TestReasonsOverAMQP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bubbleIn(t, dir, nil, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "s", nil)
		p := b.root()
		p.attachManagement("t/subscriptions/s")
		rule := ruleBody("r", amqp.Map{{Key: "sql-filter", Value: expression("1=1")}})
		p.managedWith(400, amqp.CondArgumentError, "add-rule", rule, said(int32(7), "")...)
		p.managedWith(400, amqp.CondArgumentError, "add-rule", rule, said("two\nlines", "")...)
		p.managedWith(400, amqp.CondArgumentError, "remove-rule", amqp.Map{{Key: "rule-name", Value: "r"}}, said(strings.Repeat("x", event.MaxReason+1), "")...)
		p.managedWith(200, "", "add-rule", rule, said("Störung 4711", "a1")...)
		p.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "r"}}, said(nil, "a2")...)
		p.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "$Default"}}, said(nil, strings.Repeat("x", 257))...)
	})
	bubbleIn(t, dir, nil, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"), newMessage("2", "x"), newMessage("3", "x"))
		time.Sleep(time.Second) // the deleted messages were there before
		p := b.root()
		p.attachManagement("q")
		one := amqp.Map{{Key: "message-count", Value: int32(1)}}
		p.managedWith(400, amqp.CondArgumentError, "batch-delete-messages", one, said([]byte("x"), "")...)
		p.managedWith(200, "", "batch-delete-messages", one, said("test data", "a3")...)
		p.managedWith(200, "", "batch-delete-messages", one, said("", "a4")...)
		p.managedWith(200, "", "batch-delete-messages", one)
	})
	var got []string
	before := ""
	for _, ev := range eventsOf(t, dir, nil) {
		if why, ok := ev.(*event.ReasonGiven); ok {
			got = append(got, fmt.Sprintf("%s because %q %q", before, why.Reason, why.TrackingID))
		}
		before = ev.Kind().String()
	}
	slices.Sort(got) // partitions are in no order
	want := []string{`MessagesBatchDeleted because "test data" "a3"`, `RuleAdded because "Störung 4711" "a1"`, `RuleRemoved because "" "a2"`}
	if !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
