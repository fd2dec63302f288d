package host

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ErrInternal reports that an invariant does not hold, so the state may be wrong. The process
// should end (reliability.md F21).
var ErrInternal = loop.ErrInternal

// Options are the settings of a [Namespace].
type Options struct {
	Logger *slog.Logger // nil: none
	Time   TimeSource   // nil: the clock of the machine
	Clock  ClockRules   // which clock a start accepts
	// Program describes the running program; the log records it for each run.
	Program Program
	// Notices receives what an operator should know about the start, before anything ends or
	// expires because of it. It is called only if there is something to tell; nil: notices are
	// dropped.
	Notices func([]string)
	// Properties reads the properties that filters see of an encoded message. It returns how many
	// bytes the message has outside its body sections. Scheduled messages of topics need it.
	Properties func(message []byte, into *filter.Message) (header int, err error)
	// CheckpointBytes is the least amount of log between two checkpoints of a partition; 0: 512
	// MiB, negative: no checkpoints.
	CheckpointBytes int64
	// Reread turns a stored message into the message that another entity is asked to store. It
	// applies the property changes, oldest first, and returns them as one. ttl is the new time to
	// live; 0: none, negative: as sent. If see is not nil, it fills in what filters see. An
	// [*engine.Error] means that no entity accepts the message; any other error means that the
	// bytes are damaged. Moving messages needs it.
	Reread func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	// MaxReceivers bounds the receivers of a queue, or of all subscriptions of a topic together
	// (semantics.md 16.3); 0: 5000.
	MaxReceivers int
	// Fence takes a partition out of service when its log fails, while the others continue. If it
	// is false, the error goes to [Namespace.Failed]. Partition 0 is never taken out.
	Fence bool
	// NoMemory reports that memory is exhausted: requests that take lasting memory are refused as
	// busy, and settlements continue (docs/decisions/0041). nil: memory never runs out.
	NoMemory func() bool
	// Memory is the account from which memory is taken in advance, for moving messages and for work
	// on snapshots of the state; nil: unlimited.
	Memory log.Memory
	// FailuresTo is the sub-queue of the source that gets messages which ForwardTo cannot deliver:
	// [event.TransferDeadLetter], or, with any other value, the dead-letter queue.
	FailuresTo event.SubQueue
	// History is the history policy of the namespace in the settings.
	History engine.PutHistoryPolicy
	// ScrubEvery is the time within which each byte of the logs is read again and compared, while
	// the logs are in use (docs/decisions/0053); 0: never.
	ScrubEvery time.Duration
	// EntityPartitions is the number of partitions of a queue or topic that is created with
	// EnablePartitioning, up to [event.MaxEntityPartitions]; 0: one. Existing entities keep the
	// number they have (docs/decisions/0051).
	EntityPartitions int
	// MaxPartitioned bounds the partitioned queues and topics; 0: 100.
	MaxPartitioned int

	keepAllHistory bool // no job removes history: a test does it
}

// Namespace is a running engine over one data directory. It implements [engine.Broker].
type Namespace struct {
	partitions // passes commands to the loops
	watchers   // is told when entities change
	admin      // changes entities, an [engine.Admin]

	// set once in Open
	opts         Options
	store        log.Store
	clock        *Clock
	clockStart   ClockStart // how broker time began
	logger       *slog.Logger
	recovered    []PartitionRecovery
	failed       chan error
	started      event.Time
	closing      context.Context // ends when Close begins
	cancel       context.CancelCauseFunc
	idleEnded    chan struct{} // closed when the idle job has ended
	eraser       *background.Eraser
	historyEnded chan struct{} // closed when the retention job has ended

	directory  directory
	busy       loop.BusyLogs  // counts the logs that are writing to the disk
	background sync.WaitGroup // loops, couriers and the jobs that end with them
	restarts   sync.WaitGroup // restarts of partitions that are in progress
	copying    atomic.Bool    // a backup is in progress
	closed     sync.Once

	fencing sync.Mutex // held while an operator fences a partition: one at a time
}

