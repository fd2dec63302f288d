package host

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/log"
)

// F4, F5: a flipped bit in a sealed file, in a part that a start does not read, is found while the
// broker runs: the log names file, byte and messages, /health and the list of partitions say so,
// sends are refused and existing messages can be received. A broker that is started again finds the
// damage at once.
func TestScrub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := leanBroker(t, dir)
	q := b.queue(t, "orders", testQueue())
	b.sendMany(t, q, 200)
	b.compact(t, keepBodies)
	var said bytes.Buffer
	scrub := func(wanted int) {
		t.Helper()
		said.Reset()
		b.logger = slog.New(slog.NewTextHandler(&said, nil))
		v := background.Scrub{Of: b.surroundings(), Every: 7 * 24 * time.Hour}
		for range wanted {
			if !v.Look(t.Context()) {
				break
			}
		}
	}
	scrub(1000)
	if v := (&background.Scrub{Of: b.surroundings(), Every: 7 * 24 * time.Hour}); b.Partitions()[0].Scrubbed == 0 || b.Conditions() != nil || v.Look(t.Context()) || !strings.Contains(said.String(), "log scrubbed") {
		t.Errorf("a whole log: %+v %+v\n%s", b.Partitions(), b.Conditions(), said.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "partitions/00/sealed/*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%+v %+v; want len(files) >= 2", files, err)
	}
	p, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	p[len(p)/2] ^= 1 // of a body
	if err := os.WriteFile(files[1], p, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, over, err := b.slots[0].running.Load().log.(log.Scrubber).Scrub(t.Context()); err != nil || over {
			break
		}
	}
	b.logger = slog.New(slog.DiscardHandler)
	b.close(t)
	b = leanBroker(t, dir)
	defer b.close(t)
	if q, err = b.Resolve("orders"); err != nil {
		t.Fatal(err)
	}
	scrub(1) // the file that was damaged is read first
	b.wantsRot(t, q, filepath.Base(files[1]), said.String())
	b.complete(t, q, 10)
}

// wantsRot checks what the broker reports about a damaged file, and what it refuses.
func (b *broker) wantsRot(t *testing.T, q engine.Target, file, said string) {
	t.Helper()
	if !strings.Contains(said, file) || !strings.Contains(said, "orders#") || !strings.Contains(said, "byte=") {
		t.Errorf("the log says\n%s", said)
	}
	if c := b.Conditions(); len(c) != 1 || c[0].State != dataDamaged || c[0].Partition != 0 || c[0].Cause != "1 file" {
		t.Errorf("conditions %+v", c)
	}
	if s := b.Partitions()[0]; s.State != engine.PartitionServing || !strings.Contains(s.Cause, file) {
		t.Errorf("partition %+v", s)
	}
	var refusal *engine.Error
	if err := b.sendOne(q, 1); !errors.As(err, &refusal) || refusal.Code != engine.Busy {
		t.Errorf("a send: %v", err)
	}
	if b.Health(t.Context()) == nil {
		t.Error("is healthy")
	}
}
