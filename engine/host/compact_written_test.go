package host

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
)

// countingDisk is a disk that counts written bytes.
type countingDisk struct {
	disk.FS
	bytes *atomic.Int64
}

func (c countingDisk) Create(name string) (disk.File, error) {
	f, err := c.FS.Create(name)
	return countedFile{f, c.bytes}, err
}

type countedFile struct {
	disk.File
	bytes *atomic.Int64
}

func (f countedFile) Write(p []byte) (int, error) {
	f.bytes.Add(int64(len(p)))
	return f.File.Write(p)
}

func (f countedFile) WriteAt(p []byte, off int64) (int, error) {
	f.bytes.Add(int64(len(p)))
	return f.File.WriteAt(p, off)
}

// invoice returns a JSON message of about a kilobyte; a fifth of it is random.
func invoice(rng *rand.Rand, n int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"orderId":"%016x","customer":"c-%d","createdAt":"2030-01-01T00:%02d:%02d.%03dZ","lines":[`, rng.Uint64(), rng.IntN(9000), n/60%60, n%60, rng.IntN(1000))
	for i := range 7 {
		fmt.Fprintf(&b, `{"line":%d,"articleNumber":"A-%06d","description":"Replacement filter cartridge, standard size","quantity":%d,"unitPrice":"%d.%02d"},`, i,
			rng.IntN(1e6), 1+rng.IntN(9), rng.IntN(200), rng.IntN(100))
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + "]}")
}

// Bytes written through the file system, for each byte of frames: at most 1.6 with events kept and
// bodies not, although every chapter is sealed at once and so its dead bodies are sealed as well;
// at most 2.2 with bodies kept. Checkpoints and bases are not included, nor incompressible data: a
// message is a fifth random.
func TestBytesWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep background.KeepRules
		most float64
	}{"without bodies": {background.KeepRules{}, 1.6}, "with bodies": {keepBodies, 2.2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written := new(atomic.Int64)
			store, err := log.Open(t.Context(), t.TempDir(), log.Options{FS: countingDisk{disk.OS{}, written}, Partitions: 1, SegmentBytes: 256 << 10, ChapterBytes: 512 << 10, RoomBytes: -1, SealAfter: -1})
			if err != nil {
				t.Fatal(err)
			}
			n, err := Open(t.Context(), store, Options{CheckpointBytes: -1})
			if err != nil {
				t.Fatal(err)
			}
			b := &broker{n, store}
			defer b.close(t)
			q := b.queue(t, "orders", testQueue())
			rng, in := rand.New(rand.NewPCG(3, 50)), newInbox()
			before := written.Load()
			_, from := b.slots[0].running.Load().log.Bounds()
			for round := range 16 {
				for i := range 256 {
					body := invoice(rng, i)
					b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: body[12:28], Body: body}}}}})
				}
				for _, r := range in.wait(256) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				b.complete(t, q, 256)
				if round%4 == 3 {
					b.compact(t, c.keep)
				}
			}
			_, to := b.slots[0].running.Load().log.Bounds()
			ratio := float64(written.Load()-before) / float64(to-from)
			t.Logf("%.2f", ratio)
			if ratio > c.most || ratio < 1 {
				t.Errorf("%.2f bytes are written for each of a frame, %.1f are allowed", ratio, c.most)
			}
		})
	}
}