// Program identifies the program in the log.
type Program struct {
	Version  string // of the broker
	Settings string // fingerprint of the settings; equal settings have equal fingerprints
}

// PartitionRecovery describes what the start of a partition found.
type PartitionRecovery struct {
	Partition  engine.PartitionID
	Log        log.Recovery
	Checkpoint event.LSN // where replay started; 0: at the beginning
	Replayed   int       // events
	Messages   int       // live
	Locks      int
	Took       time.Duration
	Err        error // why the partition is refused; nil: it is not
}

// Open recovers every partition of a store and starts to serve. A corrupt partition is refused and
// answers Busy, and the others are served. Open returns an error if partition 0, which holds the
// catalogue, is corrupt, or if the clock is refused, a [*ClockError].
func Open(ctx context.Context, store log.Store, opts Options) (*Namespace, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Time == nil {
		opts.Time = newSystemTime()
	}
	if opts.Memory == nil {
		opts.Memory = log.Unbounded{}
	}
	ids := store.Partitions()
	n := &Namespace{
		partitions: partitions{slots: make([]slot, len(ids)), memory: opts.Memory}, opts: opts, store: store,
		recovered: make([]PartitionRecovery, len(ids)), logger: opts.Logger, failed: make(chan error, len(ids)+2), idleEnded: make(chan struct{}), historyEnded: make(chan struct{}),
	}
	n.closing, n.cancel = context.WithCancelCause(context.Background())
	of := n.surroundings()
	n.eraser = background.NewEraser(of)
	n.admin.partitions, n.admin.directory, n.admin.watchers, n.admin.now = &n.partitions, &n.directory, &n.watchers, n.Now
	n.admin.store, n.admin.moved = store, slices.Contains(store.Namespace().Capabilities, log.Moves)
	n.admin.manage, n.admin.managed = make(chan engine.Request, maxManaged), make(chan struct{})
	states := make([]*index.Index, len(ids))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range ids {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			states[i] = n.recover(ctx, engine.PartitionID(i))
		})
	}
	wg.Wait()
	for i, r := range n.recovered {
		if r.Err != nil && (i == 0 || !isCorrupt(r.Err)) {
			return nil, r.Err
		}
	}
	if err := n.startClock(states); err != nil {
		return nil, err
	}
	if err := n.start(ctx, states); err != nil {
		for i := range n.slots {
			if t := n.slots[i].running.Load(); t != nil {
				t.writer.Close()
			}
		}
		return nil, err
	}
	go n.runAttendant(func() { n.serveManaged(n.closing.Done()) })
	go n.runAttendant(func() {
		defer close(n.idleEnded)
		(&background.Idle{Of: of, Started: n.started}).Run(n.closing)
	})
	if err := keepHistory(ctx, n); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.background.Add(1)
	go n.runAttendant(func() {
		defer n.background.Done()
		n.eraser.Run(n.closing)
	})
	if opts.ScrubEvery > 0 {
		n.background.Add(1)
		go n.runAttendant(func() {
			defer n.background.Done()
			(&background.Scrub{Of: of, Every: opts.ScrubEvery}).Run(n.closing)
		})
	}
	return n, nil
}

func isCorrupt(err error) bool {
	var c *log.CorruptError
	return errors.As(err, &c)
}

// startClock starts broker time and reports how, or refuses the clock.
func (n *Namespace) startClock(states []*index.Index) error {
	opts := &n.opts
	wall := opts.Time.Wall()
	begin, err := opts.Clock.Begin(wall, states)
	if err != nil {
		return err
	}
	n.clockStart = begin
	n.clock = begin.Clock(opts.Time, opts.Logger)
	if notices := n.reportClock(begin, opts.Clock, wall); notices != nil && opts.Notices != nil {
		opts.Notices(notices)
	}
	n.started = n.clock.Now()
	return nil
}

