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
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
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
	Seed      uint64
	Hash      uint64 // of the trace
	Violation *Violation
	Stats     Stats
}

// queue is a queue of the simulation.
type queue struct {
	n        int
	path     string
	slice    event.Slice
	host     *part
	model    *model.Queue
	created  event.Properties
	lines    [2]*line
	entity   *engine.Entity // the version in force
	maxEver  uint32         // largest max delivery count there ever was
	lockEver time.Duration
}

// setting is a change of a queue's settings, decided by a record of partition 0.
type setting struct {
	record int
	q      *queue
	props  event.Properties
}

// part is one partition: what is real and what must come of it.
type part struct {
	w      *world
	id     int
	model  *model.Partition
	shadow *shadow

	plog   log.Partition
	writer *tap
	state  *engine.Partition
	loop   *engine.Loop
	inbox  []*ask
	posted []engine.Reply
	issued []model.Token // tokens the loop took since the last look
	grants []lockGrant

	appended  int // records given to the writer: no more can survive
	needKill  int // records that must survive the death of the process
	needPower int // … and a power loss
	noted     int // of those, at the last progress note
	ledIn     int // boot in which the log was last taken over
}

type lockGrant struct {
	slice event.Slice
	seq   uint64
	token model.Token
	until int64
}

// tap is the writer with its appends counted.
type tap struct {
	log.Writer
	p *part
}

func (t *tap) Append(b *log.Batch) log.Ticket {
	t.p.appended += b.Count()
	t.p.w.stats.Frames++
	return t.Writer.Append(b)
}

type world struct {
	seed  uint64
	rng   *rand.Rand
	o     options
	out   io.Writer // readable trace; nil: none
	hash  hash.Hash64
	stats Stats
	step  int

	disk    *faultfs.FS
	armed   int // crash at this call from now; 0: not
	failing int // error at this write or sync from now; 0: not
	crashed bool
	faulted bool // an injected error was returned in this run
	dropped bool // … by a sync that lost pages
	latent  []flip
	flips   int // of the newest damage
	boot    int
	wall    time.Time
	store   log.Store
	clock   *engine.Clock
	newest  int64 // newest broker time anybody saw

	parts     []*part
	queues    []*queue
	catalogue []setting
	receivers []*receiver
	nextTag   uint64
	origins   []*engine.Origin
	hist      history
	tokens    uint64
	draining  bool // the end: everything received is completed
	ended     bool // the run cannot go on, legally
}

// Run plays one seed. With out it writes what happens, readably.
func Run(seed uint64, out io.Writer) (res Result) {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), out: out, hash: fnv.New64a(),
		disk: faultfs.New(), wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.o = swarm(w.rng)
	w.hist.w = w
	res.Seed = seed
	defer func() {
		res.Hash, res.Stats = w.hash.Sum64(), w.stats
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
	io.WriteString(w.hash, what)
	var b [8]byte
	for _, n := range nums {
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		w.hash.Write(b[:])
	}
	if w.out != nil {
		fmt.Fprintf(w.out, "%5d %v %s %v\n", w.step, w.wall.Format("05.000"), what, nums)
	}
}

// say writes to the readable trace only.
func (w *world) say(what string, text any) {
	if w.out != nil {
		fmt.Fprintf(w.out, "%5d %v %s %v\n", w.step, w.wall.Format("05.000"), what, text)
	}
}

func (w *world) play() {
	for i := range 4 {
		w.origins = append(w.origins, &engine.Origin{Connection: uint64(i), Link: fmt.Sprintf("link-%d", i), Principal: "sim"})
	}
	for i := range w.o.partitions {
		p := &part{w: w, id: i, model: &model.Partition{}}
		w.parts = append(w.parts, p)
	}
	w.found()
	for w.step = 1; w.step <= w.o.steps && !w.ended; w.step++ {
		w.act()
	}
	if !w.ended {
		w.finish()
	}
	w.stats.VirtualMillis += w.wall.Sub(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)).Milliseconds()
}

// found makes the data directory and the queues, before anything goes wrong.
func (w *world) found() {
	w.reopen(stopClean)
	for i, props := range w.o.queues {
		q := &queue{n: i, path: fmt.Sprintf("Queue-%d", i), created: props, maxEver: props.MaxDeliveryCount, lockEver: props.LockDuration}
		w.queues = append(w.queues, q)
		p := w.parts[0]
		w.turn(p, []*ask{{op: opUpdate, q: q, tag: w.tag(), props: props,
			cmd: &engine.PutQueue{Path: q.path, Properties: props, Origin: w.origin()}}})
		e, ok := p.state.Index().Catalogue.Find(q.path)
		if !ok {
			w.broken("P14", "queue %s is not in the catalogue after it was created", q.path)
		}
		q.slice = event.Slice{Entity: e.ID}
		q.host = w.parts[e.Hosts[0]]
		q.model = q.host.model.Add(i, settings(props))
		w.settle(p)
		w.configure(q, props)
	}
}

