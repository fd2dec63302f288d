package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The cost of most requests follows from their size. The cost of some follows from how much is
// stored, and a peer can send thousands of them in one read: peeks, lists, and the end of many
// messages. In one turn of a loop, these requests visit maxLooks entries of the index or a few
// more; the others are late. Late requests are carried out in the following turns, one step for
// each sink in turn. Further requests of the same sink wait after them, in order. So a sink with
// cheap requests waits for one turn's work at most, whatever the others ask for (reliability.md
// P23).
//
// A late request is decided in its own turn. Changes in between (an entity was deleted or disabled,
// a lock has ended) count as if it had been sent then. Only a batch deletion selects its messages
// by the time when it came.

const (
	maxLooks = 8192
	// leastLooks is the least that a costly request counts: deciding and answering it costs as much
	// as that many looks.
	leastLooks = 8
	// maxLate bounds the late requests; beyond it the loop takes no more from its mailbox.
	maxLate = 1 << 18
)

// lateRequests holds the requests that wait for a later turn.
type lateRequests struct {
	queues fifo.Queue[*lateQueue] // the next one in front; none is empty
	of     map[engine.Sink]*lateQueue
	count  int // requests in all queues
	looked int // entries visited in this turn
}

// lateQueue holds the late requests of one sink, in order.
type lateQueue struct {
	sink     engine.Sink
	requests []engine.Request
}

// countNamed returns how many messages a command names by number or token.
func countNamed(cmd engine.Command) int {
	switch cmd := cmd.(type) {
	case *engine.Settle:
		return 1 + len(cmd.More)
	case *engine.Renew:
		return len(cmd.Tokens)
	case *engine.ReceiveDeferred:
		return len(cmd.Sequences)
	case *engine.CancelScheduled:
		return len(cmd.Sequences)
	case *engine.Stage:
		return countNamed(cmd.Operation)
	}
	return 0
}

// isCostly reports whether a command may visit many entries. The cost of the others is small, or
// follows from their size.
func isCostly(cmd engine.Command) bool {
	switch cmd.(type) {
	case *engine.Peek, *engine.ListSessions, *engine.BatchDelete, *engine.ListRules:
		return true
	}
	return countNamed(cmd) > 1
}

// charge counts the entries that a command has visited in this turn.
func (w *lateRequests) charge(cmd engine.Command, looks int) {
	if !isCostly(cmd) {
		return
	}
	w.looked += max(looks+countNamed(cmd), leastLooks)
}

// any reports whether there are late requests.
func (w *lateRequests) any() bool { return w.count > 0 }

// full reports whether there are too many to take more requests.
func (w *lateRequests) full() bool { return w.count >= maxLate }

func (w *lateRequests) add(req engine.Request) {
	q := w.of[req.Sink]
	if q == nil {
		q = &lateQueue{sink: req.Sink}
		if w.of == nil {
			w.of = map[engine.Sink]*lateQueue{}
		}
		w.of[req.Sink] = q
		w.queues.Push(q)
	}
	q.requests = append(q.requests, req)
	w.count++
}

// putOff reports whether a request has to wait for a later turn, and stores it then. It has to wait
// if this turn has visited enough entries, or if another request of its sink waits already. A
// costly request also waits if any other request does.
func (w *lateRequests) putOff(now event.Time, req *engine.Request) bool {
	if !w.any() && w.looked < maxLooks || w.of[req.Sink] == nil && !isCostly(req.Command) {
		return false
	}
	if cmd, ok := req.Command.(*engine.BatchDelete); ok && cmd.Before == 0 {
		cmd.Before = now // messages sent after this stay
	}
	w.add(*req)
	return true
}

// catchUp carries out late requests until the turn has visited enough entries.
func (l *Loop) catchUp(now event.Time) {
	w := &l.late
	for w.any() && w.looked < maxLooks && !l.frames.full() {
		q := w.queues.Pop()
		if l.stepLate(now, q) {
			delete(w.of, q.sink)
		} else {
			w.queues.Push(q)
		}
	}
}

// stepLate carries out late requests of one sink, up to a step of a costly one, and reports whether
// none is left.
func (l *Loop) stepLate(now event.Time, q *lateQueue) bool {
	w := &l.late
	n := 0
	for more := true; more && n < len(q.requests) && w.looked < maxLooks && !l.frames.full(); {
		req := &q.requests[n]
		more = !isCostly(req.Command)
		w.looked++
		if l.step(now, req) {
			n++
			l.recorder.commitLarge()
		}
	}
	w.count -= n
	clear(q.requests[:n])
	q.requests = q.requests[n:]
	return len(q.requests) == 0
}

// endLate moves late requests before the requests that wait for room in a frame: when the loop
// stops, nothing else has to come before them.
func (l *Loop) endLate() { l.backlog = append(l.late.stop(), l.backlog...) }

// stop empties the late requests when the loop stops: it refuses the costly ones and returns the
// others.
func (w *lateRequests) stop() (rest []engine.Request) {
	for _, req := range w.take() {
		if isCostly(req.Command) {
			TurnAway([]engine.Request{req}, engine.ErrUnknown)
		} else {
			rest = append(rest, req)
		}
	}
	return rest
}

// take removes and returns all late requests.
func (w *lateRequests) take() (requests []engine.Request) {
	for w.queues.Len() > 0 {
		requests = append(requests, w.queues.Pop().requests...)
	}
	*w = lateRequests{}
	return requests
}
