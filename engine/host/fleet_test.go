package host

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// fleet drives the loops and couriers of a namespace directly, in an order that a seed decides,
// over a disk that can die.
type fleet struct {
	t        testing.TB
	rng      *rand.Rand
	disk     *faultfs.FS
	logs     int
	split    int // of entities that are partitioned
	failures event.SubQueue
	reread   func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	now      event.Time

	store     log.Store
	parts     []log.Partition
	loops     []*loop.Loop
	rules     []*engine.Partition
	writers   []*groupSizes
	couriers  []*fleetCourier
	marks     []event.LSN // by loop: the last committed address that it was told
	directory directory
	posts     keptReplies
	err       error // that the process died of

	// chapters are short and sealed at once, and unneeded bodies are dropped
	lean   bool
	states []*loop.Snapshot // by loop, taken some time before; nil: none
	sealed [][]string       // by loop, the sealed files that existed then
	freed  int              // rewritten sealed files
}

// fleetCourier is a courier and its state in a fleet.
type fleetCourier struct {
	*background.Courier
	letters int        // from its loop, which it has not read
	next    event.Time // when it wants its next turn; 0: never
}

func (c *fleetCourier) Post(rs []engine.Reply) {
	c.letters += len(rs)
	c.Courier.Post(rs)
}

func (c *fleetCourier) Turn(now event.Time) {
	c.letters = 0
	c.next = c.Courier.Turn(now)
}

// quiet reports whether a courier has nothing to do at a time.
func (c *fleetCourier) quiet(now event.Time) bool {
	_, batches, _ := c.Counts()
	return c.letters == 0 && batches == 0 && (c.next == 0 || c.next > now)
}

func newFleet(t testing.TB, seed uint64, logs int) *fleet {
	f := fleetAtRest(t, seed, logs)
	f.must(f.start())
	return f
}

