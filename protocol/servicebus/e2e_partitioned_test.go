package servicebus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// startSplit starts a broker with that many logs, on which partitioned entities have sixteen
// partitions.
func startSplit(t testing.TB, dir string, logs int) *broker {
	t.Helper()
	return startBrokerOn(t, dir, logs, servicebus.Limits{}, host.Options{Properties: message.Properties, Reread: message.Reread, EntityPartitions: event.MaxEntityPartitions, Fence: true})
}

// split makes a partitioned queue.
func (b *broker) split(t testing.TB, path string, change func(*event.Properties)) {
	t.Helper()
	b.put(t, event.Queue, path, func(p *event.Properties) {
		if p.EnablePartitioning = true; change != nil {
			change(p)
		}
	})
}

// partitionOf is the entity partition of a message.
func partitionOf(m *azservicebus.ReceivedMessage) int64 { return *m.SequenceNumber >> 48 }

// drainAll receives and completes that many messages, and counts them by partition.
func drainAll(t testing.TB, r *azservicebus.Receiver, n int) map[int64]int {
	t.Helper()
	got := map[int64]int{}
	for left := n; left > 0; {
		ms, err := r.ReceiveMessages(timeout(t), left, nil)
		if err != nil {
			t.Fatalf("%d messages are missing: %v", left, err)
		}
		for _, m := range ms {
			got[partitionOf(m)]++
			if err := r.CompleteMessage(timeout(t), m, nil); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(ms)
	}
	return got
}

// SM-200, SM-202, SM-205, SM-206, SM-211, SM-212, SM-213, S4-07, S4-13, S4-15, S4-18, S4-21, S4-22,
// S4-38, S4-61, S4-64: 160 sends without a key become ten in each partition, one receiver gets all
// of them, and a plain queue next to it has its own numbers.
func TestSDKPartitionedKeyless(t *testing.T) {
	t.Parallel()
	for _, logs := range []int{1, 3, 4} {
		t.Run(fmt.Sprint(logs), func(t *testing.T) {
			t.Parallel()
			b := startSplit(t, t.TempDir(), logs)
			b.split(t, "wide", nil)
			b.queue(t, "plain", nil)
			c, ctx := b.root(t), timeout(t)
			for _, queue := range []string{"wide", "plain"} {
				s := must(c.NewSender(queue, nil))(t)
				for i := range 160 {
					if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := drainAll(t, must(c.NewReceiverForQueue("plain", nil))(t), 160); got[0] != 160 {
				t.Errorf("a plain queue: %v", got)
			}
			r := must(c.NewReceiverForQueue("wide", nil))(t)
			seen := map[int64]bool{}
			for _, m := range peekAll(t, r, 7) {
				if n := *m.SequenceNumber; seen[n] {
					t.Errorf("%#x is shown twice", n)
				} else {
					seen[n] = true
				}
			}
			for p := range int64(16) {
				for n := range int64(10) {
					if !seen[p<<48|(n+1)] {
						t.Errorf("partition %d has no number %d", p, n+1)
					}
				}
			}
			if got := drainAll(t, r, 160); len(got) != 16 || slices.Max(slices.Collect(maps.Values(got))) != 10 {
				t.Errorf("%v; want len(got) == 16 && slices.Max(slices.Collect(maps.Values(got))) == 10", got)
			}
		})
	}
}

// peekAll peeks with the SDK's cursor, that many messages at a time, until there are no more.
// Numbers must rise (SM-212, S4-64).
func peekAll(t testing.TB, r *azservicebus.Receiver, at int) (all []*azservicebus.ReceivedMessage) {
	t.Helper()
	for {
		some := must(r.PeekMessages(timeout(t), at, nil))(t)
		if len(some) == 0 {
			return all
		}
		for _, m := range some {
			if n := len(all); n > 0 && *m.SequenceNumber <= *all[n-1].SequenceNumber {
				t.Errorf("%#x comes behind %#x", *m.SequenceNumber, *all[n-1].SequenceNumber)
			}
			all = append(all, m)
		}
	}
}

// SM-207, S4-23, S4-25, S4-51: a key has one partition, over restarts, on one, three, four and many
// logs, as the vectors say.
func TestSDKPartitionedKeys(t *testing.T) {
	t.Parallel()
	want := map[string]int64{"tenant-a": 5, "tenant-q": 1, "mySession": 12, "myPartitionKey": 9, "日本": 3}
	for _, logs := range []int{1, 3, 4, 64} {
		t.Run(fmt.Sprint(logs), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for round := range 2 {
				b := startSplit(t, dir, logs)
				if round == 0 {
					b.split(t, "wide", nil)
				}
				c := b.root(t)
				s := must(c.NewSender("wide", nil))(t)
				for key := range want {
					for range 3 {
						if err := s.SendMessage(timeout(t), &azservicebus.Message{Body: []byte(key), PartitionKey: &key}, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				r := must(c.NewReceiverForQueue("wide", nil))(t)
				ms := peekAll(t, r, 100)
				if len(ms) != 3*len(want)*(round+1) {
					t.Errorf("%d messages in round %d", len(ms), round)
				}
				for _, m := range ms {
					if p := partitionOf(m); p != want[string(m.Body)] || *m.PartitionKey != string(m.Body) {
						t.Errorf("%s is in %d", m.Body, p)
					}
				}
				b.stop()
			}
		})
	}
}

// SM-209, S4-31 and the batches of S4-25: a batch without a single partition is refused, as a
// whole.
func TestSDKPartitionedBatches(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.split(t, "wide", nil)
	b.split(t, "detects", func(p *event.Properties) { p.RequiresDuplicateDetection = true })
	c, ctx := b.root(t), timeout(t)
	batch := func(queue string, keys, ids []string) error {
		s := must(c.NewSender(queue, nil))(t)
		defer s.Close(ctx)
		all := must(s.NewMessageBatch(ctx, nil))(t)
		for i := range ids {
			m := &azservicebus.Message{Body: []byte("x"), MessageID: &ids[i]}
			if keys != nil {
				m.PartitionKey = &keys[i]
			}
			if err := all.AddMessage(m, nil); err != nil {
				t.Fatal(err)
			}
		}
		return s.SendMessageBatch(ctx, all, nil)
	}
	for _, bad := range []error{batch("wide", []string{"a", "b"}, []string{"1", "2"}), batch("detects", nil, []string{"1", "2"})} {
		if bad == nil || !strings.Contains(bad.Error(), "distinct SessionId or PartitionKey") || !strings.Contains(bad.Error(), "amqp:not-allowed") {
			t.Errorf("a batch with two keys: %v", bad)
		}
	}
	for _, good := range []error{batch("wide", []string{"a", "a"}, []string{"1", "2"}), batch("wide", nil, []string{"1", "2"}),
		batch("detects", []string{"a", "a"}, []string{"1", "2"}), batch("detects", nil, []string{"1", "1"})} {
		if good != nil {
			t.Errorf("a batch with one key: %v", good)
		}
	}
	session, other := "s", "p"
	s := must(c.NewSender("wide", nil))(t)
	if err := s.SendMessage(ctx, &azservicebus.Message{SessionID: &session, PartitionKey: &other}, nil); err == nil {
		t.Error("a session id with another partition key is sent")
	}
	for queue, want := range map[string]int{"wide": 4, "detects": 3} {
		ms := peekAll(t, must(c.NewReceiverForQueue(queue, nil))(t), 3)
		if len(ms) != want {
			t.Errorf("%s has %d messages, not %d", queue, len(ms), want)
		}
	}
}

// S4-06, S4-16, SM-201: settling in every way, renewing, deferring and taking back by number, in
// every partition.
func TestSDKPartitionedSettle(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.split(t, "wide", nil)
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("wide", nil))(t)
	r := must(c.NewReceiverForQueue("wide", nil))(t)
	dead := must(c.NewReceiverForQueue("wide", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	const n = 32
	for i := range n {
		if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var held []*azservicebus.ReceivedMessage
	for len(held) < n {
		held = append(held, must(r.ReceiveMessages(ctx, n-len(held), nil))(t)...)
	}
	var deferred []int64
	for i, m := range held {
		err := r.RenewMessageLock(ctx, m, nil)
		switch i % 3 {
		case 0:
			err = errors.Join(err, r.DeferMessage(ctx, m, nil))
			deferred = append(deferred, *m.SequenceNumber)
		case 1:
			err = errors.Join(err, r.DeadLetterMessage(ctx, m, nil))
		default:
			err = errors.Join(err, r.AbandonMessage(ctx, m, nil))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := must(c.NewReceiverForQueue("wide", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(t)
	deleted := must(gone.ReceiveDeferredMessages(ctx, deferred[:5], nil))(t)
	for i, m := range deleted {
		if *m.SequenceNumber != deferred[i] || m.LockedUntil != nil {
			t.Errorf("message %d that is received and deleted is %#x, locked until %v; want %#x", i, *m.SequenceNumber, m.LockedUntil, deferred[i])
		}
	}
	if _, err := gone.ReceiveDeferredMessages(ctx, deferred[4:6], nil); err == nil || len(deleted) != 5 {
		t.Errorf("%d messages are received and deleted, and one of them again: %v", len(deleted), err)
	}
	deferred = deferred[5:]
	// of numbers in as many partitions or fewer
	back := must(r.ReceiveDeferredMessages(ctx, deferred, nil))(t)
	for i, m := range back {
		if *m.SequenceNumber != deferred[i] {
			t.Errorf("deferred message %d is %#x, not %#x", i, *m.SequenceNumber, deferred[i])
		}
		if err := r.CompleteMessage(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.ReceiveDeferredMessages(ctx, deferred[:1], nil); err == nil {
		t.Error("a completed message is received again")
	}
	if len(back) != 6 {
		t.Errorf("%d deferred messages", len(back))
	}
	drainAll(t, dead, 11)
	drainAll(t, r, 10)
}

// S4-06, SM-201: numbers of scheduled messages, in every partition.
func TestSDKPartitionedSchedule(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.split(t, "wide", nil)
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("wide", nil))(t)
	r := must(c.NewReceiverForQueue("wide", nil))(t)
	var numbers []int64
	for i := range 16 {
		at := time.Now().Add(time.Duration(1+i%2*3599) * time.Second)
		ns := must(s.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("later")}}, at, nil))(t)
		if numbers = append(numbers, ns...); len(ns) != 1 {
			t.Fatalf("%+v; want len(ns) == 1", ns)
		}
	}
	var later []int64 // in eight partitions
	for i, number := range numbers {
		if i%2 == 1 {
			later = append(later, number)
		}
	}
	if err := s.CancelScheduledMessages(ctx, append([]int64{later[7] + 1}, later...), nil); err == nil || !strings.Contains(err.Error(), "no scheduled message") {
		t.Errorf("with a number that there is not: %v", err)
	}
	if err := s.CancelScheduledMessages(ctx, append([]int64{later[0]}, later[1], later[0]), nil); err == nil {
		t.Error("a number twice is cancelled")
	}
	// the refused request has cancelled nothing
	if err := s.CancelScheduledMessages(ctx, later, nil); err != nil {
		t.Error(err)
	}
	if got := drainAll(t, r, 8); len(got) != 8 {
		t.Errorf("scheduled messages: %v", got)
	}
	if left := peekAll(t, r, 5); len(left) != 0 {
		t.Errorf("%d messages are left", len(left))
	}
}

// S4-27, S4-28, SM-208: a session is in one partition, in order, with its state; receivers of the
// next session get each of them once.
func TestSDKPartitionedSessions(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.split(t, "wide", func(p *event.Properties) { p.RequiresSession = true })
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("wide", nil))(t)
	const sessions, each = 24, 5
	for i := range each {
		for n := range sessions {
			id := fmt.Sprintf("session-%02d", n)
			if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i), SessionID: &id}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	partitions, seen := map[int64]bool{}, map[string]bool{}
	for range sessions {
		r := must(c.AcceptNextSessionForQueue(ctx, "wide", nil))(t)
		if seen[r.SessionID()] {
			t.Fatalf("%s comes twice", r.SessionID())
		}
		seen[r.SessionID()] = true
		if err := r.SetSessionState(ctx, []byte("state of "+r.SessionID()), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.RenewSessionLock(ctx, nil); err != nil {
			t.Fatal(err)
		}
		shown := 0
		// this SDK does not name the session
		for _, m := range must(r.PeekMessages(ctx, sessions*each, nil))(t) {
			if *m.SessionID == r.SessionID() {
				shown++
			}
		}
		if shown != each {
			t.Errorf("%s: %d messages are shown", r.SessionID(), shown)
		}
		var in int64 = -1
		for i := 0; i < each; {
			for _, m := range must(r.ReceiveMessages(ctx, each, nil))(t) {
				if p := partitionOf(m); in >= 0 && p != in || string(m.Body) != fmt.Sprint(i) {
					t.Errorf("%s: message %s in partition %d behind %d, which is in %d", r.SessionID(), m.Body, p, i-1, in)
				} else {
					in = p
				}
				if err := r.CompleteMessage(ctx, m, nil); err != nil {
					t.Fatal(err)
				}
				i++
			}
		}
		partitions[in] = true
		if err := r.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(partitions) < 8 {
		t.Errorf("%d sessions are in %d partitions", sessions, len(partitions))
	}
	for id := range seen {
		r := must(c.AcceptSessionForQueue(ctx, "wide", id, nil))(t)
		if state := must(r.GetSessionState(ctx, nil))(t); string(state) != "state of "+id {
			t.Errorf(`%s: %q; want string(state) == "state of "+id`, id, state)
		}
		if err := r.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// SM-160, S4-34, S4-36: equal ids meet in one partition, where the second is found.
func TestSDKPartitionedDuplicates(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.split(t, "wide", func(p *event.Properties) { p.RequiresDuplicateDetection = true })
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("wide", nil))(t)
	for range 3 {
		for n := range 40 {
			id := fmt.Sprint("m", n)
			if err := s.SendMessage(ctx, &azservicebus.Message{MessageID: &id}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := drainAll(t, must(c.NewReceiverForQueue("wide", nil))(t), 40); len(got) < 12 {
		t.Errorf("%v; want len(got) >= 12", got)
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if ms, _ := must(c.NewReceiverForQueue("wide", nil))(t).ReceiveMessages(short, 1, nil); len(ms) > 0 {
		t.Errorf("%s comes twice", ms[0].MessageID)
	}
}

// S4-06: a topic with rules, partitioned subscriptions, and their dead letters.
func TestSDKPartitionedTopic(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 3)
	b.put(t, event.Topic, "news", func(p *event.Properties) { p.EnablePartitioning = true })
	b.put(t, event.Subscription, "news/Subscriptions/all", nil)
	b.put(t, event.Subscription, "news/Subscriptions/odd", nil)
	c, ctx := b.root(t), timeout(t)
	rules := b.rule(t, "news/Subscriptions/odd", "$Default", "n % 2 = 1")
	s := must(c.NewSender("news", nil))(t)
	for i := range 64 {
		if err := s.SendMessage(ctx, &azservicebus.Message{ApplicationProperties: map[string]any{"n": int64(i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	all := must(c.NewReceiverForSubscription("news", "all", nil))(t)
	if got := drainAll(t, all, 64); len(got) != 16 {
		t.Errorf("%v; want len(got) == 16", got)
	}
	odd := must(c.NewReceiverForSubscription("news", "odd", nil))(t)
	if got := drainAll(t, odd, 32); len(got) != 8 || rules != nil {
		t.Errorf("%v, %v; want len(got) == 8 && rules == nil", got, rules)
	}
	for _, r := range []*azservicebus.Receiver{all, odd} {
		if left := peekAll(t, r, 10); len(left) > 0 {
			t.Errorf("%d messages are left", len(left))
		}
	}
}

// rule changes the filter of a rule.
func (b *broker) rule(t testing.TB, subscription, name, filter string) error {
	t.Helper()
	_, err := b.PutRule(t.Context(), engine.PutRule{Subscription: subscription, Mode: engine.UpdateOnly,
		Rule: event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: filter}}})
	return err
}

// SM-210, SM-211, S4-05, S4-26, S4-39: while a partition of the log does not serve, the SDK sends
// without a key and receives from all others. With a key of that partition it is told that the
// server is busy, and a peek shows the messages of the others. Once the partition is back, the same
// receiver gets the rest, without a restart.
func TestSDKPartitionedFence(t *testing.T) {
	t.Parallel()
	b := startSplit(t, t.TempDir(), 4)
	b.split(t, "wide", nil)
	wide, _ := b.Find("wide")
	c, ctx := b.root(t), timeout(t)
	s, r := must(c.NewSender("wide", nil))(t), must(c.NewReceiverForQueue("wide", nil))(t)
	send := func(n int) {
		t.Helper()
		for range n {
			if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(160)
	drainAll(t, r, 16) // it is attached to all
	if err := b.FencePartition(ctx, 2, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	send(32)
	busy := 0
	for i := range 32 {
		key := fmt.Sprint("key", i)
		if err := s.SendMessage(ctx, &azservicebus.Message{PartitionKey: &key}, nil); err != nil {
			if busy++; !strings.Contains(err.Error(), "server-busy") {
				t.Errorf(`%s: %v; want strings.Contains(err.Error(), "server-busy")`, key, err)
			}
		}
	}
	if busy < 1 || busy > 16 {
		t.Errorf("%d of 32 keys are of the partition that is away", busy)
	}
	there := 0
	for _, m := range peekAll(t, must(c.NewReceiverForQueue("wide", nil))(t), 11) {
		there++
		if wide.Hosts[partitionOf(m)] == 2 {
			t.Errorf("%#x is shown, of a partition that is away", *m.SequenceNumber)
		}
	}
	if there < 120 {
		t.Errorf("%d messages are shown", there)
	}
	for p, n := range takeAgain(t, r, there) {
		if wide.Hosts[p] == 2 {
			t.Errorf("%d messages of partition %d, which is away", n, p)
		}
	}
	if _, err := b.RestartPartition(ctx, 2, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	takeAgain(t, r, 160-16+32+(32-busy)-there)
	if left := peekAll(t, r, 10); len(left) > 0 {
		t.Errorf("%d messages are left", len(left))
	}
}

// takeAgain is drainAll over a link that may end: the next call attaches it again.
func takeAgain(t testing.TB, r *azservicebus.Receiver, n int) map[int64]int {
	t.Helper()
	got := map[int64]int{}
	for ctx := timeout(t); n > 0; {
		ms, err := r.ReceiveMessages(ctx, n, nil)
		if ctx.Err() != nil {
			t.Fatalf("%d messages are missing: %v", n, err)
		}
		for _, m := range ms {
			got[partitionOf(m)]++
			if err := r.CompleteMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		n -= len(ms)
	}
	return got
}
