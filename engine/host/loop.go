package host

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Loop gives an [engine.Partition] time, commands and a log, and lets outcomes go when what they stand for is in the log (replies.go). While
// the disk syncs one group of frames the next one is filled (frames.go).
//
// [Loop.Run] drives it in a goroutine. A simulation calls Turn and Landed by hand and so decides every interleaving.
type Loop struct {
	// set once in NewLoop
	part         *engine.Partition
	plog         log.Reader
	writer       log.Writer
	clock        func() event.Time
	tokens       func() event.LockToken
	logger       *slog.Logger
	maxReceivers int // see [Options]
	startBytes   int // see [LoopOptions]
	inline       bool
	mail         *mailbox
	stop         chan struct{}
	done         chan struct{}
	// newID is the value of newid() in a rule: a UUID from the source of tokens, so that a seed decides it. It is made once, for
	// every send takes it along.
	newID func() [16]byte
	// properties finds what filters see of an encoded message, and its bytes beside the body
	properties func(message []byte, into *filter.Message) (header int, err error)

	// owned by the loop
	attached  map[*engine.Receiver]*receiver
	receivers map[event.EntityID]int // how many there are
	lines     map[event.Slice]*[3]*line
	marked    fifo[*line]             // lines that may have both credit and messages
	browsers  map[event.Slice][]*line // one per receiver that browses
	shown     int                     // deliveries to them in this turn
	halls     map[event.Slice]*hall
	openHalls fifo[*hall] // those in which a session may have become available
	waits     waits       // for sessions, by the time at which they give up
	sweepers  sweepers
	frames    frames
	chores    int    // bytes of the group that nobody asked for
	most      int    // … and when these are enough
	replies   uint64 // so far
	acks      queue
	grants    []held // locks and renewals, and what else receivers are told
	leaving   []held // scratch
	urgent    bool   // the frame being filled has a grant that waits for nothing but being written
	recent    recents
	wrote     event.LSN                            // of the frame with the newest record; 0: none yet
	solid     event.LSN                            // … with the newest one that has to be durable
	looked    struct{ written, durable event.LSN } // when grants were looked at
	returned  []unsent
	posts     []engine.Reply
	take      engine.Receive // scratch of serve
	unwritten bool           // what is due next has to be written before it can be read back
	seen      seen
	end       event.LSN        // of the log after drain
	backlog   []engine.Request // taken from the mailbox, waiting for room in the frame
	late      late
	err       error // why the loop stopped
	damaged   error // a stored body could not be read: sends are refused
	saver     saver
	pace      pacer
}

// LoopOptions is what a loop needs from its surroundings.
type LoopOptions struct {
	Clock  func() event.Time      // broker time
	Tokens func() event.LockToken // fresh random lock tokens, to which the loop adds the entity partition
	Logger *slog.Logger
	// Properties finds what filters see of an encoded message, and how many bytes of it stand beside its body's sections. Needed
	// for scheduled messages of topics.
	Properties func(message []byte, into *filter.Message) (header int, err error)
	// CheckpointBytes is how much log is written between two checkpoints; 0: 512 MiB, negative: none are made.
	CheckpointBytes int64
	MaxReceivers    int // see [Options]
	// StartBytes is how large a frame of what a start ends becomes; 0: 4 MiB.
	StartBytes int
	// Inline tells that checkpoints are written, and the work of a [log.ManualWriter] is done, in the caller's goroutine (simulation).
	Inline bool
	Pace   bool // small frames wait a moment for company; needs Run
}

// NewLoop is a loop over a recovered partition and its writer.
func NewLoop(part *engine.Partition, plog log.Partition, writer log.Writer, opts LoopOptions) *Loop {
	l := &Loop{
		part: part, plog: plog, writer: writer, clock: opts.Clock, tokens: opts.Tokens, logger: opts.Logger, properties: opts.Properties,
		mail: newMailbox(), stop: make(chan struct{}), done: make(chan struct{}),
		attached: map[*engine.Receiver]*receiver{}, receivers: map[event.EntityID]int{}, lines: map[event.Slice]*[3]*line{}, browsers: map[event.Slice][]*line{}, halls: map[event.Slice]*hall{}, sweepers: newSweepers(),
		maxReceivers: cmp.Or(opts.MaxReceivers, maxReceivers), startBytes: cmp.Or(opts.StartBytes, maxOpen), inline: opts.Inline, most: maxChores,
	}
	l.newID = func() [16]byte { return l.tokens() }
	l.saver, l.pace.on = newSaver(plog, opts), opts.Pace
	return l
}