// settle drives a partition until nothing is under way.
func (w *world) settle(p *part) {
	for p.loop.Flight() != nil && !w.gone() {
		if !p.writer.Work() {
			if w.gone() || p.failed() {
				return
			}
			select {
			case <-p.loop.Flight():
			default:
				w.broken("I26", "partition %d: a frame is under way and there is nothing to do", p.id)
			}
		}
		w.land(p)
	}
}

// gone tells that the process died.
func (w *world) gone() bool { return w.crashed }

func (p *part) failed() bool {
	select {
	case <-p.writer.Lost():
		return true
	default:
		return false
	}
}

// settings is what the model needs to know of a queue.
func settings(p event.Properties) model.Settings {
	s := model.Settings{
		Lock: p.LockDuration.Milliseconds(), MaxDelivery: p.MaxDeliveryCount, DeadLetterExpired: p.DeadLetteringOnMessageExpiration,
		NoSend:     p.Status == event.Disabled || p.Status == event.SendDisabled,
		NoReceive:  p.Status == event.Disabled || p.Status == event.ReceiveDisabled,
		MaxMessage: int64(p.MaxMessageSizeKilobytes) << 10, MaxBytes: int64(p.MaxSizeMegabytes) << 20,
	}
	if p.DefaultMessageTimeToLive != event.Forever {
		s.TTL = p.DefaultMessageTimeToLive.Milliseconds()
	}
	return s
}

// configure puts settings in force where the queue lives.
func (w *world) configure(q *queue, props event.Properties) {
	q.entity = &engine.Entity{ID: q.slice.Entity, Kind: event.Queue, Path: q.path, Properties: props,
		Hosts: []engine.PartitionID{engine.PartitionID(q.host.id)}}
	q.maxEver, q.lockEver = max(q.maxEver, props.MaxDeliveryCount), max(q.lockEver, props.LockDuration)
	q.model.Settings = settings(props)
	if q.host.state != nil {
		q.host.state.Configure(q.entity)
	}
}

// decided is a queue's settings by the newest decision, in force or not.
func (w *world) decided(q *queue) event.Properties {
	for i := len(w.catalogue) - 1; i >= 0; i-- {
		if w.catalogue[i].q == q {
			return w.catalogue[i].props
		}
	}
	return event.Properties{}
}

func (w *world) tag() uint64 {
	w.nextTag++
	return w.nextTag
}

