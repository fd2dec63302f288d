package servicebus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// S4-06, docs/guide/limits.md: a rule that gives copies another session leaves each in the
// partition of the message, because all copies of a message are one event of one log. None is lost:
// a receiver that accepts the next session gets it from every partition. A receiver that asks for
// the new session by its id gets the messages in the partition of that id. State and renewals
// concern the session that the receiver holds.
func TestSDKPartitionedSessionByRule(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.put(t, event.Topic, "news", func(p *event.Properties) { p.EnablePartitioning = true })
	b.put(t, event.Subscription, "news/Subscriptions/all", func(p *event.Properties) { p.RequiresSession = true })
	if _, err := b.PutRule(t.Context(), engine.PutRule{Subscription: "news/Subscriptions/all", Mode: engine.UpdateOnly,
		Rule: event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.SQLFilter, Text: "1=1"}, Action: event.Action{Text: "SET sys.SessionId = 'moved'"}}}); err != nil {
		t.Fatal(err)
	}
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("news", nil))(t)
	const messages = 32
	for i := range messages {
		id := fmt.Sprint("s", i) // two of these are in the partition of the new session
		if err := s.SendMessage(ctx, &azservicebus.Message{SessionID: &id, Body: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	take := func(r *azservicebus.SessionReceiver) (partitions map[int64]int) {
		t.Helper()
		partitions = map[int64]int{}
		ms, err := r.ReceiveMessages(ctx, messages, nil)
		if err != nil {
			t.Fatal(err)
		}
		state := fmt.Append(nil, "state in ", partitionOf(ms[0]))
		if err := r.SetSessionState(ctx, state, nil); err != nil {
			t.Error(err)
		}
		if got := must(r.GetSessionState(ctx, nil))(t); string(got) != string(state) {
			t.Errorf("%q instead of %q", got, state)
		}
		if err := r.RenewSessionLock(ctx, nil); err != nil {
			t.Error(err)
		}
		for _, m := range ms {
			partitions[partitionOf(m)]++
			if err := r.CompleteMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		if r.SessionID() != "moved" || len(partitions) != 1 {
			t.Errorf("session %s, in %v", r.SessionID(), partitions)
		}
		if err := r.Close(ctx); err != nil {
			t.Fatal(err)
		}
		return partitions
	}
	got := map[int64]int{}
	count := func(some map[int64]int) (n int) {
		for partition, of := range some {
			got[partition] += of
			n += of
		}
		return n
	}
	left := messages - count(take(must(c.AcceptSessionForSubscription(ctx, "news", "all", "moved", nil))(t)))
	for left > 0 {
		left -= count(take(must(c.AcceptNextSessionForSubscription(ctx, "news", "all", nil))(t)))
	}
	if left != 0 || len(got) < 8 {
		t.Errorf("%d messages are missing of those in %v", left, got)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r, err := c.AcceptNextSessionForSubscription(short, "news", "all", nil); err == nil {
		t.Errorf("there is one more: %s", r.SessionID())
	}
}
