package loop

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// inboundRequests holds the requests of couriers and backups to a loop. They bypass the mailbox: a
// courier never waits, and requests of clients must not wait behind moving messages. Their number
// is bounded by how much may be in transfer.
type inboundRequests struct {
	// set once in New
	wake      chan struct{} // one slot: there is something to take
	recorder  *recorder
	forwarder *forwarder

	mu     sync.Mutex // guards the fields below
	mail   []engine.Request
	closed bool

	waiting fifo.Queue[engine.Request] // imports taken from the mail; owned by the loop
	empty   []engine.Request           // memory for the mail; owned by the loop
}

// offer appends a request. It returns false if the loop takes no more.
func (q *inboundRequests) offer(req engine.Request) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.mail = append(q.mail, req)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns the requests that were offered since the last call.
func (q *inboundRequests) take() []engine.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	mail := q.mail
	q.mail, q.empty = q.empty[:0], nil
	return mail
}

// close refuses further requests, and returns the unanswered ones.
func (q *inboundRequests) close() []engine.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := append(q.mail, q.waiting.All()...)
	q.mail, q.closed, q.waiting = nil, true, fifo.Queue[engine.Request]{}
	return rest
}

// Offer passes a request of a courier or a backup to the loop. It does not wait, and returns false
// if the loop has stopped.
func (l *Loop) Offer(req engine.Request) bool { return l.inbound.offer(req) }

// turn writes marks of backups, and carries out couriers' requests: ends of transfers at once, and
// as many arriving messages as one group may have. Arrivals have a budget of their own, apart from
// that of unrequested events. So a ring of entities that forward to each other leaves the others
// their turns.
func (q *inboundRequests) turn(now event.Time) {
	mail := q.take()
	for i := range mail {
		switch cmd := mail[i].Command.(type) {
		case *TransferResults:
			q.forwarder.finish(now, cmd)
			q.recorder.commitLarge()
		case *Mark:
			q.mark(now, &mail[i])
		default:
			q.waiting.Push(mail[i])
		}
	}
	clear(mail)
	q.empty = mail[:0]
	for q.waiting.Len() > 0 && !q.recorder.frames.backgroundFull() {
		req := q.waiting.Pop()
		q.arrive(now, &req)
		q.recorder.commitLarge()
	}
}

// hasMail reports whether there is a request that was not carried out, whether there is room for it
// now or not.
func (q *inboundRequests) hasMail() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mail) > 0 || q.waiting.Len() > 0
}

// any reports whether there is a request that can be carried out now.
func (q *inboundRequests) any() bool {
	return q.waiting.Len() > 0 && !q.recorder.frames.backgroundFull()
}

// arrive carries out an import.
func (q *inboundRequests) arrive(now event.Time, req *engine.Request) {
	cmd := req.Command.(*engine.Import)
	cmd.Entity.Use(now)
	out := q.recorder.part.Decide(now, cmd)
	reply, frames := out.Reply, q.recorder.frames
	before := frames.writer.Batch().Len()
	q.recorder.write(now, out)
	frames.arrived += frames.writer.Batch().Len() - before
	q.recorder.replies.answer(req, reply)
}