func (w *world) origin() *engine.Origin { return w.origins[w.rng.IntN(len(w.origins))] }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// act does one thing.
func (w *world) act() {
	if w.crashed {
		w.reborn()
		return
	}
	p := w.parts[w.rng.IntN(len(w.parts))]
	switch w.choose() {
	case actRequest:
		w.request()
	case actTurn:
		n := len(p.inbox)
		if n > 0 && w.chance(30) {
			n = w.rng.IntN(n + 1)
		}
		asks := p.inbox[:n:n]
		p.inbox = p.inbox[n:]
		w.turn(p, asks)
		if w.o.prompt && !w.gone() && w.chance(80) {
			w.settle(p)
		}
	case actWork:
		for range 1 + w.rng.IntN(3) {
			if !p.writer.Work() {
				break
			}
			w.note("work", int64(p.id))
		}
	case actLand:
		w.land(p)
	case actClock:
		w.advance()
	case actSecond:
		w.second(p)
	case actCheck:
		w.compare(p)
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
	}
	for _, p := range w.parts {
		if !w.crashed && p.loop != nil && (p.failed() || p.loop.Err() != nil) {
			w.note("partition stopped", int64(p.id))
			if !w.faulted {
				w.broken("I27", "partition %d stopped, and no error was injected: %v", p.id, p.loop.Err())
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

func (w *world) advance() {
	d := time.Duration(w.rng.Int64N(int64(w.o.longStep)))
	switch n := w.rng.IntN(200); {
	case n < 5:
		d = time.Duration(w.rng.Int64N(int64(6 * time.Second)))
	case n == 5:
		d = time.Hour // the machine slept
	}
	w.wall = w.wall.Add(d)
}

// now is the time of the next decision of a partition.
func (w *world) now(p *part) int64 {
	now := int64(w.clock.Now())
	if now < w.newest {
		w.broken("F15", "broker time went back from %d to %d", w.newest, now)
	}
	w.newest = now
	return max(now, p.model.LastAt)
}

// turn lets a loop take requests, and compares what comes of it with what must.
func (w *world) turn(p *part, asks []*ask) {
	requests := make([]engine.Request, len(asks))
	for i, a := range asks {
		requests[i] = engine.Request{Command: a.cmd, Sink: p, Tag: a.tag}
	}
	now := w.now(p)
	w.note("turn", int64(p.id), int64(len(asks)), now)
	w.stats.Operations += int64(len(asks))
	p.loop.Turn(requests)
	if w.gone() {
		return
	}
	p.look()
	p.shadow.turn(now, asks)
	p.agree("a turn")
}

// land lets a loop hear of a commit, if there is one.
func (w *world) land(p *part) {
	flight := p.loop.Flight()
	if flight == nil {
		return
	}
	select {
	case <-flight:
	default:
		return
	}
	now := w.now(p)
	w.note("landed", int64(p.id))
	p.loop.Landed()
	if w.gone() || p.loop.Err() != nil {
		return
	}
	p.look()
	p.shadow.landed(now)
	p.agree("a commit")
}

// second is what a writer does once a second.
func (w *world) second(p *part) {
	need := p.needPower
	p.writer.Tick()
	if !w.crashed && !p.failed() {
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
	p.issued = append(p.issued, model.Token(t))
	return t
}

// look finds the locks the loop has just given.
func (p *part) look() {
	p.grants = p.grants[:0]
	for _, t := range p.issued {
		if l, ok := p.state.Index().Lock(event.LockToken(t)); ok {
			p.grants = append(p.grants, lockGrant{l.Slice, uint64(l.Sequence), t, int64(l.Until)})
		}
	}
	p.issued = p.issued[:0]
}

// granted is the token under which the loop locked a message that must have been locked now.
func (p *part) granted(q *queue, seq uint64) model.Token {
	for i, g := range p.grants {
		if g.slice == q.slice && g.seq == seq {
			p.grants = append(p.grants[:i:i], p.grants[i+1:]...)
			return g.token
		}
	}
	p.w.broken("P19", "%s: message %d is next for a receiver that waits, but was not locked; locked now: %v", q.path, seq, p.grants)
	return model.Token{}
}

// agree compares what was posted with what must have been.
func (p *part) agree(after string) {
	w := p.w
	if len(p.grants) > 0 {
		g := p.grants[0]
		w.broken("I5", "partition %d: message %d of %v was locked after %s, nobody was to get it", p.id, g.seq, g.slice, after)
	}
	if got := p.appended + p.writer.Batch().Count(); got != p.model.Records {
		w.broken("P21", "partition %d: %d records after %s, there must be %d", p.id, got, after, p.model.Records)
	}
	posted, due := p.posted, p.shadow.due
	p.posted, p.shadow.due = nil, nil
	for i := range posted {
		r := &posted[i]
		at := -1
		for k, x := range due {
			if x != nil && x.tag == r.Tag && x.kind == r.Kind {
				at = k
				break
			}
		}
		if at < 0 {
			p.unexpected(r, after)
		}
		x := due[at]
		due[at] = nil
		p.needKill, p.needPower = max(p.needKill, x.upto), max(p.needPower, x.solid)
		w.stats.Replies++
		p.reply(r, x)
	}
	for _, x := range due {
		if x != nil {
			w.broken("I26", "partition %d: no reply of kind %d with tag %d after %s, its frame is committed", p.id, x.kind, x.tag, after)
		}
	}
}

// unexpected names what is wrong with a reply that must not be.
func (p *part) unexpected(r *engine.Reply, after string) {
	waiting := append(append([]*want{}, p.shadow.flight...), p.shadow.open...)
	for _, x := range waiting {
		if x.tag == r.Tag && x.kind == r.Kind {
			p.w.broken("I13", "partition %d: a reply of kind %d with tag %d left with %s, before its frame was committed", p.id, r.Kind, r.Tag, after)
		}
	}
	p.w.broken("I2", "partition %d: a reply of kind %d with tag %d after %s answers nothing: %v", p.id, r.Kind, r.Tag, after, r.Err)
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

// Damaging tells whether a seed flips bits at rest.
func Damaging(seed uint64) bool { return swarm(rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))).damage }

// dump writes what the model holds to the readable trace.
func (w *world) dump() {
	for _, q := range w.queues {
		if w.out == nil || q.model == nil {
			continue
		}
		w.say("queue", fmt.Sprintf("%s on partition %d, last %d, lines %+v %+v, %+v", q.path, q.host.id, q.model.Last, q.lines[0], q.lines[1], q.model.Settings))
		for _, m := range q.model.Live {
			w.say("  message", fmt.Sprintf("%d %v dead=%v count=%d until=%d expires=%d bytes=%d", m.Seq, m.State, m.Dead, m.Count, m.Until, m.ExpiresAt, len(m.Body)))
		}
	}
}
