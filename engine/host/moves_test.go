package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// rereads is a [Options.Reread] of messages whose bodies begin with their ids.
func rereads(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error) {
	m := engine.Message{Body: stored, ID: stored[:min(len(stored), 16)], TimeToLive: max(ttl, 0)}
	if see != nil {
		see.Reset()
	}
	if len(changes) > 0 {
		return m, changes[len(changes)-1], nil
	}
	return m, nil, nil
}

// moving opens a namespace whose messages can move.
func moving(t testing.TB, dir string, partitions int) *broker {
	t.Helper()
	store, err := log.Open(context.Background(), dir, log.Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{Reread: rereads})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

func forwardTo(path string) event.Properties {
	p := testQueue()
	p.ForwardTo = path
	return p
}

// SM-260, SM-261, SM-265: messages sent to a queue that forwards are received at its destination,
// in order, on the same log and on another.
func TestForward(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			b := moving(t, t.TempDir(), partitions)
			defer b.close(t)
			to := b.queue(t, "b", testQueue())
			from := b.queue(t, "a", forwardTo("b"))
			if (from.Host(0) == to.Host(0)) != (partitions == 1) {
				t.Fatal("not where they should be")
			}
			const n = 1000
			b.send(t, from, n)
			_, got := b.receiver(to, 1, n)
			for i, r := range got.wait(n) {
				if d := r.Delivery(); d.EnqueuedSequence != event.SequenceNumber(i+1) || d.DeliveryCount != 0 {
					t.Fatalf("message %d: %+v", i, d)
				}
			}
		})
	}
}

// Decision 35: messages of an entity whose ForwardTo an older version ignored, and their dead
// letters, move from the next start on; one line of the log says so, once.
func TestForwardKeptByAnOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir) // which moves nothing
	to := b.queue(t, "b", testQueue())
	from := b.queue(t, "a", forwardTo("b"))
	b.queue(t, "idle", forwardTo("b"))
	b.send(t, from, 3)
	b.close(t)
	for _, said := range []int{1, 0} {
		store, err := log.Open(context.Background(), dir, log.Options{Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		n, err := Open(context.Background(), store, Options{Reread: rereads, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil {
			t.Fatal(err)
		}
		b := &broker{n, store}
		b.comesToHold(t, to, 3, 0)
		b.comesToHold(t, from, 0, 0)
		b.close(t)
		if got := strings.Count(text.String(), `older version of the broker kept" entities=[a] messages=3`); got != said {
			t.Errorf("said %d times:\n%s", got, text.String())
		}
	}
}

// P23: while messages move in a ring of queues, groups of frames stay small, so a send to one of
// the queues waits for no more than two groups.
func TestRingLeavesOthersTheirTurn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 21, 2)
	f.put(event.Queue, "b", testQueue())
	f.put(event.Queue, "a", testQueue())
	a := f.directory.find("a")
	cmd := &engine.Send{Entity: a, Slice: event.Slice{Entity: a.ID}}
	for i := range 2000 {
		cmd.Messages = append(cmd.Messages, engine.Message{ID: fmt.Append(nil, i), Body: fmt.Appendf(nil, "%01000d", i)})
	}
	f.must(f.ask(a.Hosts[0], cmd).Err)
	f.settle()
	f.put(event.Queue, "b", forwardTo("a"))
	f.put(event.Queue, "a", forwardTo("b"))
	for _, w := range f.writers {
		w.largest = 0
	}
	largest := 0
	for steps := 0; steps < 100 || !f.quiet(); steps++ {
		f.step()
		for _, w := range f.writers {
			largest = max(largest, w.largest)
		}
	}
	if n := f.rules[a.Hosts[0]].Index().Count(event.Slice{Entity: a.ID}, event.DeadLetter, index.Active); n != 2000 {
		t.Errorf("%d have made their four moves", n)
	}
	if limit := 2 * (maxBackground + 300<<10); largest > limit {
		t.Errorf("a group of %d bytes, at most %d", largest, limit)
	}
}
