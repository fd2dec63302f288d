package host

import (
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-311: a path is found in any letter case and shown in lower case, over changes and a start.
func TestLetterCaseOfPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	defer func() { b.close(t) }()
	shown := func(path string) {
		t.Helper()
		target, err := b.Resolve(path)
		if err != nil || target.Entity.Path != "orders/eu" || len(b.Entities()) != 1 {
			t.Errorf("%s: %+v, %v; %d entities", path, target.Entity, err, len(b.Entities()))
		}
	}
	b.queue(t, "Orders/EU", testQueue())
	shown("orders/eu")
	changed := testQueue()
	changed.LockDuration = time.Minute
	if e, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "ORDERS/EU", Properties: changed}); err != nil || e.Path != "orders/eu" {
		t.Errorf(`%+v, %v; want e.Path == "orders/eu"`, e, err)
	}
	shown("ORDERS/eu/$DEADLETTERQUEUE")
	b.close(t)
	b = open(t, dir)
	shown("oRDERS/eU")
}

// SM-102: a dead-letter queue is not listed and not deleted alone; with its queue it is deleted,
// including its messages.
func TestSubQueuesGoWithTheirQueue(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	const dead = "orders/$DeadLetterQueue"
	one := func(path string) (int, error) {
		q, err := b.Resolve(path)
		if err != nil {
			return 0, err
		}
		in := newInbox()
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Peek{Slice: q.Slice(0), SubQueue: q.SubQueue, Count: 9, MaxBytes: 1000}}})
		r := in.wait(1)[0]
		return len(r.Messages()), r.Err
	}
	q := b.queue(t, "orders", testQueue())
	b.send(t, q, 1)
	_, got := b.receiver(q, 1, 1)
	in := newInbox()
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Settle{Slice: q.Slice(0), Token: got.wait(1)[0].Delivery().Token, Outcome: engine.MoveToDeadLetter}}})
	in.wait(1)
	if n, err := one(dead); n != 1 || err != nil {
		t.Fatalf("%d messages, %v", n, err)
	}
	if all := b.Entities(); len(all) != 1 || all[0].Path != "orders" {
		t.Errorf("there are %+v", all)
	}
	if _, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: dead, Properties: testQueue()}); err == nil {
		t.Error("created or changed")
	}
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: dead}); err == nil {
		t.Error("deleted alone")
	}
	if n, err := one(dead); n != 1 || err != nil {
		t.Errorf("after what was refused: %d messages, %v", n, err)
	}
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := one(dead); code(err) != engine.NotFound {
		t.Errorf("without its queue: %v", err)
	}
	b.queue(t, "orders", testQueue())
	if n, err := one(dead); n != 0 || err != nil {
		t.Errorf("of a new queue: %d messages, %v", n, err)
	}
}

// S0-50, SM-305, docs/decisions/0020: a queue that forwards keeps its AutoDeleteOnIdle, that of a
// subscription becomes the longest, and neither is ever idle, nor is the topic of such a
// subscription. It can be idle again once it no longer forwards.
func TestForwardingIsNeverIdle(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	put := func(kind event.EntityKind, path, to, dead string) {
		t.Helper()
		p := engine.DefaultProperties(kind)
		p.AutoDeleteOnIdle, p.ForwardTo, p.ForwardDeadLetteredMessagesTo = 5*time.Minute, to, dead
		e, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: kind, Path: path, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		want := 5 * time.Minute
		if kind == event.Subscription && to != "" {
			want = event.Forever
		}
		if e.Properties.AutoDeleteOnIdle != want {
			t.Errorf("%s: AutoDeleteOnIdle %v", path, e.Properties.AutoDeleteOnIdle)
		}
	}
	put(event.Queue, "plain", "", "")
	put(event.Queue, "itself", "itself", "")
	put(event.Queue, "dead", "", "sb://host/plain")
	put(event.Topic, "topic", "", "")
	put(event.Subscription, "topic/Subscriptions/own", "topic", "")
	put(event.Topic, "other", "", "")
	put(event.Subscription, "other/Subscriptions/dead", "", "topic")
	there := func(want map[string]bool) {
		t.Helper()
		d.turn(6 * time.Minute)
		if err := b.collectIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for path, want := range want {
			if _, there := b.Find(path); there != want {
				t.Errorf("%s is there: %t", path, there)
			}
		}
	}
	there(map[string]bool{"plain": false, "itself": true, "dead": true, "topic": true, "topic/Subscriptions/own": true,
		"other": true, "other/Subscriptions/dead": true})
	put(event.Queue, "itself", "", "")
	d.turn(4 * time.Minute)
	if err := b.collectIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	there(map[string]bool{"itself": false, "dead": true})
}

