package servicebus

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// suspend detaches a link without closing it, and wants the answer to say the same (WP-127).
func (p *peerConn) suspend(handle uint32) {
	p.Helper()
	p.write(0, &amqp.Detach{Handle: handle}, nil)
	if d := expect[*amqp.Detach](p); d.Handle != handle || d.Closed || d.Error != nil {
		p.Fatalf("%+v; want d.Handle == handle && !d.Closed && d.Error == nil", d)
	}
}

// WP-127, 4.7: a detach is answered as it came, closing or not, with an error or without, on links
// of every kind. No link is resumed: one that is attached again under its name starts clean,
// whatever the peer says it has not settled.
func TestDetachMirrorsClosed(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("q", newMessage("1", "x"), newMessage("2", "x"))
		p.attachManagement("q")
		p.acceptSession(5, "s", "a")
		p.attachReceiver(6, "q", amqp.SenderUnsettled)
		for _, handle := range []uint32{1, 200, 201, 5, 6} {
			p.suspend(handle)
		}
		p.attachSender(1, "s")
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(5, "s", "a") // it was released
		durable := func() *amqp.Attach {
			t.Helper()
			p.write(0, &amqp.Attach{Name: "durable", Handle: 7, Role: amqp.RoleReceiver,
				Source: &amqp.Source{Address: "q", Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never"}, Target: &amqp.Target{},
				// accepted
				Unsettled: amqp.Map{{Key: []byte{1}, Value: amqp.Described{Descriptor: uint64(0x24), Value: amqp.List{}}}}}, nil)
			return expect[*amqp.Attach](p)
		}
		for i := range 2 {
			if a := durable(); a.Source == nil || a.Unsettled != nil || a.IncompleteUnsettled {
				t.Fatalf("%+v; want a.Source != nil && a.Unsettled == nil && !a.IncompleteUnsettled", a)
			}
			p.credit(7, 0, 1, false)
			if m := p.receive(); m.header.DeliveryCount.Value != 0 || m.properties.MessageID != []any{"1", "2"}[i] {
				t.Errorf(`%+v; want m.header.DeliveryCount.Value == 0 && m.properties.MessageID == []any{"1", "2"}[i]`, m)
			}
			p.suspend(7) // its message stays locked, as after a close
		}
		durable()
		p.write(0, &amqp.Detach{Handle: 7, Error: &amqp.Error{Condition: "some:condition", Description: "x"}}, nil)
		if d := expect[*amqp.Detach](p); d.Closed || d.Error != nil {
			t.Errorf("%+v; want !d.Closed && d.Error == nil", d)
		}
		durable()
		p.detach(7)
		p.wantSession(8, "s", nil) // waits for a session, and is given up
		p.write(0, &amqp.Detach{Handle: 8}, nil)
		if a := expect[*amqp.Attach](p); a.Source != nil {
			t.Errorf("%+v; want a.Source == nil", a)
		}
		if d := expect[*amqp.Detach](p); d.Closed {
			t.Errorf("%+v; want !d.Closed", d)
		}
		if a := p.attachSender(9, "none"); a.Target != nil {
			t.Errorf("%+v; want a.Target == nil", a)
		}
		// ours, with an error, always closes; nothing answers the peer's
		if d := expect[*amqp.Detach](p); !d.Closed {
			t.Errorf("%+v; want d.Closed", d)
		}
		p.write(0, &amqp.Detach{Handle: 9}, nil)
		p.quiet(0)
		p.attachReceiver(9, "q", amqp.SenderUnsettled)
	})
}
