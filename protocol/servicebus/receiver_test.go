package servicebus

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// received puts n messages in q and attaches a peek-lock receiver as handle 2.
func (b *bench) loaded(n int) *peerConn {
	b.Helper()
	p := b.root()
	p.attachSender(1, "q")
	for i := range n {
		p.send(1, uint32(i), newMessage(fmt.Sprint(i), fmt.Sprint("body ", i)))
	}
	p.attachReceiver(2, "q", amqp.SenderUnsettled)
	return p
}

// WP-100, WP-101, WP-102, WP-103, WP-105, WP-106, WP-107, WP-108.
func TestReceive(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(5)
		a := p.attachReceiver(3, "q", amqp.SenderUnsettled)
		if a.Role != amqp.RoleSender || a.InitialDeliveryCount != amqp.Some(uint32(0)) || a.SenderSettleMode != amqp.Some(amqp.SenderUnsettled) ||
			a.ReceiverSettleMode != amqp.Some(amqp.ReceiverSecond) || a.Source.Address != "q" {
			t.Errorf("%+v", a)
		}
		p.quiet(time.Second) // no credit, no transfer
		p.credit(2, 0, 2, false)
		p.credit(3, 0, 1, false)
		for i := range uint32(3) {
			if m := p.receive(); m.id != i || m.header.DeliveryCount.Value != 0 || m.settled || m.properties.MessageID != fmt.Sprint(i) {
				t.Errorf("%+v; want m.id == i && m.header.DeliveryCount.Value == 0 && !m.settled && m.properties.MessageID == fmt.Sprint(i)", m)
			}
		}
		p.quiet(time.Second) // credit is used up
		p.settle(0, amqp.StateAccepted, false)
		p.outcome(0, amqp.StateAccepted)
		p.settle(0, amqp.StateAccepted, false) // SM-031
		p.outcomeLost(0)
		p.settle(77, amqp.StateAccepted, false)
		p.outcomeLost(77)
		p.settle(78, amqp.StateAccepted, true)
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 100, Last: amqp.Some(uint32(1 << 19)), State: amqp.StateAccepted}, nil)
		// one frame for all
		if d := expect[*amqp.Disposition](p); d.First != 100 || d.Last.Value != 1<<19 {
			t.Errorf("%+v; want d.First == 100 && d.Last.Value == 1 << 19", d)
		}
		p.quiet(time.Second)
	})
}

// WP-122, SM-021, SM-056: receive-and-delete; dispositions for its deliveries mean nothing.
func TestReceiveAndDelete(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(2)
		p.attachReceiver(3, "q", amqp.SenderSettled)
		p.credit(3, 0, 10, false)
		for range 2 {
			m := p.receive()
			if _, ok := m.annotations.Get(keyLockedUntil); ok || !m.settled {
				t.Errorf("%+v; want !ok && m.settled", m)
			}
			p.settle(m.id, amqp.StateAccepted, false)
			p.settle(m.id, amqp.StateAccepted, true)
		}
		p.credit(2, 0, 10, false)
		p.quiet(time.Minute)
	})
}

// 4.7: a message that was locked for a link but never written is released without counting.
func TestUnsentGoesBack(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		// A window of one transfer holds two of three deliveries back.
		p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 1, OutgoingWindow: 1,
			Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}, nil)
		p.receive()
		p.quiet(time.Second)
		other := b.root()
		other.attachReceiver(2, "q", amqp.SenderUnsettled)
		other.credit(2, 0, 10, false)
		other.quiet(time.Second)
		p.net.Close()
		for _, want := range []string{"1", "2"} {
			if m := other.receive(); m.properties.MessageID != want || m.header.DeliveryCount.Value != 0 {
				t.Errorf("%+v; want m.properties.MessageID == want && m.header.DeliveryCount.Value == 0", m)
			}
		}
		other.quiet(10 * time.Second)
	})
	bubble(t, nil, func(b *bench) { // the same when the credit is taken away
		p := b.loaded(3)
		window := func(n, credit uint32) {
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(2)), IncomingWindow: n, OutgoingWindow: 1,
				Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(credit)}, nil)
		}
		p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 1, OutgoingWindow: 1,
			Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}, nil)
		p.receive()
		window(0, 1)
		window(100, 1)
		p.quiet(time.Second)
		window(100, 3)
		for _, want := range []string{"1", "2"} {
			if m := p.receive(); m.properties.MessageID != want || m.header.DeliveryCount.Value != 0 {
				t.Errorf("%+v; want m.properties.MessageID == want && m.header.DeliveryCount.Value == 0", m)
			}
		}
	})
}

