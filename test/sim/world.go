package sim

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Violation says which invariant of reliability.md 5 a run broke, and how.
type Violation struct {
	Seed      uint64
	Invariant string
	Text      string
	Step      int
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s broken at step %d: %s", v.Seed, v.Invariant, v.Step, v.Text)
}

// Result is what one seed came to.
type Result struct {
	Seed    uint64
	Hash    uint64 // of the trace
	Answers uint64 // of what clients asked and saw, in each step, in any order
	// of the states before all is received at the end, as they are encoded: with the addresses of
	// bodies
	State     uint64
	Violation *Violation
	Stats     Stats
}

// part is one partition: what is real and what must come of it.
type part struct {
	w      *world
	id     int
	model  *model.Partition
	shadow *shadow

	plog   log.Partition
	writer *simWriter
	state  *engine.Partition
	loop   *loop.Loop
	inbox  []*ask
	posted []engine.Reply
	issued []model.Token // tokens the loop took in this turn
	taken  []model.Token // … and what it took them for was found

	starting  bool
	frames    []frame // that may not be durable
	put       []frame // that the shadow has not heard of
	asked     int     // records that had been appended when a sync was asked for
	reached   marks   // how far the log is, in records
	heard     marks   // … when the loop last heard of it
	crank     *crank  // a sync that goes on
	ends      []frame // all that there were, by address
	appended  int     // records given to the writer: no more can survive
	needKill  int     // records that must survive the death of the process
	needPower int     // … and a power loss
	noted     int     // of those, at the last progress note
	ledIn     int     // boot in which the log was last taken over

	courier *background.Courier // nil: nothing moves
	offers  []*offered          // that couriers made it
	given   []*offered          // … and its loop has; some of them have their answers
	// of its ports at what they share with others, that the shadow has not heard of
	looks []look
	suspended

	shut int   // that many more are turned away
	rest int64 // when its courier wants a turn; 0: when it is told something

	corruption *corruption // that has it refused; nil: none
	away       bool        // it is refused, or fenced
	faulted    bool        // an injected error was returned to it since it was taken in service
	dropped    bool        // … by a sync that lost pages; it has not been recovered since
	how        stop        // how its last run ended
	missed     bool        // there was a run without it since: nobody vouches for that end any more

	facts map[int]noted // by record
	stops []event.Stop  // how the last run may be said to have ended; nil: anything
}

// frame is one that was given to the writer.
type frame struct {
	end     event.LSN
	upto    int // records in it and before
	written int // records that were in the log right afterwards
	level   log.Durability
}

// simWriter is the writer with its appends counted.
type simWriter struct {
	log.ManualWriter
	p     *part
	sizes sizes
	hangs bool // the disk does not answer, as far as the loop knows
}

func (t *simWriter) Append(b *log.Batch) log.Ticket { return t.count(b, t.ManualWriter.Append) }

func (t *simWriter) Write(b *log.Batch) log.Ticket { return t.count(b, t.ManualWriter.Write) }

func (t *simWriter) count(b *log.Batch, give func(*log.Batch) log.Ticket) log.Ticket {
	p := t.p
	p.appended += b.Count()
	p.w.stats.Frames++
	p.dumpBatch("sealed")
	level := b.Level()
	ticket := give(b)
	p.frames = append(p.frames, frame{end: ticket.End(), upto: p.appended})
	p.ends = append(p.ends, frame{end: ticket.End(), upto: p.appended})
	f := frame{ticket.End(), p.appended, p.marks().written, level}
	if f.written == f.upto && p.crank != nil {
		p.w.stats.WritesDuringSync++
	}
	p.put = append(p.put, f)
	return ticket
}

func (t *simWriter) Sync() {
	t.p.asked = t.p.appended
	t.ManualWriter.Sync()
}

// Work counts what a start has to wait for.
func (t *simWriter) Work() bool {
	if t.p.starting {
		t.p.w.stats.StartWaits++
	}
	return t.ManualWriter.Work()
}

// marks is how far the log is.
func (p *part) marks() marks {
	m := &p.reached
	written, durable := p.writer.Written(), p.writer.Durable()
	for _, f := range p.frames {
		if f.end <= written {
			m.written = f.upto
		}
		if f.end <= durable {
			m.durable = f.upto
		}
	}
	p.frames = slices.DeleteFunc(p.frames, func(f frame) bool { return f.end <= durable })
	return *m
}

