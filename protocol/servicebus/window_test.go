package servicebus

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-019, 1.7: the session's window is replenished without a flow of the peer, by a thousand
// transfers at the latest. Nothing but the window makes the broker send a flow here: all transfers
// are of one delivery.
func TestIncomingWindow(t *testing.T) {
	for _, test := range []struct {
		window    uint32
		transfers int
		least     int64 // transfers the peer may always send
	}{{5000, 12_000, 4000}, {100, 1000, 80}, {5, 100, 4}, {1, 100, 1}} {
		bubble(t, func(o *Options) { o.Limits.Window = test.window }, func(b *bench) {
			p := b.root()
			if begin := p.begin(1); begin.IncomingWindow != test.window {
				t.Errorf("%+v; want begin.IncomingWindow == test.window", begin)
			}
			p.attachSender(1, "q")
			m := newMessage("a", strings.Repeat("x", 10*test.transfers))
			room := int64(test.window) // transfers the peer may send
			for i := range test.transfers {
				f := &amqp.Transfer{Handle: 1, More: i < test.transfers-1}
				if i == 0 {
					f.DeliveryID, f.DeliveryTag = amqp.Some(uint32(0)), []byte{1}
				}
				n := 10
				if !f.More {
					n = len(m)
				}
				p.write(0, f, m[:n])
				m = m[n:]
				room--
				synctest.Wait()
				for f.More && len(p.in) > 0 {
					flow := p.next().p.(*amqp.Flow)
					room = int64(flow.NextIncomingID.Value) + int64(flow.IncomingWindow) - int64(i+1)
				}
				if room < test.least && f.More {
					t.Fatalf("a window of %d: %d are left of it after %d transfers", test.window, room, i+1)
				}
			}
			if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
				t.Errorf("%+v; want d.State == amqp.StateAccepted", d)
			}
		})
	}
}

// WP-125: withdrawn credit is not used, and later credit counts from there.
func TestCreditTakenBack(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.credit(2, 0, 10, false)
		p.quiet(time.Second)
		p.credit(2, 0, 0, false)
		p.quiet(time.Second)
		b.put("q", newMessage("1", "x"), newMessage("2", "x"), newMessage("3", "x"), newMessage("4", "x"))
		p.quiet(time.Minute)
		p.credit(2, 0, 10, false)
		p.credit(2, 0, 0, false)
		synctest.Wait()
		got := uint32(0)
		for ; len(p.in) > 0; got++ { // deliveries that were on their way
			p.receive()
		}
		p.quiet(time.Minute)
		b.put("q", newMessage("5", "x"), newMessage("6", "x"), newMessage("7", "x"))
		p.quiet(time.Minute)
		p.credit(2, got, 1, false)
		p.receive()
		p.quiet(time.Minute)
		p.credit(2, got+1, 10, false)
		for range 6 - got {
			p.receive()
		}
		p.credit(2, 7, 0, false)
		synctest.Wait()
		b.put("q", newMessage("8", "x"))
		p.quiet(time.Minute)
	})
}

// 3.1, 3.4: an entity that takes larger messages than a batch may be says so when a sender
// attaches; a batch over the limit of batches is refused, a message of that size is not.
func TestBatchSize(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		size := func(kib uint32) func(*event.Properties) {
			return func(p *event.Properties) { p.MaxMessageSizeKilobytes = kib }
		}
		b.queue("large", size(2048))
		b.queue("even", size(1024))
		p := b.root()
		const property = "com.microsoft:max-message-batch-size"
		if a := p.attachSender(2, "even"); a.MaxMessageSize.Value != 1<<20 || a.Properties != nil {
			t.Errorf("%+v; want a.MaxMessageSize.Value == 1 << 20 && a.Properties == nil", a)
		}
		a := p.attachSender(1, "large")
		if limit, _ := a.Properties.Get(property); limit != uint64(1<<20) || a.MaxMessageSize.Value != 2<<20 {
			t.Errorf("%+v; want limit == uint64(1 << 20) && a.MaxMessageSize.Value == 2 << 20", a)
		}
		batch := func(n int) []byte { return amqp.AppendData(nil, newMessage("m", strings.Repeat("x", n))) }
		around := len(batch(1000)) - 1000 // size of everything except the body
		send := func(handle uint32, format uint32, m []byte) amqp.DeliveryState {
			for first := true; first || len(m) > 0; first = false {
				n := min(len(m), 60000)
				f := &amqp.Transfer{Handle: handle, More: n < len(m)}
				if first {
					f.DeliveryID, f.DeliveryTag, f.MessageFormat = amqp.Some(uint32(0)), []byte{1}, amqp.Some(format)
				}
				p.write(0, f, m[:n])
				m = m[n:]
			}
			return expect[*amqp.Disposition](p).State
		}
		for _, handle := range []uint32{1, 2} {
			if state := send(handle, amqp.MessageFormatBatch, batch(1<<20-around)); state != amqp.StateAccepted {
				t.Errorf("%+v, want %+v", state, amqp.StateAccepted)
			}
			r, _ := send(handle, amqp.MessageFormatBatch, batch(1<<20-around+1)).(amqp.Rejected)
			if r.Error == nil || r.Error.Condition != amqp.CondMessageSizeExceeded || !strings.Contains(r.Error.Description, "exceeds the limit (1048576 bytes)") {
				t.Errorf(`%+v; want r.Error != nil && r.Error.Condition == amqp.CondMessageSizeExceeded && strings.Contains(r.Error.Description, "exceeds the limit (1048576 bytes)")`, r)
			}
		}
		if state := send(1, amqp.MessageFormatPlain, batch(2<<20-around)); state != amqp.StateAccepted {
			t.Errorf("%+v, want %+v", state, amqp.StateAccepted)
		}
		p.attachReceiver(3, "large", amqp.SenderSettled)
		p.credit(3, 0, 10, false)
		if m := p.receive(); len(m.body) != 1<<20-around {
			t.Errorf("%d bytes", len(m.body))
		}
		if m := p.receive(); len(m.body) != 2<<20-around+len(newMessage("m", strings.Repeat("x", 1000)))-1000 {
			t.Errorf("%d bytes", len(m.body))
		}
		p.quiet(time.Second)
	})
}

// AMQP 2.5.6: accepted transfers are counted in serial numbers: the peer may be at the end of their
// range and the broker at the beginning.
func TestWindowOverTheEndOfNumbers(t *testing.T) {
	for _, c := range []struct {
		seen, next uint32
		want       int64
	}{{10, 10, 100}, {5, 10, 95}, {0, 10, 90}, {^uint32(0), 10, 89}, {^uint32(0) - 1, ^uint32(0), 99}, {3, ^uint32(0), 104}} {
		s := &session{nextOutgoing: c.next, window: 1}
		s.flow(&amqp.Flow{NextIncomingID: amqp.Some(c.seen), IncomingWindow: 100})
		if s.window != c.want {
			t.Errorf("seen %d of %d: a window of %d, want %d", c.seen, c.next, s.window, c.want)
		}
	}
}