// A body that differs from the stored one is never delivered, and the partition is told. If a body
// was erased, the partition decides whether that is a fault of the broker (TestReportOfAnErasedBody
// in engine/host).
func TestUnreadableBody(t *testing.T) {
	for _, c := range []struct {
		err  error
		said string
	}{
		{log.ErrChecksum, "servicebus: message not delivered: its stored bytes are damaged"},
		{event.ErrErased, ""},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			var said bytes.Buffer
			bubble(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) }, func(b *bench) {
				p := b.loaded(1)
				b.broker.unreadable.Store(&c.err)
				p.credit(2, 0, 1, false)
				p.quiet(time.Second)
				if b.broker.damage.Load() == 0 {
					t.Error("not reported")
				}
				b.broker.unreadable.Store(nil)
				if m := p.receive(); m.body != "body 0" { // its lock ran out
					t.Errorf(`%+v; want m.body == "body 0"`, m)
				}
			})
			if !strings.Contains(said.String(), c.said) {
				t.Errorf("the log says %s, want %q", said.String(), c.said)
			}
		})
	}
}

// reliability.md F18, SM-381: what cannot be read for want of a file descriptor is not called
// damaged, and is delivered when it can be, in order. A peek is refused meanwhile: "no content"
// would say that there is nothing.
func TestBodyNotReadableNow(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		p.attachManagement("q")
		b.broker.starved.Store(true)
		p.credit(2, 0, 3, false)
		p.quiet(10 * time.Second)
		p.managedWith(503, amqp.CondServerBusy, "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(3)}})
		b.broker.starved.Store(false)
		for i := range 3 {
			if m := p.receive(); m.body != fmt.Sprintf("body %d", i) || m.header.DeliveryCount.Value != 0 {
				t.Errorf(`%d: %+v; want m.body == fmt.Sprintf("body %%d", i) && m.header.DeliveryCount.Value == 0`, i, m)
			}
		}
		if n := b.broker.damage.Load(); n != 0 {
			t.Errorf("%d reports of damage", n)
		}
	})
}

// SM-041, SM-042, WP-128, 8.3: entities a receiver cannot have.
func TestReceiverRefusals(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("session", func(p *event.Properties) { p.RequiresSession = true })
		b.queue("forward", func(p *event.Properties) { p.ForwardTo = "q" })
		b.queue("off", func(p *event.Properties) { p.Status = event.ReceiveDisabled })
		p := b.root()
		for i, test := range []struct {
			entity string
			symbol amqp.Symbol
			text   string
		}{
			{"session", amqp.CondNotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."},
			{"forward", amqp.CondNotAllowed, "Cannot create a message receiver on an entity with auto-forwarding enabled."}, {"off", amqp.CondEntityDisabled, "disabled"}, {"none", amqp.CondNotFound, "could not be found"},
		} {
			if a := p.attachReceiver(uint32(i), test.entity, amqp.SenderUnsettled); a.Source != nil || a.Target != nil {
				t.Errorf("%+v; want a.Source == nil && a.Target == nil", a)
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != test.symbol || !strings.Contains(d.Error.Description, test.text) {
				t.Errorf("%+v; want d.Error.Condition == test.symbol && strings.Contains(d.Error.Description, test.text)", d.Error)
			}
		}
		p.attachReceiver(50, "session/$DeadLetterQueue", amqp.SenderUnsettled)
		p.attachSender(51, "off")
	})
}