func fleetAtRest(t testing.TB, seed uint64, logs int) *fleet {
	return &fleet{t: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: faultfs.New(), logs: logs, reread: rereads,
		now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// start recovers what is on the disk, as [Open] does.
func (f *fleet) start() (err error) {
	f.err = nil
	opts := log.Options{FS: f.disk, Partitions: f.logs, Manual: true}
	if f.lean {
		opts.SegmentBytes, opts.ChapterBytes, opts.SealAfter, f.states = 500, 1000, -1, make([]*loop.Snapshot, f.logs)
		f.sealed = make([][]string, f.logs)
	}
	f.store, err = log.Open(f.t.Context(), "/data", opts)
	if err != nil {
		return err
	}
	f.rules, f.writers = nil, nil
	f.parts, f.loops, f.couriers, f.marks = nil, nil, nil, make([]event.LSN, f.logs)
	f.directory, f.posts = directory{}, keptReplies{}
	for i := range f.logs {
		p, err := f.store.Open(f.t.Context(), log.PartitionID(i))
		if err != nil {
			return err
		}
		state := replayed(f.t, p)
		w, err := p.Lead(f.t.Context())
		if err != nil {
			return err
		}
		c := &fleetCourier{Courier: background.NewCourier(background.CourierOptions{Home: engine.PartitionID(i), Reread: f.reread, Entity: f.directory.entity, Logger: slog.New(slog.DiscardHandler),
			Read: p.ReadInto, Damaged: f.damaged, FailuresTo: f.failures,
			Offer: func(id engine.PartitionID, req engine.Request) bool { return f.loops[id].Offer(req) }})}
		f.parts, f.couriers = append(f.parts, p), append(f.couriers, c)
		part := engine.NewPartition(engine.PartitionID(i), f.logs, state.Index)
		part.Split(f.split)
		g := &groupSizes{ManualWriter: w.(log.ManualWriter)}
		f.rules, f.writers = append(f.rules, part), append(f.writers, g)
		f.loops = append(f.loops, loop.New(part, p, g, loop.Options{
			Clock: func() event.Time { return f.now }, Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1, Inline: true, Tokens: newTokens(),
			Courier: c, FailuresTo: f.failures, Use: f.store.Use, Properties: message.Properties, Reread: f.reread}))
	}
	f.enforce()
	for _, l := range f.loops {
		l.Recover()
		l.Resume(f.directory.entity)
		f.err = errors.Join(f.err, l.Err())
	}
	return f.err
}

// enforce puts the catalogue and its orders in force.
func (f *fleet) enforce() {
	c := &f.rules[0].Index().Catalogue
	f.directory = directory{}
	for _, e := range c.All() {
		v := engine.View(e, nil)
		f.directory.put(v)
		var rules []event.Rule
		for _, r := range c.Rules(e.ID) {
			rules = append(rules, *r)
		}
		for _, h := range hostsOf(v) {
			f.loops[h].Prepare(loop.Configure(v, v.Kind == event.Subscription, rules))
		}
	}
	for _, e := range f.directory.sorted() {
		for _, h := range hostsOf(e) {
			f.loops[h].Prepare(loop.Order(e, f.directory.find))
		}
	}
}

// killed returns the error if the process dies of it, and nil if it is another.
func (f *fleet) killed(err error) error {
	if errors.Is(err, faultfs.ErrCrashed) {
		return err
	}
	return nil
}

// damaged handles a message that could not be read.
func (f *fleet) damaged(err error) {
	if f.err = cmp.Or(f.err, f.killed(err)); f.err == nil {
		f.t.Errorf("%+v; want f.err != nil", err)
	}
}

// put makes an entity, or changes it.
func (f *fleet) put(kind event.EntityKind, path string, p event.Properties) *engine.Entity {
	f.t.Helper()
	err := f.store.Use(log.Moves)
	if err == nil {
		err = f.ask(0, &engine.PutEntity{Kind: kind, Path: path, Properties: p}).Err
	}
	if f.err = cmp.Or(f.err, f.killed(err)); f.dead() != nil {
		return nil
	}
	f.must(err)
	f.enforce()
	return f.directory.find(strings.ToLower(path))
}

// remove deletes an entity.
func (f *fleet) remove(path string) {
	f.t.Helper()
	e := f.directory.find(path)
	f.must(f.ask(0, &engine.DeleteEntity{Path: path, Reason: "client"}).Err)
	f.directory.remove(e)
	f.must(f.ask(e.Hosts[0], loop.DropSlice(event.Slice{Entity: e.ID})).Err)
	f.enforce()
}

// ask carries out one command and returns its reply; if the process dies the reply is
// [engine.ErrUnknown].
func (f *fleet) ask(p engine.PartitionID, cmd engine.Command) engine.Reply {
	reply := &keptReplies{}
	f.loops[p].Turn([]engine.Request{{Command: cmd, Sink: reply}})
	for len(reply.got) == 0 && f.dead() == nil {
		f.step()
	}
	if len(reply.got) == 0 {
		return engine.Reply{Err: engine.ErrUnknown}
	}
	return reply.got[0]
}

// dead returns why the process died, if it has.
func (f *fleet) dead() error {
	for _, l := range f.loops {
		f.err = errors.Join(f.err, l.Err())
	}
	return f.err
}

// step runs one of the parts that have something to do.
func (f *fleet) step() {
	i := f.rng.IntN(f.logs)
	if f.lean && f.rng.IntN(8) == 0 {
		f.err = cmp.Or(f.err, f.killed(f.compact(i)))
		return
	}
	switch l := f.loops[i]; f.rng.IntN(4) {
	case 0:
		l.Turn(nil)
	case 1:
		f.writers[i].Work()
	case 2:
		l.Committed()
	case 3:
		f.couriers[i].Turn(f.now)
	}
}

// settle runs steps until nothing is left to do. Time passes only when every part waits for it.
func (f *fleet) settle() {
	f.t.Helper()
	for range 100_000 {
		if f.dead() != nil {
			return
		}
		f.step()
		if f.rng.IntN(64) == 0 && f.quiet() {
			return
		}
	}
	f.t.Fatal("it never ends")
}

// quiet reports whether no part has anything to do before time passes.
func (f *fleet) quiet() bool {
	for i, l := range f.loops {
		if l.Pending() || l.Busy() || !f.couriers[i].quiet(f.now) {
			return false
		}
	}
	return true
}

// pass advances the time.
func (f *fleet) pass(d time.Duration) {
	f.now = f.now.Add(d)
	f.settle()
}

// crash ends the process, and starts it with what is left on the disk.
func (f *fleet) crash(mode faultfs.Mode) {
	f.t.Helper()
	f.disk = f.disk.Crash(f.rng, mode)
	f.must(f.start())
}

// send sends messages with these ids, and reports which were accepted.
func (f *fleet) send(path string, ids ...string) (accepted []string) {
	for _, id := range ids {
		if f.dead() != nil {
			break
		}
		if r := f.sendOne(path, engine.Message{ID: []byte(id[:min(len(id), 16)]), Body: []byte(id)}); r.Err == nil {
			accepted = append(accepted, id)
		}
	}
	return accepted
}

func (f *fleet) sendOne(path string, m engine.Message) engine.Reply {
	e := f.directory.find(path)
	return f.ask(e.Hosts[0], &engine.Send{Entity: e, Slice: event.Slice{Entity: e.ID}, Messages: []engine.Message{m}})
}

// places returns where each message is: "b", "a/dead", "a/transfer-dead", and "+" if it is in
// transfer.
func (f *fleet) places() map[string][]string {
	f.t.Helper()
	found := map[string][]string{}
	for _, e := range f.directory.sorted() {
		for i, h := range e.Hosts {
			x := f.rules[h].Index()
			id := event.Slice{Entity: e.ID, Partition: uint8(i)}
			note := func(m *index.Message, name string) {
				body, err := f.parts[h].ReadBlob(m.Body, nil)
				f.must(err)
				found[string(body)] = append(found[string(body)], name)
			}
			for q, name := range map[event.SubQueue]string{event.Main: "", event.DeadLetter: "/dead", event.TransferDeadLetter: "/transfer-dead"} {
				for m := range x.Browse(id, q, 0) {
					if m.State != index.Transferring {
						note(&m, e.Path+name)
					}
				}
			}
			for _, t := range x.Transfers() {
				if t.Slice == id {
					m, _, _ := x.Transfer(id, t.Number)
					note(&m, e.Path+"+")
				}
			}
		}
	}
	for _, at := range found {
		sort.Strings(at)
	}
	return found
}

// are checks that the messages are where they should be, and there is no other.
func (f *fleet) are(want map[string]string) {
	f.t.Helper()
	got := f.places()
	for id, at := range want {
		if strings.Join(got[id], " ") != at {
			f.t.Errorf("%.20s is at %v, want %q", id, got[id], at)
		}
	}
	for id, at := range got {
		if want[id] == "" {
			f.t.Errorf("%.20s is at %v, and should not be", id, at)
		}
	}
}

// first returns the first message of a sub-queue, with the texts that say why it is there.
func (f *fleet) first(path string, q event.SubQueue) (m index.Message, reason, text string) {
	f.t.Helper()
	e := f.directory.find(path)
	p := f.parts[e.Hosts[0]]
	for m = range f.rules[e.Hosts[0]].Index().Browse(event.Slice{Entity: e.ID}, q, 0) {
		for i := range m.Changes {
			b, err := p.ReadBlob(m.Changes[i], nil)
			f.must(err)
			changes, err := event.ReadChanges(b)
			f.must(err)
			for _, c := range changes.Set {
				switch c.Name {
				case "DeadLetterReason":
					reason = c.Value.Text
				case "DeadLetterErrorDescription":
					text = c.Value.Text
				}
			}
		}
		return m, reason, text
	}
	f.t.Fatalf("nothing in sub-queue %d of %s", q, path)
	return
}

// SM-112, SM-262, T5, T6, T7: whatever call of the file system is the last one, of either log, and
// whether the process died or the power failed: a message that was accepted is in exactly one place
// at the end, and any other in one at most.
func TestMovesSurviveEveryCall(t *testing.T) {
	t.Parallel()
	for _, logs := range []int{1, 2} {
		for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
			t.Run(fmt.Sprintf("%d logs, %s", logs, mode), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(4) {
					calls := movesUntil(t, seed, logs, mode, 0)
					for k := 1; k <= calls; k++ {
						movesUntil(t, seed, logs, mode, k)
					}
				}
			})
		}
	}
}

