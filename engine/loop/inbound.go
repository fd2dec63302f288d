package loop

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// inboundRequests is the requests of couriers and backups to a loop. They do not go through the
// mailbox: a courier never waits, and what clients send must not wait behind messages that move.
// How many there are is bounded by how much may be in transfer.
type inboundRequests struct {
	// set once in New
	wake      chan struct{} // one slot: there is something to take
	recorder  *recorder
	forwarder *forwarder

	mu     sync.Mutex // guards what follows
	mail   []engine.Request
	closed bool

	waiting fifo.Queue[engine.Request] // imports that were taken; owned by the loop
	empty   []engine.Request           // memory for the mail; owned by the loop
}

// offer appends a request. It reports false when the loop takes no more.
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

// take is what was offered since the last call.
func (q *inboundRequests) take() []engine.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	mail := q.mail
	q.mail, q.empty = q.empty[:0], nil
	return mail
}

// close refuses what is offered from now on, and returns what nobody has answered.
func (q *inboundRequests) close() []engine.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := append(q.mail, q.waiting.All()...)
	q.mail, q.closed, q.waiting = nil, true, fifo.Queue[engine.Request]{}
	return rest
}

// Offer hands the loop a request of a courier or a backup. It does not wait, and reports false when
// the loop has stopped.
func (l *Loop) Offer(req engine.Request) bool { return l.inbound.offer(req) }

// turn writes marks of backups, and carries out what couriers want: ends of transfers at once, and
// as many arriving messages as one group may have. They have a budget of their own, apart from that
// of what ends by itself. So a ring of entities that forward to each other leaves the others their
// turns.
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

// hasMail reports whether there is something that was not taken, whether it can be taken in now or
// not.
func (q *inboundRequests) hasMail() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mail) > 0 || q.waiting.Len() > 0
}

// any reports whether there is something that can be taken in now.
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
