package servicebus

import (
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// credit counts the deliveries that a receiving peer accepts (4.3), and how many of them the engine
// was asked for. Deliveries that were assigned and not begun on the wire are counted by the caller,
// who passes their number as unsent.
type credit struct {
	// as the peer counts
	count   uint32 // delivery-count: deliveries begun on the wire
	limit   uint32 // delivery-count + link-credit of the peer's last flow
	drain   bool   // the peer wants its credit used up
	drainTo uint32 // delivery-count after the drain
	dry     bool   // the drain gets no more deliveries

	// as the engine counts
	granted    uint32 // the last Flow.Limit that it got
	assigned   uint32 // deliveries
	draining   bool   // the last drain is not answered
	drainLimit uint32 // Flow.Limit of the last drain
	drainAsked uint32 // drainTo at the last drain
	drainGave  int32  // credit that the engine had at the last drain
}

// left returns the number of deliveries that the peer accepts now.
func (c *credit) left() int32 { return int32(c.limit - c.count) }

// take applies the peer's credit. Only the sum of its delivery-count and link-credit matters, which
// already includes deliveries on their way.
func (c *credit) take(f *amqp.Flow) {
	if f.LinkCredit.Set {
		// The peer may withdraw credit that deliveries on their way have used already. Counts are
		// serial numbers: a difference of more than half their range cannot be told from a negative
		// one.
		left := int64(f.LinkCredit.Value) - int64(int32(c.count-f.DeliveryCount.Or(0)))
		c.limit = c.count + uint32(min(max(left, 0), math.MaxInt32))
	}
	c.drain, c.dry = f.Drain, false
	c.drainTo = c.limit
}

// noMore ends a drain of a link that gets only the deliveries that wait already.
func (c *credit) noMore() { c.dry = c.drain }

// assign counts a delivery that the engine has assigned.
func (c *credit) assign() { c.assigned++ }

// begin counts a delivery that begins on the wire.
func (c *credit) begin() { c.count++ }

// grant returns the next flow for the engine, if one is needed: as much of the peer's credit as
// there is room for, and at most most deliveries. unsent deliveries have not begun on the wire.
func (c *credit) grant(most, room int64, unsent int) (limit uint32, drain, ok bool) {
	if c.draining {
		// a flow would end the drain without an answer: grant is called again after the answer
		return 0, false, false
	}
	limit = c.limit
	if int64(c.left()) > room {
		limit = c.count + uint32(room)
	}
	offset := c.offset(unsent)
	limit += offset
	drain = c.drain && !c.dry
	if limit == c.granted && !drain {
		return 0, false, false
	}
	// If the limit grows with every delivery, small steps are saved up as long as it will grow by
	// itself: while deliveries are to be written or, without a drain, the engine has credit left
	// for more. In other cases nothing would make the step larger, and the receiver would starve.
	ahead := int32(limit - c.granted)
	grows := unsent > 0 || !drain && ahead > 0 && int32(c.granted-c.assigned) > 0
	if grows && limit != c.limit+offset && int64(ahead) < most/2 {
		return 0, false, false
	}
	c.granted = limit
	if drain {
		c.draining, c.drainLimit, c.drainAsked, c.drainGave = true, limit, c.drainTo, int32(limit-c.assigned)
	}
	return limit, drain, true
}

// offset returns how far the engine's count of deliveries is ahead of the peer's, because of
// deliveries that never reached the wire and of credit used up by a drain that the peer does not
// know of.
func (c *credit) offset(unsent int) uint32 { return c.assigned - c.count - uint32(unsent) }

// drained is called when the engine has nothing more to deliver for a drain and has used up its
// credit. It reports whether that was all of the peer's credit; if not, more has to be granted.
func (c *credit) drained(unsent int) bool {
	// The engine may have more messages if it got only a part of the peer's credit and used all of
	// that for deliveries.
	more := c.drainGave > 0 && c.assigned == c.drainLimit && int(c.left()) > unsent
	c.assigned, c.draining = c.drainLimit, false
	// otherwise the peer has changed its drain meanwhile
	c.dry = c.drain && c.drainAsked == c.drainTo && !more
	return c.dry
}

// finish uses up the credit of a drain without further deliveries, and reports whether there was
// one.
func (c *credit) finish() bool {
	if !c.drain || !c.dry {
		return false
	}
	c.drain, c.dry = false, false
	c.count, c.limit = c.drainTo, c.drainTo
	return true
}

// grantedCredit is the number of deliveries that a sending peer may begin (3.1).
type grantedCredit struct {
	most    uint32 // granted at most
	count   uint32 // delivery-count: deliveries begun
	left    uint32 // deliveries the peer may still begin
	pending uint32 // sends without an answer
}

// spend counts a delivery that begins, and reports whether there was credit for it.
func (c *grantedCredit) spend() bool {
	if c.left == 0 {
		return false
	}
	c.left--
	c.count++
	return true
}

// submit counts a send that the engine has to answer.
func (c *grantedCredit) submit() { c.pending++ }

// answered counts an answer of the engine.
func (c *grantedCredit) answered() { c.pending-- }

// topUp grants more credit if less than half is left, as far as unanswered sends leave room. It
// reports whether it did.
func (c *grantedCredit) topUp() bool {
	if c.left > c.most/2 || c.pending >= c.most || c.most-c.pending <= c.left {
		return false
	}
	c.left = c.most - c.pending
	return true
}

// flow applies the peer's credit.
func (r *receiver) flow(f *amqp.Flow) {
	r.credit.take(f)
	switch {
	case r.engine != nil:
		r.pass()
	case !r.l.at.node() && r.credit.left() > 0:
		r.l.end(amqp.CondNotAllowed, fromTopicText)
		return
	default:
		r.credit.noMore()
	}
	if f.Echo && !r.credit.drain {
		r.sendFlow()
	}
	r.makeReady()
}

// browseAhead bounds the messages that a browsing link gets from the engine before they are on the
// wire.
const browseAhead = 32

// pass gives the engine as much of the credit as the limits of this connection allow: deliveries at
// most Limits.ReceiverCredit ahead, none above the number of unsettled ones (reliability.md 8), and
// none while the session takes no transfers.
func (r *receiver) pass() {
	c := r.l.c
	if r.l.detached || r.engine == nil {
		return
	}
	if c.outstanding.count >= c.limits.Locked {
		c.outstanding.forgetExpired(c.sessions, c.broker, c.now)
	}
	most := int64(c.limits.ReceiverCredit)
	if r.l.browses { // has no other bound on how far it is ahead
		most = min(most, browseAhead)
	}
	free := c.outstanding.free(c.limits.Locked, r)
	room := min(most, free)
	if wanted := min(most, int64(r.credit.left())); free < wanted {
		c.outstanding.wants(r)
	}
	if r.l.s.window <= 0 {
		room = 0 // their locks would expire here
		r.wait()
	}
	if limit, drain, ok := r.credit.grant(most, room, r.unsent()); ok {
		r.submit(&engine.Flow{Receiver: r.engine, Limit: limit, Drain: drain}, r.tag)
	}
}

// wait makes the receiver continue when the peer's window opens.
func (r *receiver) wait() {
	s := r.l.s
	if s.blocked == nil {
		s.blocked = make(map[*receiver]struct{})
	}
	s.blocked[r] = struct{}{}
}

// drained is called when the engine has nothing more to deliver for a drain and has used up its
// credit.
func (r *receiver) drained() {
	dry := r.credit.drained(r.unsent())
	switch {
	case r.l.detached:
	case dry:
		r.makeReady()
	default:
		r.pass()
	}
}

// finishDrain uses up the credit once all remaining deliveries are written (4.3).
func (r *receiver) finishDrain() {
	if !r.empty() || !r.credit.finish() {
		return
	}
	r.l.s.writeFlow(&amqp.Flow{
		Handle: amqp.Some(r.l.handle), DeliveryCount: amqp.Some(r.credit.count), LinkCredit: amqp.Some(uint32(0)),
		Available: amqp.Some(uint32(0)), Drain: true,
	})
}

func (r *receiver) sendFlow() {
	r.l.s.writeFlow(&amqp.Flow{
		Handle: amqp.Some(r.l.handle), DeliveryCount: amqp.Some(r.credit.count), LinkCredit: amqp.Some(uint32(max(0, r.credit.left()))),
		Available: amqp.Some(uint32(r.unsent() + len(r.answers))),
	})
}
