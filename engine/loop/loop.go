package loop

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Loop gives an [engine.Partition] time, commands and a log, and lets outcomes go when what they
// stand for is in the log (replies.go). While the disk syncs one group of frames the next one is
// filled (frames.go).
//
// [Loop.Run] drives it in a goroutine. A simulation calls Turn and Committed by hand and so decides
// every interleaving.
type Loop struct {
	// set once in New
	part       *engine.Partition
	startBytes int // see [Options]
	mail       *mailbox
	elsewhere  redirector // see [Options].Elsewhere
	aside      redirector // see [Options].Aside
	stop       chan struct{}
	done       chan struct{}
	turn       turnClock // written by Run, read by anybody

	// owned by the loop
	backlog      []engine.Request // taken from the mailbox, waiting for room in the frame
	late         lateRequests     // costly requests, and what came behind them
	receivers    receivers        // receivers
	dispatcher   dispatcher       // serves them
	transfers    transfers        // orders to move messages, and those that do
	forwarder    forwarder        // makes messages leave for other entities
	inbound      inboundRequests  // what couriers want
	publisher    publisher        // prepares what is due by itself
	recorder     recorder         // writes and applies what is decided
	links        linkFacts        // notes links that are opened and closed
	frames       frames           // on their way into the log
	replies      replies          // that wait for it
	facts        facts            // of what was refused
	limits       limits           // what is refused
	capabilities capabilities
	end          event.LSN // of the log after drain
}

// Options is what a loop needs from its surroundings.
type Options struct {
	Clock  func() event.Time      // broker time
	Tokens func() event.LockToken // fresh random lock tokens; the loop adds the entity partition
	Logger *slog.Logger
	// Use makes it durable that the directory may hold what belongs to a capability, before the
	// loop writes the first of it; nil: nobody needs to know. It is that of [log.Store].
	Use func(capability string) error
	// Properties finds what filters see of an encoded message, and how many bytes of it stand
	// beside its body's sections. Needed for scheduled messages of topics.
	Properties func(message []byte, into *filter.Message) (header int, err error)
	// Reread makes of a stored message that moved, with its changes, what filters see of it. Needed
	// where what moved is scheduled in a topic.
	Reread func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	// CheckpointBytes is how much log is written between two checkpoints; 0: 512 MiB, negative:
	// none are made.
	CheckpointBytes int64
	MaxReceivers    int // of a queue, or of all subscriptions of a topic together; 0: 5000
	// StartBytes is how large, in bytes, a frame becomes with what a start ends; 0: 4 MiB.
	StartBytes int
	// Inline says that checkpoints are written, and the work of a [log.ManualWriter] is done, in
	// the caller's goroutine (simulation).
	Inline bool
	Pace   bool      // small frames wait a moment for company; needs Run
	Logs   *BusyLogs // with Pace: those of the namespace; nil: there is one
	// NoMemory says that there is no memory for what lasts; nil: there always is.
	NoMemory func() bool
	// Memory is where memory is taken for checkpoints; nil: there is enough.
	Memory log.Memory
	// Elsewhere takes requests that this loop has not looked at and never will, and returns those
	// that no other can carry out; nil: none can.
	Elsewhere func([]engine.Request) []engine.Request
	// Aside is Elsewhere without waiting, for sends that this loop refuses because of the state of
	// its log; nil: it refuses them all.
	Aside func([]engine.Request) []engine.Request
	// Courier is told what is in transfer; nil: nobody is, and nothing moves.
	Courier engine.Sink
	// FailuresTo is the sub-queue that gets what was moved too often: [event.TransferDeadLetter],
	// or, with any other value, the dead-letter queue.
	FailuresTo event.SubQueue
}

