package servicebus

import (
	"encoding/binary"
	"errors"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// pump writes deliveries while the writer can take them, one per link in turn. Bodies are read here and nowhere earlier.
func (c *conn) pump() {
	for _, l := range c.unread {
		l.receiver.makeReady()
	}
	c.unread = nil
	for len(c.ready) > 0 && len(c.out) < highWater && c.phase == opened {
		l := c.ready[0]
		c.ready[0] = nil
		c.ready = c.ready[1:]
		r := l.receiver
		r.queued = false
		if l.detached {
			continue
		}
		if r.advance() {
			r.makeReady()
		} else if r.empty() {
			r.ahead.drop()
		}
	}
	if len(c.ready) == 0 {
		c.ready = nil
	}
}

// turn is how many deliveries a link writes before the next one has its turn.
const turn = 16

// advance writes some deliveries and reports whether there is more that could be written now.
func (r *receiver) advance() bool {
	c := r.l.c
	for range turn {
		switch {
		case len(r.rest) == 0 && r.credit() <= 0:
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
			c.answered -= len(payload) + answerCost
			r.answers = r.answers[1:]
			tag := [16]byte(c.newUUID())
			r.begin(tag, r.settled, payload)
		case r.next < len(r.waiting):
			d := r.waiting[r.next]
			r.waiting[r.next] = nil
			if r.next++; r.next == len(r.waiting) {
				r.waiting, r.next = r.waiting[:0], 0
			}
			if !r.deliver(d) {
				r.later(d)
				return false
			}
		default:
			r.finishDrain()
			return false
		}
		if len(c.out) >= highWater {
			break
		}
	}
	if r.empty() {
		r.finishDrain()
		return false
	}
	return true
}

// giveBack releases deliveries the peer no longer has credit for; those without a lock, which nobody would deliver again, wait for
// more.
func (r *receiver) giveBack() {
	if r.locks() {
		for _, d := range r.waiting[r.next:] {
			r.release(d)
		}
		r.waiting, r.next = r.waiting[:0], 0
	}
	r.finishDrain()
}

// later puts a message that could not be read now back in front of the others, to be read in the next turn of the connection. What
// reads has waited a moment by then.
func (r *receiver) later(d *engine.Delivery) {
	if r.next > 0 {
		r.next--
		r.waiting[r.next] = d
	} else {
		r.waiting = append(r.waiting, d) // it was the last one
	}
	r.l.c.unread = append(r.l.c.unread, r.l)
	r.l.c.outbox.poke()
}

// deliver reads a message and writes it; false: it cannot be read now. A body that is not what was stored is never delivered: its
// message stays locked, and the partition hears of the damage.
func (r *receiver) deliver(d *engine.Delivery) bool {
	c := r.l.c
	start := len(c.out)
	t := r.transferOf(d)
	c.out = amqp.AppendTransferHeader(c.out, r.l.s.channel, &t, 0)
	size := len(c.out) - start
	out, err := c.encode(c.out, r.l.target, d, r.view(), &r.ahead, r.next < len(r.waiting))
	if err != nil {
		c.out = c.out[:start]
		if notNow(err) {
			return false
		}
		c.damage(r.l.target, d, err)
		r.pass() // the peer's credit is not used up
		return true
	}
	c.out = out
	r.sent(d)
	if total := len(c.out) - start; total <= int(c.peer.maxFrame) {
		binary.BigEndian.PutUint32(c.out[start:], uint32(total))
		r.l.s.window--
		r.l.s.nextOutgoing++
		r.l.touch()
		return true
	}
	payload := append([]byte(nil), c.out[start+size:]...)
	c.out = c.out[:start]
	r.split(&t, payload)
	return true
}

// view is how this link's deliveries are shown: with a lock, taken, or as a look at them.
func (r *receiver) view() message.View {
	return message.View{Peek: r.l.browses, LockToken: r.locks(), Taken: r.settled && !r.l.browses}
}

// transferOf is the first frame of a delivery (4.4). Its tag is the lock token; of a look at a message that the peer wants to settle
// its number; and empty where nothing is to be settled.
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
	r.count++
	if r.settled {
		s.silent.note(id)
	} else {
		s.waits(id, unsettled{link: r.l, token: d.Token, until: d.LockedUntil, header: d.Header})
		if r.l.filter != nil {
			s.sessioned.note(id)
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
	r.count++
	r.split(&t, payload)
}

// split writes as many frames of a delivery as the window allows; the rest waits.
func (r *receiver) split(t *amqp.Transfer, payload []byte) {
	c, s := r.l.c, r.l.s
	t.More = true
	size := amqp.TransferHeaderSize(t)
	n := min(int(c.peer.maxFrame)-size, len(payload))
	t.More = n < len(payload)
	c.out = amqp.AppendTransferHeader(c.out, s.channel, t, n)
	c.out = append(c.out, payload[:n]...)
	s.window--
	s.nextOutgoing++
	r.l.touch()
	if t.More {
		r.rest, r.restAt = payload, n
		r.continued()
	}
}

// continued writes further frames of a delivery: delivery-id and tag stay null (4.4).
func (r *receiver) continued() {
	c, s := r.l.c, r.l.s
	for s.window > 0 && len(c.out) < 4*highWater {
		t := amqp.Transfer{Handle: r.l.handle, More: true}
		n := min(int(c.peer.maxFrame)-amqp.TransferHeaderSize(&t), len(r.rest)-r.restAt)
		t.More = r.restAt+n < len(r.rest)
		c.out = amqp.AppendTransferHeader(c.out, s.channel, &t, n)
		c.out = append(c.out, r.rest[r.restAt:r.restAt+n]...)
		r.restAt += n
		s.window--
		s.nextOutgoing++
		if !t.More {
			r.rest, r.restAt = nil, 0
			return
		}
	}
}

// encode reads a delivery's bytes and appends the message to dst.
func (c *conn) encode(dst []byte, target engine.Target, d *engine.Delivery, v message.View, ahead *readAhead, far bool) ([]byte, error) {
	host := target.Host(0)
	var changes [][]byte
	for i := range d.Changes {
		if d.Changes[i].Size == 0 {
			continue
		}
		b, err := ahead.blob(c.broker, host, &d.Changes[i], false)
		if err != nil {
			return dst, err
		}
		changes = append(changes, append([]byte(nil), b...))
	}
	body, err := ahead.blob(c.broker, host, &d.Body, far)
	if err != nil {
		return dst, err
	}
	return message.AppendDelivery(dst, body, d, changes, v)
}

// notNow reports whether stored bytes could not be read for a reason that passes.
func notNow(err error) bool {
	refusal := (*engine.Error)(nil)
	return errors.As(err, &refusal) && refusal.Code == engine.Busy
}

// damage reports a stored message that cannot be read back, but for a reason that passes.
func (c *conn) damage(target engine.Target, d *engine.Delivery, err error) {
	if notNow(err) {
		return
	}
	host := target.Host(0)
	c.log.Error("servicebus: message not delivered, its stored bytes are damaged", "entity", target.Entity.Path,
		"sequence", uint64(d.Sequence), "partition", host, "position", uint64(d.Body.Position), "error", err)
	c.broker.ReportDamage(host, err)
}
