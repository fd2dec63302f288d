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

// Loop gives an [engine.Partition] time, commands and a log, and sends replies when everything they
// tell is in the log (replies.go). While the disk syncs one group of frames, the next group is
// filled (frames.go).
//
// [Loop.Run] drives it in a goroutine. A simulation calls Turn and Committed directly, and so
// decides every interleaving.
type Loop struct {
	// set once in New
	part       *engine.Partition
	startBytes int // see [Options]
	mail       *mailbox
	elsewhere  redirector // see [Options].Elsewhere
	aside      redirector // see [Options].Aside
	stop       chan struct{}
	done       chan struct{}
	turn       turnClock // written by Run, read from any goroutine

	// owned by the loop
	backlog      []engine.Request // taken from the mailbox; waits for room in the frame
	late         lateRequests     // costly requests, and the requests after them
	receivers    receivers        // receivers
	dispatcher   dispatcher       // serves the receivers
	transfers    transfers        // orders to move messages, and messages in transfer
	forwarder    forwarder        // moves messages to other entities
	inbound      inboundRequests  // requests of couriers and backups
	publisher    publisher        // prepares scheduled messages that are due
	activity     activity         // counts what happens
	recorder     recorder         // writes and applies decisions
	links        linkFacts        // records when links are opened and closed
	frames       frames           // on their way into the log
	replies      replies          // replies that wait for the log
	facts        facts            // facts about refusals
	limits       limits           // what is refused
	capabilities capabilities
	end          event.LSN // of the log after drain
}

// Options are what a loop needs from its surroundings.
type Options struct {
	Clock  func() event.Time      // broker time
	Tokens func() event.LockToken // fresh random lock tokens; the loop adds the entity partition
	Logger *slog.Logger
	// Use makes durable that the directory may have data of a capability, before the loop writes
	// the first of it; nil: not needed. It is that of [log.Store].
	Use func(capability string) error
	// Properties reads the properties that filters see of an encoded message. It returns how many
	// bytes the message has outside its body sections. Scheduled messages of topics need it.
	Properties func(message []byte, into *filter.Message) (header int, err error)
	// Reread reads, from a stored message that moved and its changes, what filters see of it.
	// Scheduled messages that moved to a topic need it.
	Reread func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	// CheckpointBytes is the amount of log between two checkpoints; 0: 512 MiB, negative: no
	// checkpoints.
	CheckpointBytes int64
	MaxReceivers    int // of a queue, or of all subscriptions of a topic together; 0: 5000
	// StartBytes is the size, in bytes, that a frame reaches with the events of a start; 0: 4 MiB.
	StartBytes int
	// Inline writes checkpoints, and does the work of a [log.ManualWriter], in the caller's
	// goroutine (simulation).
	Inline bool
	Pace   bool      // small frames wait a moment for more records; needs Run
	Logs   *BusyLogs // with Pace: the busy logs of the namespace; nil: there is one log
	// NoMemory reports that there is no memory for lasting data; nil: there always is.
	NoMemory func() bool
	// Memory is the account for the memory of checkpoints; nil: unlimited.
	Memory log.Memory
	// Elsewhere takes over requests that this loop will never process. It returns the requests that
	// no other loop can carry out; nil: no loop can.
	Elsewhere func([]engine.Request) []engine.Request
	// Aside is Elsewhere without waiting, for sends that this loop refuses because of the state of
	// its log; nil: it refuses them all.
	Aside func([]engine.Request) []engine.Request
	// Courier is told which messages are in transfer; nil: nothing moves.
	Courier engine.Sink
	// FailuresTo is the sub-queue for messages that were moved too often:
	// [event.TransferDeadLetter], or, with any other value, the dead-letter queue.
	FailuresTo event.SubQueue
}

// New returns a loop over a recovered partition and its writer.
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
	l.activity = newActivity(part)
	l.recorder = recorder{part: part, clock: opts.Clock, logger: opts.Logger, activity: &l.activity, receivers: &l.receivers, transfers: &l.transfers,
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
	// drawn from the source of tokens, so that a seed decides them
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
			mail = nil // the disk or this loop is behind: senders wait
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
	asleep    = time.Hour             // how long an idle loop sleeps
	haltedFor = 50 * time.Millisecond // how long a loop sleeps while its disk hangs
)

