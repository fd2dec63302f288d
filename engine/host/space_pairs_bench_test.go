package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How sends perform while history is sealed, deleted or read, compared with the same time without:
// forms in turn, with the time that other processes took.

// sends makes 5,000 sends a second, each by itself, and measures how long they took from when they
// were due. None waits for one before: a sync of 3 ms is in the figures of the sends that it holds
// up, and not in those of all sends after it.
func (r *countedBroker) sends(q engine.Target, long time.Duration) (took []time.Duration) {
	const rate, at = 5000, 5
	n := int(long.Seconds() * rate)
	to, rng := &timingSink{began: time.Now(), rate: rate, took: make([]time.Duration, n), left: n, over: make(chan struct{})}, rand.New(rand.NewPCG(5, 5))
	for i := 0; i < n; i += at {
		time.Sleep(time.Until(to.due(i)))
		var due []engine.Request
		for j := i; j < min(i+at, n); j++ {
			body := r.bodies[rng.IntN(len(r.bodies))]
			due = append(due, engine.Request{Sink: to, Tag: uint64(j), Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: fmt.Appendf(nil, "%016x", rng.Uint64()), Body: body}}}})
		}
		r.Submit(q.Host(0), due)
	}
	<-to.over
	if to.err != nil {
		r.tb.Error(to.err)
	}
	slices.Sort(to.took)
	return to.took
}

// timingSink measures when answers come.
type timingSink struct {
	began time.Time
	rate  int
	over  chan struct{} // closed when all have come
	mu    sync.Mutex
	took  []time.Duration // by tag
	left  int
	err   error
}

// due returns when a send is due.
func (s *timingSink) due(i int) time.Time {
	return s.began.Add(time.Duration(i/5*5) * time.Second / time.Duration(s.rate))
}

func (s *timingSink) Post(rs []engine.Reply) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rs {
		s.took[rs[i].Tag] = now.Sub(s.due(int(rs[i].Tag)))
		s.err = errors.Join(s.err, rs[i].Err)
		s.left--
	}
	if s.left == 0 {
		close(s.over)
	}
}

// keepAll is a policy that keeps all history.
var keepAll = event.HistoryPolicy{Events: event.KeepForever, Bodies: event.KeepForever, Undo: event.KeepForever}

// spaceForms say what happens to history while a benchmark of pairs measures. Each is compared with
// the form in which all is kept and nothing is done with it.
var spaceForms = []struct {
	name   string
	seal   time.Duration
	policy event.HistoryPolicy
	beside func(*countedBroker, context.Context) // reads history; nil: nothing reads
}{
	{"given back", 10 * time.Minute, keepNothing, nil},
	{"sealed", -1, keepAll, nil},
	{"bodies dropped", -1, event.HistoryPolicy{Events: event.KeepForever, Bodies: event.KeepNone, Undo: event.KeepNone}, nil},
	{"sealed, scrubbed and asked", -1, keepAll, (*countedBroker).scrubAndAsk},
	{"read", 0, keepAll, (*countedBroker).readLive},
}

