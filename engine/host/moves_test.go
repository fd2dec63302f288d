package host

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
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

// SM-260, SM-261, SM-265: what is sent to a queue that forwards is received at the other one, in order, on the same log and on another.
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
