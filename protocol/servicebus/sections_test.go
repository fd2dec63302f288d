package servicebus

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// 5.2: each peek-lock transfer has its lock token in the delivery annotations, and each
// receive-and-delete one has delivery annotations as well, even if the map is empty. The sender's
// own are kept, except a token it invented.
func TestDeliveryAnnotations(t *testing.T) {
	own := amqp.Map{{Key: amqp.Symbol("d"), Value: "x"}}
	forged := amqp.Pair{Key: amqp.Symbol(keyLockToken), Value: amqp.UUID{7}}
	for _, sent := range []amqp.Map{nil, {}, own, {forged}, {forged, own[0]}, {{Key: keyLockToken, Value: amqp.UUID{7}}, own[0]}} {
		bubble(t, nil, func(b *bench) {
			var m []byte
			if sent != nil {
				m = amqp.AppendSection(nil, amqp.SectionDeliveryAnnotations, sent)
			}
			m = append(m, newMessage("a", "x")...)
			_, carried := sent.Get("d")
			check := func(what string, got openedMessage, token any) {
				t.Helper()
				want := 0
				if carried {
					want++
				}
				if token != nil {
					want++
				}
				d, _ := got.delivery.Get("d")
				said, there := got.delivery.Get(keyLockToken)
				if got.delivery == nil || len(got.delivery) != want || (d == "x") != carried || said != token || there != (token != nil) {
					t.Errorf("%+v: %s: %+v, token %v", sent, what, got.delivery, token)
				}
			}
			b.put("q", m, m)
			p := b.root()
			p.attachReceiver(2, "q", amqp.SenderUnsettled)
			p.credit(2, 0, 1, false)
			first := p.receive()
			check("peek-lock", first, uuidOf(first.tag))
			p.settle(first.id, amqp.Modified{}, true)
			p.credit(2, 1, 1, false)
			again := p.receive()
			check("another lock", again, uuidOf(again.tag))
			if string(again.tag) == string(first.tag) {
				t.Error("two locks with one token")
			}
			p.attachManagement("q")
			p.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(again.tag))}})
			p.settle(again.id, amqp.Rejected{}, true)
			dead := b.root()
			dead.attachReceiver(2, "q/$DeadLetterQueue", amqp.SenderUnsettled)
			dead.credit(2, 0, 1, false)
			letter := dead.receive()
			check("dead letter", letter, uuidOf(letter.tag))
			for _, m := range p.peekAll() {
				if _, there := m.delivery.Get(keyLockToken); there || len(m.delivery) == 0 != !carried {
					t.Errorf("%+v: peek: %+v", sent, m.delivery)
				}
			}
			p.attachReceiver(3, "q", amqp.SenderSettled)
			p.credit(3, 0, 1, false)
			check("receive-and-delete", p.receive(), nil)
		})
	}
}

// 5.1: durable, priority and first-acquirer are the sender's, null where nothing was sent, wherever
// the message is shown; the time to live and the delivery count are the broker's.
func TestHeaderAsSent(t *testing.T) {
	none, some := amqp.Header{}, amqp.Some[bool]
	for _, sent := range []*amqp.Header{
		nil, &none, {Durable: some(true)}, {Durable: some(false), Priority: amqp.Some(uint8(0))}, {Priority: amqp.Some(uint8(4))},
		{Durable: some(true), Priority: amqp.Some(uint8(9)), FirstAcquirer: some(true), DeliveryCount: amqp.Some(uint32(7))},
		{FirstAcquirer: some(false)},
	} {
		bubble(t, nil, func(b *bench) {
			b.topic("t", nil)
			b.subscription("t", "s", nil)
			var m []byte
			want := none
			if sent != nil {
				m, want = amqp.AppendHeader(nil, sent), *sent
			}
			m = append(m, newMessage("a", "x")...)
			check := func(what string, got openedMessage, count uint32) {
				t.Helper()
				want.DeliveryCount = amqp.Some(count)
				if got.header != want {
					t.Errorf("%+v: %s: %+v, want %+v", sent, what, got.header, want)
				}
			}
			b.put("q", m)
			b.put("t", m)
			p := b.root()
			p.attachManagement("q")
			check("peek", p.peekAll()[0], 0)
			p.attachReceiver(2, "q", amqp.SenderUnsettled)
			p.credit(2, 0, 9, false)
			got := p.receive()
			check("receive", got, 0)
			p.settle(got.id, amqp.Modified{}, true)
			got = p.receive()
			check("receive again", got, 1)
			p.settle(got.id, amqp.Modified{UndeliverableHere: true}, true)
			taken := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), int64(1))))[0]
			check("deferred", taken, 2)
			token, _ := taken.delivery.Get(keyLockToken)
			p.disposed(200, "", "suspended", []amqp.UUID{token.(amqp.UUID)})
			dead := b.root()
			dead.attachReceiver(2, "q/$DeadLetterQueue", amqp.SenderSettled)
			dead.credit(2, 0, 1, false)
			check("dead letter", dead.receive(), 2)
			dead.attachReceiver(3, "t/Subscriptions/s", amqp.SenderSettled)
			dead.credit(3, 0, 1, false)
			check("a topic's copy", dead.receive(), 0)
		})
	}
}

// 4.4: the delivery tag is the lock token; without a lock it is there and empty.
func TestDeliveryTag(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		large := newMessage("large", fmt.Sprintf("%0150000d", 1)) // in several frames
		b.put("q", newMessage("a", "x"), large, newMessage("b", "x"), large)
		p := b.root()
		p.attachReceiver(3, "q", amqp.SenderSettled)
		p.credit(3, 0, 2, false)
		for range 2 {
			if m := p.receive(); m.tag == nil || len(m.tag) != 0 || !m.settled {
				t.Errorf("%+v; want m.tag != nil && len(m.tag) == 0 && m.settled", m)
			}
		}
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 2, false)
		for range 2 {
			if m := p.receive(); len(m.tag) != 16 || m.settled {
				t.Errorf("%+v; want len(m.tag) == 16 && !m.settled", m)
			}
		}
	})
}