// movesUntil sends messages to a chain of queues whose last accepts only some of them, dies at call
// number k of the file system, if k is not 0, starts again and finds out where the messages are. It
// returns how many calls there were.
func movesUntil(t *testing.T, seed uint64, logs int, mode faultfs.Mode, k int) int {
	f := newFleet(t, seed, logs)
	small := testQueue()
	small.MaxMessageSizeKilobytes = 1
	f.put(event.Queue, "c", small)
	f.put(event.Queue, "b", forwardTo("c"))
	f.put(event.Queue, "a", forwardTo("b"))
	before := f.disk.Calls()
	if k > 0 {
		f.disk.CrashAt(before + k)
	}
	large := strings.Repeat("x", 1500)
	ids := []string{"1", "2", "3" + large, "4", "5" + large, "6"}
	accepted := f.send("a", ids...)
	if k == 0 && len(accepted) != len(ids) {
		t.Fatalf("accepted %d", len(accepted))
	}
	if f.dead() == nil {
		f.settle()
	}
	calls := f.disk.Calls() - before
	if k > 0 {
		if f.dead() == nil {
			f.err = faultfs.ErrCrashed // in the last call, whose error was not seen
		}
		f.crash(mode)
		f.settle()
	}
	got := f.places()
	for _, id := range ids {
		want := "c"
		if len(id) > 1 {
			want = "b/dead"
		}
		at := strings.Join(got[id], " ")
		if at != want && (at != "" || slices.Contains(accepted, id)) {
			t.Fatalf("seed %d, dies at %d of %d logs, %s: %.5s is at %v, want %s", seed, k, logs, mode, id, got[id], want)
		}
	}
	for i := range f.loops {
		if open := f.rules[i].Index().Transfers(); len(open) > 0 {
			t.Fatalf("seed %d, dies at %d: %d transfers are open", seed, k, len(open))
		}
	}
	return calls
}

// outstanding returns how many transfers the loops have given to their couriers.
func (f *fleet) outstanding() (n int) {
	for _, l := range f.loops {
		all, _ := l.Outstanding()
		n += all
	}
	return n
}

// Limits of engine/loop, as its own tests know them.
const (
	maxOpenTransfers = 256
	maxSpan          = 16 * maxOpenTransfers
	maxBackground    = 256 << 10
)

// groupSizes is a writer that knows how large the largest group was: the bytes written for one
// sync.
type groupSizes struct {
	log.ManualWriter
	group, largest int
}

func (s *groupSizes) add(b *log.Batch) *log.Batch {
	s.group += b.Len()
	s.largest = max(s.largest, s.group)
	return b
}

// Append implements [log.Writer].
func (s *groupSizes) Append(b *log.Batch) log.Ticket { return s.ManualWriter.Append(s.add(b)) }

// Write implements [log.Writer].
func (s *groupSizes) Write(b *log.Batch) log.Ticket { return s.ManualWriter.Write(s.add(b)) }

// Sync implements [log.Writer].
func (s *groupSizes) Sync() {
	s.group = 0
	s.ManualWriter.Sync()
}
