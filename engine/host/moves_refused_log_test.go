package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// damageLog flips a bit of the first segment of partition 1, and returns a function that repairs
// it.
func damageLog(t *testing.T, dir string) (repair func()) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "partitions", "01", "wal", "*", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	good, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	bad[len(bad)-20] ^= 1
	put := func(b []byte) {
		if err := os.WriteFile(segments[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(bad)
	return func() { put(good) }
}

// comesToHold waits until an entity has that many active messages and that many in transfer.
func (b *broker) comesToHold(t *testing.T, q engine.Target, active, transfer int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		r, err := b.Runtime(t.Context(), []*engine.Entity{q.Entity})
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Active == active && r[0].Transfer == transfer {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %d active and %d in transfer, want %d and %d", q.Entity.Path, r[0].Active, r[0].Transfer, active, transfer)
		}
	}
}

// placed makes queues until one is in a partition.
func (b *broker) placed(t *testing.T, in engine.PartitionID, path string, p event.Properties) engine.Target {
	t.Helper()
	for {
		q := b.queue(t, path, p)
		if q.Host(0) == in {
			return q
		}
		if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: path}); err != nil {
			t.Fatal(err)
		}
		b.queue(t, "filler"+path, testQueue())
	}
}

// P24, decision 35: while the log of a destination is refused, messages wait in transfer, and
// arrive without help when the log is back; while the log of a source is refused, its arrivals stay
// known.
func TestMovesWithARefusedLog(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"destination", "source"} {
		t.Run(refused, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := moving(t, dir, 2)
			hosts := map[string][2]engine.PartitionID{"destination": {0, 1}, "source": {1, 0}}[refused]
			to := b.placed(t, hosts[1], "b", testQueue())
			from := b.placed(t, hosts[0], "a", forwardTo("b"))
			b.send(t, from, 3)
			b.comesToHold(t, to, 3, 0)
			b.comesToHold(t, from, 0, 0)
			b.close(t)
			repair := damageLog(t, dir)

			b = moving(t, dir, 2)
			if refused == "destination" {
				b.send(t, from, 2)
				b.comesToHold(t, from, 0, 2)
			} else {
				b.comesToHold(t, to, 3, 0)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if err := b.store.Close(); err != nil {
				t.Fatal(err)
			}
			repair()

			b = moving(t, dir, 2)
			defer b.close(t)
			if refused == "source" {
				b.send(t, from, 2)
			}
			b.comesToHold(t, to, 5, 0)
			b.comesToHold(t, from, 0, 0)
		})
	}
}
