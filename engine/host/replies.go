package host

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// When replies leave (docs/decisions/0017). A reply leaves once everything that was decided before it is written and, locks and
// renewals apart, durable. Only what grants or renews a lock waits for less: for the frame that the grant is in to be written, and
// for what it shows, the message's own last event, to be durable (reliability.md P6, P7, P16).

// held is a reply that waits for the log.
type held struct {
	sink     engine.Sink
	reply    engine.Reply
	receiver *receiver // of a delivery
	written  event.LSN // of the last frame that must be written; 0: none
	durable  event.LSN // address of what must be durable; 0: nothing
	number   uint64    // of all replies, in the order of the decisions
}

// queue is replies that leave in order.
type queue struct {
	front []held // goes first, from next on
	next  int
	gone  int // up to here front is cleared
	back  []held
}

func (q *queue) len() int { return len(q.front) - q.next + len(q.back) }

func (q *queue) push(h held) { q.back = append(q.back, h) }

// ready returns those at the front that may leave, until the next call of a method. There may be more of them.
func (q *queue) ready(written, durable event.LSN) []held {
	clear(q.front[q.gone:q.next])
	if q.gone = q.next; q.next == len(q.front) {
		q.front, q.back, q.next, q.gone = q.back, q.front[:0], 0, 0
	}
	from := q.next
	for q.next < len(q.front) && q.front[q.next].written < written && q.front[q.next].durable < durable {
		q.next++
	}
	return q.front[from:q.next]
}

// rest returns all that is left.
func (q *queue) rest() []held { return slices.Concat(q.front[q.next:], q.back) }

// hold keeps a reply back until everything decided so far is committed.
func (l *Loop) hold(h held) {
	if h.sink == nil {
		return
	}
	l.replies++
	h.number, h.written, h.durable = l.replies, l.wrote, l.solid
	if mutant.On(mutant.ShowBeforeDurable) {
		l.release([]held{h})
		return
	}
	if mutant.On(mutant.LookFirst) && l.writer.Batch().Count() == 0 {
		h.written, h.durable = 0, 0
	}
	l.acks.push(h)
}

// grant keeps the answer to a command that locks or renews back until that is written and what it shows is durable.
func (l *Loop) grant(h held, shows event.LSN) {
	if h.sink == nil {
		return
	}
	l.replies++
	h.number, h.written, h.durable = l.replies, l.wrote, shows
	if mutant.On(mutant.ShowBeforeDurable) {
		l.release([]held{h})
		return
	}
	if mutant.On(mutant.DeliverBeforeDurable) {
		h.durable = 0
	}
	if mutant.On(mutant.DeliverBeforeWritten) {
		h.written = 0
	}
	l.grants = append(l.grants, h)
	switch {
	case h.durable >= l.writer.Durable():
	case h.written < l.writer.Written():
		l.looked.written = 0 // it waits for nothing
	case h.written >= l.frames.end: // in the frame being filled
		l.urgent = true
	}
}

// tell is grant for what concerns a receiver. What it is told leaves in the order in which it was decided: deliveries in the order of
// the messages, what was there before an end before that.
func (l *Loop) tell(r *receiver, h held, shows event.LSN) {
	r.shown = max(r.shown, shows)
	l.grant(h, r.shown)
}

// showsAll is the newest of what happened to any of some messages; see recents.newest.
func (l *Loop) showsAll(id event.Slice, messages []engine.Delivery) (at event.LSN) {
	for i := range messages {
		at = max(at, l.recent.newest(id, messages[i].Sequence, &messages[i].Body))
	}
	return at
}

// letGo releases the replies that nothing holds back any more, in the order in which they were decided: only a grant comes before
// others. Deliveries whose receivers are gone go back to their queue.
func (l *Loop) letGo() {
	written, durable := l.writer.Written(), l.writer.Durable()
	grants := l.leaving[:0]
	if written != l.looked.written || durable != l.looked.durable {
		l.looked.written, l.looked.durable, l.urgent = written, durable, false
		l.recent.forget(durable)
		grants = l.readyGrants(grants, written, durable)
	}
	all := grants
	for acks := l.acks.ready(written, durable); len(acks) > 0; acks = l.acks.ready(written, durable) {
		for len(grants) > 0 && len(acks) > 0 {
			n := before(acks, grants[0].number)
			l.release(acks[:n])
			if acks = acks[n:]; len(acks) > 0 {
				n = before(grants, acks[0].number)
				l.release(grants[:n])
				grants = grants[n:]
			}
		}
		l.release(acks)
	}
	l.release(grants)
	clear(all)
	l.leaving = all[:0]
	l.takeBack()
}

// before is how many of some replies have a lower number.
func before(hs []held, number uint64) int {
	n := 0
	for n < len(hs) && hs[n].number < number {
		n++
	}
	return n
}

// readyGrants moves the locks and renewals that may leave to dst. What waits only for being written makes the frame being filled urgent.
func (l *Loop) readyGrants(dst []held, written, durable event.LSN) []held {
	kept := l.grants[:0]
	for i := range l.grants {
		h := &l.grants[i]
		if h.written < written && h.durable < durable {
			dst = append(dst, *h)
			continue
		}
		l.urgent = l.urgent || h.durable < durable && h.written >= l.frames.end
		kept = append(kept, *h)
	}
	clear(l.grants[len(kept):])
	l.grants = kept
	return dst
}

// release posts replies in order, each run for one sink together.
func (l *Loop) release(hs []held) {
	for i := 0; i < len(hs); {
		sink := hs[i].sink
		l.posts = l.posts[:0]
		for ; i < len(hs) && hs[i].sink == sink; i++ {
			h := &hs[i]
			if h.receiver != nil && h.receiver.line == nil {
				l.returned = append(l.returned, unsent{h.receiver.Receiver, h.reply.Delivery().Token})
				continue
			}
			l.posts = append(l.posts, h.reply)
		}
		if len(l.posts) > 0 {
			sink.Post(l.posts)
		}
	}
	clear(l.posts)
}

// unsent is a delivery whose receiver was gone when it could leave.
type unsent struct {
	receiver *engine.Receiver
	token    event.LockToken
}

// takeBack gives deliveries that found their receiver gone back to their queue, without counting.
func (l *Loop) takeBack() {
	if len(l.returned) == 0 {
		return
	}
	now := l.now()
	for _, u := range l.returned {
		if u.receiver.Mode == engine.PeekLock {
			l.putBack(now, u.receiver, u.token)
		}
	}
	l.returned = l.returned[:0]
	l.serveAll(now)
}

func (l *Loop) putBack(now event.Time, r *engine.Receiver, token event.LockToken) {
	l.write(now, l.part.Decide(now, &engine.Settle{Entity: r.Entity, Slice: r.Slice, SubQueue: r.SubQueue, Origin: r.Origin,
		Token: token, Outcome: engine.Release}))
}
