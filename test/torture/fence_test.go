package torture

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

const (
	awayPartition = 2 // the one that is fenced
	backWithin    = 5 * time.Second
	// by this factor may calls of others slow down while it is away, at the 99th percentile
	slower = 2
	// needed for that: in fewer the machine's hiccups make up the 99th, and the 90th is judged
	manyCalls = 5000
	noise     = 10 * time.Millisecond // that a machine with other work to do adds to that
	// of goroutines that a call takes at least; each may be as late as this process wakes from a
	// sleep, which is the machine's doing
	switches  = 6
	sendEvery = 15 * time.Millisecond
	// after one that failed: clients share the machine with the broker
	nextClient = 100 * time.Millisecond
)

// way is how messages get from the queue they are sent to, to the queue where they end.
type way uint8

const (
	direct    way = iota // it is the same queue
	forwarded            // by ForwardTo
	// a client dead-letters them, and they are forwarded by ForwardDeadLetteredMessagesTo
	buried
	via // a client moves them, each in a transaction of both queues
)

// stream is messages on one way: into the partition that is fenced, out of it, inside, or
// elsewhere.
type stream struct {
	name         string
	way          way
	source, end  string // queues
	from, to     bool   // they are on the partition that is fenced
	key          string // partition key of the messages; empty: none
	left         bool   // to the receivers of another stream of the queue
	took         []call // of sends, where neither end is on that partition
	sends, comes int
}

// call is how long one took, and when it began.
type call struct {
	began time.Time
	took  time.Duration
}

// trail is what is known of a message.
type trail struct {
	told    string         // "ok", "busy" or "unknown"
	numbers map[int64]bool // it had where it came out
	done    bool           // completed there, and told so
	settled time.Time      // when its completion was asked for
	maybe   bool           // a completion had no answer: it may be gone
	story   []string       // what clients saw there
}

// fence is a broker of which one partition is fenced again and again while messages move into it,
// out of it and beside it.
type fence struct {
	*testing.T
	binary  string
	data    string // directory
	process *harness.Process
	admin   *admin.Client
	load    *load
	streams []*stream
	on      map[string]int // the partition of each queue
	// in each round, while the partition is away and when it is back; nil: nothing
	check func(away bool)
	rng   *rand.Rand
	// clients do nothing twice by themselves, and the disk may say that it has synced what it has
	// not
	single bool
	lied   bool // it did, and the broker has said so: nothing more can be said of this run

	mu       sync.Mutex // guards what follows
	trails   map[string]*trail
	away     []call // when it was fenced, and for how long
	back     []time.Duration
	failing  bool      // it is about to be fenced
	fenced   time.Time // when that was seen last
	late     []call    // how late sleeps end
	refused  int       // sends that were told busy
	unproven int       // sends with an unknown outcome, or from when it was fenced
}

// TestFence fences one of four partitions by hand under load, again and again (next to
// TestFencedDevice, where its disk fails): what has nothing to do with it goes on as fast as
// before, messages that are forwarded, dead-lettered and sent via something into it and out of it
// wait and arrive, and it is back within five seconds of a restart, without one of the process.
// Nothing is lost or doubled, and nothing is there that was refused (S4, P24; SM-238).
func TestFence(t *testing.T) {
	f := newFence(t)
	f.start()
	f.run(*rounds, f.byHand)
	f.close()
}

// onEmptyDirectory starts a broker that fences partitions, on a directory with nothing in it.
func onEmptyDirectory(t *testing.T) *fence {
	t.Helper()
	dir, s := t.TempDir(), firstSeed()
	f := &fence{T: t, binary: harness.Build(t, dir), data: filepath.Join(dir, "data"), trails: map[string]*trail{}, rng: rand.New(rand.NewPCG(s, 1))}
	t.Logf("seed %d", s)
	f.process = harness.NewProcess(f.binary, f.data, "--on-io-error", "fence", "--log-level", "warn", "--seal-after", *sealing)
	t.Cleanup(func() { _ = f.process.Kill() })
	f.start()
	return f
}

