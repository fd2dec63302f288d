package servicebus

import (
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// pump is which receivers of a connection have something to write.
type pump struct {
	ready   []*link // in the order they got it
	unread  []*link // the next message of these could not be read just now
	starved []*link // there is no memory for the next message of these
}

// add puts a receiver behind the others.
func (p *pump) add(l *link) { p.ready = append(p.ready, l) }

// retry lets a receiver try again in the next turn of the connection.
func (p *pump) retry(l *link) { p.unread = append(p.unread, l) }

// stop forgets them: the connection closes.
func (p *pump) stop() { p.ready, p.unread, p.starved = nil, nil, nil }

// starve lets a receiver wait until there is memory for its next message.
func (p *pump) starve(l *link) { p.starved = append(p.starved, l) }

// resume lets those try again that wait for memory.
func (p *pump) resume() {
	p.unread = append(p.unread, p.starved...)
	p.starved = nil
}

// run writes deliveries while the writer can take them, some of one link in turn. Bodies are read
// here and nowhere earlier.
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
			r.ahead.drop() // it may be long before it goes on
		}
	}
	if len(p.ready) == 0 {
		p.ready = nil
	}
}

// turn is how many deliveries a link writes before the next one has its turn.
const turn = 16

// advance writes some deliveries and reports whether there is more that could be written now.
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
		case r.l.s.window <= 0: // a flow of the peer goes on
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

// giveBack releases deliveries the peer no longer has credit for; those without a lock, which
// nobody would deliver again, wait for more.
func (r *receiver) giveBack() {
	if r.locks() {
		for _, d := range r.waiting[r.next:] {
			r.unlock(d.Token, engine.Release)
		}
		r.waiting, r.next = r.waiting[:0], 0
	}
	r.finishDrain()
}

// later has a message that could not be read now read in the next turn of the connection. Reading
// has waited a moment already.
func (r *receiver) later(d *engine.Delivery) {
	r.putBack(d)
	r.l.c.pump.retry(r.l)
	r.l.c.outbox.poke()
}

// putBack puts a message back in front of the others.
func (r *receiver) putBack(d *engine.Delivery) {
	if r.next > 0 {
		r.next--
		r.waiting[r.next] = d
	} else {
		r.waiting = append(r.waiting, d) // it was the last one
	}
}

// tooLate reports whether the lock of a delivery has ended before the peer could see it: while a
// disk hung, or its session took no transfers. The engine ends the lock, and gives the message to
// the next receiver. The time is looked at once for the few messages of a turn, and again after one
// of them had to be read from the log, which can take any time.
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

// deliver reads a message and writes it; false: it cannot be read now. A body that is not what was
// stored is never delivered: its message stays locked, and the partition hears of the damage.
func (r *receiver) deliver(d *engine.Delivery) bool {
	c := r.l.c
	t := r.transferOf(d)
	frame, head := c.out.beginTransfer(r.l.s.channel, &t)
	buf, err := c.stored.encode(head, r.l.target, d, r.view(), &r.ahead, r.next < len(r.waiting))
	if err != nil {
		c.out.cancelTransfer(frame)
		if notNow(err) {
			return false
		}
		c.stored.damaged(r.l.target, d, err)
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

// read tells the engine that the body of a delivery without a lock is no longer needed for that
// delivery.
func (r *receiver) read(d *engine.Delivery) {
	if !r.locks() && r.engine != nil {
		r.engine.Read[r.l.target.OfSequence(d.Sequence)].Add(1)
	}
}

// view is how this link's deliveries are shown: with a lock, taken, or as a look at them.
func (r *receiver) view() message.View {
	return message.View{Peek: r.l.browses, LockToken: r.locks(), Taken: r.settled && !r.l.browses}
}

// transferOf is the first frame of a delivery (4.4). Its tag is the lock token; for a message that
// is only looked at, and that the peer wants to settle, its number; and empty where nothing is to
// be settled.
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

// sent books a delivery that begins on the wire.
func (r *receiver) sent(d *engine.Delivery) {
	s := r.l.s
	id := s.nextDelivery
	s.nextDelivery++
	r.credit.begin()
	if r.settled {
		s.silent.note(id)
	} else {
		s.waits(id, unsettled{link: r.l, token: d.Token, until: d.LockedUntil, header: d.Header})
		if r.l.filter != nil {
			s.messageSessions.note(id)
		}
	}
	r.pass()
}

// begin writes the answer of a node. Nobody settles it, so nothing is remembered.
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

// dropRest lets go of the delivery that was partly written.
func (r *receiver) dropRest() {
	r.l.c.memory.partly -= len(r.rest)
	r.rest, r.restAt = nil, 0
}
