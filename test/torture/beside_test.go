package torture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools"
)

// TestReadersBeside reads the data directory again and again while the broker works and is killed:
// it is never damaged, and what was read of a log once stands at the beginning of all that is read
// of it later, after every kill and at the end (decision 47, planted bug C6 with the real files).
func TestReadersBeside(t *testing.T) {
	r := newRig(t, harness.Build(t, t.TempDir()), entities, firstSeed(), *rounds)
	r.serves = func(*rand.Rand) time.Duration { return 2 * time.Second }
	ctx, stop := context.WithCancel(t.Context())
	reader := &onlooker{T: t, dir: r.data, seen: map[int]history{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			reader.look()
		}
	}()
	r.run()
	stop()
	<-done
	r.drain()
	r.end()
	r.wantSealed()
	reader.look()
	if leases, err := filepath.Glob(filepath.Join(r.data, "lease-*")); err != nil || len(leases) > 0 {
		t.Errorf("leases are left: %q, %v", leases, err)
	}
	t.Logf("%d kills, the directory was read %d times, %d times a broker was started meanwhile, %d bytes at last", r.figures.kills, reader.looks, reader.changed, reader.seen[0].size)
	if reader.looks < *rounds {
		t.Error("it was read too seldom to say anything")
	}
}

// onlooker reads the directory of a broker.
type onlooker struct {
	*testing.T
	dir            string
	seen           map[int]history
	looks, changed int
}

// history is what was read of a log.
type history struct {
	size int64
	sum  [sha256.Size]byte
}

// look reads every log of the directory twice, and compares the first with what it saw before.
func (o *onlooker) look() {
	for partition := range 4 {
		before := o.seen[partition]
		out := &prefix{hash: sha256.New(), at: before.size}
		err := tools.Dump(out, o.dir, tools.DumpOptions{Partition: partition, Beside: tools.Beside{Live: true}})
		if o.ended(err) {
			return
		}
		if out.sum != before.sum && before.size > 0 || out.size < before.size {
			o.Errorf("partition %d: what was read before, %d bytes, is not what %d bytes begin with now", partition, before.size, out.size)
		}
		o.seen[partition] = history{out.size, [sha256.Size]byte(out.hash.Sum(nil))}
	}
	var said bytes.Buffer
	found, err := tools.Verify(&said, o.dir, tools.VerifyOptions{Beside: tools.Beside{Live: true}})
	if o.ended(err) {
		return
	}
	if found.Places > 0 || found.Tail > 0 {
		o.Errorf("damage beside the broker:\n%s", said.String())
	}
	o.looks++
}

// ended reports whether a reading broke off, for which a broker that was started meanwhile is the
// only good reason.
func (o *onlooker) ended(err error) bool {
	switch {
	case errors.Is(err, log.ErrChanged):
		o.changed++
	case err != nil && !errors.Is(err, os.ErrNotExist): // the directory is being made
		o.Error(err)
	}
	return err != nil
}

// prefix sums what is written, and notes the sum of its first bytes.
type prefix struct {
	hash hash.Hash
	size int64
	at   int64 // how many
	sum  [sha256.Size]byte
}

func (p *prefix) Write(b []byte) (int, error) {
	n := len(b)
	if p.size < p.at && p.size+int64(n) >= p.at {
		head := p.at - p.size
		p.hash.Write(b[:head])
		p.sum = [sha256.Size]byte(p.hash.Sum(nil))
		p.size, b = p.at, b[head:]
	}
	p.hash.Write(b)
	p.size += int64(len(b))
	return n, nil
}
