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
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ErrInternal: something that must hold does not, so the state may be wrong. The process should end (reliability.md F21).
var ErrInternal = errors.New("engine: internal fault")

// Options are the settings of a [Namespace].
type Options struct {
	Logger *slog.Logger // nil: none
	Time   TimeSource   // nil: that of the machine
	Clock  ClockRules   // with which clock a start goes on
	// Program is what the log says of this run.
	Program Program
	// Notices is told what whoever looks after the broker should know about its start, when there is something, before anything ends
	// or expires by it; nil: nobody.
	Notices func([]string)
	// Properties finds what filters see of an encoded message, and how many bytes of it stand beside its body's sections. Needed
	// for scheduled messages of topics.
	Properties func(message []byte, into *filter.Message) (header int, err error)
	// CheckpointBytes is how much log is written between two checkpoints of a partition at least; 0: 512 MiB, negative: no
	// checkpoints are made.
	CheckpointBytes int64
	// Reread makes of a stored message, with its property changes, the oldest first, and its time to live (0: none, negative: as it was
	// sent), what another entity is asked to store, with all changes in one, and fills in what filters see where that is not nil. An error
	// that is an [*engine.Error] says that no entity takes it, any other that the bytes are damaged. Needed where messages move.
	Reread func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	// MaxReceivers is how many receivers a queue, or all subscriptions of a topic together, may have at a time (semantics.md 16.3);
	// 0: 5000.
	MaxReceivers int
	// FailuresTo is the sub-queue of the source that gets what its ForwardTo cannot deliver: [event.TransferDeadLetter], or, as anything
	// else says, the dead-letter queue.
	FailuresTo event.SubQueue
}

// Namespace is a running engine over one data directory: an [engine.Broker].
type Namespace struct {
	partitions // how commands get to the loops
	watchers   // who hears of changes of entities
	admin      // what makes them, an [engine.Admin]

	// set once in Open
	clock     *Clock
	logger    *slog.Logger
	use       func(capability string) error // of the store
	recovered []Recovered
	failed    chan error
	started   event.Time
	stop      chan struct{} // ends collect
	collected chan struct{} // closed when it has

	directory directory
	couriers  []*Courier // by partition
	carried   sync.WaitGroup
	closed    sync.Once
}

// Recovered says what a partition's start found.
type Recovered struct {
	Partition  engine.PartitionID
	Log        log.Recovery
	Checkpoint event.LSN // replay started here; 0: from the beginning
	Replayed   int       // events
	Messages   int       // live
	Locks      int
	Took       time.Duration
	Err        error // why the partition is refused
}

// Open recovers every partition of a store and starts serving. A corrupt partition is refused and answers Busy; others go
// on. A corrupt partition 0, which holds the catalogue, is an error, and so is a clock that is refused, a [*ClockError].
func Open(ctx context.Context, store log.Store, opts Options) (*Namespace, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Time == nil {
		opts.Time = newSystemTime()
	}
	ids := store.Partitions()
	n := &Namespace{
		partitions: partitions{loops: make([]*Loop, len(ids)), refused: make([]error, len(ids)), logs: make([]log.Partition, len(ids))},
		couriers:   make([]*Courier, len(ids)),
		use:        store.Use, recovered: make([]Recovered, len(ids)), logger: opts.Logger, failed: make(chan error, len(ids)+2),
		stop: make(chan struct{}), collected: make(chan struct{}),
	}
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
			states[i] = n.recover(ctx, store, engine.PartitionID(i))
		})
	}
	wg.Wait()
	for i, r := range n.recovered {
		if r.Err != nil && (i == 0 || !isCorrupt(r.Err)) {
			return nil, r.Err
		}
	}
	sets, err := n.startClock(states, opts)
	if err != nil {
		return nil, err
	}
	if err := n.start(ctx, states, sets, opts); err != nil {
		for _, l := range n.loops {
			if l != nil {
				l.frames.writer.Close()
			}
		}
		return nil, err
	}
	n.started = n.clock.Now()
	n.carry()
	go n.attend(func() { n.serveManaged(n.stop) })
	go n.attend(func() {
		defer close(n.collected)
		n.collect(n.stop)
	})
	return n, nil
}

func isCorrupt(err error) bool {
	var c *log.CorruptError
	return errors.As(err, &c)
}

// startClock begins broker time and says how, or refuses the clock.
func (n *Namespace) startClock(states []*index.Index, opts Options) ([]*event.ClockSet, error) {
	wall := opts.Time.Wall()
	begin, err := opts.Clock.Begin(wall, states)
	if err != nil {
		return nil, err
	}
	n.clock = begin.Clock(opts.Time, opts.Logger)
	if notices := n.tellClock(begin, opts.Clock, wall); notices != nil && opts.Notices != nil {
		opts.Notices(notices)
	}
	return begin.Sets, nil
}