// An update that changes nothing is recorded and moves UpdatedAt, but no watcher is told: links and
// session locks stay. Another spelling of the same value is no change, and rules are not among the
// entity's settings; watchers are told of any other change.
func TestUpdateThatChangesNothing(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	told := 0
	defer b.Watch(func(engine.Change) { told++ })()
	key := event.AccessRule{Name: "r", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "s"}
	queue, topic, sub := testQueue(), engine.DefaultProperties(event.Topic), engine.DefaultProperties(event.Subscription)
	queue.ForwardTo, queue.AccessRules = "Events", []event.AccessRule{key}
	sub.ForwardTo, sub.AutoDeleteOnIdle = "events", time.Hour
	topic.AccessRules = []event.AccessRule{}
	spelled, changed, idle, rules, window := queue, queue, sub, queue, queue
	window.DuplicateDetectionWindow += time.Minute // without duplicate detection
	spelled.ForwardTo = "sb://Host/events"
	changed.UserMetadata = "x"
	idle.AutoDeleteOnIdle = 2 * time.Hour // reads as the longest in any case
	rules.AccessRules = []event.AccessRule{{Name: "r", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "new"}}
	one := []event.Rule{sql("one", "1=1")}
	times := queue
	times.AccessRules = []event.AccessRule{{Name: "r", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "s", CreatedAt: 5, ModifiedAt: 6}}
	for _, c := range []struct {
		what         string
		cmd          engine.PutEntity
		moves, tells bool
	}{
		{"a new topic", engine.PutEntity{Kind: event.Topic, Path: "events", Properties: topic}, true, false},
		{"a new queue", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: queue}, true, false},
		{"a new subscription", engine.PutEntity{Kind: event.Subscription, Path: "events/Subscriptions/s", Properties: sub}, true, false},
		{"an update of the queue", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: queue, Mode: engine.UpdateOnly}, true, false},
		{"the same in a file", engine.PutEntity{Kind: event.Queue, Path: "Q", Properties: queue}, false, false},
		{"another spelling", engine.PutEntity{Kind: event.Queue, Path: "Q", Properties: spelled, Mode: engine.UpdateOnly}, true, false},
		{"the first spelling, in a file", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: queue}, false, false},
		{"other times of a key", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: times, Mode: engine.UpdateOnly}, true, false},
		{"an update of the topic", engine.PutEntity{Kind: event.Topic, Path: "events", Properties: topic, Mode: engine.UpdateOnly}, true, false},
		{"an update of the subscription", engine.PutEntity{Kind: event.Subscription, Path: "events/Subscriptions/s", Properties: idle, Mode: engine.UpdateOnly}, true, false},
		{"a window that means nothing", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: window, Mode: engine.UpdateOnly}, true, false},
		{"the window in a file", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: queue}, true, false},
		{"rules", engine.PutEntity{Kind: event.Subscription, Path: "events/Subscriptions/s", Properties: sub, Rules: one, OnlyRules: true}, false, false},
		{"a change", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: changed, Mode: engine.UpdateOnly}, true, true},
		{"back again, in a file", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: queue}, true, true},
		{"another key", engine.PutEntity{Kind: event.Queue, Path: "q", Properties: rules, Mode: engine.UpdateOnly}, true, true},
	} {
		d.turn(time.Second)
		told = 0
		e, err := b.PutEntity(t.Context(), c.cmd)
		if err != nil {
			t.Fatal(c.what, err)
		}
		if moves := e.UpdatedAt == b.Now(); moves != c.moves || told != 0 != c.tells {
			t.Errorf("%s: updated %v, told %d times", c.what, moves, told)
		}
		if found, _ := b.Find(c.cmd.Path); found.UpdatedAt != e.UpdatedAt {
			t.Errorf("%s: the directory has another version", c.what)
		}
	}
}