type world struct {
	seed  uint64
	rng   *rand.Rand
	o     options
	out   io.Writer // readable trace; nil: none
	hash  hash.Hash64
	seen  uint64      // as Result.Answers
	last  hash.Hash64 // as Result.State
	stats Stats
	step  int

	sealRand    *rand.Rand
	sends       map[uint64]*ask // those without a key, by tag
	interleaver *rand.Rand      // says where a loop stands still at what ports share; nil: nowhere
	current     *part           // whose loop does something
	faults      faults
	spaces      spacing
	memory      *account // of the process that runs

	disk *faultfs.FS
	// gives the turn back while a sync goes on; nil: nobody would take it
	yield   func(struct{}) bool
	armed   int // crash at this call from now; 0: not
	failing int // error at this write or sync from now; 0: not
	crashed bool
	latent  []flip
	flips   int // of the newest damage
	boot    int
	mono    time.Duration // by the clock nobody can set
	offset  time.Duration // of the one everybody can
	read    time.Duration // mono when broker time was read last
	store   log.Store
	clock   *host.Clock
	newest  int64 // newest broker time anybody saw

	parts []*part
	// all there ever were: queues, topics and subscriptions, in the order in which they were made
	queues       []*queue
	catalogue    []setting // decisions about them
	admin        *ask      // change of the catalogue that is under way: there is one at a time
	collector    *collector
	started      int64           // broker time of the newest start
	began        host.ClockStart // … and what that decided about clocks
	receivers    []*receiver
	nextTag      uint64
	origins      []*engine.Origin
	hist         history
	asks         questions
	tokens       uint64
	transactions []*transaction            // that clients began, and may go on with
	refusals     map[moveKey]model.Refusal // what destinations last said, in this run
	// numbers of the messages that ever left, where they were
	leaving map[moveKey]uint64
	// that a client sends through what it sends to others; nil: there is none
	group    *queue
	draining bool // the end: everything received is completed
	ended    bool // the run cannot go on, legally
}

// Run plays one seed. If out is set, it gets a readable account of what happens.
func Run(seed uint64, out io.Writer) Result { return run(seed, out, func(*options) {}) }

// run plays a seed with options that were changed.
func run(seed uint64, out io.Writer, change func(*options)) (res Result) {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), sealRand: rand.New(rand.NewPCG(seed, sealStream+1)),
		out: out, hash: fnv.New64a(), last: fnv.New64a(),
		disk: faultfs.New()}
	w.o, w.leaving, w.refusals = swarm(w.rng, seed), map[moveKey]uint64{}, map[moveKey]model.Refusal{}
	change(&w.o)
	if w.o.faults {
		w.faults.rng = rand.New(rand.NewPCG(seed, faultStream+1))
		w.faults.little = rand.New(rand.NewPCG(seed, faultStream+2))
	}
	if w.o.spacing > 0 {
		w.spaces.rng = rand.New(rand.NewPCG(seed, spaceStream+1))
	}
	if w.o.split > 0 {
		w.sends = map[uint64]*ask{}
		w.interleaver = rand.New(rand.NewPCG(seed, splitStream+1))
	}
	if w.o.questions > 0 {
		w.asks.rng = rand.New(rand.NewPCG(seed, answersStream))
	}
	w.hist = newHistory(w)
	res.Seed = seed
	defer func() {
		w.stopSyncs()
		w.stopSpace()
		w.stopTurns()
		res.Hash, res.Answers, res.State, res.Stats = w.hash.Sum64(), w.seen, w.last.Sum64(), w.stats
		res.Stats.Seeds = 1
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok {
				v = &Violation{Seed: seed, Invariant: "P21 (assertion)", Text: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()), Step: w.step}
			}
			res.Violation = v
		}
	}()
	w.say("options", fmt.Sprintf("%+v", w.o))
	w.play()
	return res
}

// broken ends the run with a violation.
func (w *world) broken(invariant, format string, args ...any) {
	w.dump()
	panic(&Violation{Seed: w.seed, Invariant: invariant, Text: fmt.Sprintf(format, args...), Step: w.step})
}