// New makes a loop over a recovered partition and its writer.
func New(part *engine.Partition, plog log.Partition, writer log.Writer, opts Options) *Loop {
	if opts.Memory == nil {
		opts.Memory = log.Unbounded{}
	}
	l := &Loop{
		part: part, startBytes: cmp.Or(opts.StartBytes, maxOpen), mail: newMailbox(), elsewhere: opts.Elsewhere, aside: opts.Aside, stop: make(chan struct{}), done: make(chan struct{}),
		capabilities: capabilities{opts.Use, map[string]bool{}, opts.Logger},
		receivers:    newReceivers(part, cmp.Or(opts.MaxReceivers, maxReceivers)), facts: newFacts(),
		frames: frames{writer: writer, part: part, inline: opts.Inline, budget: maxBackground, pace: pacer{on: opts.Pace, logs: opts.Logs},
			checkpointer: newCheckpointer(plog, part.Index(), opts)},
	}
	l.transfers = transfers{part: part, replies: &l.replies, courier: opts.Courier}
	l.receivers.transfers = &l.transfers
	l.recorder = recorder{part: part, clock: opts.Clock, logger: opts.Logger, receivers: &l.receivers, transfers: &l.transfers,
		frames: &l.frames, replies: &l.replies}
	l.links = newLinkFacts(part, &l.recorder)
	l.facts.recorder, l.facts.links = &l.recorder, &l.links
	l.limits = limits{recorder: &l.recorder, memory: opts.NoMemory}
	l.forwarder = forwarder{transfers: &l.transfers, recorder: &l.recorder, tooOften: event.DeadLetter}
	if opts.FailuresTo == event.TransferDeadLetter {
		l.forwarder.tooOften = opts.FailuresTo
	}
	l.inbound = inboundRequests{wake: make(chan struct{}, 1), recorder: &l.recorder, forwarder: &l.forwarder}
	l.dispatcher = dispatcher{part: part, tokens: opts.Tokens, receivers: &l.receivers, recorder: &l.recorder, links: &l.links,
		frames: &l.frames, replies: &l.replies}
	l.publisher = publisher{part: part, stored: plog, frames: &l.frames, properties: opts.Properties, reread: opts.Reread}
	// of the source of tokens, so that a seed decides them
	part.DrawIDs(func() [16]byte { return opts.Tokens() })
	return l
}

// Run serves until Close or until the log fails.
func (l *Loop) Run() {
	defer close(l.done)
	defer l.frames.pace.end()
	timer := time.NewTimer(asleep)
	defer timer.Stop()
	var batch []engine.Request
	for l.recorder.err == nil {
		l.turn.begin()
		batch = batch[:0]
		if len(l.backlog) == 0 && !l.frames.full() && !l.late.full() {
			batch = l.mail.take(batch)
		}
		l.Turn(batch)
		clear(batch)
		mail := l.mail.wake
		if l.frames.full() || l.late.full() {
			mail = nil // the disk is behind, or this loop: senders wait
		} else if len(l.backlog) > 0 {
			continue
		}
		if n := l.frames.missingRecords(); n > 0 {
			l.mail.gather(n)
		}
		timer.Reset(l.nextWake())
		l.turn.end()
		select {
		case <-mail:
		case <-l.inbound.wake:
		case <-l.frames.writer.Moved():
			l.turn.begin()
			l.Committed()
		case <-timer.C:
		case <-l.frames.writer.Lost():
			l.recorder.fail(l.frames.writer.Err())
		case <-l.stop:
			l.drain()
			return
		}
	}
	l.abort()
}

const (
	asleep    = time.Hour             // how long a loop sleeps that has nothing to wait for
	haltedFor = 50 * time.Millisecond // how long one sleeps whose disk hangs
)

