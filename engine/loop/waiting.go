package loop

import (
	"math/bits"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxReceivers bounds the receivers of a queue, or of all subscriptions of a topic together: on all
// sub-queues, with and without sessions, including receivers that wait for one (semantics.md 16.3).
const maxReceivers = 5000

// receivers knows which receivers are attached to the slices of a partition and what each waits
// for: credit for messages, a session, or a search for expired messages. It dies with the process
// (docs/decisions/0026). If a link has ports in other loops as well, it knows its own port, and
// what the ports share (link.go).
//
// Attach, Wait, Flow and Detach say what receivers want; decided says what has happened. Next,
// NextWaiter, Overdue and sweeps.Next return who may have something to do now. The caller carries
// it out and reports the result with Served, Granted or NoSession. This type reads the partition
// and decides nothing; it does not deal with log, replies or time.
type receivers struct {
	part *engine.Partition
	// queues whose messages move to other entities
	transfers *transfers
	limit     int                                 // see [Options].MaxReceivers
	counts    map[event.EntityID]int              // receivers
	entities  map[event.EntityID]*entityReceivers // entities with receivers
	ports     map[*engine.Receiver]*receiver      // attached ports
	attached  []attachment                        // the same ports, in no order
	ready     fifo.Queue[*receiverQueue]          // queues that may have both credit and messages
	later     []*receiverQueue                    // queues of these that are left for the next turn
	open      fifo.Queue[*entityReceivers]        // in which a session may have become available
	deadlines waitDeadlines                       // of receivers that wait for a session
	sweeps    sweeps
}

// attachment is a port and the queue in which it waits for messages. A queue knows its receivers;
// only the attachment knows the queue of a receiver.
type attachment struct {
	receiver *receiver
	queue    *receiverQueue // nil: it waits for a session, or has no queue here
}

// entityReceivers holds the receivers attached to the slices of one entity.
type entityReceivers struct {
	entity   event.EntityID
	attached int
	// of receivers without session: one for each sub-queue and set of slices
	queues   []*receiverQueue
	browsers []*receiverQueue
	sessions entitySessions
	sweepers []*sweeper // of the slices whose main queue has active receivers
}

func newReceivers(part *engine.Partition, limit int) receivers {
	return receivers{part: part, limit: limit, counts: map[event.EntityID]int{}, entities: map[event.EntityID]*entityReceivers{},
		ports: map[*engine.Receiver]*receiver{}}
}

// receiver returns the port of a receiver link; nil: it is not attached.
func (w *receivers) receiver(of *engine.Receiver) *receiver { return w.ports[of] }

// queueOf returns the queue in which an attached receiver waits; nil: none.
func (w *receivers) queueOf(r *receiver) *receiverQueue { return w.attached[r.number].queue }

// Attach registers a receiver, or refuses it if there are too many. For a receiver that wants a
// session, the caller then calls Granted or Wait.
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

// standInLine puts the port in line with those of other loops if there is a message for the
// receiver here.
func (w *receivers) standInLine(r *receiver) {
	if r.served && r.link.shared() {
		r.port = uint8(slices.Index(r.link.hosts, w.part.ID()))
		r.link.line.put(r.port, w.hasMessageFor(r))
	}
}

// queueOf returns the queue in which a receiver without session waits. The main queue's comes
// first.
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

// Flow sets the credit of a receiver that has a queue. The caller serves a draining receiver at
// once.
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

// StepBack moves the credit of a receiver after that of the others in its queue, before the queue
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

// activate counts a receiver as active from its first credit on. A receiver that is attached but
// never gives credit, like that of an SDK before it peeks, makes no message expire (semantics.md
// 7.4).
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

// forget removes a receiver from the attached ones.
func (w *receivers) forget(r *receiver) {
	last := len(w.attached) - 1
	w.attached[r.number] = w.attached[last]
	w.attached[r.number].receiver.number = r.number
	w.attached[last] = attachment{}
	w.attached = w.attached[:last]
	delete(w.ports, r.Receiver)
}

// DetachAll forgets all receivers and returns them.
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

// leave removes a receiver from its queue.
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

// decided takes an event that has been applied, and marks the receivers that may have something to
// do because of it. If the event ends a session's lock, the receiver that held it is detached and
// returned.
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

// markDeliverable marks the queues that wait for a message which can now be delivered or browsed.
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

// markReturned is markDeliverable for a message that could not be moved. Its number does not
// matter: it is in a dead-letter queue, which has no sessions.
func (w *receivers) markReturned(ev *event.TransferFailed) {
	w.markDeliverable(ev.Slice, 0)
}

// markCopies is markDeliverable for the copies in subscriptions.
func (w *receivers) markCopies(partition uint8, copies []event.Copy) {
	for i := range copies {
		w.markDeliverable(event.Slice{Entity: copies[i].Subscription, Partition: partition}, copies[i].Sequence)
	}
}

// markBrowsers marks the browsers of a slice.
func (w *receivers) markBrowsers(e *entityReceivers, partition uint8) {
	if e == nil {
		return
	}
	for _, q := range e.browsers {
		w.wake(q, partition)
	}
}

// wake notes that a slice has a message, and marks a queue if it is for that slice.
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

// Next returns the queue to serve next; nil: none. It returns the same queue until Served is
// called.
func (w *receivers) Next() *receiverQueue {
	if w.ready.Len() == 0 {
		return nil
	}
	return *w.ready.Front()
}

// Served reports that the queue of Next has received everything there is, or that it needs more
// than one turn: then the others come first.
func (w *receivers) Served(all bool) {
	q := w.ready.Pop()
	if all {
		q.marked = false
	} else {
		w.later = append(w.later, q)
	}
}

// Resume makes Next return again the queues that need more than one turn.
func (w *receivers) Resume() {
	for i, q := range w.later {
		w.ready.Push(q)
		w.later[i] = nil
	}
	w.later = w.later[:0]
}

// Any reports whether a receiver or a sweep can be served now.
func (w *receivers) Any() bool {
	return w.ready.Len() > 0 || w.open.Len() > 0 || w.sweeps.running.Len() > 0
}

// Has reports whether an entity has receivers.
func (w *receivers) Has(id event.EntityID) bool { return w.entities[id] != nil }

// Deadline returns when a receiver gives up waiting for a session, or a search for expired messages
// may be due; 0: never.
func (w *receivers) Deadline() event.Time {
	first := w.deadlines.first()
	if at := w.sweeps.next; at != 0 && (first == 0 || at < first) {
		return at
	}
	return first
}