// pairs measures each form in turn with the one in which all is kept, spacePairs times, and reports
// the median of the ratios. The two forms of a pair take turns to be first. The processor time that
// other processes took is logged: a stop of 100 ms has been seen to be theirs.
func pairs(b *testing.B, unit string, partitions int, fits func(is, kept float64) bool, measure func(r *countedBroker) float64) {
	for _, form := range spaceForms {
		b.Run(form.name, func(b *testing.B) {
			one := func(seal time.Duration, policy event.HistoryPolicy, beside func(*countedBroker, context.Context)) (is, gone, others float64) {
				r := openRoomy(b, partitions, seal, policy)
				// there is something to delete at once
				r.pass(func(bytes int64) bool { return bytes > int64(partitions)*150<<20 })
				began, busy := time.Now(), othersTime()
				ctx, stop := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				if beside != nil {
					wg.Go(func() { beside(r, ctx) })
				}
				is = measure(r)
				stop()
				wg.Wait()
				others = (othersTime() - busy).Seconds() / time.Since(began).Seconds()
				for i := range r.slots {
					if s := r.slots[i].running.Load(); s != nil {
						first, _ := s.log.Bounds()
						gone += float64(first) / (1 << 20)
					}
				}
				r.end()
				if err := os.RemoveAll(r.dir); err != nil {
					b.Error(err)
				}
				syscall.Sync()
				return is, gone, others
			}
			for range b.N {
				var kept, formed, ratios []float64
				for i := range *spacePairs {
					var k, f, gone, by, beside float64
					if i%2 == 0 {
						k, _, by = one(0, keepAll, nil)
					}
					f, gone, beside = one(form.seal, form.policy, form.beside)
					if i%2 == 1 {
						k, _, by = one(0, keepAll, nil)
					}
					kept, formed, ratios = append(kept, k), append(formed, f), append(ratios, f/k)
					b.Logf("kept %.2f %s, %s %.2f: %.2f; %.0f MiB given back; other processes took %.2f and %.2f of a processor", k, unit, form.name, f, f/k, gone, by, beside)
				}
				ratio := median(ratios)
				b.ReportMetric(median(kept), unit+"-kept")
				b.ReportMetric(median(formed), unit)
				b.ReportMetric(ratio, "ratio")
				b.ReportMetric(slices.Min(ratios), "ratio-least")
				b.ReportMetric(slices.Max(ratios), "ratio-most")
				if form.seal != 0 && !fits(median(formed), median(kept)) {
					b.Errorf("%.2f %s, %.2f times as when all is kept", median(formed), unit, ratio)
				}
			}
		})
	}
}

// othersTime returns how long the processors have worked for other processes, as far as the kernel
// reports it.
func othersTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, soft, steal int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return 0
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+steal)*10*time.Millisecond - time.Duration(own.Utime.Nano()+own.Stime.Nano())
}

// longestPause bounds how much longer a send may take because of work on history
// (docs/decisions/0087).
const longestPause = 100 // ms

// BenchmarkSpaceSends: the longest of 5,000 sends a second, all completed, of each form compared
// with the one in which all is kept.
func BenchmarkSpaceSends(b *testing.B) {
	pairs(b, "ms-longest", 1, func(is, kept float64) bool { return is <= kept+longestPause }, func(r *countedBroker) float64 {
		q := r.queues[0]
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			in := newInbox()
			to, limit := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 1}, uint32(0)
			r.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: to}}})
			for ctx.Err() == nil {
				if r.waitingIn(q) >= 100 {
					r.settle(q, to, &limit, in, 100)
				} else {
					time.Sleep(time.Millisecond)
				}
			}
		})
		took := r.sends(q, *spaceFor)
		stop()
		wg.Wait()
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.Logf("answered within %.2f ms in 99 of 100, %.2f in 999 of 1,000", ms(took[len(took)*99/100]), ms(took[len(took)*999/1000]))
		return ms(took[len(took)-1])
	})
}

// BenchmarkSpaceFull: messages a second, sent and completed at full rate, of each form compared
// with the one in which all is kept.
func BenchmarkSpaceFull(b *testing.B) {
	pairs(b, "msg/s", 4, func(is, kept float64) bool { return is >= kept/1.08 }, func(r *countedBroker) float64 {
		began := time.Now()
		n := r.pass(func(int64) bool { return time.Since(began) > *spaceFor })
		return float64(n) / time.Since(began).Seconds()
	})
}

