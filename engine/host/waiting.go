package host

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxReceivers is how many receivers a queue, or all subscriptions of a topic together, may have: on its sub-queues, with
// sessions and without, those that wait for one too (semantics.md 16.3).
const maxReceivers = 5000

// waiting is who is attached to the slices of a partition and what each waits for: credit for messages, a session, or expired
// messages to be looked for. It dies with the process (docs/decisions/0026).
//
// Attach, Wait, Flow and Detach say what receivers want, Observe what has happened. Next, NextWaiter, Overdue and sweeps.Next say who may
// have something to do now; whoever carries that out says with Served, Granted or NoSession what came of it. It looks things up in the
// partition and decides nothing; log, replies and time are not its business.
type waiting struct {
	part      *engine.Partition
	limit     int                             // see [Options].MaxReceivers
	counts    map[event.EntityID]int          // receivers
	slices    map[event.Slice]*sliceReceivers // those that have any
	ready     fifo[*receiverQueue]            // queues that may have both credit and messages
	later     []*receiverQueue                // of these, what is left for the next turn
	open      fifo[*sliceReceivers]           // in which a session may have become available
	deadlines waitDeadlines                   // of those that wait for a session
	sweeps    sweeps
}

// sliceReceivers is who is attached to one slice.
type sliceReceivers struct {
	slice    event.Slice
	attached int
	queues   [3]*receiverQueue // by sub-queue; nil: nobody receives from it
	browsers []*receiverQueue
	sessions sliceSessions
	sweep    *sweeper // nil: no receiver of its main queue is active
}

func newWaiting(part *engine.Partition, limit int) waiting {
	return waiting{part: part, limit: limit, counts: map[event.EntityID]int{}, slices: map[event.Slice]*sliceReceivers{}}
}

// receiverOf is what is kept of a receiver; nil: it is not attached.
func receiverOf(link *engine.Receiver) *receiver {
	r, _ := link.Runtime.(*receiver)
	return r
}

// Attach makes a receiver known, or refuses it when there are too many. One that wants a session either gets one, with Granted, or Wait is
// called.
func (w *waiting) Attach(r *receiver) *engine.Error {
	if w.counts[r.counted()] >= w.limit {
		return engine.Refuse(engine.QuotaExceeded, "The maximum of %d concurrent receivers of '%s' is reached.", w.limit, r.Entity.TopicPath())
	}
	w.counts[r.counted()]++
	s := w.slices[r.Slice]
	if s == nil {
		s = &sliceReceivers{slice: r.Slice}
		w.slices[r.Slice] = s
	}
	s.attached++
	r.at, r.Runtime = s, r
	switch {
	case r.Session != nil:
	case r.Mode == engine.Browse:
		r.queue = &receiverQueue{slice: r.Slice}
		s.browsers = append(s.browsers, r.queue)
	default:
		if s.queues[r.SubQueue] == nil {
			s.queues[r.SubQueue] = &receiverQueue{slice: r.Slice}
		}
		r.queue = s.queues[r.SubQueue]
		r.queue.attached++
	}
	return nil
}

// Flow sets the credit of a receiver that has a queue. One that drains is to be served at once.
func (w *waiting) Flow(r *receiver, limit uint32, drain bool) {
	credit := max(0, int32(limit-r.assigned))
	r.queue.setCredit(r, credit)
	w.activate(r, credit)
	r.draining, r.drainTo = drain, limit
	if drain {
		r.queue.draining = append(r.queue.draining, r)
	} else {
		w.mark(r.queue)
	}
}

// activate counts a receiver as active from its first credit on: one that is attached and never asks for anything, as an SDK
// does before it peeks, makes nothing expire (semantics.md 7.4).
func (w *waiting) activate(r *receiver, credit int32) {
	if credit > 0 && !r.active && r.SubQueue == event.Main && r.Mode != engine.Browse {
		r.active = true
		w.sweeps.begin(r.at)
	}
}

// Detach forgets a receiver, whether it has a queue or waits for a session.
func (w *waiting) Detach(r *receiver) {
	w.stopWaiting(r)
	if q := r.queue; q != nil {
		q.setCredit(r, 0)
		r.at.leave(r, q)
		r.queue = nil
	}
	if r.active {
		r.active = false
		w.sweeps.end(r.at)
	}
	r.Runtime = nil
	if r.at.attached--; r.at.attached == 0 {
		delete(w.slices, r.at.slice)
	}
	id := r.counted()
	if w.counts[id]--; w.counts[id] == 0 {
		delete(w.counts, id)
	}
}

