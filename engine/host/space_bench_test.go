package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The cost of freeing space, on a disk, without AMQP: messages of about 1 KiB of JSON, a fifth of
// it random. Run each benchmark once (-benchtime 1x); figures are in docs/performance.md.

var (
	spaceBytes = flag.Int64("space-bytes", 2<<30, "of messages that pass in a benchmark of space")
	spaceFor   = flag.Duration("space-for", 30*time.Second, "how long a benchmark of space goes on at a steady rate")
	spacePairs = flag.Int("space-pairs", 5, "comparisons in a benchmark of space that compares")
	spaceWait  = flag.Int("space-waiting", 10_000_000, "messages that wait in BenchmarkSpaceStops")
	spaceBurst = flag.Bool("space-burst", false, "run TestSpaceBurst")
	spaceCold  = flag.Int("space-cold", 1_000_000, "messages that wait in BenchmarkSpaceCold")
)

// logger logs what is deleted, with -v.
func logger() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// keepNothing is a policy that keeps no history.
var keepNothing = event.HistoryPolicy{Events: event.KeepNone, Bodies: event.KeepNone, Undo: event.KeepNone}

// countedBroker is a broker on a disk that counts each written byte.
type countedBroker struct {
	*broker
	tb      testing.TB
	dir     string
	written *atomic.Int64
	queues  []engine.Target
	waits   atomic.Int64 // bytes of waiting messages
	bodies  [][]byte
	// staying, unless nil, is a queue in each partition to which a message is sent for each
	// stayBytes that pass: it waits forever.
	staying   []engine.Target
	stayBytes int64
}

func openRoomy(tb testing.TB, partitions int, sealAfter time.Duration, policy event.HistoryPolicy) *countedBroker {
	tb.Helper()
	r := &countedBroker{tb: tb, dir: tb.TempDir(), written: new(atomic.Int64)}
	rng := rand.New(rand.NewPCG(16, 61))
	for i := range 5000 {
		r.bodies = append(r.bodies, invoice(rng, i))
	}
	r.open(partitions, sealAfter, policy)
	return r
}

// open opens the directory, for the first time or again.
func (r *countedBroker) open(partitions int, sealAfter time.Duration, policy event.HistoryPolicy) {
	r.tb.Helper()
	var files disk.FS = countingDisk{disk.OS{}, r.written}
	if *spaceSlow > 0 {
		files = newSlowDisk(files, logger())
	}
	store, err := log.Open(context.Background(), r.dir, log.Options{FS: files, Logger: logger(), Partitions: partitions, SealAfter: sealAfter, ReserveBytes: 64 << 20})
	if err != nil {
		r.tb.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{Logger: logger(), History: engine.PutHistoryPolicy{Policy: policy, Share: 100}})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.broker, r.queues = &broker{n, store}, r.inEach(n, "queue", partitions)
}

// inEach creates queues until there is one in each partition, and returns those in the order of
// their creation.
func (r *countedBroker) inEach(n *Namespace, name string, partitions int) (list []engine.Target) {
	r.tb.Helper()
	on := map[engine.PartitionID]bool{}
	for i := 0; len(on) < partitions; i++ {
		p := testQueue()
		p.MaxSizeMegabytes = 80 << 10
		e, err := n.PutEntity(context.Background(), engine.PutEntity{Path: fmt.Sprintf("%s-%d", name, i), Kind: event.Queue, Properties: p})
		if err != nil {
			r.tb.Fatal(err)
		}
		if q := (engine.Target{Entity: e}); !on[q.Host(0)] {
			on[q.Host(0)] = true
			list = append(list, q)
		}
	}
	return list
}

func (r *countedBroker) end() {
	if err := errors.Join(r.Close(), r.store.Close()); err != nil {
		r.tb.Error(err)
	}
}

// send sends messages to a queue in one command.
func (r *countedBroker) send(q engine.Target, in *inbox, n int, rng *rand.Rand) {
	cmd := &engine.Send{Entity: q.Entity, Slice: q.Slice(0)}
	size := 0
	for range n {
		body := r.bodies[rng.IntN(len(r.bodies))]
		cmd.Messages = append(cmd.Messages, engine.Message{ID: fmt.Appendf(nil, "%016x", rng.Uint64()), Body: body})
		size += len(body)
	}
	r.waits.Add(int64(size))
	r.Submit(q.Host(0), []engine.Request{{Command: cmd, Sink: in}})
	if reply := in.wait(1)[0]; reply.Err != nil {
		r.tb.Error(reply.Err)
	}
}