// nextWake is how long the loop sleeps unless somebody asks for something or more of the log is
// durable. The first that applies decides:
//
//  1. A sync goes on, and what there is to do is for the next group: the end of the sync wakes the
//     loop, which would spin until then.
//  2. A sync goes on: until there is something to do. The group being filled waits for the sync,
//     not for company.
//  3. What is due has to be written before it can be read back: until the group goes. It is due all
//     the time, so this comes before 4.
//  4. Until there is something to do, or the group has waited for company for long enough,
//     whichever is sooner.
func (l *Loop) nextWake() time.Duration {
	work := l.untilWork()
	switch {
	case l.frames.syncing() && work == 0 && (l.frames.spent() || l.recorder.unwritten):
		return asleep
	case l.frames.syncing():
		return work
	case l.recorder.unwritten:
		return l.frames.pace.wait(l.frames.recordCount(), true)
	}
	return min(work, l.frames.patience(l.recorder.awaited()))
}

// untilWork is how long there is nothing to do.
func (l *Loop) untilWork() time.Duration {
	switch {
	case l.unfinished() && l.dispatcher.halted:
		return haltedFor
	case onlyYields(l):
		return yieldFor
	case l.unfinished():
		return 0
	}
	if at := l.NextDeadline(); at != 0 {
		return min(asleep, max(0, at.Sub(l.recorder.clock())))
	}
	return asleep
}

// Turn takes requests one after the other, ends what is due, serves waiting receivers and hands the
// frame on. What does not fit into the frame being filled while another is with the writer waits
// for a later turn.
func (l *Loop) Turn(requests []engine.Request) {
	now := l.recorder.now()
	l.recorder.unwritten, l.dispatcher.shown, l.dispatcher.yielding, l.late.looked = false, 0, 0, 0
	l.frames.ripen(now)
	l.dispatcher.halted = isHalted(l.frames.writer)
	l.limits.refuseGrowth()
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
	l.inbound.turn(now)
	l.catchUp(now)
	l.endDue(now)
	l.dispatcher.turn(now)
	l.forwarder.turn(now)
	l.facts.flushCounts(now, now)
	l.seal()
}

// endDue ends locks whose time has passed and makes scheduled messages active, and reports whether
// it came to an end.
func (l *Loop) endDue(now event.Time) bool {
	for at := l.part.NextDeadline(); at != 0 && at <= now; at = l.part.NextDeadline() {
		if l.frames.spent() {
			return false
		}
		tick, err := l.publisher.tick(now)
		switch {
		case errors.Is(err, errUnwritten):
			l.recorder.unwritten = true // until the next group goes on its way
			return true
		case err != nil:
			l.recorder.fail(err)
			return true
		}
		out := l.part.Decide(now, tick)
		if len(out.Events) == 0 {
			panic(fmt.Sprintf("engine: partition %d has a deadline at %v, but nothing ends at %v", l.part.ID(), at, now))
		}
		l.recorder.background(now, out)
	}
	return true
}

