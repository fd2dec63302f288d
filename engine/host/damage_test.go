package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
)

// SM-365, F4, P24, I27: a partition whose log is damaged is refused and answers Busy; the others
// are served.
func TestDamagedPartitionIsContained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	byHost := map[engine.PartitionID]engine.Target{}
	for i := 0; len(byHost) < 2; i++ {
		q := b.queue(t, fmt.Sprintf("q%d", i), testQueue())
		byHost[q.Host(0)] = q
		b.send(t, q, 3)
	}
	b.close(t)

	segments, err := filepath.Glob(filepath.Join(dir, "partitions", "01", "wal", "*", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	bytes, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)-20] ^= 1
	if err := os.WriteFile(segments[0], bytes, 0o600); err != nil {
		t.Fatal(err)
	}

	b = open(t, dir)
	var corrupt *log.CorruptError
	if err := b.Recovered()[1].Err; !errors.As(err, &corrupt) {
		t.Fatalf("partition 1: %v", err)
	}
	b.send(t, byHost[0], 1)
	in := newInbox()
	q := byHost[1]
	b.Submit(1, []engine.Request{{Sink: in, Command: &engine.Send{Slice: q.Slice(0), Messages: []engine.Message{{Body: []byte("x")}}}}})
	var refusal *engine.Error
	if err := in.wait(1)[0].Err; !errors.As(err, &refusal) || refusal.Code != engine.Busy {
		t.Fatalf("send to the refused partition: %v", err)
	}
	made := b.administerBeside(t, byHost)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(segments[0])
	if err != nil || string(after) != string(bytes) {
		t.Fatalf("the damaged file was touched: %v", err)
	}
	b = open(t, dir)
	defer b.close(t)
	b.send(t, made, 1) // skipped ids leave no gap in the log
}

// administerBeside checks that everything can be administered that needs nothing from partition 1,
// which is refused (P24), and returns a queue that it has made.
func (b *broker) administerBeside(t *testing.T, byHost map[engine.PartitionID]engine.Target) (made engine.Target) {
	t.Helper()
	run, err := b.Runtime(t.Context(), []*engine.Entity{byHost[1].Entity, byHost[0].Entity})
	if err != nil || !run[0].Unknown || run[0].Total() != 0 || run[1].Unknown || run[1].Active != 4 {
		t.Errorf("%+v, %v; want run[0].Unknown && run[0].Total() == 0 && !run[1].Unknown && run[1].Active == 4", run, err)
	}
	last := max(byHost[0].Entity.ID, byHost[1].Entity.ID)
	for i := range 8 { // some of the next ids would be on partition 1
		made = b.queue(t, fmt.Sprintf("new%d", i), testQueue())
		if made.Host(0) != 0 || made.Entity.ID <= last {
			t.Errorf("queue %d after %d, on partition %d", made.Entity.ID, last, made.Host(0))
		}
		last = made.Entity.ID
		b.send(t, made, 1)
	}
	lost := byHost[1].Entity.Path
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: lost}); err != nil {
		t.Error(err)
	}
	b.send(t, b.queue(t, lost, testQueue()), 1)
	return made
}

// SM-365, F4: a damaged catalogue refuses the directory.
func TestDamagedCatalogueRefusesTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	b.queue(t, "orders", testQueue())
	b.close(t)
	segments, _ := filepath.Glob(filepath.Join(dir, "partitions", "00", "wal", "*", "*"))
	if err := os.Truncate(segments[0], 100); err != nil {
		t.Fatal(err)
	}
	store, err := log.Open(context.Background(), dir, log.Options{})
	if err == nil {
		_, err = Open(context.Background(), store, Options{})
		store.Close()
	}
	var corrupt *log.CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("got %v", err)
	}
}
