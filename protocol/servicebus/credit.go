package servicebus

import (
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// flow takes the peer's credit (4.3). Only the sum of its delivery-count and link-credit matters: what is on its way is
// accounted for by that.
func (r *receiver) flow(f *amqp.Flow) {
	if f.LinkCredit.Set {
		// What was taken away may be on its way already. Counts are serial numbers: more than half of them cannot be told from
		// less than nothing.
		left := int64(f.LinkCredit.Value) - int64(int32(r.count-f.DeliveryCount.Or(0)))
		r.limit = r.count + uint32(min(max(left, 0), math.MaxInt32))
	}
	r.drain, r.dry = f.Drain, false
	r.drainTo = r.limit
	switch {
	case r.engine != nil:
		r.pass()
	case r.drain:
		r.dry = true
	}
	if f.Echo && !r.drain {
		r.sendFlow()
	}
	r.makeReady()
}

// browseAhead is how many messages a link that browses is ahead of the wire.
const browseAhead = 32

// pass gives the engine as much of the credit as the limits of this connection allow: at most so many deliveries ahead,
// none over the number of unsettled ones (reliability.md 8), and none while the session takes no transfers.
func (r *receiver) pass() {
	c := r.l.c
	if r.l.detached || r.engine == nil {
		return
	}
	if c.outstanding.count >= c.limits.Locked {
		c.outstanding.forgetExpired(c.sessions, c.broker, c.now)
	}
	most := int64(c.limits.ReceiverCredit)
	if r.l.browses { // what is ahead is bounded by nothing else
		most = min(most, browseAhead)
	}
	room := min(most, max(0, int64(c.limits.Locked-c.outstanding.count)))
	if r.l.s.window <= 0 {
		room = 0 // their locks would run out here
		r.wait()
	}
	limit := r.limit
	if int64(r.credit()) > room {
		limit = r.count + uint32(room)
	}
	offset := r.offset()
	limit += offset
	drain := r.drain && !r.dry
	if drain && len(r.drains) > 0 {
		return // one at a time: its answer comes back here
	}
	if limit == r.granted && !drain {
		return
	}
	// Small steps towards a limit that grows with every delivery are saved up, those of a drain as long as there is something to write.
	ahead, unsent := int32(limit-r.granted), r.next < len(r.waiting)
	if (drain && unsent || !drain && ahead > 0) && limit != r.limit+offset && int64(ahead) < most/2 {
		return
	}
	r.granted = limit
	if drain {
		r.drains, r.asked, r.gave = append(r.drains, limit), r.drainTo, int32(limit-r.got)
	}
	r.submit(&engine.Flow{Receiver: r.engine, Limit: limit, Drain: drain}, r.tag)
}

// wait lets the receiver go on when the peer's window opens.
func (r *receiver) wait() {
	s := r.l.s
	if s.blocked == nil {
		s.blocked = make(map[*receiver]struct{})
	}
	s.blocked[r] = struct{}{}
}

// offset is how far the engine's count of deliveries is ahead of the peer's: deliveries that never reached the wire, and
// credit that was used up by a drain the peer does not know of.
func (r *receiver) offset() uint32 { return r.got - r.count - uint32(len(r.waiting)-r.next) }

// drained says that the engine has nothing more to deliver for a drain, and has used up the credit it had.
func (r *receiver) drained() {
	// It may have more where all it got was used for deliveries and was a part of the peer's.
	more := r.gave > 0 && r.got == r.drains[0] && int(r.credit()) > len(r.waiting)-r.next
	r.got = r.drains[0]
	r.drains = r.drains[1:]
	switch {
	case r.l.detached:
	case r.drain && r.asked == r.drainTo && !more:
		r.dry = true
		r.makeReady()
	default: // or the peer changed its mind meanwhile
		r.pass()
	}
}

// finishDrain uses up the credit once all that was there is written (4.3).
func (r *receiver) finishDrain() {
	if !r.drain || !r.dry || !r.empty() {
		return
	}
	r.drain, r.dry = false, false
	r.count, r.limit = r.drainTo, r.drainTo
	r.l.s.writeFlow(&amqp.Flow{
		Handle: amqp.Some(r.l.handle), DeliveryCount: amqp.Some(r.count), LinkCredit: amqp.Some(uint32(0)),
		Available: amqp.Some(uint32(0)), Drain: true,
	})
}

func (r *receiver) sendFlow() {
	r.l.s.writeFlow(&amqp.Flow{
		Handle: amqp.Some(r.l.handle), DeliveryCount: amqp.Some(r.count), LinkCredit: amqp.Some(uint32(max(0, r.credit()))),
		Available: amqp.Some(uint32(len(r.waiting) - r.next + len(r.answers))),
	})
}
