package loop

import (
	"math/bits"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxReceivers is how many receivers a queue, or all subscriptions of a topic together, may have:
// on its sub-queues, with sessions and without, those that wait for one too (semantics.md 16.3).
const maxReceivers = 5000

// receivers is who is attached to the slices of a partition and what each waits for: credit for
// messages, a session, or expired messages to be looked for. It dies with the process
// (docs/decisions/0026). Of a link that has ports in other loops, too, it knows its own port, and
// what the ports share (link.go).
//
// Attach, Wait, Flow and Detach say what receivers want, decided what has happened. Next,
// NextWaiter, Overdue and sweeps.Next say who may have something to do now; whoever carries that
// out says with Served, Granted or NoSession what came of it. It looks things up in the partition
// and decides nothing; log, replies and time are not its business.
type receivers struct {
	part *engine.Partition
	// what is not waited for by anybody, but has an order
	transfers *transfers
	limit     int                                 // see [Options].MaxReceivers
	counts    map[event.EntityID]int              // receivers
	entities  map[event.EntityID]*entityReceivers // those that have any
	ports     map[*engine.Receiver]*receiver      // that are attached
	attached  []attachment                        // the same, in no order
	ready     fifo.Queue[*receiverQueue]          // queues that may have both credit and messages
	later     []*receiverQueue                    // of these, what is left for the next turn
	open      fifo.Queue[*entityReceivers]        // in which a session may have become available
	deadlines waitDeadlines                       // of those that wait for a session
	sweeps    sweeps
}

// attachment is a port and where it waits for messages. Queues know their receivers; only this says
// in which queue a receiver is.
type attachment struct {
	receiver *receiver
	queue    *receiverQueue // nil: it waits for a session, or has none here
}

// entityReceivers is who is attached to the slices of one entity.
type entityReceivers struct {
	entity   event.EntityID
	attached int
	// of those without session: one for each sub-queue, and for each set of slices that somebody
	// receives from
	queues   []*receiverQueue
	browsers []*receiverQueue
	sessions entitySessions
	sweepers []*sweeper // of the slices with active receivers of their main queue
}

func newReceivers(part *engine.Partition, limit int) receivers {
	return receivers{part: part, limit: limit, counts: map[event.EntityID]int{}, entities: map[event.EntityID]*entityReceivers{},
		ports: map[*engine.Receiver]*receiver{}}
}

// receiver is the port of a receiver link; nil: it is not attached.
func (w *receivers) receiver(of *engine.Receiver) *receiver { return w.ports[of] }

// queueOf is the queue in which a receiver that is attached waits; nil: none.
func (w *receivers) queueOf(r *receiver) *receiverQueue { return w.attached[r.number].queue }

// Attach makes a receiver known, or refuses it when there are too many. One that wants a session
// either gets one, with Granted, or Wait is called.
func (w *receivers) Attach(r *receiver) *engine.Error {
	here := w.part.ID()
	r.link, r.local = linkOf(r.Receiver), parts(r.At(here))
	if r.home = !r.link.shared() || r.link.hosts[0] == here; r.home {
		if w.counts[r.countKey()] >= w.limit {
			return engine.Refuse(engine.QuotaExceeded, "The maximum of %d concurrent receivers of '%s' is reached.", w.limit, r.Entity.TopicPath())
		}
		w.counts[r.countKey()]++
	}
	e := w.entities[r.Entity.ID]
	if e == nil {
		e = &entityReceivers{entity: r.Entity.ID}
		w.entities[r.Entity.ID] = e
	}
	var q *receiverQueue
	switch {
	case r.Session != nil || r.local == 0:
	case r.Mode == engine.Browse:
		q = &receiverQueue{entity: e.entity, local: r.local}
		r.next = make([]event.SequenceNumber, bits.Len16(uint16(r.local)))
		e.browsers = append(e.browsers, q)
	default:
		q = e.queueOf(r)
		q.attached++
	}
	e.attached++
	r.number = len(w.attached)
	w.attached, w.ports[r.Receiver] = append(w.attached, attachment{r, q}), r
	r.served = q != nil
	w.standInLine(r)
	return nil
}

// standInLine makes the port stand in line with those of other loops if there is a message for the
// receiver here.
func (w *receivers) standInLine(r *receiver) {
	if r.served && r.link.shared() {
		r.port = uint8(slices.Index(r.link.hosts, w.part.ID()))
		r.link.line.put(r.port, w.hasMessageFor(r))
	}
}

// queueOf is the queue in which a receiver without session waits. The main queue's stands first.
func (e *entityReceivers) queueOf(r *receiver) *receiverQueue {
	at := len(e.queues)
	for i, q := range e.queues {
		if q.subQueue == r.SubQueue && q.local == r.local {
			return q
		}
		if q.subQueue > r.SubQueue {
			at = min(at, i)
		}
	}
	q := &receiverQueue{entity: e.entity, local: r.local, subQueue: r.SubQueue}
	e.queues = slices.Insert(e.queues, at, q)
	return q
}

// Flow sets the credit of a receiver that has a queue. One that drains is to be served at once.
func (w *receivers) Flow(r *receiver, limit uint32, drain bool) {
	q, change := w.queueOf(r), int32(limit-r.limit)
	r.limit, r.flows = limit, nextFlow(r.flows)
	r.link.pause()
	left := max(0, r.link.credit.flow(r.flows, change, drain, r.link.serving))
	q.setCredit(r, change, left)
	w.standInLine(r)
	w.activate(r, left)
	q.look, r.drain = q.local, drainNone
	if drain {
		r.drain = drainOwed
		q.draining = append(q.draining, r)
	} else {
		w.mark(q)
	}
}

// StepBack puts the credit of a receiver behind that of the others in its queue, before the queue
// is served next.
func (w *receivers) StepBack(of *engine.Receiver) {
	if r := w.receiver(of); r != nil && r.served && r.queued > 0 {
		r.behind, w.queueOf(r).reorder = true, true
	}
}

// hasMessageFor reports whether there is a message for a receiver here.
func (w *receivers) hasMessageFor(r *receiver) bool {
	for partition := range r.local.all() {
		id := event.Slice{Entity: r.Entity.ID, Partition: partition}
		if r.Mode == engine.Browse {
			for range w.part.Index().Browse(id, r.SubQueue, r.browseFrom(partition)) {
				return true
			}
		} else if _, ok := w.part.Index().First(id, r.SubQueue); ok {
			return true
		}
	}
	return false
}

// activate counts a receiver as active from its first credit on: one that is attached and never
// asks for anything, as an SDK does before it peeks, makes nothing expire (semantics.md 7.4).
func (w *receivers) activate(r *receiver, credit int32) {
	if credit > 0 && !r.active && r.SubQueue == event.Main && r.Mode != engine.Browse {
		r.active = true
		w.sweeps.begin(w.entities[r.Entity.ID], r.local)
	}
}

// Detach forgets a receiver, whether it has a queue or waits for a session.
func (w *receivers) Detach(r *receiver) {
	w.stopWaiting(r)
	e := w.entities[r.Entity.ID]
	if r.served {
		q := w.queueOf(r)
		q.revoke(r, r.queued)
		e.leave(r, q)
		r.served = false
	}
	if r.active {
		r.active = false
		w.sweeps.end(e, r.local)
	}
	if !r.link.shared() {
		r.Runtime.Store((*link)(nil))
	}
	w.forget(r)
	if e.attached--; e.attached == 0 {
		delete(w.entities, e.entity)
	}
	if id := r.countKey(); r.home {
		if w.counts[id]--; w.counts[id] == 0 {
			delete(w.counts, id)
		}
	}
}

// forget takes a receiver from those that are attached.
func (w *receivers) forget(r *receiver) {
	last := len(w.attached) - 1
	w.attached[r.number] = w.attached[last]
	w.attached[r.number].receiver.number = r.number
	w.attached[last] = attachment{}
	w.attached = w.attached[:last]
	delete(w.ports, r.Receiver)
}

// DetachAll forgets all receivers, and returns them.
func (w *receivers) DetachAll() []*receiver {
	all := make([]*receiver, len(w.attached))
	for i := range all {
		all[i] = w.attached[i].receiver
	}
	for _, r := range all {
		w.Detach(r)
	}
	return all
}

// leave takes a receiver from its queue.
func (e *entityReceivers) leave(r *receiver, q *receiverQueue) {
	same := func(other *receiverQueue) bool { return other == q }
	switch {
	case q.holder != nil:
		e.sessions.leave(r, q)
	case r.Mode == engine.Browse:
		e.browsers = slices.DeleteFunc(e.browsers, same)
	default:
		if q.attached--; q.attached == 0 {
			e.queues = slices.DeleteFunc(e.queues, same)
		}
	}
}

// decided takes an event that has been applied: whoever waits for what it brings about may have
// something to do. When it is the end of a session's lock, the receiver that held it is detached
// and returned.
func (w *receivers) decided(ev event.Event) (lost *receiver) {
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		w.markDeliverable(ev.Slice, ev.Sequence)
	case *event.MessageScheduled:
		w.markBrowsers(w.entities[ev.Slice.Entity], ev.Slice.Partition)
	case *event.MessageReleased:
		w.markDeliverable(ev.Slice, ev.Sequence)
	case *event.MessageAbandoned:
		w.markDeliverable(ev.Slice, ev.Sequence)
	case *event.LockExpired:
		w.markDeliverable(ev.Slice, ev.Sequence)
	case *event.MessageDeadLettered:
		w.markDeliverable(ev.Slice, ev.Sequence)
		w.wakeLimited(ev.Slice)
	case *event.MessageCompleted:
		w.wakeLimited(ev.Slice)
	case *event.MessageDeferred:
		w.wakeLimited(ev.Slice)
	case *event.ScheduledActivated:
		w.markDeliverable(ev.Slice, ev.NewSequence)
	case *event.TransferFailed:
		w.markReturned(ev)
	case *event.MessagePublished:
		w.markCopies(ev.Slice.Partition, ev.Copies)
	case *event.ScheduledPublished:
		w.markCopies(ev.Slice.Partition, ev.Copies)
	case *event.SessionReleased:
		w.transfers.markStored(ev.Slice)
		return w.endSession(ev)
	}
	return nil
}

