package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// put asks a partition for a queue and applies what comes of it.
func put(p *Partition, path string) error {
	out := p.Decide(1, &PutEntity{Kind: event.Queue, Path: path, Properties: testQueue()})
	for _, ev := range out.Events {
		p.Apply(1, ev)
	}
	return out.Reply.Err
}

// SM-326, SM-102: how long a path may be, in characters, and that no queue is made in the place of a sub-queue. Which
// characters a path may have is decided by package settings.
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
			t.Errorf("%q: %v", path, err)
		}
		if n := p.index.Catalogue.Roots(); (n == 2) != (want == 0) {
			t.Errorf("%q: %d entities", path, n)
		}
	}
}

// SM-321: one queue more than a namespace may have. Those that exist can be changed, and a deleted one makes room.
func TestTooManyEntities(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	for i := range maxEntities {
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

// SM-311: a path is found in any letter case, and shown as it was written first, over changes and a start.
func TestLetterCaseOfPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	defer func() { b.close(t) }()
	shown := func(path string) {
		t.Helper()
		target, err := b.Resolve(path)
		if err != nil || target.Entity.Path != "Orders/EU" || len(b.Entities()) != 1 {
			t.Errorf("%s: %+v, %v; %d entities", path, target.Entity, err, len(b.Entities()))
		}
	}
	b.queue(t, "Orders/EU", testQueue())
	shown("orders/eu")
	changed := testQueue()
	changed.LockDuration = time.Minute
	if e, err := b.PutEntity(t.Context(), PutEntity{Kind: event.Queue, Path: "ORDERS/EU", Properties: changed}); err != nil || e.Path != "Orders/EU" {
		t.Errorf("%+v, %v", e, err)
	}
	shown("ORDERS/eu/$DEADLETTERQUEUE")
	b.close(t)
	b = open(t, dir)
	shown("oRDERS/eU")
}

// SM-102: a dead-letter queue is not listed and not deleted alone; with its queue it is gone, messages and all.
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
		b.Submit(q.Host(0), []Request{{Sink: in, Command: &Peek{Slice: q.Slice(0), SubQueue: q.SubQueue, Count: 9, MaxBytes: 1000}}})
		r := in.wait(1)[0]
		return len(r.Messages), r.Err
	}
	q := b.queue(t, "orders", testQueue())
	b.send(t, q, 1)
	_, got := b.receiver(q, 1, 1)
	in := newInbox()
	b.Submit(q.Host(0), []Request{{Sink: in, Command: &Settle{Slice: q.Slice(0), Token: got.wait(1)[0].Delivery.Token, Outcome: MoveToDeadLetter}}})
	in.wait(1)
	if n, err := one(dead); n != 1 || err != nil {
		t.Fatalf("%d messages, %v", n, err)
	}
	if all := b.Entities(); len(all) != 1 || all[0].Path != "orders" {
		t.Errorf("there are %+v", all)
	}
	if _, err := b.PutEntity(t.Context(), PutEntity{Kind: event.Queue, Path: dead, Properties: testQueue()}); err == nil {
		t.Error("created or changed")
	}
	if err := b.DeleteEntity(t.Context(), DeleteEntity{Path: dead}); err == nil {
		t.Error("deleted alone")
	}
	if n, err := one(dead); n != 1 || err != nil {
		t.Errorf("after what was refused: %d messages, %v", n, err)
	}
	if err := b.DeleteEntity(t.Context(), DeleteEntity{Path: "orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := one(dead); code(err) != NotFound {
		t.Errorf("without its queue: %v", err)
	}
	b.queue(t, "orders", testQueue())
	if n, err := one(dead); n != 0 || err != nil {
		t.Errorf("of a new queue: %d messages, %v", n, err)
	}
}
