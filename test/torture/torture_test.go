package torture

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

var (
	rounds   = flag.Int("rounds", 5, "how often to kill the broker at least")
	duration = flag.Duration("duration", 0, "how long to go on at least")
	seed     = flag.Uint64("seed", 0, "of faults and load; 0: a new one")
	sealing  = flag.String("seal-after", "0s", "setting of the broker: each start closes a chapter, so with 0s one is sealed every few seconds")
)

const (
	lockDuration = 5 * time.Second // the shortest an entity file may ask for
	onceQueue    = "once"          // of receive-and-delete
	enoughAcks   = 500             // per second between kills, or the run does not count
	enoughEach   = 100             // between two kills, where the machine is busy with other tests
	producers    = 6               // per queue
	consumers    = 4
)

var lockQueues = []string{"work-1", "work-2"}

const entities = `{"UserConfig": {"Namespaces": [{"Name": "torture", "Queues": [
	{"Name": "work-1", "Properties": {"LockDuration": "PT5S", "MaxDeliveryCount": 100000}},
	{"Name": "work-2", "Properties": {"LockDuration": "PT5S", "MaxDeliveryCount": 100000}},
	{"Name": "once", "Properties": {"LockDuration": "PT5S"}}]}]}}`

// figures of a run.
type figures struct {
	kills, early int // early: while starting
	ready        []time.Duration
	served       time.Duration // between the first answer after a start and the kill
	tails        int           // kills that left a tail
	acks         int64         // calls answered in that time
}

// rig is a broker under torture.
type rig struct {
	*testing.T
	seed    uint64 // of faults and load
	binary  string
	data    string // directory
	process *harness.Process
	ledger  *ledger
	load    *load
	rng     *rand.Rand
	serves  func(*rand.Rand) time.Duration // how long it serves between two kills
	figures figures
}

// newRig starts a broker with the entities of a file on a new directory. A test that fails keeps
// the directory, and says how it is run again with that many kills.
func newRig(t *testing.T, binary, entities string, seed uint64, kills int) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "ledgerbus-torture-")
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data directory is kept: %s", dir)
			t.Logf("again: go test ./test/torture -run '^%s$' -rounds %d -seed %d -seal-after %s", test, kills, seed, *sealing)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	config, data := filepath.Join(dir, "entities.json"), filepath.Join(dir, "data")
	if err := os.WriteFile(config, []byte(entities), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, seed: seed, binary: binary, data: data, ledger: newLedger(), rng: rand.New(rand.NewPCG(seed, 0)),
		process: harness.NewProcess(binary, data, "--entities", config, "--log-level", "warn", "--seal-after", *sealing)}
	r.start()
	t.Cleanup(func() { _ = r.process.Kill() })
	r.load = &load{t: t, address: r.process.ConnectionString(), ledger: r.ledger, seed: seed}
	return r
}

// firstSeed is that which was asked for, or a new one.
func firstSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64N(1 << 32)
}

// TestTorture kills the broker under load and shows I1 to I7, I10, I12, I16, I17, I19 and I26 of
// reliability.md 5 (suite T2).
func TestTorture(t *testing.T) {
	r := newRig(t, harness.Build(t, t.TempDir()), entities, firstSeed(), *rounds)
	r.serves = func(rng *rand.Rand) time.Duration {
		return 200*time.Millisecond + time.Duration(rng.Int64N(int64(2800*time.Millisecond)))
	}
	r.run()
	r.drain()
	r.end()
	r.wantSealed()
	if r.figures.tails > r.figures.kills {
		t.Error("a clean end left a tail")
	}
	r.report()
}

// run lets the load work while the broker is killed.
func (r *rig) run() {
	l := r.load
	r.killing(*rounds, *duration, func(ctx context.Context) {
		for p := range producers {
			for _, queue := range append([]string{onceQueue}, lockQueues...) {
				if queue != onceQueue || p < 2 {
					l.workers.Go(func() { l.produce(ctx, queue, p) })
				}
			}
		}
		for _, queue := range lockQueues {
			for n := range consumers {
				l.workers.Go(func() { l.consume(ctx, queue, 0, n) })
			}
			l.workers.Go(func() { l.consume(ctx, queue, azservicebus.SubQueueDeadLetter, 0) })
		}
		l.workers.Go(func() { l.takeAway(ctx) })
	})
}