// nextWake returns how long the loop sleeps if no request comes and no more of the log becomes
// durable. The first that applies decides:
//
//  1. A sync is in progress, and there is only work for the next group: the end of the sync wakes
//     the loop, which would spin until then.
//  2. A sync is in progress: until there is something to do. The group being filled waits for the
//     sync, not for more records.
//  3. A due message has to be written before it can be read back: until the group is handed on. It
//     stays due all the time, so this comes before 4.
//  4. Until there is something to do, or the group has waited long enough for more records,
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

// untilWork returns how long there is nothing to do.
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

// Turn takes requests one after the other, ends everything that is due, serves waiting receivers
// and hands the frame on. While another frame is with the writer, requests that do not fit into the
// frame being filled wait for a later turn.
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

// endDue ends locks whose time has passed and makes scheduled messages active. It reports whether
// it finished.
func (l *Loop) endDue(now event.Time) bool {
	for at := l.part.NextDeadline(); at != 0 && at <= now; at = l.part.NextDeadline() {
		if l.frames.spent() {
			return false
		}
		tick, err := l.publisher.tick(now)
		switch {
		case errors.Is(err, errUnwritten):
			l.recorder.unwritten = true // until the next group is handed on
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

// NextDeadline returns when the loop next has something to do without a request; 0: never.
func (l *Loop) NextDeadline() event.Time {
	next := l.part.NextDeadline()
	for _, at := range [...]event.Time{l.receivers.Deadline(), l.facts.deadline(), l.frames.aloneBy} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// onlyYields reports whether the only work left by a turn is queues that wait for ports in other
// loops.
func onlyYields(l *Loop) bool {
	w := &l.receivers
	others := w.open.Len() > 0 || w.sweeps.running.Len() > 0 || l.late.any() || l.transfers.any() || l.inbound.any()
	return !others && w.ready.Len() > 0 && w.ready.Len() == l.dispatcher.yielding
}

// unfinished reports whether a turn left work for the next one.
func (l *Loop) unfinished() bool {
	return l.receivers.Any() || l.late.any() || l.transfers.any() || l.inbound.any()
}

// Pending reports whether there is work that needs neither more of the log nor time to pass.
func (l *Loop) Pending() bool { return l.unfinished() || l.inbound.hasMail() }

// Err returns why the loop stopped; nil: it has not.
func (l *Loop) Err() error { return l.recorder.err }

// seal sends the replies that may leave. It writes the frame being filled if a reply waits only for
// that, and starts the next sync if no sync is in progress.
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

// Committed is called when more of the log is written or durable: it sends replies and hands on the
// next group.
func (l *Loop) Committed() {
	if err := l.frames.writer.Err(); err != nil {
		l.recorder.fail(err)
		return
	}
	l.frames.committed()
	l.seal()
}

// await waits until more of the log is written or durable, and handles that.
func (l *Loop) await() {
	l.frames.await()
	l.Committed()
}

// Busy reports whether something is on its way into the log, or a reply waits for that.
func (l *Loop) Busy() bool { return l.frames.busy() || l.replies.any() }

// abort answers every request that is still open.
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

// drain finishes the requests that came before the stop.
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
		if l.frames.writer.DiskState().Room == log.RoomNone { // there may never be room
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

// SubmitNow is Submit for a caller that must not wait: if there is no room, the loop takes nothing.
// It reports whether the loop took the requests, and whether it still takes any.
func (l *Loop) SubmitNow(requests []engine.Request) (took, open bool) { return l.mail.offer(requests) }

// End ends a loop that does not run: all open requests are answered with an unknown outcome. Run
// does the same when the log fails.
func (l *Loop) End(err error) {
	l.recorder.fail(err)
	l.abort()
}

// WishCheckpoints asks for a checkpoint after that many bytes of log; 0: after the usual number. It
// returns the previous wish.
func (l *Loop) WishCheckpoints(bytes int64) (before int64) {
	return l.frames.checkpointer.wish.Swap(bytes)
}

// Close stops a running loop after finishing its requests and closes the log's writer, which syncs
// everything written. Then it makes a checkpoint, so that the next start is short.
func (l *Loop) Close() error {
	close(l.stop)
	<-l.done
	err := errors.Join(l.recorder.err, l.frames.writer.Close())
	if err == nil {
		l.frames.checkpointer.writeLast(l.end)
	}
	return err
}