// BenchmarkSpaceStops: the longest stop of a loop while spaceWait messages wait, as seen by a
// request each millisecond: while nothing else runs, while chapters are sealed, and while a base is
// made of all of it. Ten messages are sent and settled every ten milliseconds in that time.
func BenchmarkSpaceStops(b *testing.B) {
	for range b.N {
		r := openRoomy(b, 1, 0, keepAll)
		rng := rand.New(rand.NewPCG(10, 10))
		for i := range r.bodies {
			r.bodies[i] = fmt.Appendf(nil, "%064x", rng.Uint64())
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				rng, in := rand.New(rand.NewPCG(10, uint64(i))), newInbox()
				for range *spaceWait / 4 / 250 {
					r.send(r.queues[0], in, 250, rng)
				}
			})
		}
		wg.Wait()
		r.end() // which makes a checkpoint
		r.open(1, 0, keepAll)
		r.stops(b, "quiet", func() { time.Sleep(min(*spaceFor, 20*time.Second)) })
		r.end()
		r.open(1, -1, keepAll)
		part := r.slots[r.queues[0].Host(0)].running.Load().log
		r.stops(b, "sealing", func() { time.Sleep(*spaceFor) })
		if part.Segments()[0].Sealed == 0 {
			b.Error("nothing was sealed")
		}
		for len(part.Segments()) > 0 && part.Segments()[len(part.Segments())/2].Sealed == 0 {
			time.Sleep(time.Second)
		}
		r.stops(b, "base", func() {
			if _, err := replay.Cut(context.Background(), part, part.Checkpoints()[0].LSN, true); err != nil && !errors.Is(err, log.ErrTooLittle) {
				b.Error(err)
			}
		})
		if base, ok := part.(log.Bases).Base(); !ok || base.LSN == 0 {
			b.Error("no base was made")
		}
		r.end()
	}
}

// stops sends the loop of the first queue a request each millisecond while something is done, and
// reports the longest time until it answered.
func (r *countedBroker) stops(b *testing.B, name string, do func()) {
	ctx, stop := context.WithCancel(context.Background())
	q := r.queues[0]
	var wg sync.WaitGroup
	wg.Go(func() {
		in, rng := newInbox(), rand.New(rand.NewPCG(1, 1))
		to, limit := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 1}, uint32(0)
		r.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: to}}})
		for ctx.Err() == nil {
			r.send(q, in, 10, rng)
			r.settle(q, to, &limit, in, 10)
			time.Sleep(10 * time.Millisecond)
		}
		r.Submit(q.Host(0), []engine.Request{{Command: &engine.Detach{Receiver: to}, Sink: in}})
		in.wait(1)
	})
	var took []time.Duration
	wg.Go(func() {
		for ctx.Err() == nil {
			asked := time.Now()
			if _, err := r.ask(context.Background(), q.Host(0), loop.Ping()); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(asked))
			time.Sleep(time.Millisecond)
		}
	})
	began, busy := time.Now(), othersTime()
	do()
	long, others := time.Since(began), othersTime()-busy
	stop()
	wg.Wait()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.Logf("%s: %v; asked %d times; answered within %.2f ms in 99 of 100, %.2f in 999 of 1,000, %.2f at most; other processes took %.2f of a processor",
		name, long.Round(time.Millisecond), len(took), ms(took[len(took)*99/100]), ms(took[len(took)*999/1000]), ms(took[len(took)-1]), others.Seconds()/long.Seconds())
	b.ReportMetric(ms(took[len(took)-1]), "ms-"+name)
}

// waitingIn returns about how many messages wait in a queue.
func (r *countedBroker) waitingIn(q engine.Target) int64 {
	all, err := r.Runtime(context.Background(), []*engine.Entity{q.Entity})
	if err != nil || len(all) == 0 {
		return 0
	}
	return int64(all[0].Active)
}

// scrubAndAsk scrubs all logs, over and over, and reads them as a query does.
func (r *countedBroker) scrubAndAsk(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range r.surroundings().Logs() {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := p.(log.Scrubber).Scrub(ctx); err != nil && ctx.Err() == nil {
					r.tb.Error(err)
				}
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				first, _ := p.Bounds()
				for f, err := range p.Read(ctx, first) {
					if err != nil {
						break // the part to read was removed
					}
					runtime.Gosched()
					r.store.(log.Background).Pause(ctx, len(f.Records))
				}
			}
		})
	}
	wg.Wait()
}

// readLive reads all of the log while the broker runs, over and over.
func (r *countedBroker) readLive(ctx context.Context) {
	for ctx.Err() == nil {
		store, err := log.Open(ctx, r.dir, log.Options{ReadOnly: true, Shared: true})
		if err != nil {
			continue
		}
		for _, id := range store.Partitions() {
			p, err := store.Open(ctx, id)
			if err != nil {
				break
			}
			first, _ := p.Bounds()
			for range p.Read(ctx, first) {
				if ctx.Err() != nil {
					break
				}
			}
		}
		_ = store.Close()
	}
}