// killing kills the broker at least that often, and for at least that long, while the workers that
// begin starts are at work.
func (r *rig) killing(kills int, long time.Duration, begin func(context.Context)) {
	ctx, stop := context.WithCancel(r.Context())
	begin(ctx)
	began := time.Now()
	for !r.Failed() && (r.figures.kills < kills || time.Since(began) < long) {
		r.round()
	}
	stop()
	r.load.workers.Wait()
}

// end stops the broker as a service manager does, and looks at what it leaves.
func (r *rig) end() {
	if err := r.process.Stop(); err != nil {
		r.Errorf("a clean end: %v", err)
	}
	r.verify()
}

// wantSealed checks that chapters were sealed while the broker was killed, where they were to be.
func (r *rig) wantSealed() {
	files, err := filepath.Glob(filepath.Join(r.data, "partitions", "*", "sealed", "*.lbs"))
	if err != nil || *sealing == "0s" && len(files) == 0 {
		r.Errorf("no chapter was sealed: %v", err)
	}
	r.Logf("%d sealed files", len(files))
}

// verify looks into the directory of a broker that is dead. A write that was under way may have
// left a tail in each partition, and room is there; nothing is damaged (reliability.md 3.4 step 4).
func (r *rig) verify() {
	out, err := exec.CommandContext(r.Context(), r.binary, "log", "verify", r.data).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("DAMAGED")) || !bytes.Contains(out, []byte("ok partition 0 ")) {
		r.Errorf("log verify after %d kills: %v\n%s", r.figures.kills, err, out)
	}
	if bytes.Contains(out, []byte("\ntail partition ")) {
		r.figures.tails++
	}
}

// kill ends the process and tells the ledger, which counts what receivers lose by it.
func (r *rig) kill() error {
	r.ledger.killed()
	return r.process.Kill()
}

// round lets the broker serve for a moment, kills it and starts it again.
func (r *rig) round() {
	acks := r.acks()
	for until := time.Now().Add(30 * time.Second); r.acks() == acks; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			r.Fatal("I26 liveness: the broker serves, and for 30 seconds nobody gets an answer")
		}
	}
	acks, began := r.acks(), time.Now()
	time.Sleep(r.serves(r.rng))
	r.figures.acks += r.acks() - acks
	r.figures.served += time.Since(began)
	if err := r.kill(); err != nil {
		r.Fatal(err)
	}
	r.figures.kills++
	r.verify()
	for r.rng.IntN(5) == 0 { // again, before it is there
		after := time.Duration(r.rng.Int64N(int64(60 * time.Millisecond)))
		dead := make(chan error, 1)
		go func() {
			time.Sleep(after)
			dead <- r.kill()
		}()
		_, err := r.process.Start()
		if killed := <-dead; killed != nil {
			r.Fatalf("%+v, want nil", killed)
		}
		if err := r.process.Kill(); err != nil { // when it came before the start
			r.Fatal(err)
		}
		if err != nil && !errors.Is(err, harness.ErrKilledEarly) {
			r.Fatalf("%v; want no error or harness.ErrKilledEarly", err)
		}
		r.figures.kills++
		r.figures.early++
		r.verify()
	}
	r.start()
}

func (r *rig) acks() int64 {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.ledger.acks
}

func (r *rig) start() {
	took, err := r.process.Start()
	if err != nil {
		r.Fatal(err)
	}
	r.figures.ready = append(r.figures.ready, took)
}

// drain takes out all there is, once every lock has ended. There are no faults now, so every call
// must succeed.
func (r *rig) drain() {
	l := r.load
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	l.patient = true
	var draining sync.WaitGroup
	for _, queue := range lockQueues {
		for _, sub := range []azservicebus.SubQueue{0, azservicebus.SubQueueDeadLetter} {
			draining.Go(func() {
				c := l.consumer(queue, sub)
				defer hangUp(c.client)
				r.drainQueue(ctx, l, c)
			})
		}
	}
	draining.Go(func() {
		l.takeRest(ctx)
		c := l.consumer(onceQueue, 0)
		defer hangUp(c.client)
		for _, m := range r.peek(ctx, c.receiver) {
			r.ledger.stillThere(onceQueue, 0, m)
		}
	})
	draining.Wait()
}