// settle receives messages of a queue and completes them.
func (r *countedBroker) settle(q engine.Target, to *engine.Receiver, limit *uint32, in *inbox, n int) {
	*limit += uint32(n)
	r.Submit(q.Host(0), []engine.Request{{Command: &engine.Flow{Receiver: to, Limit: *limit}}})
	size := 0
	var done []engine.Request
	for _, d := range in.wait(n) {
		size += int(d.Delivery().Body.Size)
		done = append(done, engine.Request{Sink: in, Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: d.Delivery().Token, Outcome: engine.Complete}})
	}
	r.Submit(q.Host(0), done)
	for _, d := range in.wait(n) {
		if d.Err != nil {
			r.tb.Error(d.Err)
		}
	}
	r.waits.Add(-int64(size))
}

// pass sends messages through all queues and completes them, 100 at a time, until over returns
// true.
func (r *countedBroker) pass(over func(bytes int64) bool) (messages int64) {
	var bytes, count atomic.Int64
	var wg sync.WaitGroup
	for i, q := range r.queues {
		for j := range 4 {
			wg.Go(func() {
				rng, in := rand.New(rand.NewPCG(uint64(i), uint64(j))), newInbox()
				to, limit := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 1}, uint32(0)
				r.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: to}}})
				passed := int64(0)
				for !over(bytes.Load()) {
					r.send(q, in, 100, rng)
					r.settle(q, to, &limit, in, 100)
					bytes.Add(100 * 1100)
					count.Add(100)
					// four of these run in a partition
					if passed += 100 * 1100; r.staying != nil && passed > r.stayBytes/4 {
						passed = 0
						r.stay(q, in, rng)
					}
				}
				r.Submit(q.Host(0), []engine.Request{{Command: &engine.Detach{Receiver: to}, Sink: in}})
				in.wait(1)
			})
		}
	}
	wg.Wait()
	return count.Load()
}

// stay sends a message that waits forever to the partition of a queue.
func (r *countedBroker) stay(beside engine.Target, in *inbox, rng *rand.Rand) {
	for _, q := range r.staying {
		if q.Host(0) == beside.Host(0) {
			r.send(q, in, 1, rng)
		}
	}
}

// takes returns how much of the disk the directory takes.
func (r *countedBroker) takes() (bytes int64) {
	_ = filepath.WalkDir(r.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it was just removed
		}
		if info, err := os.Lstat(name); err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return bytes
}

// bound returns how much of the disk the directory may take.
func (r *countedBroker) bound() int64 {
	return 2*r.waits.Load() + int64(len(r.queues))*128<<20 + 512<<20
}

// logged returns how many bytes of frames there ever were.
func (r *countedBroker) logged() (bytes int64) {
	for i := range r.slots {
		_, end := r.slots[i].running.Load().log.Bounds()
		bytes += int64(end)
	}
	return bytes
}

// watch measures each second how much the directory takes, until the function it returns is called;
// that returns the most it took, and the highest bound.
func (r *countedBroker) watch() (end func() (most int64, of float64)) {
	over, told := make(chan struct{}), make(chan struct{})
	var most int64
	var of float64
	go func() {
		defer close(told)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				is := r.takes()
				most, of = max(most, is), max(of, float64(is)/float64(r.bound()))
			case <-over:
				return
			}
		}
	}()
	return func() (int64, float64) { close(over); <-told; return most, of }
}

// BenchmarkSpaceSteady: messages are sent and completed at full rate, and no history is kept. The
// space on the disk is sampled each second.
func BenchmarkSpaceSteady(b *testing.B) { spaceSteady(b, false) }

// BenchmarkSpaceStaying is BenchmarkSpaceSteady with one message in each 16 MiB that stays, so
// several in each chapter.
func BenchmarkSpaceStaying(b *testing.B) { spaceSteady(b, true) }

func spaceSteady(b *testing.B, stays bool) {
	for range b.N {
		r := openRoomy(b, 4, 10*time.Minute, keepNothing)
		if stays {
			r.staying, r.stayBytes = r.inEach(r.Namespace, "staying", 4), 16<<20
		}
		from, before, began := r.logged(), r.written.Load(), time.Now()
		end := r.watch()
		n := r.pass(func(int64) bool { return time.Since(began) > *spaceFor })
		took := time.Since(began)
		most, of := end()
		b.ReportMetric(float64(n)/took.Seconds(), "msg/s")
		b.ReportMetric(float64(most)/(1<<20), "MiB-most")
		b.ReportMetric(of, "of-bound")
		b.ReportMetric(float64(r.written.Load()-before)/float64(r.logged()-from), "written/logged")
		b.ReportMetric(float64(r.logged()-from)/(1<<20), "MiB-logged")
		b.Logf("%d messages, %d MiB at most, %.2f of what it may take, %d MiB of frames, %d MiB written", n, most>>20, of, (r.logged()-from)>>20, (r.written.Load()-before)>>20)
		if of > 1 {
			b.Error("that is too much")
		}
		r.end()
	}
}