// newFence makes a data directory with queues on all partitions and the ways between them.
func newFence(t *testing.T) *fence {
	t.Helper()
	f := onEmptyDirectory(t)
	for n := range 60 {
		q := admin.NewEntity(event.Queue, fmt.Sprint("queue-", n))
		q.Properties.LockDuration, q.Properties.MaxDeliveryCount = lockDuration, 2000
		q.Present.Add(document.LockDuration, document.MaxDeliveryCount)
		if _, err := f.admin.Create(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	f.layOut()
	if err := f.process.Stop(); err != nil {
		t.Fatal(err)
	}
	return f
}

// start starts the broker.
func (f *fence) start() {
	f.Helper()
	if _, err := f.process.Start(); err != nil {
		f.Fatal(err)
	}
	if f.admin != nil {
		return // at the same address
	}
	f.load = &load{t: f.T, address: f.process.ConnectionString()}
	var err error
	if f.admin, err = admin.New(f.process.ConnectionString(), admin.Options{Reason: "torture"}); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(f.admin.Close)
}

// layOut chooses queues on the partition that is fenced and on others, and makes the ways between
// them.
func (f *fence) layOut() {
	f.Helper()
	f.on = f.hosts()
	on := maps.Clone(f.on)
	take := func(away bool) string {
		for n := range 60 {
			name := fmt.Sprint("queue-", n)
			if host, left := on[name]; left && (host == awayPartition) == away && (away || host != 0 || len(on) < 30) {
				delete(on, name)
				return name
			}
		}
		f.Fatal("too few queues are on the partition")
		return ""
	}
	for _, place := range []struct {
		name     string
		from, to bool
	}{{"into", false, true}, {"out of", true, false}} {
		for w, what := range map[way]string{forwarded: "forwarded", buried: "dead-lettered", via: "sent via"} {
			f.streams = append(f.streams, &stream{name: what + " " + place.name, way: w, source: take(place.from), end: take(place.to), from: place.from, to: place.to})
		}
	}
	for n := range 3 {
		q := take(false)
		f.streams = append(f.streams, &stream{name: fmt.Sprint("beside ", n), source: q, end: q})
	}
	q := take(true)
	f.streams = append(f.streams, &stream{name: "inside", source: q, end: q, from: true, to: true})
	for _, s := range f.streams {
		e, err := f.admin.Get(f.Context(), event.Queue, s.source)
		if err != nil {
			f.Fatal(err)
		}
		switch s.way {
		case forwarded:
			e.Properties.ForwardTo = s.end
			e.Present.Add(document.ForwardTo)
		case buried:
			e.Properties.ForwardDeadLetteredMessagesTo = s.end
			e.Present.Add(document.ForwardDeadLetteredMessagesTo)
		default:
			continue
		}
		if _, err := f.admin.Update(f.Context(), e); err != nil {
			f.Fatal(err)
		}
	}
}

// hosts is the partition of each queue that has one, as the log says.
func (f *fence) hosts() map[string]int {
	on := map[string]int{}
	for path, hosts := range f.placed() {
		if len(hosts) == 1 {
			on[path] = hosts[0]
		}
	}
	return on
}

// run fences the partition that often while all clients work, or until its disk is found to have
// lied, and returns how often it was. A call of fail fences it, and returns what has to be done
// before it can be restarted. In the end all that moves arrives.
func (f *fence) run(rounds int, fail func() (mend func())) (n int) {
	pid := f.process.PID()
	sending, enough := context.WithCancel(f.Context())
	working, stop := context.WithCancel(f.Context())
	var producers, workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	defer enough()
	connect, finish := f.sender, f.finish
	if f.single {
		connect, finish = f.senderOnce, f.finishOnce
	}
	for _, s := range f.streams {
		producers.Go(func() { f.produce(sending, s, connect) })
		if !s.left {
			workers.Go(func() { finish(working, s) })
		}
		switch s.way {
		case buried:
			workers.Go(func() { f.bury(working, s) })
		case via:
			workers.Go(func() { f.carry(working, s) })
		}
	}
	workers.Go(func() { f.doze(working) })
	for ; n < rounds && !f.Failed() && !f.lied; n++ {
		time.Sleep(500*time.Millisecond + time.Duration(f.rng.IntN(500))*time.Millisecond)
		f.round(fail)
	}
	if f.lied {
		enough()
		producers.Wait()
		return n
	}
	time.Sleep(time.Second)
	enough()
	producers.Wait()
	f.arrive()
	if f.process.PID() != pid {
		f.Error("the process was restarted")
	}
	return n
}

// doze measures how late the machine wakes whoever sleeps.
func (f *fence) doze(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		time.Sleep(sendEvery)
		f.late = append(f.late, call{began, time.Since(began) - sendEvery})
	}
}

// round fences the partition, leaves it away for a while and restarts it.
func (f *fence) round(fail func() (mend func())) {
	began := time.Now()
	f.fences(true)
	mend := fail()
	f.fences(false)
	if f.check != nil {
		f.check(true)
	}
	time.Sleep(300*time.Millisecond + time.Duration(f.rng.IntN(500))*time.Millisecond)
	mend()
	restarted := time.Now()
	p, err := f.admin.RestartPartition(f.Context(), awayPartition)
	if f.single && err != nil && strings.Contains(err.Error(), "acknowledged data is lost") {
		f.lied = true
		f.Logf("the disk has synced what it has lost, and the broker says so: %v", err)
		return
	}
	if err != nil || p.State != "serving" {
		f.Errorf("restart: %+v, %v", p, err)
		return
	}
	f.works()
	back := time.Since(restarted)
	if back > backWithin {
		f.Errorf("it was back after %v", back)
	}
	if f.check != nil {
		f.check(false)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Logf("%s fenced, restarted at %s, back after %v", began.Format("05.000"), restarted.Format("05.000"), back)
	f.away, f.back = append(f.away, call{began, time.Since(began)}), append(f.back, back)
}

// fences notes that the partition is about to be fenced, or was seen to be.
func (f *fence) fences(soon bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing = soon; !soon {
		f.fenced = time.Now()
	}
}

// byHand has an operator fence the partition.
func (f *fence) byHand() (mend func()) {
	p, err := f.admin.FencePartition(f.Context(), awayPartition)
	if err != nil || p.State != "fenced" || p.By != "RootManageSharedAccessKey" {
		f.Errorf("fence: %+v, %v", p, err)
	}
	f.busy()
	return func() {}
}

// busy checks that a new send to the partition is refused, and nothing is left open.
func (f *fence) busy() {
	s := f.streams[len(f.streams)-1]
	if err := f.sendOnce(s, fmt.Sprint("refused-", time.Now().UnixNano())); err == nil || !strings.Contains(err.Error(), "server-busy") {
		f.Errorf("a send to a fenced partition is answered %v", err)
	}
}

// works waits until a send to the partition is accepted.
func (f *fence) works() {
	s := f.streams[len(f.streams)-1]
	if err := f.sendOnce(s, fmt.Sprint("again-", time.Now().UnixNano())); err != nil {
		f.Errorf("a send to a restarted partition is answered %v", err)
	}
}

// sendOnce sends one message over a connection of its own.
func (f *fence) sendOnce(s *stream, id string) error {
	client := f.client()
	defer hangUp(client)
	sender, err := client.NewSender(s.source, nil)
	if err == nil {
		err = f.send(sender, id, s.key)
	}
	return err
}

// client tries everything once.
func (f *fence) client() *azservicebus.Client {
	return f.load.connect()
}

// send sends a message, with a key if there is one, and writes down what was said of it.
func (f *fence) send(sender *azservicebus.Sender, id, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	began := time.Now()
	m := &azservicebus.Message{MessageID: &id, Body: make([]byte, 200)}
	if key != "" {
		m.PartitionKey = &key
	}
	err := sender.SendMessage(ctx, m, nil)
	f.told(id, began, err)
	return err
}

// told writes down what was said of a message that was sent.
func (f *fence) told(id string, began time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.trail(id)
	switch {
	case err == nil:
		e.told = "ok"
	case strings.Contains(err.Error(), "server-busy") && (f.single || !f.failing && began.After(f.fenced)):
		// else the SDK may have sent it before, and was told that nobody knows what came of that
		e.told = "busy"
		f.refused++
	default:
		f.unproven++
	}
}

// trail is that of a message. The caller holds mu.
func (f *fence) trail(id string) *trail {
	e := f.trails[id]
	if e == nil {
		e = &trail{told: "unknown", numbers: map[int64]bool{}}
		f.trails[id] = e
	}
	return e
}

// produce sends until the context ends, one client after another, each made by connect.
func (f *fence) produce(ctx context.Context, s *stream, connect func(context.Context, *stream) (send func(id string) error, hangUp func(), err error)) {
	for ; ctx.Err() == nil; time.Sleep(nextClient) {
		send, hangUp, err := connect(ctx, s)
		for err == nil && ctx.Err() == nil {
			s.sends++
			began := time.Now()
			err = send(fmt.Sprint(s.name, "/", s.sends))
			took := time.Since(began)
			if !s.from && !s.to {
				s.took = append(s.took, call{began, took})
				if err != nil && !(f.single && f.open(s, err)) {
					f.Errorf("%s: a send is answered %v", s.name, err)
				}
			}
			time.Sleep(sendEvery)
		}
		hangUp()
	}
}

// sender connects a client of the SDK that sends to a stream.
func (f *fence) sender(_ context.Context, s *stream) (send func(id string) error, close func(), err error) {
	client := f.client()
	sender, err := client.NewSender(s.source, nil)
	return func(id string) error { return f.send(sender, id, s.key) }, func() { hangUp(client) }, err
}

// finish completes what has come to its end.
func (f *fence) finish(ctx context.Context, s *stream) {
	f.receive(ctx, s.end, func(r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
		e := f.came(s, m.MessageID, *m.SequenceNumber, m.DeliveryCount, *m.LockedUntil)
		err := f.settle(r, m, complete)
		f.ended(e, err)
		return err
	})
}

// stamp is a moment as a story has it.
func stamp() string { return time.Now().Format("05.000") }

// bury dead-letters what comes.
func (f *fence) bury(ctx context.Context, s *stream) {
	f.receive(ctx, s.source, func(r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error { return f.settle(r, m, bury) })
}

// settle settles a message. The SDK, when its link has ended a moment ago, may wait for an answer
// that cannot come, and after four seconds repeat the settlement on a new link by the number that
// the delivery had on the old one: what it says then is about another message.
func (f *fence) settle(r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, how settlement) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	return attempt(ctx, r, m, how)
}

// receive does something with each message of a queue until the context ends, one client after
// another.
func (f *fence) receive(ctx context.Context, queue string, do func(*azservicebus.Receiver, *azservicebus.ReceivedMessage) error) {
	for ; ctx.Err() == nil; time.Sleep(nextClient) {
		client := f.client()
		r, err := client.NewReceiverForQueue(queue, nil)
		for good := err == nil; good && ctx.Err() == nil; {
			var some []*azservicebus.ReceivedMessage
			some, good = f.load.receive(ctx, r)
			for _, m := range some {
				good = do(r, m) == nil && good
			}
		}
		hangUp(client)
	}
}

// arrive waits until all that was sent has come to its end.
func (f *fence) arrive() {
	until := time.Now().Add(time.Minute)
	for {
		missing := f.missing()
		if len(missing) == 0 {
			// what is there twice comes again, and so does what was completed in vain
			time.Sleep(lockDuration + 2*time.Second)
			if left := f.whereabouts(); left > 0 {
				f.Errorf("%d queues are not empty in the end", left)
			}
			return
		}
		if time.Now().After(until) {
			f.Errorf("%d messages were acknowledged and never came: %v", len(missing), missing[:min(len(missing), 10)])
			f.whereabouts()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// whereabouts says which queues still hold messages, and how many do.
func (f *fence) whereabouts() (left int) {
	for _, s := range f.streams {
		for _, queue := range []string{s.source, s.end} {
			if e, err := f.admin.Get(f.Context(), event.Queue, queue); err != nil || e.Runtime.Total() > 0 {
				left++
				f.Logf("%s: %s on partition %d holds %+v, %v", s.name, queue, f.on[queue], e, err)
			}
		}
	}
	return left
}

// missing are the messages that were acknowledged and have not come yet.
func (f *fence) missing() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, e := range f.trails {
		if e.told == "ok" && !e.done && !e.maybe {
			ids = append(ids, id+" "+strings.Join(e.story, "; "))
		}
	}
	return ids
}

// close closes the books, and says what was measured.
func (f *fence) close() {
	for id, e := range f.trails {
		if e.told == "busy" && len(e.numbers) > 0 {
			f.Errorf("%s was refused and is there", id)
		}
	}
	if f.refused == 0 || len(f.back) == 0 {
		f.Error("this run does not count: nothing was refused")
	}
	var well, ill []time.Duration
	for _, s := range f.streams {
		f.Logf("%-24s %6d sent, %6d came", s.name, s.sends, s.comes)
		well, ill = append(well, f.during(s.took, false)...), append(ill, f.during(s.took, true)...)
	}
	late := f.during(f.late, true)
	f.Logf("fenced %d times; %d sends refused, %d unknown; back after %v (median), %v at most", len(f.back), f.refused, f.unproven, percentile(f.back, 50), percentile(f.back, 100))
	f.Logf("sends to others: %v (median), %v (p99) of %d; while it was away %v, %v of %d", percentile(well, 50), percentile(well, 99), len(well), percentile(ill, 50), percentile(ill, 99), len(ill))
	p := 99
	if len(ill) < manyCalls {
		p = 90
	}
	if is, may := percentile(ill, p), slower*percentile(well, p)+noise+switches*percentile(late, p); is > may {
		f.Errorf("while the partition was away sends to others took %v (p%d), which is more than %v; the machine is late by %v", is, p, may, percentile(late, p))
	}
	if err := f.process.Stop(); err != nil {
		f.Error(err)
	}
	if out, err := exec.CommandContext(f.Context(), f.binary, "log", "verify", f.data).CombinedOutput(); err != nil || bytes.Contains(out, []byte("DAMAGED")) {
		f.Errorf("log verify: %v\n%s", err, out)
	}
}

// during is how long calls took while the partition was away, or while it was not.
func (f *fence) during(calls []call, away bool) (took []time.Duration) {
	for _, c := range calls {
		if away == slices.ContainsFunc(f.away, func(a call) bool { return !c.began.Add(c.took).Before(a.began) && c.began.Before(a.began.Add(a.took)) }) {
			took = append(took, c.took)
		}
	}
	return took
}

// percentile is the value that that many of a hundred do not exceed; 0 of nothing.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)-1, len(list)*p/100)]
}
