package loop

import (
	"slices"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// When replies leave (docs/decisions/0017) is decided here, and only here. A caller names the kind
// of its reply, and the kind decides how long the reply waits. A reply leaves once everything that
// was decided before it is written and, except for locks and renewals, durable. Facts
// (docs/decisions/0030) do not count. Only a reply that grants or renews a lock waits for less. The
// frame with the grant must be written. The event that the reply shows, the message's own last one,
// must be durable (reliability.md P6, P7, P16). A reply that tells nothing from the log does not
// wait.
//
// frames.go decides when a frame is written and synced. The two meet in Loop.seal.

// heldReply is a reply that waits for the log.
type heldReply struct {
	sink  engine.Sink
	reply engine.Reply
	// of a delivery, or of an answer to a drain that other ports have to answer as well
	receiver *receiver
	// for a request to several ports of a link: the number of ports that have not answered
	ports   *atomic.Int32
	written event.LSN // of the last frame that must be written; 0: none
	durable event.LSN // address that must be durable; 0: none
	number  uint64    // among all replies, in the order of the decisions
}

// replyQueue holds replies that leave in order.
type replyQueue struct {
	front []heldReply // leaves first, from next on
	next  int
	gone  int // front is cleared up to here
	back  []heldReply
}

func (q *replyQueue) len() int { return len(q.front) - q.next + len(q.back) }

func (q *replyQueue) push(h heldReply) { q.back = append(q.back, h) }

// ready returns replies at the front that may leave; they are valid until the next call of a
// method. More of them may follow.
func (q *replyQueue) ready(written, durable event.LSN) []heldReply {
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

// rest returns all remaining replies.
func (q *replyQueue) rest() []heldReply { return slices.Concat(q.front[q.next:], q.back) }

// replies holds the loop's replies until the log has everything that they tell.
type replies struct {
	acks     replyQueue
	grants   []heldReply // locks and renewals, and everything else that receivers are told
	count    uint64      // replies so far
	recent   recents
	unread   unreadBodies // unread bodies that replies point to
	leaving  []heldReply  // scratch
	posts    []engine.Reply
	returned []unsentDelivery

	// addresses of the decisions so far: see [frames]
	writtenUpTo, durableUpTo event.LSN
	// state of the log when grants were checked last, and whether a grant that waits for nothing
	// has come since
	written, durable event.LSN
	fresh            bool
	// frame of the newest grant that waits only to be written; 0: none
	pressing event.LSN
}

// waitFor makes later replies wait for the newest decided record, and for the newest record that
// has to be durable.
func (p *replies) waitFor(wrote, solid event.LSN) { p.writtenUpTo, p.durableUpTo = wrote, solid }

// decided takes an event that has been applied, with an address in its frame.
func (p *replies) decided(ev event.Event, at event.LSN) { p.recent.noteEvent(ev, at) }

// address is the destination of an answer.
type address struct {
	sink engine.Sink
	tag  uint64
}

// reply returns a held reply to an address.
func (a address) reply(reply engine.Reply) heldReply {
	reply.Tag = a.tag
	return heldReply{sink: a.sink, reply: reply}
}

// any reports whether a reply has not left.
func (p *replies) any() bool { return p.acks.len() > 0 || len(p.grants) > 0 }

// answer holds the reply to a request until everything decided so far is committed.
func (p *replies) answer(req *engine.Request, reply engine.Reply) {
	p.keepBodies(req, &reply)
	reply.Tag = req.Tag
	p.hold(heldReply{sink: req.Sink, reply: reply})
}

// hold is answer for a reply that does not belong to a request.
func (p *replies) hold(h heldReply) {
	if h.sink == nil {
		return
	}
	p.count++
	h.number, h.written, h.durable = p.count, p.writtenUpTo, p.durableUpTo
	p.acks.push(h)
}

// atOnce sends the reply to a request without waiting: the reply tells nothing that is or will be
// in the log.
func (p *replies) atOnce(req *engine.Request, reply engine.Reply) {
	if req.Sink == nil {
		return
	}
	p.keepBodies(req, &reply)
	reply.Tag = req.Tag
	p.count++
	p.grants = append(p.grants, heldReply{sink: req.Sink, reply: reply, number: p.count})
	p.fresh = true
}

// answerRenewal answers a command that moved the ends of locks, when that is written.
func (p *replies) answerRenewal(req *engine.Request, reply engine.Reply) {
	reply.Tag = req.Tag
	p.grant(heldReply{sink: req.Sink, reply: reply}, 0)
}

// answerLocked answers a command that locked messages of a slice by their numbers.
func (p *replies) answerLocked(req *engine.Request, id event.Slice, reply engine.Reply) {
	reply.Tag = req.Tag
	p.keepBodies(req, &reply)
	var shows event.LSN
	messages := reply.Messages()
	for i := range messages {
		shows = max(shows, p.recent.newest(id, messages[i].Sequence, &messages[i].Body))
	}
	p.grant(heldReply{sink: req.Sink, reply: reply}, shows)
}

// answerDetach is the answer of a port to the end of its link, after everything that the receiver
// was told.
func (p *replies) answerDetach(req *engine.Request, ports *atomic.Int32) {
	p.grant(heldReply{sink: req.Sink, reply: engine.Reply{Tag: req.Tag}, ports: ports}, p.durableUpTo)
}

// answerAttach is the answer of a port that delivers messages without a session. It tells nothing
// from the log.
func (p *replies) answerAttach(r *receiver) {
	h := r.asked.reply(engine.Reply{})
	if r.link.shared() {
		h.ports = &r.link.pending
	}
	p.tell(r, h, 0)
}

// refuseReceiver answers a receiver that was refused, or that waited for a session in vain.
func (p *replies) refuseReceiver(r *receiver, err error) {
	p.tell(r, r.asked.reply(engine.Reply{Err: err}), p.durableUpTo)
}

// tellEnded tells a receiver that it is no longer served.
func (p *replies) tellEnded(r *receiver, err error) {
	p.tell(r, heldReply{sink: r.Sink, reply: engine.Reply{Kind: engine.ReplyEnded, Tag: r.Tag, Err: err}}, p.durableUpTo)
}

// tellDrained tells a receiver that the queue has nothing more for it. If other ports have not
// answered, only the last answer becomes a reply when it leaves.
func (p *replies) tellDrained(r *receiver) {
	h := heldReply{sink: r.Sink, reply: engine.Reply{Kind: engine.ReplyDrained, Tag: r.Tag}}
	if r.drain == drainSaid {
		h.receiver = r
	}
	p.tell(r, h, p.durableUpTo)
}

// deliver gives a receiver a message of a slice. A delivery under a lock shows that the message
// exists and, in a session, that no message comes before it (P19). A delivery without a lock shows
// that the message is gone.
func (p *replies) deliver(r *receiver, id event.Slice, reply engine.Reply) {
	shows := p.durableUpTo
	if r.Mode == engine.PeekLock {
		d := reply.Delivery()
		shows = p.recent.newest(id, d.Sequence, &d.Body)
		if r.Session != nil {
			shows = max(shows, p.recent.frontCleared(id))
		}
	}
	reply.Tag = r.Tag
	p.tell(r, heldReply{sink: r.Sink, reply: reply, receiver: r}, shows)
}

// grantSession tells a receiver that it has a session. That shows that no other receiver has the
// session's lock and, if the session was not requested by name, that it has a message.
func (p *replies) grantSession(r *receiver, session string, reply engine.Reply, x *index.Index) {
	id := event.Slice{Entity: r.Entity.ID, Partition: r.session.Partition()}
	shows := p.recent.sessionEnd(id, session)
	if m, ok := x.FirstOf(id, []byte(session)); ok && r.Session.Any {
		shows = max(shows, p.recent.newest(id, m.Sequence, &m.Body))
	}
	p.tell(r, r.asked.reply(reply), shows)
}

// grant holds the answer to a command that locks or renews until that is written and everything the
// answer shows is durable.
func (p *replies) grant(h heldReply, shows event.LSN) {
	if h.sink == nil {
		return
	}
	p.count++
	h.number, h.written, h.durable = p.count, p.writtenUpTo, shows
	p.grants = append(p.grants, h)
	switch {
	case h.durable >= p.durable:
	case h.written < p.written:
		p.fresh = true
	default:
		p.pressing = h.written
	}
}

// tell is grant for a reply to a receiver. A receiver's replies leave in the order in which they
// were decided: deliveries in the order of the messages, and an end after everything before it.
func (p *replies) tell(r *receiver, h heldReply, shows event.LSN) {
	r.shown = max(r.shown, shows)
	p.grant(h, r.shown)
}

// committed takes how far the log is written and durable. It posts the replies that no longer wait,
// in the order in which they were decided, except that a grant may overtake others. It returns the
// deliveries whose receivers are gone; they are valid until the next call.
func (p *replies) committed(written, durable event.LSN) []unsentDelivery {
	p.returned = p.returned[:0]
	grants := p.leaving[:0]
	if p.fresh || written != p.written || durable != p.durable {
		p.written, p.durable, p.fresh, p.pressing = written, durable, false, 0
		p.recent.forget(durable)
		grants = p.readyGrants(grants, written, durable)
	}
	all := grants
	for acks := p.acks.ready(written, durable); len(acks) > 0; acks = p.acks.ready(written, durable) {
		for len(grants) > 0 && len(acks) > 0 {
			n := countBefore(acks, grants[0].number)
			p.post(acks[:n])
			if acks = acks[n:]; len(acks) > 0 {
				n = countBefore(grants, acks[0].number)
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

// countBefore returns how many of some replies have a lower number.
func countBefore(hs []heldReply, number uint64) int {
	n := 0
	for n < len(hs) && hs[n].number < number {
		n++
	}
	return n
}

// readyGrants moves the grants that may leave to dst, and notes which frame the others wait for, if
// it only has to be written.
func (p *replies) readyGrants(dst []heldReply, written, durable event.LSN) []heldReply {
	kept := p.grants[:0]
	for i := range p.grants {
		h := &p.grants[i]
		if h.written < written && h.durable < durable {
			dst = append(dst, *h)
			continue
		}
		if h.durable < durable {
			p.pressing = h.written
		}
		kept = append(kept, *h)
	}
	clear(p.grants[len(kept):])
	p.grants = kept
	return dst
}

// post posts replies in order, each run for one sink together.
func (p *replies) post(hs []heldReply) {
	for i := 0; i < len(hs); {
		sink := hs[i].sink
		p.posts = p.posts[:0]
		for ; i < len(hs) && hs[i].sink == sink; i++ {
			if h := &hs[i]; h.receiver == nil && h.ports == nil || p.mayPost(h) {
				p.posts = append(p.posts, h.reply)
			}
		}
		if len(p.posts) > 0 {
			sink.Post(p.posts)
		}
	}
	clear(p.posts)
}

// mayPost reports whether a reply that waited for the log is posted. A delivery is not posted if
// its receiver is gone. Of an answer that several ports give together, only the last one is posted.
// Before it counts as given, the replies before it have to be posted.
func (p *replies) mayPost(h *heldReply) bool {
	r := h.receiver
	switch {
	case r != nil && !r.served:
		if d := h.reply.Delivery(); d != nil {
			p.returned = append(p.returned, unsentDelivery{r.Receiver, d.Token})
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
		return r.answerDrain()
	}
	return h.ports.Add(-1) == 0
}

// unsentDelivery is a delivery whose receiver was gone when it could leave.
type unsentDelivery struct {
	receiver *engine.Receiver
	token    event.LockToken
}

// abandon answers every pending reply with an unknown outcome.
func (p *replies) abandon(unknown error) {
	for _, h := range append(p.acks.rest(), p.grants...) {
		if h.receiver == nil && (h.ports == nil || h.ports.Add(-1) == 0) {
			h.sink.Post([]engine.Reply{{Tag: h.reply.Tag, Err: unknown}})
		}
	}
}

// giveUp answers receivers that wait for a session.
func giveUp(receivers []*receiver, err error) {
	for _, r := range receivers {
		if to := r.asked; to.sink != nil && r.link.claimAnswer() {
			to.sink.Post([]engine.Reply{{Tag: to.tag, Err: err}})
		}
	}
}

// dismiss tells receivers that they are no longer served.
func dismiss(receivers []*receiver, err error) {
	for _, r := range receivers {
		r.Sink.Post([]engine.Reply{{Kind: engine.ReplyEnded, Tag: r.Tag, Err: err}})
	}
}

// TurnAway answers requests that no loop has processed or will process. If a request went to
// several ports of a receiver, this counts as the answer of the partition's port.
func TurnAway(requests []engine.Request, err error) {
	for i := range requests {
		req := &requests[i]
		if send, ok := req.Command.(*engine.Send); ok && send.Buffer != nil {
			send.Buffer.Release()
		}
		if req.Sink != nil && answersRefusal(req.Command) {
			req.Sink.Post([]engine.Reply{{Tag: req.Tag, Err: err}})
		}
	}
}