// markDeliverable marks whoever waits for a message that can be delivered now, or be looked at.
func (w *receivers) markDeliverable(id event.Slice, seq event.SequenceNumber) {
	w.transfers.markStored(id)
	e := w.entities[id.Entity]
	if e == nil {
		return
	}
	w.sweeps.scheduleStored(e, id, w.part.Index())
	w.markSessionMessage(e, id, seq)
	w.markBrowsers(e, id.Partition)
	for _, q := range e.queues {
		w.wake(q, id.Partition)
	}
}

// markReturned is deliverable for a message that could not be moved, whatever its number is: it is
// in a dead-letter queue, so that no session has it.
func (w *receivers) markReturned(ev *event.TransferFailed) {
	w.markDeliverable(ev.Slice, 0)
}

// markCopies is deliverable for the copies that subscriptions got.
func (w *receivers) markCopies(partition uint8, copies []event.Copy) {
	for i := range copies {
		w.markDeliverable(event.Slice{Entity: copies[i].Subscription, Partition: partition}, copies[i].Sequence)
	}
}

// markBrowsers marks those that look at a slice without taking.
func (w *receivers) markBrowsers(e *entityReceivers, partition uint8) {
	if e == nil {
		return
	}
	for _, q := range e.browsers {
		w.wake(q, partition)
	}
}