// BenchmarkSpaceBurst: spaceBytes of messages are sent, then all messages are completed; it
// measures how long it takes until the disk space is free again.
func BenchmarkSpaceBurst(b *testing.B) {
	for range b.N {
		is := burst(b, *spaceBytes)
		b.ReportMetric(float64(is.sent)/(1<<20), "MiB-sent")
		b.ReportMetric(float64(is.then)/(1<<20), "MiB-then")
		b.ReportMetric(is.until.Seconds(), "s-until")
	}
}

// BenchmarkSpaceWritten: bytes written for each byte of frames, while chapters are sealed at once,
// with events kept and bodies not, and with both kept; checkpoints and bases included.
func BenchmarkSpaceWritten(b *testing.B) {
	for name, c := range map[string]struct {
		policy event.HistoryPolicy
		most   float64
	}{
		"events":            {event.HistoryPolicy{Events: event.KeepForever, Bodies: event.KeepNone, Undo: event.KeepNone}, 1.6},
		"events and bodies": {event.HistoryPolicy{Events: event.KeepForever, Bodies: event.KeepForever, Undo: event.KeepForever}, 2.2},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r := openRoomy(b, 1, -1, c.policy)
				from, before := r.logged(), r.written.Load()
				r.pass(func(bytes int64) bool { return bytes > *spaceBytes })
				// retention looks once a minute, and a round of compaction waits for its readers
				time.Sleep(105 * time.Second)
				rate := float64(r.written.Load()-before) / float64(r.logged()-from)
				b.ReportMetric(rate, "written/logged")
				b.ReportMetric(float64(r.takes())/(1<<20), "MiB-then")
				if rate > c.most {
					b.Errorf("%.2f, at most %.2f", rate, c.most)
				}
				r.end()
			}
		})
	}
}

// BenchmarkSpaceCold: messages wait in one queue while others pass through another one of the same
// log: it measures how often the waiting bodies are written, and memory. The heap is the live heap
// after a collection, before and after they passed, and in between what the collector found alive,
// sampled each second: the least of the first and of the last third, and the most. It varies with
// the rows of the state, which exist twice during the replay that proves a base.
func BenchmarkSpaceCold(b *testing.B) {
	for range b.N {
		r := openRoomy(b, 1, 10*time.Minute, keepNothing)
		p := testQueue()
		p.MaxSizeMegabytes = 80 << 10
		e, err := r.PutEntity(context.Background(), engine.PutEntity{Path: "cold", Kind: event.Queue, Properties: p})
		if err != nil {
			b.Fatal(err)
		}
		rng, in := rand.New(rand.NewPCG(8, 8)), newInbox()
		for range *spaceCold / 100 {
			r.send(engine.Target{Entity: e}, in, 100, rng)
		}
		part := r.slots[0].running.Load().log
		_, last := part.Bounds()
		cold := r.waits.Load()
		from, before := r.logged(), r.written.Load()
		alone := liveHeap()
		end, heap := r.watch(), watchHeap()
		r.pass(func(bytes int64) bool { return bytes > *spaceBytes })
		most, of := end()
		alive := heap()
		b.ReportMetric(float64(cold)/(1<<20), "MiB-cold")
		b.ReportMetric(float64(most)/(1<<20), "MiB-most")
		b.ReportMetric(of, "of-bound")
		b.ReportMetric(float64(r.written.Load()-before)/float64(r.logged()-from), "written/logged")
		b.ReportMetric(mib(alone), "MiB-heap-before")
		b.ReportMetric(slices.Min(alive[:1+len(alive)/3]), "MiB-heap-first")
		b.ReportMetric(slices.Min(alive[len(alive)*2/3:]), "MiB-heap-last")
		b.ReportMetric(slices.Max(alive), "MiB-heap-most")
		time.Sleep(10 * time.Second) // a started base is made
		then := liveHeap()
		b.ReportMetric(mib(then), "MiB-heap-then")
		b.Logf("the live heap each second, MiB: %.0f", alive)
		if then > alone+16<<20 {
			b.Errorf("%.0f MiB are alive, and %.0f before", mib(then), mib(alone))
		}
		times := 0
		for _, s := range part.Segments() {
			var chapter, revision int
			if _, err := fmt.Sscanf(filepath.Base(s.File), "%d-%d.lbs", &chapter, &revision); err == nil && s.First < last {
				times = max(times, 1+revision)
			}
		}
		b.ReportMetric(float64(times), "times-written")
		if times != 2 {
			b.Errorf("bodies that wait were written %d times", times)
		}
		r.end()
	}
}

// watchHeap samples the live heap each second, MiB, until the function it returns is called.
func watchHeap() (end func() []float64) {
	over, told := make(chan struct{}), make(chan struct{})
	var alive []float64
	go func() {
		defer close(told)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			metrics.Read(live)
			alive = append(alive, float64(live[0].Value.Uint64())/(1<<20))
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	return func() []float64 { close(over); <-told; return alive }
}

// median is 0 of nothing.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