// note puts a thing that happened into the trace.
func (w *world) note(what string, nums ...int64) {
	write := func(h hash.Hash64, what string, nums []int64) {
		var b [8]byte
		io.WriteString(h, what)
		for _, n := range nums {
			binary.LittleEndian.PutUint64(b[:], uint64(n))
			h.Write(b[:])
		}
	}
	if write(w.hash, what, nums); what == "ask" || what == "reply" || what == "delivery" {
		h := fnv.New64a()
		write(h, what, append(nums, int64(w.step)))
		w.seen += h.Sum64()
	}
	if w.out != nil {
		fmt.Fprintf(w.out, "%5d %v %s %v\n", w.step, w.mono, what, nums)
	}
}

// say writes to the readable trace only.
func (w *world) say(what string, text any) {
	if w.out != nil {
		fmt.Fprintf(w.out, "%5d %v %s %v\n", w.step, w.mono, what, text)
	}
}

func (w *world) play() {
	for i := range 4 {
		w.origins = append(w.origins, &engine.Origin{Connection: uint64(i), Link: fmt.Sprintf("link-%d", i), Principal: "sim"})
	}
	for i := range w.o.partitions {
		p := &part{w: w, id: i, model: &model.Partition{}, facts: map[int]noted{}}
		w.parts = append(w.parts, p)
	}
	w.found()
	for w.step = 1; w.step <= w.o.steps && !w.ended; w.step++ {
		w.act()
	}
	w.finishTurns()
	if !w.ended {
		w.finish()
	}
	w.stats.VirtualMillis += w.mono.Milliseconds()
}

// settle drives a partition until nothing is under way.
func (w *world) settle(p *part) {
	for !w.gone() && !p.failed() && (p.loop.Busy() || p.crank != nil) {
		worked := p.work()
		for p.crank != nil && !w.gone() {
			p.work()
		}
		heard := w.land(p)
		// a frame that found no room is tried once a second
		if !worked && !heard && p.writer.ManualWriter.DiskState().Room == log.RoomNone {
			p.writer.Tick()
			continue
		}
		if !worked && !heard && !w.gone() && !p.failed() {
			w.broken("I26", "partition %d: something is under way and there is nothing to do", p.id)
		}
	}
}

// gone reports that the process has died.
func (w *world) gone() bool { return w.crashed }

func (p *part) failed() bool {
	select {
	case <-p.writer.Lost():
		return true
	default:
		return false
	}
}

func (w *world) tag() uint64 {
	w.nextTag++
	return w.nextTag
}

func (w *world) origin() *engine.Origin { return w.origins[w.rng.IntN(len(w.origins))] }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// act does one thing.
func (w *world) act() {
	switch {
	case w.interleave():
		return
	case w.crashed:
		w.reborn()
		return
	}
	running := w.running()
	p := running[w.rng.IntN(len(running))]
	if w.o.fences && w.step%4 == 0 && w.fences(p) {
		return
	}
	w.changeFaults(p)
	switch w.choose() {
	case actRequest:
		w.request()
	case actTurn:
		w.beginTurn(p, p.mail(w.most(p)))
		if w.o.prompt && p.goesOn == nil && !w.gone() && w.chance(80) && !p.writer.hangs {
			w.settle(p)
		}
	case actWork:
		for range 1 + w.rng.IntN(3) {
			if p.writer.hangs || !p.work() {
				break
			}
			w.note("work", int64(p.id))
		}
	case actLand:
		w.beginLand(p)
	case actClock:
		w.advance()
	case actSecond:
		w.second(p)
	case actCheck:
		w.compare(p)
	case actJump:
		w.jump()
	case actCrash:
		w.crash()
		return
	case actArm:
		if w.armed == 0 {
			w.armed = 1 + w.rng.IntN(pick(w.rng, 4, 30, 100))
		}
	case actError:
		if w.failing == 0 {
			w.failing = 1 + w.rng.IntN(pick(w.rng, 2, 20))
		}
	case actStop:
		w.stop()
	case actIdle:
		w.collect()
	case actCourier:
		w.carry(p)
	case actRevive:
		w.revive()
	}
	if p.goesOn != nil {
		return
	}
	w.ifStopped()
	w.steady()
	w.seal(p)
	w.space()
}

