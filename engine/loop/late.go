package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What most requests cost follows from their bytes. What some cost follows from how much is stored,
// and a peer can send thousands of them in a read: a look at what is stored, an enumeration, the
// end of many messages. All of those that one turn of a loop carries out look at maxLooks entries
// of the index or a few more; the others are late. They are carried out in the turns that follow, a
// step for each sink in its turn, and what else the same sink asks for comes behind them, in order.
// So whoever asks for little waits for one turn's work at most, whatever the others ask for
// (reliability.md P23).
//
// What is late is decided in its own turn: what has changed meanwhile (an entity is gone or
// disabled, a lock has ended) counts as if it had been asked for then. Only which messages a
// deletion means follows from when it came.

const (
	maxLooks = 8192
	// leastLooks is what a costly request counts at least: deciding and answering it costs as much
	// as that many looks.
	leastLooks = 8
	// maxLate is how many requests may be late before the loop takes no more from its mailbox.
	maxLate = 1 << 18
)

// lateRequests is the requests that wait for a later turn.
type lateRequests struct {
	queues fifo.Queue[*lateQueue] // the one whose turn it is first; none is empty
	of     map[engine.Sink]*lateQueue
	count  int // requests in all of them
	looked int // entries looked at in this turn
}

// lateQueue is the late requests of one sink, in order.
type lateQueue struct {
	sink     engine.Sink
	requests []engine.Request
}

// countNamed is how many messages a command names by numbers or tokens of their own.
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

// isCostly reports whether a command may look at many entries. What the others cost is small, or
// follows from the bytes that were sent.
func isCostly(cmd engine.Command) bool {
	switch cmd.(type) {
	case *engine.Peek, *engine.ListSessions, *engine.BatchDelete, *engine.ListRules:
		return true
	}
	return countNamed(cmd) > 1
}

// charge counts what a command has looked at in this turn.
func (w *lateRequests) charge(cmd engine.Command, looks int) {
	if !isCostly(cmd) {
		return
	}
	w.looked += max(looks+countNamed(cmd), leastLooks)
}

// any reports whether there are late requests.
func (w *lateRequests) any() bool { return w.count > 0 }

// full reports whether there are so many that no more can be taken.
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

// putOff reports whether a request has to wait for a later turn, and notes it then: when this turn
// has looked at enough, or because another request of its sink, or, for a costly one, another
// costly one, waits already.
func (w *lateRequests) putOff(now event.Time, req *engine.Request) bool {
	if !w.any() && w.looked < maxLooks || w.of[req.Sink] == nil && !isCostly(req.Command) {
		return false
	}
	if cmd, ok := req.Command.(*engine.BatchDelete); ok && cmd.Before == 0 {
		cmd.Before = now // what is sent meanwhile stays
	}
	w.add(*req)
	return true
}

// catchUp carries out late requests until the turn has looked at enough.
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

// stepLate carries out late requests of one sink up to a step of a costly one, and reports whether
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

// endLate puts what is late before what waits for room in a frame: nothing waits for it any more
// when the loop stops.
func (l *Loop) endLate() { l.backlog = append(l.late.stop(), l.backlog...) }

// stop empties what is late when the loop stops: costly requests are turned away, the others
// returned.
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

// take empties what is late.
func (w *lateRequests) take() (requests []engine.Request) {
	for w.queues.Len() > 0 {
		requests = append(requests, w.queues.Pop().requests...)
	}
	*w = lateRequests{}
	return requests
}
