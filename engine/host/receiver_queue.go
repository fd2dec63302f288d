package host

import (
	"container/list"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receiver is the volatile state of one that is attached. It dies with the process.
type receiver struct {
	*engine.Receiver
	at       *sliceReceivers
	queue    *receiverQueue // nil: it waits for a session, or is gone
	assigned uint32         // deliveries decided since Attach, modulo 2^32
	limit    uint32         // see [engine.Flow]
	draining bool           // its credit is given up once its queue has nothing more to deliver
	drainTo  uint32
	active   bool                 // it has asked for messages of a main queue: expired ones are looked for
	next     event.SequenceNumber // where a receiver that browses goes on
	noted    bool                 // the log is told of it
	shown    event.LSN            // address of what must be durable before it is told anything more

	// of one that wants a session
	session   event.LockToken // of the session it holds
	sessionID []byte
	asked     address       // of the answer: it has a session, or none became available
	until     event.Time    // when it gives up
	place     *list.Element // among those that wait for a session of the slice; nil: it does not wait
	index     int           // index in waiting.deadlines
}

func (r *receiver) credit() int32 { return int32(r.limit - r.assigned) }

// counted is the entity whose receivers are counted together.
func (r *receiver) counted() event.EntityID {
	if r.Entity.Topic != 0 {
		return r.Entity.Topic
	}
	return r.Entity.ID
}

// receiverQueue is where receivers with credit wait for the messages of one sub-queue, or the one receiver of a session for those of
// the session; a receiver that browses has one to itself. Credit is served in the order it arrived, over all links (wire-protocol.md 4.3).
type receiverQueue struct {
	slice    event.Slice
	grants   fifo[grant] // of credit, none of them used up
	marked   bool        // is among waiting.ready
	limited  bool        // is among sliceSessions.limited
	draining []*receiver
	holder   *receiver // of the session the queue is for; nil: of a sub-queue
	attached int       // receivers; not counted where there is one only
}

type grant struct {
	receiver *receiver
	credit   int32
}

// setCredit changes a receiver's credit: more of it waits behind the others, less is taken from its newest grants.
func (q *receiverQueue) setCredit(r *receiver, credit int32) {
	more := credit - r.credit()
	r.limit = r.assigned + uint32(credit)
	switch {
	case more > 0:
		q.grants.push(grant{r, more})
	case more < 0:
		q.revoke(r, -more)
	}
}

// revoke takes credit from a receiver's newest grants.
func (q *receiverQueue) revoke(r *receiver, credit int32) {
	all := q.grants.all()
	for i := len(all) - 1; i >= 0 && credit > 0; i-- {
		if g := &all[i]; g.receiver == r {
			n := min(g.credit, credit)
			g.credit -= n
			credit -= n
		}
	}
	q.grants.keep(func(g grant) bool { return g.credit > 0 })
}

// Next is the receiver whose credit has waited longest; nil: none has any.
func (q *receiverQueue) Next() *receiver {
	if q.grants.len() == 0 {
		return nil
	}
	return q.grants.front().receiver
}

// Assigned takes one credit from Next, for a message.
func (q *receiverQueue) Assigned(seq event.SequenceNumber) {
	g := q.grants.front()
	g.receiver.assigned++
	g.receiver.next = seq + 1
	if g.credit--; g.credit == 0 {
		q.grants.pop()
	}
}

// Drained is called when the queue has nothing more to deliver. It returns the receivers whose drain is over, until the next call: the
// rest of their credit is given up.
func (q *receiverQueue) Drained() []*receiver {
	over := q.draining[:0]
	for _, r := range q.draining {
		if !r.draining || r.queue != q {
			continue // it thought better of it, or is gone
		}
		q.setCredit(r, 0)
		r.assigned, r.limit, r.draining = r.drainTo, r.drainTo, false
		over = append(over, r)
	}
	q.draining = q.draining[:0]
	return over
}