// NextDeadline is when the loop next has something to do without being asked; 0 is never.
func (l *Loop) NextDeadline() event.Time {
	next := l.part.NextDeadline()
	for _, at := range [...]event.Time{l.receivers.Deadline(), l.facts.deadline(), l.frames.aloneBy} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// onlyYields reports whether all that a turn left for the next one are queues that wait for ports
// in other loops.
func onlyYields(l *Loop) bool {
	w := &l.receivers
	others := w.open.Len() > 0 || w.sweeps.running.Len() > 0 || l.late.any() || l.transfers.any() || l.inbound.any()
	return !others && w.ready.Len() > 0 && w.ready.Len() == l.dispatcher.yielding
}

// unfinished reports whether a turn ended with work left for the next one.
func (l *Loop) unfinished() bool {
	return l.receivers.Any() || l.late.any() || l.transfers.any() || l.inbound.any()
}

// Pending reports whether there is something to do that needs no more of the log and no time to
// pass.
func (l *Loop) Pending() bool { return l.unfinished() || l.inbound.hasMail() }

// Err is why the loop stopped, or nil.
func (l *Loop) Err() error { return l.recorder.err }

// seal lets replies go that may leave, writes the frame being filled if one of them waits for
// nothing else, and begins to sync what there is when the sync before is over.
func (l *Loop) seal() {
	for {
		written, durable := l.frames.writer.Written(), l.frames.writer.Durable()
		l.transfers.committed(durable)
		l.dispatcher.returnUnsent(l.replies.committed(written, durable))
		switch {
		case l.frames.filling(l.replies.pressing):
			l.frames.put(l.frames.writer.Write)
		case !l.recorder.commit():
			return
		}
	}
}

// Committed is called when more of the log is written or durable: replies leave, and the next group
// goes on its way.
func (l *Loop) Committed() {
	if err := l.frames.writer.Err(); err != nil {
		l.recorder.fail(err)
		return
	}
	l.frames.committed()
	l.seal()
}

// await waits until more of the log is written or durable, and hears of it.
func (l *Loop) await() {
	l.frames.await()
	l.Committed()
}

// Busy reports whether something is on its way into the log, or waits for that.
func (l *Loop) Busy() bool { return l.frames.busy() || l.replies.any() }

// abort answers everybody who still waits.
func (l *Loop) abort() {
	unknown := fmt.Errorf("%w: %w", engine.ErrUnknown, l.recorder.err)
	l.replies.abandon(unknown)
	giveUp(l.receivers.deadlines, unknown)
	TurnAway(l.late.take(), unknown)
	TurnAway(l.elsewhere.take(l.backlog), unknown)
	TurnAway(l.elsewhere.take(l.mail.close()), unknown)
	TurnAway(l.inbound.close(), unknown)
	dismiss(l.receivers.DetachAll(), unknown)
	l.frames.checkpointer.wait()
}

// Submit hands requests to a running loop.
func (l *Loop) Submit(requests []engine.Request) {
	kept, refused, err := splitRequests(l.frames.writer, requests)
	TurnAway(l.elsewhere.take(refused), err)
	if len(kept) > 0 && !l.mail.put(kept) {
		TurnAway(l.elsewhere.take(kept), NotServing())
	}
}

// drain finishes what was asked before the stop.
func (l *Loop) drain() {
	l.frames.pace.end()
	l.Turn(l.mail.close())
	for l.endLate(); l.recorder.err == nil; l.endLate() {
		if len(l.backlog) > 0 && !l.frames.full() {
			l.Turn(nil)
			continue
		}
		for _, r := range slices.Clone(l.receivers.deadlines) {
			l.dispatcher.giveUp(r)
		}
		l.Finish()
		if !l.Busy() {
			break
		}
		if l.frames.writer.DiskState().Room == log.RoomNone { // there may never be any
			l.recorder.fail(log.ErrNoRoom)
			break
		}
		l.await()
	}
	if l.recorder.err != nil {
		l.abort()
		return
	}
	TurnAway(l.inbound.close(), engine.ErrUnknown)
	dismiss(l.receivers.DetachAll(), engine.ErrUnknown)
	l.frames.checkpointer.wait()
	l.end = l.frames.writer.Batch().LSN()
}

// SubmitNow is Submit for a caller that does not wait: where there is no room the loop takes
// nothing. It reports whether the loop took the requests, and whether it takes any more.
func (l *Loop) SubmitNow(requests []engine.Request) (took, open bool) { return l.mail.offer(requests) }

// End ends a loop that does not run: all who wait for it hear that nobody knows what became of what
// they asked for. Run does so when the log fails.
func (l *Loop) End(err error) {
	l.recorder.fail(err)
	l.abort()
}

// WishCheckpoints asks for a checkpoint after that many bytes of log; 0: after as many as usual. It
// returns what was asked for before.
func (l *Loop) WishCheckpoints(bytes int64) (before int64) {
	return l.frames.checkpointer.wish.Swap(bytes)
}

// Close stops a running loop after finishing what was asked, closes the log's writer, which syncs
// what is written, and then makes a checkpoint, so that the next start is short.
func (l *Loop) Close() error {
	close(l.stop)
	<-l.done
	err := errors.Join(l.recorder.err, l.frames.writer.Close())
	if err == nil {
		l.frames.checkpointer.writeLast(l.end)
	}
	return err
}