// Run serves until Close or until the log fails.
func (l *Loop) Run() {
	defer close(l.done)
	timer := time.NewTimer(asleep)
	defer timer.Stop()
	var batch []engine.Request
	for l.err == nil {
		batch = batch[:0]
		if len(l.backlog) == 0 && !l.full() && !l.late.full() {
			batch = l.mail.take(batch)
		}
		l.Turn(batch)
		clear(batch)
		mail := l.mail.wake
		if l.full() || l.late.full() {
			mail = nil // the disk is behind, or this loop: whoever sends waits
		} else if len(l.backlog) > 0 {
			continue
		}
		timer.Reset(l.nextWake())
		select {
		case <-mail:
		case <-l.writer.Moved():
			l.Landed()
		case <-timer.C:
		case <-l.writer.Lost():
			l.fail(l.writer.Err())
		case <-l.stop:
			l.drain()
			return
		}
	}
	l.abort()
}

// asleep is how long a loop sleeps that has nothing to wait for.
const asleep = time.Hour

// nextWake is how long the loop sleeps unless somebody asks for something or more of the log is durable. The first that applies
// decides:
//
//  1. A sync goes on, and what there is to do is for the next group: the end of the sync wakes the loop, which would spin until then.
//  2. A sync goes on: until there is something to do. The group being filled waits for the sync, not for company.
//  3. What is due has to be written before it can be read back: until the group goes. It is due all the time, so this comes before 4.
//  4. Until there is something to do, or the group has waited for company for long enough, whichever is sooner.
func (l *Loop) nextWake() time.Duration {
	work := l.untilWork()
	switch {
	case l.syncing() && work == 0 && (l.enough() || l.unwritten):
		return asleep
	case l.syncing():
		return work
	case l.unwritten:
		return l.pace.wait(l.frames.records+l.writer.Batch().Count(), true)
	}
	return min(work, l.patience())
}

// untilWork is how long there is nothing to do.
func (l *Loop) untilWork() time.Duration {
	if l.unfinished() {
		return 0
	}
	if at := l.NextDeadline(); at != 0 {
		return min(asleep, max(0, at.Sub(l.clock())))
	}
	return asleep
}

// Turn takes requests one after the other, ends what is due, serves waiting receivers and hands the frame on. What does
// not fit into the frame being filled while another is with the writer waits for a later turn.
func (l *Loop) Turn(requests []engine.Request) {
	now := l.now()
	l.unwritten, l.shown, l.late.looked = false, 0, 0
	if len(l.backlog) > 0 {
		l.backlog = append(l.backlog, requests...)
		n := l.steps(now, l.backlog)
		clear(l.backlog[:n])
		if l.backlog = l.backlog[n:]; len(l.backlog) == 0 {
			l.backlog = nil
		}
	} else if n := l.steps(now, requests); n < len(requests) {
		l.backlog = append(l.backlog, requests[n:]...)
	}
	l.catchUp(now)
	l.due(now)
	l.acceptWaiting(now)
	l.endWaits(now)
	l.sweep(now)
	l.serveAll(now)
	l.seal()
}

// maxChores bounds what nobody asked for in one frame: ends of locks, messages that expire or become active. Replies wait
// for their frame and the one before, so these must stay small when there is a lot of it.
const maxChores = 256 << 10

// chore writes what nobody asked for.
func (l *Loop) chore(now event.Time, out engine.Outcome) {
	before := l.writer.Batch().Len()
	l.write(now, out)
	l.chores += l.writer.Batch().Len() - before
}

// enough tells that the rest of the chores, of which there may be none, is for the next frame.
func (l *Loop) enough() bool { return l.chores >= l.most || l.full() }

// due ends locks whose time has passed and makes scheduled messages active, and reports whether it came to an end.
func (l *Loop) due(now event.Time) bool {
	for at := l.part.NextDeadline(); at != 0 && at <= now; at = l.part.NextDeadline() {
		if l.enough() {
			return false
		}
		tick, err := l.tick(now)
		switch {
		case errors.Is(err, errUnwritten):
			l.unwritten = true // until the next group goes on its way
			return true
		case err != nil:
			l.fail(err)
			return true
		}
		out := l.part.Decide(now, tick)
		if len(out.Events) == 0 {
			panic(fmt.Sprintf("engine: partition %d is due at %v and nothing ends at %v", l.part.ID(), at, now))
		}
		l.chore(now, out)
	}
	return true
}