// ifStopped ends the process when a partition has stopped.
func (w *world) ifStopped() {
	for _, p := range w.parts {
		if !w.crashed && p.loop != nil && p.goesOn == nil && (p.failed() || p.loop.Err() != nil) {
			w.note("partition stopped", int64(p.id))
			if !p.faulted {
				w.broken("I27", "partition %d stopped, and no error was injected: %v", p.id, p.loop.Err())
			}
			if w.mayFence(p) {
				w.fence(p)
				continue
			}
			w.crashed = true // the process ends
		}
	}
}

func (w *world) choose() action {
	total := 0
	for _, n := range w.o.actions {
		total += n
	}
	n := w.rng.IntN(total)
	for a, weight := range w.o.actions {
		if n -= weight; n < 0 {
			return action(a)
		}
	}
	panic("sim: no action")
}

// turn lets a loop take requests, and compares what comes of it with what must.
func (w *world) turn(p *part, asks []*ask) {
	w.beginTurn(p, asks)
	w.finishTurn(p)
}

// beginTurn is turn, which may stand still on its way.
func (w *world) beginTurn(p *part, asks []*ask) {
	requests := make([]engine.Request, len(asks))
	for i, a := range asks {
		a.done = new(atomic.Bool)
		requests[i] = engine.Request{Command: a.cmd, Sink: p, Tag: a.tag, Read: a.done}
	}
	now := w.now(p)
	w.note("turn", int64(p.id), int64(len(asks)), now)
	w.stats.Operations += int64(len(asks))
	before, given := p.marks(), p.handOffers()
	w.do(p, func() { p.loop.Turn(requests) }, func() {
		if w.gone() || p.failed() {
			p.lastly(func() { p.shadow.turn(now, asks, given, before) })
			return
		}
		p.shadow.turn(now, asks, given, before)
		p.agree("a turn")
		if at, must := int64(p.loop.NextDeadline()), p.shadow.deadline(); at != must {
			w.broken("I26", "partition %d: the loop sleeps until %d, it has something to do at %d", p.id, at, must)
		}
		if q, m := p.shadow.late(now); m != nil {
			w.broken("I14", "%s: message %d expired at %d and is there at %d, although the queue has receivers", q.path, m.Seq, m.ExpiresAt, now)
		}
	})
}

// itsEnd is the call in which a loop ends.
const itsEnd = "its end"

// lastly is what came of a call in which the process died: the frame that was being written then
// may have survived, and what was posted before has been seen. How far the loop came is not known,
// so not everything that the shadow says need have happened.
func (p *part) lastly(decide func()) {
	defer func() { _ = recover(); p.looks = nil }()
	decide()
	p.agree(itsEnd)
}

// land lets a loop hear of what has been written or synced, and reports whether there was any.
func (w *world) land(p *part) bool {
	did := w.beginLand(p)
	w.finishTurn(p)
	return did
}

// beginLand is land, which may stand still on its way.
func (w *world) beginLand(p *part) bool {
	before := p.marks()
	if before == p.heard {
		return false
	}
	p.heard = before
	now := w.now(p)
	w.note("landed", int64(p.id))
	w.do(p, p.loop.Committed, func() {
		if w.gone() || p.failed() || p.loop.Err() != nil {
			p.lastly(func() { p.shadow.committed(now, before) })
			return
		}
		p.shadow.committed(now, before)
		p.agree("a commit")
	})
	return true
}

// second is what a writer does once a second.
func (w *world) second(p *part) {
	need, faults := p.needPower, w.stats.IOErrors
	p.writer.Tick()
	// a note that finds no room is written a second later
	if !w.crashed && !p.failed() && w.stats.IOErrors == faults {
		p.noted = need
	}
	w.note("tick", int64(p.id))
}

// Post implements engine.Sink.
func (p *part) Post(replies []engine.Reply) { p.posted = append(p.posted, replies...) }

// token makes lock tokens for the loop.
func (p *part) token() (t event.LockToken) {
	p.w.tokens++
	binary.BigEndian.PutUint64(t[:8], p.w.tokens)
	binary.BigEndian.PutUint64(t[8:], p.w.rng.Uint64())
	t = t.In(0) // as the loop is going to: entities have one partition here
	p.issued = append(p.issued, model.Token(t))
	return t
}

func (w *world) logger() *slog.Logger {
	if w.out == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w.out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}}))
}

// Damaging reports whether a seed flips bits at rest.
func Damaging(seed uint64) bool {
	return swarm(rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), seed).damage
}