// MA-141: a key has the times when it was made and last changed, not those that a client claims. An
// update that leaves it as it is moves neither.
func TestTimesOfKeys(t *testing.T) {
	t.Parallel()
	d, dir := &manualTime{}, t.TempDir()
	b := openAt(t, dir, d)
	defer func() { b.close(t) }()
	key := func(name string, primary event.Secret) event.AccessRule {
		return event.AccessRule{Name: name, Rights: event.Rights{event.Send}, Primary: primary, Secondary: "s", CreatedAt: 5, ModifiedAt: 6}
	}
	put := func(mode engine.PutMode, keys ...event.AccessRule) (now event.Time) {
		t.Helper()
		d.turn(time.Second)
		p := testQueue()
		p.AccessRules = keys
		if _, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "q", Properties: p, Mode: mode}); err != nil {
			t.Fatal(err)
		}
		return b.Now()
	}
	has := func(want ...event.Time) {
		t.Helper()
		var got []event.Time
		for _, r := range b.must(t, "q").Properties.AccessRules {
			got = append(got, r.CreatedAt, r.ModifiedAt)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
	}
	one := put(engine.CreateOnly, key("a", "p"), key("b", "p"))
	has(one, one, one, one)
	two := put(engine.UpdateOnly, key("new", "p"), key("b", "other"), key("a", "p"))
	has(two, two, one, two, one, one)
	put(engine.UpdateOnly, key("new", "p"), key("b", "other"), key("a", "p"))
	has(two, two, one, two, one, one)
	put(engine.CreateOrUpdate, key("new", "p"), key("b", "other"), key("a", "p")) // a file
	has(two, two, one, two, one, one)
	more := key("A", "p")
	more.Rights = event.Rights{event.Send, event.Listen}
	six := put(engine.UpdateOnly, more)
	has(one, six)
	seven := put(engine.UpdateOnly, more, key("b", "other")) // made again
	has(one, six, seven, seven)
	b.close(t)
	b = openAt(t, dir, d)
	has(one, six, seven, seven)
}

// MA-140: a topic is accessed when one of its subscriptions is. That holds after the subscription
// is deleted, and over a start. Its own use counts as before.
func TestTopicIsAccessedWithItsSubscriptions(t *testing.T) {
	t.Parallel()
	d, dir := &manualTime{}, t.TempDir()
	b := openAt(t, dir, d)
	defer func() { b.close(t) }()
	accessed := func(want ...event.Time) {
		t.Helper()
		topics := b.List(event.Topic, "", 0, 9)
		all, err := b.Runtime(t.Context(), topics)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			if r.AccessedAt != want[i] {
				t.Errorf("%s: accessed at %v, not %v", topics[i].Path, r.AccessedAt, want[i])
			}
		}
	}
	turned := func() event.Time {
		d.turn(time.Hour)
		return b.Now()
	}
	one, near := b.entity(t, event.Topic, "one"), b.entity(t, event.Topic, "one-more")
	s := b.entity(t, event.Subscription, "one/Subscriptions/s")
	b.entity(t, event.Subscription, "one/Subscriptions/unused")
	other := b.entity(t, event.Subscription, "one-more/Subscriptions/s")
	accessed(0, 0)
	sent := turned()
	b.publish(t, one, "a", 0, nil)
	accessed(sent, 0)
	received := turned()
	b.holds(t, s)
	accessed(received, 0)
	looked := turned()
	b.holds(t, other)
	accessed(received, looked)
	again := turned()
	b.publish(t, near, "b", 0, nil)
	accessed(received, again)
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: s.Path, Reason: "client"}); err != nil {
		t.Fatal(err)
	}
	accessed(received, again)
	if err := b.collectIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.close(t)
	b = openAt(t, dir, d)
	accessed(received, again)
}
