package host

import (
	"slices"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// When replies leave (docs/decisions/0017). A reply leaves once everything that was decided before it is written and, locks and
// renewals apart, durable; facts (docs/decisions/0030) count for nothing. Only what grants or renews a lock waits for less: for the frame that the grant is in to be written, and
// for what it shows, the message's own last event, to be durable (reliability.md P6, P7, P16). What tells of nothing that is in the log waits for nothing.

// held is a reply that waits for the log.
type held struct {
	sink     engine.Sink
	reply    engine.Reply
	receiver *receiver     // of a delivery, or of an answer to a drain that others have to answer, too
	ports    *atomic.Int32 // of a request that went to several ports of a link: those that have not answered
	written  event.LSN     // of the last frame that must be written; 0: none
	durable  event.LSN     // address of what must be durable; 0: nothing
	number   uint64        // of all replies, in the order of the decisions
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

// replies are what the loop has to say and holds back until the log has what it stands for.
type replies struct {
	frames *frames // set once in NewLoop

	// owned by the loop
	acks     queue
	grants   []held                               // locks and renewals, and what else receivers are told
	count    uint64                               // so far
	looked   struct{ written, durable event.LSN } // when grants were looked at
	recent   recents
	unread   unread // what has left points to, and what has not
	leaving  []held // scratch
	posts    []engine.Reply
	returned []unsent
}

// address is where an answer goes.
type address struct {
	sink engine.Sink
	tag  uint64
}

// held is a reply to an address.
func (a address) held(reply engine.Reply) held {
	reply.Tag = a.tag
	return held{sink: a.sink, reply: reply}
}

// any reports whether there is one that has not left.
func (p *replies) any() bool { return p.acks.len() > 0 || len(p.grants) > 0 }

// answer holds the reply to a request back until everything decided so far is committed.
func (p *replies) answer(req *engine.Request, reply engine.Reply) {
	p.shows(req, &reply)
	reply.Tag = req.Tag
	p.hold(held{sink: req.Sink, reply: reply})
}

func (p *replies) hold(h held) {
	if h.sink == nil {
		return
	}
	p.count++
	h.number, h.written, h.durable = p.count, p.frames.wrote, p.frames.solid
	if mutant.On(mutant.ShowBeforeDurable) {
		p.post([]held{h})
		return
	}
	if mutant.On(mutant.LookFirst) && p.frames.writer.Batch().Count() == 0 {
		h.written, h.durable = 0, 0
	}
	p.acks.push(h)
}

// atOnce lets the reply to a request go without waiting: it tells of nothing that is in the log or will be.
func (p *replies) atOnce(req *engine.Request, reply engine.Reply) {
	if req.Sink == nil {
		return
	}
	p.shows(req, &reply)
	reply.Tag = req.Tag
	p.count++
	p.grants = append(p.grants, held{sink: req.Sink, reply: reply, number: p.count})
	p.looked.written = 0 // there is one that waits for nothing
}

// grant keeps the answer to a command that locks or renews back until that is written and what it shows is durable.
func (p *replies) grant(h held, shows event.LSN) {
	if h.sink == nil {
		return
	}
	p.count++
	h.number, h.written, h.durable = p.count, p.frames.wrote, shows
	if mutant.On(mutant.ShowBeforeDurable) {
		p.post([]held{h})
		return
	}
	if mutant.On(mutant.DeliverBeforeDurable) {
		h.durable = 0
	}
	if mutant.On(mutant.DeliverBeforeWritten) {
		h.written = 0
	}
	p.grants = append(p.grants, h)
	switch {
	case h.durable >= p.frames.writer.Durable():
	case h.written < p.frames.writer.Written():
		p.looked.written = 0 // it waits for nothing
	case h.written >= p.frames.end: // in the frame being filled
		p.frames.urgent = true
	}
}

// tell is grant for what concerns a receiver. What it is told leaves in the order in which it was decided: deliveries in the order of
// the messages, and an end behind everything that came before it.
func (p *replies) tell(r *receiver, h held, shows event.LSN) {
	r.shown = max(r.shown, shows)
	p.grant(h, r.shown)
}

// showsAll is the newest of what happened to any of some messages; see recents.newest.
func (p *replies) showsAll(id event.Slice, messages []engine.Delivery) (at event.LSN) {
	for i := range messages {
		at = max(at, p.recent.newest(id, messages[i].Sequence, &messages[i].Body))
	}
	return at
}

// showsDelivery is the newest of what a delivery shows: under a lock, that the message is there, and in a session that nothing comes
// before it (P19); else that the message is gone.
func (p *replies) showsDelivery(r *receiver, id event.Slice, d *engine.Delivery) event.LSN {
	if r.Mode != engine.PeekLock {
		return p.frames.solid
	}
	at := p.recent.newest(id, d.Sequence, &d.Body)
	if r.Session != nil {
		at = max(at, p.recent.cleared(id))
	}
	return at
}

// showsSession is the newest of what the grant of a session shows: that nobody has its lock any more and, when it was not asked for by its
// name, that there is a message.
func (p *replies) showsSession(r *receiver, session string, x *index.Index) event.LSN {
	id := r.queue.slice()
	at := p.recent.freed(id, session)
	if m, ok := x.FirstOf(id, []byte(session)); ok && r.Session.Any {
		at = max(at, p.recent.newest(id, m.Sequence, &m.Body))
	}
	return at
}

// release posts the replies that nothing holds back any more, in the order in which they were decided: only a grant comes before
// others. It returns the deliveries whose receivers are gone, until the next call.
func (p *replies) release() []unsent {
	p.returned = p.returned[:0]
	written, durable := p.frames.writer.Written(), p.frames.writer.Durable()
	grants := p.leaving[:0]
	if written != p.looked.written || durable != p.looked.durable {
		p.looked.written, p.looked.durable, p.frames.urgent = written, durable, false
		p.recent.forget(durable)
		grants = p.readyGrants(grants, written, durable)
	}
	all := grants
	for acks := p.acks.ready(written, durable); len(acks) > 0; acks = p.acks.ready(written, durable) {
		for len(grants) > 0 && len(acks) > 0 {
			n := before(acks, grants[0].number)
			p.post(acks[:n])
			if acks = acks[n:]; len(acks) > 0 {
				n = before(grants, acks[0].number)
				p.post(grants[:n])
				grants = grants[n:]
			}
		}
		p.post(acks)
	}
	p.post(grants)
	clear(all)
	p.leaving = all[:0]
	return p.returned
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
func (p *replies) readyGrants(dst []held, written, durable event.LSN) []held {
	kept := p.grants[:0]
	for i := range p.grants {
		h := &p.grants[i]
		if h.written < written && h.durable < durable {
			dst = append(dst, *h)
			continue
		}
		p.frames.urgent = p.frames.urgent || h.durable < durable && h.written >= p.frames.end
		kept = append(kept, *h)
	}
	clear(p.grants[len(kept):])
	p.grants = kept
	return dst
}

// post posts replies in order, each run for one sink together.
func (p *replies) post(hs []held) {
	for i := 0; i < len(hs); {
		sink := hs[i].sink
		p.posts = p.posts[:0]
		for ; i < len(hs) && hs[i].sink == sink; i++ {
			if h := &hs[i]; h.receiver == nil && h.ports == nil || p.leaves(h) {
				p.posts = append(p.posts, h.reply)
			}
		}
		if len(p.posts) > 0 {
			sink.Post(p.posts)
		}
	}
	clear(p.posts)
}

// leaves reports whether a reply that waited for the log leaves: a delivery, unless its receiver is gone; what several ports answer
// together, from the last of them. Before that counts as said here, what comes before it has to be on its way.
func (p *replies) leaves(h *held) bool {
	r := h.receiver
	switch {
	case r != nil && r.queue == nil:
		if d := h.reply.Delivery(); d != nil {
			p.returned = append(p.returned, unsent{r.Receiver, d.Token})
		}
		return false
	case r != nil && h.reply.Kind == engine.ReplyDelivery:
		return true
	}
	if len(p.posts) > 0 {
		h.sink.Post(p.posts)
		clear(p.posts)
		p.posts = p.posts[:0]
	}
	if r != nil {
		return r.answered()
	}
	return h.ports.Add(-1) == 0
}

// unsent is a delivery whose receiver was gone when it could leave.
type unsent struct {
	receiver *engine.Receiver
	token    event.LockToken
}

// abandon answers whoever still waits for a reply that the outcome is unknown.
func (p *replies) abandon(unknown error) {
	for _, h := range append(p.acks.rest(), p.grants...) {
		if h.receiver == nil && (h.ports == nil || h.ports.Add(-1) == 0) {
			h.sink.Post([]engine.Reply{{Tag: h.reply.Tag, Err: unknown}})
		}
	}
}