// wake notes that a slice has something, and marks a queue if it is for that slice.
func (w *receivers) wake(q *receiverQueue, partition uint8) {
	if q.local.has(partition) {
		q.look |= 1 << partition
		w.mark(q)
	}
}

// mark notes that a queue may have messages for the credit that waits there.
func (w *receivers) mark(q *receiverQueue) {
	if !q.marked && q.grants.Len() > 0 {
		q.marked = true
		w.ready.Push(q)
	}
}

// Next is the queue to serve next, the same one until Served says what came of it; nil: none.
func (w *receivers) Next() *receiverQueue {
	if w.ready.Len() == 0 {
		return nil
	}
	return *w.ready.Front()
}

// Served says that the queue that Next gave has got what there is, or that it needs more than one
// turn: then the others come first.
func (w *receivers) Served(all bool) {
	q := w.ready.Pop()
	if all {
		q.marked = false
	} else {
		w.later = append(w.later, q)
	}
}

// Resume has Next give again what needs more than one turn.
func (w *receivers) Resume() {
	for i, q := range w.later {
		w.ready.Push(q)
		w.later[i] = nil
	}
	w.later = w.later[:0]
}

// Any reports whether there is anybody to serve now.
func (w *receivers) Any() bool {
	return w.ready.Len() > 0 || w.open.Len() > 0 || w.sweeps.running.Len() > 0
}

// Has reports whether an entity has receivers.
func (w *receivers) Has(id event.EntityID) bool { return w.entities[id] != nil }

// Deadline is when somebody gives up waiting for a session, or expired messages may have to be
// looked for; 0: never.
func (w *receivers) Deadline() event.Time {
	first := w.deadlines.first()
	if at := w.sweeps.next; at != 0 && (first == 0 || at < first) {
		return at
	}
	return first
}