// drainQueue completes messages until only deferred ones are left: nobody can receive those yet.
func (r *rig) drainQueue(ctx context.Context, l *load, c *consumer) {
	r.peek(ctx, c.receiver) // makes the link, however long that takes
	for idle := time.Now(); ctx.Err() == nil; {
		some, good := l.receive(ctx, c.receiver)
		if !good {
			r.Errorf("receiving from %s failed with no fault around", c.queue)
		}
		var settling sync.WaitGroup
		for _, m := range some {
			idle = time.Now()
			settling.Go(func() {
				if r.ledger.delivered(c.queue, c.sub, m) && !l.settle(c, m, m, complete) {
					r.Errorf("completing number %d of %s failed with no fault around", *m.SequenceNumber, c.queue)
				}
			})
		}
		settling.Wait()
		if len(some) > 0 {
			continue
		}
		left := r.peek(ctx, c.receiver)
		waiting := slices.ContainsFunc(left, func(m *azservicebus.ReceivedMessage) bool { return m.State != azservicebus.MessageStateDeferred })
		if !waiting || time.Since(idle) > 2*lockDuration {
			for _, m := range left {
				r.ledger.stillThere(c.queue, c.sub, m)
			}
			return
		}
	}
	r.Errorf("I26 liveness: %s was not drained in time", c.queue)
}

// peek looks at all there is.
func (r *rig) peek(ctx context.Context, receiver *azservicebus.Receiver) (all []*azservicebus.ReceivedMessage) {
	for from := int64(0); ; {
		some, err := receiver.PeekMessages(ctx, 200, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil {
			r.Errorf("peek: %v", err)
		}
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
		from = *some[len(some)-1].SequenceNumber + 1
	}
}

// report closes the books.
func (r *rig) report() {
	f := &r.figures
	b := r.ledger.close()
	rate := float64(f.acks) / f.served.Seconds()
	slices.Sort(f.ready)
	r.Logf("seed %d: %d kills, %d of them while starting", r.seed, f.kills, f.early)
	r.Logf("%d calls acknowledged with %d messages, %.0f calls a second between kills; %d unknown outcomes", r.ledger.acks, r.ledger.ackedMsg, rate, r.ledger.unknowns)
	r.Logf("%d messages: %d sent with ok, %d unknown, of which %d were there; %d lost, %d duplicated, %d vanished in receive-and-delete mode",
		b.messages, b.sentOK, b.sentUnknown, b.appeared, b.lost, b.doubled, b.unseen)
	r.Logf("%d kills left a tail; %d messages were on their way to the receive-and-delete client when it lost its connection, at most %d at once",
		f.tails, b.vanished, b.vanishedAtOnce)
	r.Logf("time to ready: p50 %s, max %s", f.ready[len(f.ready)/2].Round(time.Millisecond), f.ready[len(f.ready)-1].Round(time.Millisecond))
	r.reportFaults()
	if each := f.acks / int64(max(1, f.kills-f.early)); testing.Short() && each < enoughEach {
		r.Errorf("this run does not count: %d calls were acknowledged between two kills, under %d", each, enoughEach)
	}
	if !testing.Short() && rate < enoughAcks {
		r.Errorf("this run does not count: %.0f calls a second were acknowledged between kills, under %d", rate, enoughAcks)
	}
}

// reportFaults reports what the ledger found broken.
func (r *rig) reportFaults() {
	for _, invariant := range slices.Sorted(maps.Keys(r.ledger.faults)) {
		faults := r.ledger.faults[invariant]
		r.Errorf("%s: broken %d times:\n\t%s", invariant, len(faults), strings.Join(faults[:min(len(faults), 10)], "\n\t"))
	}
}