// leave takes a receiver from its queue.
func (s *sliceReceivers) leave(r *receiver, q *receiverQueue) {
	switch {
	case q.holder != nil:
		s.sessions.leave(r, q)
	case r.Mode == engine.Browse:
		s.browsers = slices.DeleteFunc(s.browsers, func(other *receiverQueue) bool { return other == q })
	default:
		if q.attached--; q.attached == 0 {
			s.queues[r.SubQueue] = nil
		}
	}
}

// Observe takes an event that has been applied: whoever waits for what it brings about may have something to do. When it is the end of a
// session's lock, the receiver that held it is detached and returned.
func (w *waiting) Observe(ev event.Event) (lost *receiver) {
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		w.deliverable(ev.Slice, ev.Sequence)
	case *event.MessageScheduled:
		w.markBrowsers(w.slices[ev.Slice])
	case *event.MessageReleased:
		w.deliverable(ev.Slice, ev.Sequence)
	case *event.MessageAbandoned:
		w.deliverable(ev.Slice, ev.Sequence)
	case *event.LockExpired:
		w.deliverable(ev.Slice, ev.Sequence)
	case *event.MessageDeadLettered:
		w.deliverable(ev.Slice, ev.Sequence)
		w.settled(ev.Slice)
	case *event.MessageCompleted:
		w.settled(ev.Slice)
	case *event.MessageDeferred:
		w.settled(ev.Slice)
	case *event.ScheduledActivated:
		w.deliverable(ev.Slice, ev.NewSequence)
	case *event.MessagePublished:
		w.copied(ev.Slice.Partition, ev.Copies)
	case *event.ScheduledPublished:
		w.copied(ev.Slice.Partition, ev.Copies)
	case *event.SessionReleased:
		return w.sessionEnded(ev)
	}
	return nil
}

// deliverable marks whoever waits for a message that can be delivered now, or be looked at.
func (w *waiting) deliverable(id event.Slice, seq event.SequenceNumber) {
	s := w.slices[id]
	if s == nil {
		return
	}
	w.sweeps.stored(s, w.part.Index())
	w.sessionMessage(s, seq)
	w.markBrowsers(s)
	for _, q := range s.queues {
		if q != nil {
			w.mark(q)
		}
	}
}

// copied is deliverable for the copies that subscriptions got.
func (w *waiting) copied(partition uint8, copies []event.Copy) {
	for i := range copies {
		w.deliverable(event.Slice{Entity: copies[i].Subscription, Partition: partition}, copies[i].Sequence)
	}
}

// markBrowsers marks those that look at a slice without taking.
func (w *waiting) markBrowsers(s *sliceReceivers) {
	if s == nil {
		return
	}
	for _, q := range s.browsers {
		w.mark(q)
	}
}

// mark notes that a queue may have messages for the credit that waits there.
func (w *waiting) mark(q *receiverQueue) {
	if !q.marked && q.grants.len() > 0 {
		q.marked = true
		w.ready.push(q)
	}
}

// Next is the queue to serve next, until it was said with Served what came of it; nil: none.
func (w *waiting) Next() *receiverQueue {
	if w.ready.len() == 0 {
		return nil
	}
	return *w.ready.front()
}

// Served says that the queue that Next gave has got what there is, or that it needs more than one turn: then the others come first.
func (w *waiting) Served(all bool) {
	q := w.ready.pop()
	if all {
		q.marked = false
	} else {
		w.later = append(w.later, q)
	}
}

// Resume has Next give again what needs more than one turn.
func (w *waiting) Resume() {
	for i, q := range w.later {
		w.ready.push(q)
		w.later[i] = nil
	}
	w.later = w.later[:0]
}

// Any reports whether there is anybody to serve now.
func (w *waiting) Any() bool {
	return w.ready.len() > 0 || w.open.len() > 0 || w.sweeps.running.len() > 0
}

// Has reports whether a slice has receivers.
func (w *waiting) Has(id event.Slice) bool { return w.slices[id] != nil }

// Deadline is when somebody gives up waiting for a session, or expired messages may have to be looked for; 0: never.
func (w *waiting) Deadline() event.Time {
	first := w.deadlines.first()
	if at := w.sweeps.next; at != 0 && (first == 0 || at < first) {
		return at
	}
	return first
}
