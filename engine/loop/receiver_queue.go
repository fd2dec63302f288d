package loop

import (
	"container/list"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receiver is a port of a receiver link: the volatile state that this loop keeps of one that is
// attached. It dies with the process.
type receiver struct {
	*engine.Receiver
	link *link
	// its place among the ports of the link, where there are several
	port   uint8
	yields int  // turns in which it left credit to other ports
	home   bool // it is counted here
	// that it receives from and this partition hosts; none: it is only counted here
	local  parts
	number int // index in waiting.attached
	// it has a queue; else it waits for a session, has none here, or is gone
	served bool
	flows  uint32 // taken so far, as [credit] counts them
	limit  uint32 // of the newest: see [engine.Flow]
	// of its credit, what waits in the queue: no less than what is left
	queued int32
	behind bool       // that is to wait behind the credit of the others
	drain  drainState // of the newest flow
	saying int        // answers to drains that have not left
	noted  bool       // it is to be noted in the log
	// it has asked for messages of a main queue: expired ones are looked for
	active bool
	// by entity partition, where a receiver that browses goes on
	next []event.SequenceNumber
	// by entity partition, how many deliveries without a lock there were; nil: none
	numbers *[event.MaxEntityPartitions]uint64
	// of those, what was not read when it was last looked at
	unread fifo.Queue[unreadBody]
	// address of what must be durable before it is told anything more
	shown event.LSN

	// of one that wants a session
	session   event.LockToken // of the session it holds
	sessionID []byte
	asked     address    // of the answer: it has a session, or none became available
	until     event.Time // when it gives up
	// among those that wait for a session of the entity; nil: it does not wait
	place *list.Element
	index int // index in waiting.deadlines; -1: another port has it
}

// drainState is how far a port has come with a drain.
type drainState uint8

const (
	drainNone     drainState = iota
	drainOwed                // it may have more to deliver
	drainSaid                // it has nothing more, and its answer comes behind its deliveries
	drainAnswered            // the answer has left
)

func (r *receiver) credit() int32 { return r.link.credit.left() }

// countKey is the entity whose receivers are counted together.
func (r *receiver) countKey() event.EntityID {
	if r.Entity.Topic != 0 {
		return r.Entity.Topic
	}
	return r.Entity.ID
}

// browseFrom is where a receiver that browses a partition goes on; of another it means nothing.
func (r *receiver) browseFrom(partition uint8) event.SequenceNumber {
	if int(partition) >= len(r.next) {
		return 0
	}
	return r.next[partition]
}

// receiverQueue is where receivers with credit wait for the messages of one sub-queue, or the one
// receiver of a session for those of the session; a receiver that browses has one to itself. Credit
// is served in the order it arrived, over all links (wire-protocol.md 4.3), but that of a receiver
// that has released a message comes behind the others'. Slices take turns, a message each.
type receiverQueue struct {
	entity   event.EntityID
	subQueue event.SubQueue
	local    parts             // of the entity: those with messages for it
	look     parts             // of these, where there may be something
	last     uint8             // partition of the one that had the last turn
	grants   fifo.Queue[grant] // of credit, none of them used up
	marked   bool              // is among waiting.ready
	limited  bool              // is among entitySessions.limited
	// there are receivers whose credit is to wait behind that of the others
	reorder  bool
	draining []*receiver
	holder   *receiver // of the session the queue is for; nil: of a sub-queue
	attached int       // receivers; not counted where there is one only
}

type grant struct {
	receiver *receiver
	credit   int32
}

// setCredit notes that a receiver's credit has changed, and how much is left: new credit waits
// behind that of the others, and what was withdrawn is taken from its newest grants. What other
// ports have used was its oldest.
func (q *receiverQueue) setCredit(r *receiver, change, left int32) {
	if change < 0 {
		q.revoke(r, min(-change, r.queued))
	}
	q.consume(r, r.queued-(left-min(max(change, 0), left)))
	if more := left - r.queued; more > 0 {
		r.behind = r.behind && r.queued > 0 // what comes alone is behind the others'
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

// stepBack puts the credit of receivers that are to be behind to the end. It is done once for all
// of them, because it looks at all credit.
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

// take takes up to that much credit from a grant, if it is the receiver's, and returns how much it
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

// Next is the receiver whose credit has waited longest; nil: none has any.
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

// mustYield reports whether the receiver of Next has to leave its credit to another port: that
// credit then waits behind that of the other receivers.
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

// slice is that of the session the queue is for.
func (q *receiverQueue) slice() event.Slice {
	return event.Slice{Entity: q.entity, Partition: q.holder.session.Partition()}
}

// Look begins to serve the queue: credit that is to be behind goes there, and where no slice is
// known to have something, all of them are looked at.
func (q *receiverQueue) Look() {
	q.stepBack()
	if q.look == 0 {
		q.look = q.local
	}
}

// Turn is the partition of the slice whose turn it is; false: in none of them there is anything.
func (q *receiverQueue) Turn() (partition uint8, ok bool) { return q.look.after(q.last) }

// MarkEmpty says that there is nothing in a slice until something is put there.
func (q *receiverQueue) MarkEmpty(partition uint8) { q.look &^= 1 << partition }

// Assign takes one credit from Next, for a message; false: another port has used up what there
// was.
func (q *receiverQueue) Assign(seq event.SequenceNumber) bool {
	g := q.grants.Front()
	r := g.receiver
	r.link.pause()
	ok, owing := r.link.credit.take(r.flows, r.drain == drainAnswered)
	if !ok {
		return false
	}
	if r.drain >= drainSaid { // its answer has to come behind this
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
// have to say so for a drain; the list is valid until the next call. The drain is over where no
// other port owes an answer, and the rest of the credit is given up; else the receiver is left with
// drainSaid.
func (q *receiverQueue) TakeDrained() []*receiver {
	said := q.draining[:0]
	for _, r := range q.draining {
		if r.drain != drainOwed || !r.served {
			continue // it thought better of it, or is gone
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

// answerDrain is called when a receiver's answer to a drain leaves, behind its deliveries. It
// reports whether the drain is over with that.
func (r *receiver) answerDrain() bool {
	if r.saying--; r.saying > 0 || r.drain != drainSaid {
		return false // there is more behind it
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