// start takes the lead of every recovered partition, carries out what was decided about the clock, ends what was due while the broker
// was down, and begins to serve.
func (n *Namespace) start(ctx context.Context, states []*index.Index, sets []*event.ClockSet, opts Options) error {
	errs := make([]error, len(states))
	var wg sync.WaitGroup
	for i, x := range states {
		if x == nil || n.refused[i] != nil {
			continue
		}
		wg.Go(func() { // mostly waiting for syncs
			if err := n.lead(ctx, i, x, opts); err != nil {
				errs[i] = fmt.Errorf("engine: partition %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, set := range sets { // partition 0 first: what is durable there, a start that dies on the way leaves to the next one
		if set == nil {
			continue
		}
		reason := opts.Clock.Reason
		if set.Basis == event.BasisCatalogue { // decided at an earlier start
			reason = ""
		}
		if err := n.loops[i].SetClock(set, reason); err != nil {
			return err
		}
	}
	n.configureAll(&states[0].Catalogue)
	if err := n.orderAll(opts.Logger); err != nil {
		return err
	}
	for i, l := range n.loops {
		if l == nil {
			continue
		}
		l.Begin(opts.Program, n.logs[i])
		l.DropUnknown()
		l.Recover()
		l.Resume(n.directory.lives)
		go func() {
			if err := n.run(l); err != nil {
				n.failed <- err
			}
		}()
	}
	return nil
}

// lead makes the loop of a partition, which writes its log from here on.
func (n *Namespace) lead(ctx context.Context, i int, x *index.Index, opts Options) (err error) {
	defer n.rescue(engine.PartitionID(i), &err)
	writer, err := n.logs[i].Lead(ctx)
	if err != nil {
		return err
	}
	part := engine.NewPartition(engine.PartitionID(i), len(n.loops), x)
	if i == 0 {
		refused := make([]bool, len(n.refused)) // not the catalogue itself: without it there is no namespace
		for id, err := range n.refused {
			refused[id] = err != nil
		}
		part.Avoid(refused)
	}
	n.couriers[i] = n.courier(engine.PartitionID(i), opts)
	n.loops[i] = NewLoop(part, n.logs[i], writer, LoopOptions{
		Clock: n.clock.Now, Tokens: newTokens(), Logger: opts.Logger, Use: n.use,
		Properties: opts.Properties, Reread: opts.Reread, CheckpointBytes: opts.CheckpointBytes, MaxReceivers: opts.MaxReceivers, Pace: true, Courier: n.couriers[i]})
	return nil
}

func (n *Namespace) run(l *Loop) (err error) {
	defer n.rescue(l.part.ID(), &err)
	l.Run()
	return l.recorder.err
}

// attend runs what looks after the catalogue, which is partition 0, until the namespace closes.
func (n *Namespace) attend(serve func()) {
	err := func() (err error) {
		defer n.rescue(0, &err)
		serve()
		return nil
	}()
	if err != nil {
		n.failed <- err
	}
}

// rescue makes a panic of the function that defers it its error: the state may be wrong, nothing goes on from here
// (reliability.md F21).
func (n *Namespace) rescue(id engine.PartitionID, err *error) {
	if v := recover(); v != nil {
		n.logger.Error("partition panicked", "partition", id, "panic", v, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w: partition %d: panic: %v", ErrInternal, id, v)
	}
}

// newTokens makes random lock tokens from a ChaCha8 stream seeded by the operating system, one stream per loop.
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

// Recovered says what the start found, by partition.
func (n *Namespace) Recovered() []Recovered { return n.recovered }

// Failed yields the error of every partition that stops while serving. By default the process should end then.
func (n *Namespace) Failed() <-chan error { return n.failed }

// Now implements [engine.Broker].
func (n *Namespace) Now() event.Time { return n.clock.Now() }

// Entities returns every entity there is, by lower-cased path.
func (n *Namespace) Entities() []*engine.Entity { return n.directory.sorted() }

// Resolve implements [engine.Broker].
func (n *Namespace) Resolve(path string) (engine.Target, error) {
	name, q := engine.SplitPath(path)
	e := n.directory.find(name)
	if e == nil {
		return engine.Target{}, engine.NoEntity(path)
	}
	return engine.Target{Entity: e, SubQueue: q}, nil
}

// ReportDamage implements [engine.Broker].
func (n *Namespace) ReportDamage(p engine.PartitionID, err error) {
	n.logger.Error("stored data cannot be read; the partition takes no more messages", "partition", p, "error", err)
	n.Submit(p, []engine.Request{{Command: &damage{err: err}}})
}

// Close stops every partition after what was asked is done.
func (n *Namespace) Close() error {
	var errs []error
	n.closed.Do(func() {
		close(n.stop)
		<-n.collected
		<-n.managed
		n.carried.Wait()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, l := range n.loops {
			if l == nil {
				continue
			}
			wg.Go(func() {
				err := l.Close()
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			})
		}
		wg.Wait()
	})
	return errors.Join(errs...)
}
