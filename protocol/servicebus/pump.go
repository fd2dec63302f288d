package servicebus

import (
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// pump holds the receivers of a connection that have something to write.
type pump struct {
	ready   []*link // in order of arrival
	unread  []*link // their next message could not be read at the last try
	starved []*link // there is no memory for their next message
}

// add puts a receiver at the end of the queue.
func (p *pump) add(l *link) { p.ready = append(p.ready, l) }

// retry makes a receiver try again in the next turn of the connection.
func (p *pump) retry(l *link) { p.unread = append(p.unread, l) }

// stop forgets all receivers, because the connection closes.
func (p *pump) stop() { p.ready, p.unread, p.starved = nil, nil, nil }

// starve makes a receiver wait until there is memory for its next message.
func (p *pump) starve(l *link) { p.starved = append(p.starved, l) }

// resume makes receivers that wait for memory try again.
func (p *pump) resume() {
	p.unread = append(p.unread, p.starved...)
	p.starved = nil
}

// run writes deliveries while the writer accepts them, a few of each link in turn. Bodies are read
// only here.
func (p *pump) run(out *output) {
	for _, l := range p.unread {
		l.receiver.makeReady()
	}
	p.unread = nil
	for len(p.ready) > 0 && !out.full() {
		l := p.ready[0]
		p.ready[0] = nil
		p.ready = p.ready[1:]
		r := l.receiver
		r.queued = false
		if l.detached {
			continue
		}
		if r.advance() {
			r.makeReady()
		} else {
			r.ahead.drop() // a long time may pass before it continues
		}
	}
	if len(p.ready) == 0 {
		p.ready = nil
	}
}

// turn is the number of deliveries that a link writes before the next link has its turn.
const turn = 16

// advance writes some deliveries and reports whether more could be written now.
func (r *receiver) advance() bool {
	c := r.l.c
	r.asOf = 0
	if r.room == roomMade {
		r.pass()
	}
	for range turn {
		switch {
		case len(r.rest) == 0 && r.credit.left() <= 0:
			r.giveBack()
			return false
		case r.l.s.window <= 0: // a flow of the peer continues it
			r.wait()
			if r.empty() {
				r.finishDrain()
			}
			return false
		case len(r.rest) > 0:
			r.continued()
		case len(r.answers) > 0:
			payload := r.answers[0]
			c.memory.dequeueAnswer(payload)
			r.answers = r.answers[1:]
			tag := [16]byte(c.newUUID())
			r.begin(tag, r.settled, payload)
		case r.next < len(r.waiting):
			d := r.waiting[r.next]
			r.waiting[r.next] = nil
			if r.next++; r.next == len(r.waiting) {
				r.waiting, r.next = r.waiting[:0], 0
			}
			if r.tooLate(d) {
				d.Recycle()
				r.pass()
				continue
			}
			if !r.mayWrite(d) {
				r.putBack(d)
				c.pump.starve(r.l)
				return false
			}
			if !r.deliver(d) {
				r.later(d)
				return false
			}
		default:
			r.finishDrain()
			return false
		}
		if c.out.full() {
			break
		}
	}
	if r.empty() {
		r.finishDrain()
		return false
	}
	return true
}

// giveBack releases deliveries that the peer no longer has credit for. Deliveries without a lock,
// which would never be delivered again, wait for more credit.
func (r *receiver) giveBack() {
	if r.locks() {
		for _, d := range r.waiting[r.next:] {
			r.unlock(d.Token, engine.Release)
		}
		r.waiting, r.next = r.waiting[:0], 0
	}
	r.finishDrain()
}

// later makes a message that could not be read be read again in the next turn of the connection.
// The failed read has waited a moment already.
func (r *receiver) later(d *engine.Delivery) {
	r.putBack(d)
	r.l.c.pump.retry(r.l)
	r.l.c.outbox.poke()
}

// putBack puts a message back before the others.
func (r *receiver) putBack(d *engine.Delivery) {
	if r.next > 0 {
		r.next--
		r.waiting[r.next] = d
	} else {
		r.waiting = append(r.waiting, d) // it was the last one
	}
}

// tooLate reports whether the lock of a delivery ended before the peer could see it, because a
// disk hung or the session took no transfers. The engine ends the lock and gives the message to the
// next receiver. The time is read once for the few messages of a turn, and again after a message
// was read from the log, which can take any time.
func (r *receiver) tooLate(d *engine.Delivery) bool {
	if !r.locks() || r.l.filter != nil || d.LockedUntil == 0 {
		return false
	}
	if r.asOf == 0 || r.ahead.filled {
		r.asOf, r.ahead.filled = r.l.c.broker.Now(), false
	}
	return d.LockedUntil <= r.asOf
}

// mayWrite reports whether there is memory to write a message.
func (r *receiver) mayWrite(d *engine.Delivery) bool {
	return r.l.c.memory.reserve(int(d.Body.Size) + unsettledCost)
}

// deliver reads a message and writes it; false: it cannot be read now. A body that differs from the
// stored one is never delivered: its message stays locked, and the partition is told of the damage.
func (r *receiver) deliver(d *engine.Delivery) bool {
	c := r.l.c
	t := r.transferOf(d)
	frame, head := c.out.beginTransfer(r.l.s.channel, &t)
	buf, err := c.stored.encode(head, r.l.target, d, r.view(), &r.ahead, r.next < len(r.waiting))
	if err != nil {
		c.out.cancelTransfer(frame)
		if isTemporary(err) {
			return false
		}
		c.stored.reportDamage(r.l.target, d, err)
		r.read(d)
		r.pass() // the peer's credit is not used up
		return true
	}
	payload := c.out.endTransfer(frame, buf)
	r.sent(d)
	r.read(d)
	d.Recycle()
	if payload != nil {
		r.split(&t, payload)
		return true
	}
	r.wrote()
	r.l.touch()
	return true
}

// read tells the engine that a delivery without a lock no longer needs its body.
func (r *receiver) read(d *engine.Delivery) {
	if !r.locks() && r.engine != nil {
		r.engine.Read[r.l.target.OfSequence(d.Sequence)].Add(1)
	}
}

// view returns the form of this link's deliveries: locked, received and deleted, or browsed.
func (r *receiver) view() message.View {
	return message.View{Peek: r.l.browses, LockToken: r.locks(), Taken: r.settled && !r.l.browses}
}

// transferOf returns the first frame of a delivery (4.4). Its tag is the lock token. For a browsed
// message that the peer wants to settle it is the sequence number. It is empty if there is nothing
// to settle.
func (r *receiver) transferOf(d *engine.Delivery) amqp.Transfer {
	tag := message.DeliveryTag(d.Token)
	if r.l.browses {
		binary.BigEndian.PutUint64(tag[8:], uint64(d.Sequence))
	}
	t := r.transfer(tag, r.settled)
	if r.settled {
		t.DeliveryTag = t.DeliveryTag[:0]
	}
	return t
}

func (r *receiver) transfer(tag [16]byte, settled bool) amqp.Transfer {
	r.tagged = tag
	return amqp.Transfer{
		Handle: r.l.handle, DeliveryID: amqp.Some(r.l.s.nextDelivery), DeliveryTag: r.tagged[:],
		MessageFormat: amqp.Some(amqp.MessageFormatPlain), Settled: amqp.Some(settled), Batchable: true,
	}
}

// sent registers a delivery that begins on the wire.
func (r *receiver) sent(d *engine.Delivery) {
	s := r.l.s
	id := s.nextDelivery
	s.nextDelivery++
	r.credit.begin()
	if r.settled {
		s.silent.note(id)
	} else {
		s.waits(id, unsettledDelivery{link: r.l, token: d.Token, until: d.LockedUntil, header: d.Header})
		if r.l.filter != nil {
			s.messageSessions.note(id)
		}
	}
	r.pass()
}

// begin writes the answer of a node. Answers are not settled, so nothing is remembered.
func (r *receiver) begin(tag [16]byte, settled bool, payload []byte) {
	s := r.l.s
	t := r.transfer(tag, settled)
	s.silent.note(s.nextDelivery)
	s.nextDelivery++
	r.credit.begin()
	r.split(&t, payload)
}

// split writes as many frames of a delivery as the window allows; the rest waits.
func (r *receiver) split(t *amqp.Transfer, payload []byte) {
	n := r.l.c.out.transfer(r.l.s.channel, t, payload)
	r.wrote()
	r.l.touch()
	if t.More {
		r.rest, r.restAt = payload, n
		r.l.c.memory.partly += len(payload)
		r.continued()
	}
}

// wrote counts a transfer that was written.
func (r *receiver) wrote() {
	r.l.s.window--
	r.l.s.nextOutgoing++
}

// continued writes further frames of a delivery: delivery-id and tag stay null (4.4).
func (r *receiver) continued() {
	out, s := &r.l.c.out, r.l.s
	for s.window > 0 && out.prepared() < 4*highWater {
		t := amqp.Transfer{Handle: r.l.handle}
		r.restAt += out.transfer(s.channel, &t, r.rest[r.restAt:])
		r.wrote()
		if !t.More {
			r.dropRest()
			return
		}
	}
}

// dropRest frees the partly written delivery.
func (r *receiver) dropRest() {
	r.l.c.memory.partly -= len(r.rest)
	r.rest, r.restAt = nil, 0
}
