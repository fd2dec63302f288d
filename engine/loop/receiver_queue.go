package loop

import (
	"container/list"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receiver is a port of a receiver link: the volatile state of an attached receiver in this loop.
// It dies with the process.
type receiver struct {
	*engine.Receiver
	link *link
	// index among the ports of the link, if there are several
	port   uint8
	yields int  // turns in which it left credit to other ports
	home   bool // it counts towards the limit here
	// partitions that it receives from in this loop; none: it is only counted here
	local  parts
	number int // index in waiting.attached
	// it has a queue; else it waits for a session, has no queue here, or is gone
	served bool
	flows  uint32 // flows taken so far, as [credit] counts them
	limit  uint32 // limit of the newest flow: see [engine.Flow]
	// credit that waits in the queue: no less than what is left
	queued int32
	behind bool       // its credit is to wait after the credit of the others
	drain  drainState // state of the newest drain
	saying int        // answers to drains that have not left
	noted  bool       // it is to be recorded in the log
	// it has given credit for a main queue, so expired messages are searched for
	active bool
	// by entity partition: where a browsing receiver continues
	next []event.SequenceNumber
	// by entity partition: number of deliveries without a lock; nil: none
	numbers *[event.MaxEntityPartitions]uint64
	// bodies of these that were unread at the last check
	unread fifo.Queue[unreadBody]
	// address of what must be durable before the next reply to it leaves
	shown event.LSN

	// for a receiver that wants a session
	session   event.LockToken // token of the session it holds
	sessionID []byte
	asked     address    // where the answer goes: it has a session, or none became available
	until     event.Time // when it gives up
	// element among the receivers that wait for a session of the entity; nil: it does not wait
	place *list.Element
	index int // index in receivers.deadlines; -1: another port has it
}

// drainState is how far a port has come with a drain.
type drainState uint8

const (
	drainNone     drainState = iota
	drainOwed                // it may have more to deliver
	drainSaid                // it has nothing more; its answer leaves after its deliveries
	drainAnswered            // the answer has left
)

func (r *receiver) credit() int32 { return r.link.credit.left() }

// countKey returns the entity whose receivers are counted together.
func (r *receiver) countKey() event.EntityID {
	if r.Entity.Topic != 0 {
		return r.Entity.Topic
	}
	return r.Entity.ID
}

// browseFrom returns where a browsing receiver continues in a partition; it has no meaning for
// other receivers.
func (r *receiver) browseFrom(partition uint8) event.SequenceNumber {
	if int(partition) >= len(r.next) {
		return 0
	}
	return r.next[partition]
}

// receiverQueue holds receivers with credit that wait for messages. It is for the receivers of one
// sub-queue, for the one receiver of a session, or for one browsing receiver. Credit is served in
// the order of its arrival, over all links (wire-protocol.md 4.3); but the credit of a receiver
// that has released a message comes after the others'. Slices take turns, a message each.
type receiverQueue struct {
	entity   event.EntityID
	subQueue event.SubQueue
	local    parts             // partitions of the entity with messages for it
	look     parts             // those of them that may have a message
	last     uint8             // partition that had the last turn
	grants   fifo.Queue[grant] // of credit, none of them used up
	marked   bool              // is in receivers.ready
	limited  bool              // is in entitySessions.limited
	// some receivers' credit is to wait after that of the others
	reorder  bool
	draining []*receiver
	holder   *receiver // receiver of the session that the queue is for; nil: it is for a sub-queue
	attached int       // number of receivers; not counted if there is only one
}

type grant struct {
	receiver *receiver
	credit   int32
}

// setCredit notes that a receiver's credit has changed, and how much is left. New credit waits
// after that of the others, and withdrawn credit is taken from its newest grants. Other ports have
// used its oldest.
func (q *receiverQueue) setCredit(r *receiver, change, left int32) {
	if change < 0 {
		q.revoke(r, min(-change, r.queued))
	}
	q.consume(r, r.queued-(left-min(max(change, 0), left)))
	if more := left - r.queued; more > 0 {
		r.behind = r.behind && r.queued > 0 // alone, it is last already
		q.grants.Push(grant{r, more})
		r.queued += more
	}
}

// revoke takes credit from a receiver's newest grants.
func (q *receiverQueue) revoke(r *receiver, credit int32) {
	all := q.grants.All()
	for i := len(all) - 1; i >= 0 && credit > 0; i-- {
		credit -= all[i].take(r, credit)
	}
	q.grants.Keep(func(g grant) bool { return g.credit > 0 })
}

// consume takes credit from a receiver's oldest grants.
func (q *receiverQueue) consume(r *receiver, credit int32) {
	if credit <= 0 {
		return
	}
	all := q.grants.All()
	for i := 0; i < len(all) && credit > 0; i++ {
		credit -= all[i].take(r, credit)
	}
	q.grants.Keep(func(g grant) bool { return g.credit > 0 })
}

// stepBack moves the credit of the marked receivers to the end. It handles all of them at once,
// because it has to visit all credit.
func (q *receiverQueue) stepBack() {
	if !q.reorder {
		return
	}
	q.reorder = false
	var behind []grant
	q.grants.Keep(func(g grant) bool {
		if g.receiver.behind {
			behind = append(behind, g)
		}
		return !g.receiver.behind
	})
	for _, g := range behind {
		g.receiver.behind = false
		q.grants.Push(g)
	}
}

// take takes up to that much credit from a grant if it is the receiver's, and returns how much it
// took.
func (g *grant) take(r *receiver, credit int32) int32 {
	if g.receiver != r {
		return 0
	}
	n := min(g.credit, credit)
	g.credit -= n
	r.queued -= n
	return n
}

// Next returns the receiver whose credit has waited longest; nil: none has credit.
func (q *receiverQueue) Next() *receiver {
	for q.grants.Len() > 0 {
		g := q.grants.Front()
		r := g.receiver
		if !r.link.shared() {
			return r
		}
		r.link.pause()
		if g.take(r, max(0, r.queued-max(0, r.credit()))); g.credit > 0 {
			return r
		}
		q.grants.Pop()
	}
	return nil
}

// mustYield reports whether the receiver of Next has to leave its credit to another port. That
// credit then waits after that of the other receivers.
func (q *receiverQueue) mustYield() bool {
	r := q.grants.Front().receiver
	if !r.link.shared() {
		return false
	}
	r.link.pause()
	switch {
	case r.link.line.mayTake(r.port, r.credit()):
		r.yields = 0
		return false
	case r.yields >= maxYields:
		r.link.line.clear()
		r.yields = 0
		return false
	}
	r.yields++
	q.grants.Push(q.grants.Pop())
	return true
}

// slice returns the slice of the session that the queue is for.
func (q *receiverQueue) slice() event.Slice {
	return event.Slice{Entity: q.entity, Partition: q.holder.session.Partition()}
}

// Look begins to serve the queue. It moves credit that is to wait after the others', and if no
// slice is known to have a message, all of them are tried.
func (q *receiverQueue) Look() {
	q.stepBack()
	if q.look == 0 {
		q.look = q.local
	}
}

// Turn returns the partition of the slice whose turn it is; false: no slice has a message.
func (q *receiverQueue) Turn() (partition uint8, ok bool) { return q.look.after(q.last) }

// MarkEmpty notes that a slice has no message until one is put there.
func (q *receiverQueue) MarkEmpty(partition uint8) { q.look &^= 1 << partition }

// Assign takes one credit from Next for a message; false: another port has used up the credit.
func (q *receiverQueue) Assign(seq event.SequenceNumber) bool {
	g := q.grants.Front()
	r := g.receiver
	r.link.pause()
	ok, owing := r.link.credit.take(r.flows, r.drain == drainAnswered)
	if !ok {
		return false
	}
	if r.drain >= drainSaid { // its answer has to leave after this delivery
		if owing || r.drain == drainSaid {
			r.drain = drainOwed
			q.draining = append(q.draining, r)
		} else {
			r.drain = drainNone
		}
	}
	if r.link.shared() {
		r.link.line.noteTaken(r.port)
	}
	q.last = seq.Partition()
	if r.next != nil {
		r.next[q.last] = seq + 1
	}
	r.queued--
	if g.credit--; g.credit == 0 {
		q.grants.Pop()
	}
	return true
}

// TakeDrained is called when the queue has nothing more to deliver. It returns the receivers that
// have to answer a drain; the list is valid until the next call. If no other port owes an answer,
// the drain has ended and the rest of the credit is given up. Otherwise the receiver keeps the
// state drainSaid.
func (q *receiverQueue) TakeDrained() []*receiver {
	said := q.draining[:0]
	for _, r := range q.draining {
		if r.drain != drainOwed || !r.served {
			continue // it has withdrawn the drain, or is gone
		}
		r.link.pause()
		switch r.link.credit.endDrain(r.flows) {
		case drainOver:
			q.revoke(r, r.queued)
			r.drain = drainNone
			said = append(said, r)
		case drainOpen:
			r.drain = drainSaid
			r.saying++
			said = append(said, r)
		case drainMoved:
			r.drain = drainNone
		}
	}
	clear(q.draining[len(said):])
	q.draining = q.draining[:0]
	return said
}

// answerDrain is called when a receiver's answer to a drain leaves, after its deliveries. It
// reports whether that ends the drain.
func (r *receiver) answerDrain() bool {
	if r.saying--; r.saying > 0 || r.drain != drainSaid {
		return false // another answer follows
	}
	r.link.pause()
	switch r.link.credit.answerDrain(r.flows) {
	case drainOver:
		r.drain = drainNone
		return true
	case drainOpen:
		r.drain = drainAnswered
	case drainMoved:
		r.drain = drainNone
	}
	return false
}