// NextDeadline is when the loop next has something to do without being asked; 0 is never.
func (l *Loop) NextDeadline() event.Time {
	next := l.part.NextDeadline()
	for _, at := range [...]event.Time{l.nextWait(), l.sweepers.next} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// unfinished tells that a turn ended with work left for the next one.
func (l *Loop) unfinished() bool {
	return l.marked.len() > 0 || l.openHalls.len() > 0 || len(l.sweepers.running) > 0 || l.late.any()
}

// now is the time of a batch: broker time, but never before anything in the log (semantics.md 4.3 R4).
func (l *Loop) now() event.Time { return max(l.clock(), l.part.Index().LastAt()) }

// Err is why the loop stopped, or nil.
func (l *Loop) Err() error { return l.err }

// write puts a decision's events into the frame being filled and applies them: the next command sees them already.
func (l *Loop) write(now event.Time, out engine.Outcome) {
	if len(out.Events) == 0 {
		return
	}
	out = l.split(now, out)
	b := l.writer.Batch()
	b.AppendRecord(now, out.Events, out.Level)
	if l.wrote = b.LSN(); out.Level == log.Durable {
		l.solid = l.wrote
	}
	for _, ev := range out.Events {
		l.part.Apply(now, ev)
		l.recent.written(ev, l.wrote)
		l.hasten(ev)
		l.observe(ev)
	}
}

// observe wakes whoever waits for what an event has brought about.
func (l *Loop) observe(ev event.Event) {
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		l.mark(ev.Slice, ev.Sequence)
	case *event.MessageScheduled:
		l.markBrowsers(ev.Slice)
	case *event.MessageReleased:
		l.mark(ev.Slice, ev.Sequence)
	case *event.MessageAbandoned:
		l.mark(ev.Slice, ev.Sequence)
	case *event.LockExpired:
		l.mark(ev.Slice, ev.Sequence)
	case *event.MessageDeadLettered:
		l.mark(ev.Slice, ev.Sequence)
		l.settled(ev.Slice)
	case *event.MessageCompleted:
		l.settled(ev.Slice)
	case *event.MessageDeferred:
		l.settled(ev.Slice)
	case *event.ScheduledActivated:
		l.mark(ev.Slice, ev.NewSequence)
	case *event.MessagePublished:
		l.markCopies(ev.Slice.Partition, ev.Copies)
	case *event.ScheduledPublished:
		l.markCopies(ev.Slice.Partition, ev.Copies)
	case *event.SessionReleased:
		l.sweepers.stored(ev.Slice, l.part.Index())
		if h := l.halls[ev.Slice]; h != nil {
			l.sessionEnded(h, ev)
		}
	}
}

// fail stops the partition: memory is ahead of the disk, and after a failed sync the page cache may lie. Nothing is
// retried; everybody waiting learns that the outcome is unknown.
func (l *Loop) fail(err error) {
	if l.err == nil {
		l.err = fmt.Errorf("engine: partition %d: %w", l.part.ID(), err)
		l.logger.Error("partition stopped", "partition", l.part.ID(), "error", err)
	}
}

// abort answers everybody who still waits.
func (l *Loop) abort() {
	unknown := fmt.Errorf("%w: %w", engine.ErrUnknown, l.err)
	for _, h := range append(l.acks.rest(), l.grants...) {
		if h.receiver == nil {
			h.sink.Post([]engine.Reply{{Tag: h.reply.Tag, Err: unknown}})
		}
	}
	for _, w := range l.waits {
		if !w.over && w.sink != nil {
			w.sink.Post([]engine.Reply{{Tag: w.tag, Err: unknown}})
		}
	}
	turnAway(l.takeLate(), unknown)
	turnAway(l.backlog, unknown)
	turnAway(l.mail.close(), unknown)
	l.saver.wait()
}

// turnAway answers requests that no loop will look at.
func turnAway(requests []engine.Request, err error) {
	for i := range requests {
		req := &requests[i]
		if send, ok := req.Command.(*engine.Send); ok && send.Buffer != nil {
			send.Buffer.Release()
		}
		if req.Sink != nil {
			req.Sink.Post([]engine.Reply{{Tag: req.Tag, Err: err}})
		}
	}
}

// Submit hands requests to a running loop.
func (l *Loop) Submit(requests []engine.Request) {
	if !l.mail.put(requests) {
		turnAway(requests, engine.ErrUnknown)
	}
}

// drain finishes what was asked before the stop.
func (l *Loop) drain() {
	l.pace.on = false
	l.Turn(l.mail.close())
	for l.endLate(); l.err == nil; l.endLate() {
		if len(l.backlog) > 0 && !l.full() {
			l.Turn(nil)
			continue
		}
		for _, w := range l.waits {
			if !w.over {
				l.giveUp(w)
			}
		}
		l.seal()
		if !l.Busy() {
			break
		}
		l.await()
	}
	if l.err != nil {
		l.abort()
		return
	}
	l.saver.wait()
	l.end = l.writer.Batch().LSN()
}

// Close stops a running loop after finishing what was asked, closes the log's writer, which syncs what is written, and
// then makes a checkpoint, so that the next start is short.
func (l *Loop) Close() error {
	close(l.stop)
	<-l.done
	err := errors.Join(l.err, l.writer.Close())
	if err == nil {
		l.saver.last(l.end, l.part.Index())
	}
	return err
}