// semantics.md 7.1, 7.3, 7.5: the form of a time to live in a delivery.
func TestTimeToLive(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("ttl", func(p *event.Properties) {
			p.DefaultMessageTimeToLive = time.Hour
			p.DeadLetteringOnMessageExpiration = true
		})
		p := b.root()
		p.attachSender(1, "ttl")
		start := timestampOf(time.Now())
		own := amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(60000))})
		p.send(1, 0, append(own, newMessage("own", "x")...))
		p.send(1, 1, newMessage("default", "x"))
		long := amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(4294967295))})
		long = amqp.AppendProperties(long, &amqp.Properties{MessageID: "long", CreationTime: amqp.Some(amqp.Timestamp(0)), AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(90 * 86400e3))})
		p.send(1, 2, long)
		p.attachManagement("ttl")
		_, _, body := p.manage("com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(9)}})
		v, _ := body.(amqp.Map).Get("messages")
		for i, ttl := range []uint32{60000, 0, 3600000} {
			raw, _ := v.(amqp.List)[i].(amqp.Map).Get("message")
			m := decodeMessage(t, raw.([]byte))
			if m.header.TTL != (amqp.Opt[uint32]{Value: ttl, Set: ttl > 0}) || m.properties.AbsoluteExpiryTime.Set != (ttl > 0) {
				t.Errorf("peek %d: %+v %+v", i, m.header, m.properties)
			}
		}
		p.attachReceiver(2, "ttl", amqp.SenderUnsettled)
		p.credit(2, 0, 3, false)
		for i, ttl := range []uint32{60000, 3600000, 3600000} {
			m := p.receive()
			if m.header.TTL != amqp.Some(ttl) || m.properties.AbsoluteExpiryTime != amqp.Some(start+amqp.Timestamp(ttl)) {
				t.Errorf("receive %d: %+v %+v", i, m.header, m.properties)
			}
		}
	})
}

// WP-016, SM-327, 2.6: a link without activity. What an SDK makes of it: TestSDKIdleLinks.
func TestIdleLink(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.IdleTimeout = time.Hour; o.Limits.NoLinks = time.Hour }, func(b *bench) {
		p := b.root()
		p.attachManagement("q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		start := time.Now()
		for range 3 {
			time.Sleep(9 * time.Minute)
			p.manage("com.microsoft:nothing", nil, amqp.Pair{Key: "associated-link-name", Value: "r2"})
		}
		detached := map[uint32]string{}
		for range 3 {
			d := expect[*amqp.Detach](p)
			if d.Error.Condition != amqp.CondDetachForced {
				t.Errorf("%+v; want d.Error.Condition == amqp.CondDetachForced", d)
			}
			detached[d.Handle] = d.Error.Description
		}
		if d := time.Since(start); d != 37*time.Minute {
			t.Errorf("%+v, want %+v", d, 37*time.Minute)
		}
		if !strings.Contains(detached[2], "AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.") ||
			!strings.Contains(detached[200], "AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00.") {
			t.Errorf(`%v; want strings.Contains(detached[2], "AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.") && strings.Contains(detached[200], "AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00.")`, detached)
		}
	})
}

// SM-113: properties that a settlement adds, with those the message was sent with over 64 KiB, send
// it to the dead-letter queue; to its sender's and receiver's eyes nothing failed.
func TestHeaderSizeExceeded(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		large := amqp.Map{{Key: "a", Value: strings.Repeat("x", 31<<10)}, {Key: "b", Value: strings.Repeat("x", 31<<10)}}
		m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "id"})
		m = amqp.AppendData(amqp.AppendSection(m, amqp.SectionApplicationProperties, large), []byte("body"))
		p.send(1, 0, m)
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		add := amqp.Map{{Key: amqp.Symbol("c"), Value: strings.Repeat("x", 3<<10)}}
		p.settle(p.receive().id, amqp.Modified{MessageAnnotations: add}, false)
		p.outcome(0, amqp.Modified{})
		p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
		p.credit(3, 0, 1, false)
		dead := p.receive()
		if v, _ := dead.application.Get("DeadLetterReason"); v != "HeaderSizeExceeded" {
			t.Errorf("reason %v", v)
		}
		if v, _ := dead.application.Get("DeadLetterErrorDescription"); v != "The size quota for this stream has been exceeded." {
			t.Errorf("description %v", v)
		}
		if _, ok := dead.application.Get("c"); ok {
			t.Error("the property that was too much is there")
		}
	})
}
