package host

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/disk"
)

const (
	burstTime  = 5 * time.Minute // time until the disk space has to be free again
	burstStays = 10              // seconds that it then has to stay free
)

// TestSpaceBurst: after 2 GiB were sent and then settled, and no history is kept, the directory is
// back under its bound within five minutes, and stays there: sampled each second. It takes half a
// minute or so, and a disk with room.
func TestSpaceBurst(t *testing.T) {
	if !*spaceBurst {
		t.Skip("writes 2 GiB and more: -space-burst")
	}
	burst(t, *spaceBytes)
}

// burstCost is what a burst took, in bytes, and how long until the disk space was free again.
type burstCost struct {
	sent, then int64
	until      time.Duration
}

// burst sends that many bytes of messages to all queues, completes them all, and waits until the
// directory is back under its bound.
func burst(tb testing.TB, bytes int64) (is burstCost) {
	tb.Helper()
	needs := 2*bytes + 4<<30 // all of it as written and sealed, and free space for the broker
	if space, err := (disk.OS{}).Free(tb.TempDir()); err != nil || space.Free < needs {
		tb.Fatalf("the temporary directory needs %d MiB, and has %d: set TMPDIR to another one (%v)", needs>>20, space.Free>>20, err)
	}
	r := openRoomy(tb, 4, 10*time.Minute, keepNothing)
	defer r.end()
	// commands for each queue, of messages that are a little longer
	n := int(bytes/1000/int64(len(r.queues))/100 + 1)
	each := func(do func(i int, q engine.Target)) {
		var wg sync.WaitGroup
		for i, q := range r.queues {
			wg.Go(func() { do(i, q) })
		}
		wg.Wait()
	}
	began := time.Now()
	each(func(i int, q engine.Target) {
		rng, in := rand.New(rand.NewPCG(uint64(i), 7)), newInbox()
		for range n {
			r.send(q, in, 100, rng)
		}
	})
	is.sent = r.takes()
	tb.Logf("%d MiB of messages were sent in %v: the disk takes %d MiB, of %d", r.waits.Load()>>20, time.Since(began).Round(time.Millisecond), is.sent>>20, r.bound()>>20)
	began = time.Now()
	each(func(_ int, q engine.Target) {
		in := newInbox()
		to, limit := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 1}, uint32(0)
		r.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: to}}})
		for range n {
			r.settle(q, to, &limit, in, 100)
		}
	})
	settled, most := time.Now(), r.bound()
	is.then = r.takes()
	tb.Logf("they were settled in %v: it takes %d MiB, and may take %d", time.Since(began).Round(time.Millisecond), is.then>>20, most>>20)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for under := 0; under < burstStays; {
		<-tick.C
		now := r.takes()
		if is.then = now; now <= most {
			if under++; under == 1 {
				is.until = time.Since(settled)
			}
			continue
		}
		if under > 0 {
			tb.Errorf("%d MiB again, after %d samples within the bound", now>>20, under)
		}
		if under = 0; time.Since(settled) > burstTime {
			tb.Fatalf("%d MiB after %v, of %d that it may take", now>>20, burstTime, most>>20)
		}
	}
	tb.Logf("within %v it was back under that, and %d seconds later it takes %d MiB", is.until.Round(time.Millisecond), burstStays, is.then>>20)
	return is
}
