package servicebus

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// S0-18, SM-060, SM-065, SM-071: times to live of milliseconds are exact to the millisecond: a
// message is delivered until it expires and not after it, whether it is waiting, scheduled, a
// topic's copy or released. It is dead-lettered if that is configured.
func TestMillisecondsToLive(t *testing.T) {
	for _, ttl := range []uint32{1, 2, 17, 50} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d ms, dead-lettered %v", ttl, dead), func(t *testing.T) {
				bubble(t, nil, func(b *bench) { millisecondsToLive(b, ttl, dead) })
			})
		}
	}
}

func millisecondsToLive(b *bench, ttl uint32, dead bool) {
	const entity = "short"
	change := func(p *event.Properties) { p.DeadLetteringOnMessageExpiration = dead }
	b.queue(entity, change)
	b.topic("t", nil)
	b.subscription("t", "s", change)
	life := time.Duration(ttl) * time.Millisecond
	living := func(rest []byte) []byte {
		return append(amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(ttl)}), rest...)
	}
	letters := deadLetters{bench: b, wanted: dead, count: map[string]int{}}
	late := func(entity, what string, mode amqp.SenderSettleMode) {
		b.Helper()
		p := b.root()
		p.attachReceiver(2, entity, mode)
		p.credit(2, 0, 9, false)
		p.quiet(time.Second)
		p.write(0, &amqp.Detach{Handle: 2, Closed: true}, nil)
		expect[*amqp.Detach](p)
		letters.expired(entity, what)
	}
	for _, mode := range []amqp.SenderSettleMode{amqp.SenderUnsettled, amqp.SenderSettled} {
		b.put(entity, living(newMessage("late", "x")))
		time.Sleep(life)
		late(entity, "one that waited", mode)
		b.put("t", living(newMessage("late", "x")))
		time.Sleep(life)
		late("t/Subscriptions/s", "a topic's copy", mode)
		b.put(entity, living(scheduled("late", time.Now().Add(time.Minute))))
		time.Sleep(time.Minute + life)
		late(entity, "one that was scheduled", mode)
	}

	b.put(entity, living(newMessage("in time", "x")))
	sent := timestampOf(time.Now())
	time.Sleep(life - time.Millisecond)
	p := b.root()
	p.attachReceiver(2, entity, amqp.SenderUnsettled)
	p.credit(2, 0, 9, false)
	m := p.receive()
	if m.header.TTL != amqp.Some(ttl) || m.properties.AbsoluteExpiryTime != amqp.Some(sent+amqp.Timestamp(ttl)) {
		b.Errorf("%+v %+v; want m.header.TTL == amqp.Some(ttl) && m.properties.AbsoluteExpiryTime == amqp.Some(sent+amqp.Timestamp(ttl))", m.header, m.properties)
	}
	time.Sleep(time.Second) // under its lock it does not expire
	p.settle(m.id, amqp.Modified{}, true)
	p.quiet(time.Second)
	letters.expired(entity, "one that was given back")
	b.put(entity, living(newMessage("kept", "x")))
	m = p.receive()
	time.Sleep(time.Second)
	p.settle(m.id, amqp.StateAccepted, false)
	p.outcome(m.id, amqp.StateAccepted)
	if left := b.node(entity).peekAll(); len(left) > 0 {
		b.Errorf("%d messages are left of one that was completed", len(left))
	}
}

// deadLetters is how many expired messages are in the dead-letter queue of each entity.
type deadLetters struct {
	*bench
	wanted bool // else they are gone
	count  map[string]int
}

// expired expects that nothing more is delivered, and one more is in the dead-letter queue, where
// that is wanted.
func (d *deadLetters) expired(entity, what string) {
	d.Helper()
	if d.wanted {
		d.count[entity]++
	}
	found := d.node(entity + "/$DeadLetterQueue").peekAll()
	if left := d.node(entity).peekAll(); len(left) > 0 || len(found) != d.count[entity] {
		d.Errorf("%s: %d messages and %d dead letters are left", what, len(left), len(found))
		return
	}
	for _, m := range found {
		if reason, _ := m.application.Get(deadLetterReason); reason != "TTLExpiredException" {
			d.Errorf(`%s: %+v; want reason == "TTLExpiredException"`, what, m.application)
		}
	}
}

// S1-21, SM-006, SM-008: a settled send over a limit stores nothing and is answered by nothing;
// link and connection go on, however often, and its credit comes back.
func TestOversizedSettledSend(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.SenderCredit = 4 }, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "s", nil)
		p := b.root()
		p.attachSender(1, "q")
		p.attachSender(2, "t")
		big := newMessage("big", fmt.Sprintf("%0*d", 300<<10, 1))
		batch := amqp.AppendData(nil, big)
		id := uint32(0)
		send := func(handle, format uint32, m []byte, first bool) {
			begun := false
			for len(m) > 0 {
				n := min(len(m), 60000)
				f := &amqp.Transfer{Handle: handle, More: n < len(m)}
				if !begun {
					f.DeliveryID, f.DeliveryTag, f.MessageFormat = amqp.Some(id), []byte{1}, amqp.Some(format)
					id++
				}
				if first && !begun || !first && !f.More { // it may be said in any frame
					f.Settled = amqp.Some(true)
				}
				begun = true
				p.write(0, f, m[:n])
				m = m[n:]
			}
		}
		for range 3 {
			for _, handle := range []uint32{1, 2} {
				for _, first := range []bool{true, false} {
					send(handle, amqp.MessageFormatPlain, big, first)
					send(handle, amqp.MessageFormatBatch, batch, first)
				}
				synctest.Wait()
				for len(p.in) > 0 {
					if r := p.next(); r.err != nil || fmt.Sprintf("%T", r.p) != "*amqp.Flow" {
						t.Fatalf(`%T %+v %v; want r.fmt.Sprintf("%%T", r.p) == "*amqp.Flow"`, r.p, r.p, r.err)
					}
				}
			}
		}
		for handle := uint32(1); handle <= 2; handle++ {
			p.send(handle, id, newMessage("small", "x"))
			id++
		}
		if q, s := b.held("q"), b.held("t/Subscriptions/s"); q != "small" || s != "small" {
			t.Errorf("stored: %q, %q", q, s)
		}
		p.quiet(time.Second)
	})
}