// start leads every recovered partition, applies the decision about the clock, ends everything that
// expired while the broker was down, and begins to serve.
func (n *Namespace) start(ctx context.Context, states []*index.Index) error {
	errs := make([]error, len(states))
	var wg sync.WaitGroup
	for i, x := range states {
		if x == nil {
			n.setStatus(engine.PartitionStatus{ID: engine.PartitionID(i), State: engine.PartitionRefused, Since: n.started, Cause: oneLine(n.recovered[i].Err)})
			continue
		}
		// mostly waits for syncs
		wg.Go(func() { errs[i] = n.leadFirst(ctx, engine.PartitionID(i), x) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := n.setClocks(); err != nil {
		return err
	}
	n.configureAll(&states[0].Catalogue)
	logUnsplit(n)
	if err := n.orderAll(n.logger); err != nil {
		return err
	}
	for i, l := range n.loops() {
		if l == nil {
			continue
		}
		l.Begin(n.opts.Program.Version, n.opts.Program.Settings, n.slots[i].last.log)
		l.DropUnknown()
		l.Recover()
		l.Resume(n.directory.entity)
	}
	for i := range n.slots {
		if t := n.slots[i].running.Load(); t != nil {
			n.run(engine.PartitionID(i), t)
		}
	}
	n.avoidAbsent()
	return nil
}

// leadFirst leads a partition at the start of the namespace. If Options.Fence is set, a partition
// that cannot be led is fenced.
func (n *Namespace) leadFirst(ctx context.Context, id engine.PartitionID, x *index.Index) error {
	t, err := n.lead(ctx, id, *n.slots[id].log.Load(), x)
	switch {
	case err == nil:
		n.partitions.mu.Lock()
		defer n.partitions.mu.Unlock()
		n.slots[id].seat(t)
		n.slots[id].status = servingStatus(id, n.started)
		return nil
	case id == 0 || !n.opts.Fence || isInternal(err) || ctx.Err() != nil:
		return err
	}
	n.logger.Error("partition fenced: its log cannot be written; it can be restarted", "partition", id, "error", err)
	n.setStatus(engine.PartitionStatus{ID: id, State: engine.PartitionFenced, Since: n.started, Cause: oneLine(err)})
	return nil
}

// setClocks applies the decision about the clock of the start.
func (n *Namespace) setClocks() error {
	rules := &n.opts.Clock
	// partition 0 first: if this start dies halfway, the next one applies the decision that is
	// durable there
	for i, set := range n.clockStart.Sets {
		l := n.loop(engine.PartitionID(i))
		if set == nil || l == nil {
			continue
		}
		reason := rules.Reason
		if set.Basis == event.BasisCatalogue { // decided at an earlier start
			reason = ""
		}
		if err := l.SetClock(set, reason); err != nil {
			return err
		}
	}
	return nil
}

// lead makes the loop of a partition; from here on the loop writes the log.
func (n *Namespace) lead(ctx context.Context, id engine.PartitionID, plog log.Partition, x *index.Index) (t *incarnation, err error) {
	defer n.rescue(id, &err)
	writer, err := plog.Lead(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: partition %d: %w", id, err)
	}
	opts := &n.opts
	c := n.courier(id)
	part := engine.NewPartition(id, len(n.slots), x)
	part.Split(opts.EntityPartitions)
	part.SplitAtMost(opts.MaxPartitioned)
	to := loop.Options{
		Clock: n.clock.Now, Tokens: newTokens(), Logger: opts.Logger, Use: n.store.Use,
		Properties: opts.Properties, Reread: opts.Reread, CheckpointBytes: opts.CheckpointBytes, MaxReceivers: opts.MaxReceivers, NoMemory: opts.NoMemory, Memory: opts.Memory, Pace: true, FailuresTo: opts.FailuresTo, Elsewhere: n.sendElsewhere, Aside: n.sendAside, Logs: &n.busy}
	if c != nil {
		to.Courier = c
	}
	return newIncarnation(loop.New(part, plog, writer, to), part, writer, plog, c), nil
}

// run starts the goroutines of an incarnation.
func (n *Namespace) run(id engine.PartitionID, t *incarnation) {
	n.background.Go(func() {
		if err := n.serve(id, t.loop); err != nil {
			n.partitionEnded(id, t, err)
		}
	})
	n.runCourier(id, t)
}

// serve runs a loop until it is closed or fails.
func (n *Namespace) serve(id engine.PartitionID, l *loop.Loop) (err error) {
	defer n.rescue(id, &err)
	l.Run()
	return l.Err()
}

// runAttendant runs a job of the catalogue, which is partition 0, until the namespace closes.
func (n *Namespace) runAttendant(serve func()) {
	err := func() (err error) {
		defer n.rescue(0, &err)
		serve()
		return nil
	}()
	if err != nil {
		n.fail(err)
	}
}

// rescue turns a panic of the function that defers it into that function's error. The state may be
// wrong, so nothing continues after it (reliability.md F21).
func (n *Namespace) rescue(id engine.PartitionID, err *error) {
	if v := recover(); v != nil {
		n.logger.Error("partition panicked", "partition", id, "panic", v, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w: partition %d: panic: %v", ErrInternal, id, v)
	}
}

// newTokens returns a source of random lock tokens: a ChaCha8 stream seeded by the operating
// system. Each loop has its own stream.
func newTokens() func() event.LockToken {
	var seed [32]byte
	rand.Read(seed[:])
	src := mathrand.NewChaCha8(seed)
	return func() (t event.LockToken) {
		binary.LittleEndian.PutUint64(t[:8], src.Uint64())
		binary.LittleEndian.PutUint64(t[8:], src.Uint64())
		t[6], t[8] = t[6]&0x0f|0x40, t[8]&0x3f|0x80 // a version 4 UUID
		return t
	}
}

// Recovered returns what the start found, by partition.
func (n *Namespace) Recovered() []PartitionRecovery { return n.recovered }

// Failed yields the errors after which the process should end: that of each partition which stops
// while serving, unless the partition is fenced.
func (n *Namespace) Failed() <-chan error { return n.failed }

// Now implements [engine.Broker].
func (n *Namespace) Now() event.Time { return n.clock.Now() }

// Entities returns every entity, sorted by lower-cased path.
func (n *Namespace) Entities() []*engine.Entity { return n.directory.sorted() }

// Resolve implements [engine.Broker].
func (n *Namespace) Resolve(path string) (engine.Target, error) {
	return n.directory.resolve(path)
}

// ReportDamage implements [engine.Broker].
func (n *Namespace) ReportDamage(p engine.PartitionID, lock event.LockToken, err error) {
	const text = "stored data cannot be read; the partition refuses new messages"
	// only the loop knows whether the body was still needed
	if lock != (event.LockToken{}) && errors.Is(err, event.ErrErased) {
		n.Submit(p, []engine.Request{{Command: loop.Damage(err, lock, func() {
			err := loop.LiveBodyError(err)
			n.logger.Error(text, "partition", p, "error", err)
			n.slots[p].noteDamage(n.Now(), 0, err)
		})}})
		return
	}
	n.logger.Error(text, "partition", p, "error", err)
	n.reportDamage(n.Now(), p, 0, err)
}

// Close finishes the pending requests and stops every partition.
func (n *Namespace) Close() error {
	var errs []error
	n.closed.Do(func() {
		n.fencing.Lock()
		// operators' requests either began before this, and are waited for, or are refused
		n.partitions.mu.Lock()
		n.cancel(refuseStopping())
		n.partitions.mu.Unlock()
		n.fencing.Unlock()
		<-n.idleEnded
		<-n.historyEnded
		<-n.managed
		n.restarts.Wait()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range n.slots {
			t := n.slots[i].running.Load()
			if t == nil {
				continue // its error was reported when it ended
			}
			wg.Go(func() {
				err := t.retire()
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			})
		}
		wg.Wait()
		n.background.Wait()
	})
	return errors.Join(errs...)
}
