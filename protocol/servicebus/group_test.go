package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// handing sends nothing to the engine, and notes the destinations of sends: "via/destination".
func (b *bench) handing() (asked *[]string) {
	asked = new([]string)
	b.broker.refuse(func(cmd engine.Command) error {
		staged := ""
		if s, ok := cmd.(*engine.Stage); ok {
			cmd, staged = s.Operation, "staged "
		}
		send, ok := cmd.(*engine.Send)
		if !ok {
			return nil
		}
		to := "-"
		if send.Destination != nil {
			to = send.Destination.Path
		}
		if send.Slice.Entity != send.Entity.ID {
			b.Errorf("a send to %s in the slice of another entity", send.Entity.Path)
		}
		*asked = append(*asked, staged+send.Entity.Path+"/"+to)
		return &engine.Error{Code: engine.Busy, Text: "a test"}
	})
	return asked
}

// handed wants one message on a link to be asked of the engine.
func (p *transactor) handed(asked *[]string, handle uint32, txn []byte, want string) {
	p.Helper()
	*asked = nil
	var state amqp.DeliveryState
	if txn != nil {
		state = stateInTransaction(txn, nil)
	}
	p.write(0, &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(p.next()), State: state}, newMessage("m", "x"))
	p.rejectedText(p.last, amqp.CondServerBusy, "a test")
	if got := fmt.Sprint(*asked); got != "["+want+"]" {
		p.Errorf("asked %s, not %s", got, want)
	}
}

// WP-199a: in a session whose coordinator came first, the first link decides which entity
// everything is sent through: a queue, or the topic of a subscription. Senders to others transfer,
// in a transaction or not; receivers of others are refused.
func TestTransactionGroup(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		for first, via := range map[string]string{"q": "q", "Q/$DeadLetterQueue": "q", "t/Subscriptions/u": "t"} {
			p := b.transactor()
			p.attachManagement("q2") // no link to an entity
			p.attachReceiver(2, first, amqp.SenderUnsettled)
			for i, other := range []string{"q", "q2", "t"} {
				p.attachSender(10+uint32(i), other)
			}
			asked := b.handing()
			for i, other := range []string{"q", "q2", "t"} {
				want := via + "/" + other
				if other == via {
					want = via + "/-"
				}
				p.handed(asked, 10+uint32(i), nil, want)
				txn := p.declare()
				p.handed(asked, 10+uint32(i), txn, "staged "+want)
				p.notCommitted(txn, amqp.CondTransactionRollback, "")
			}
			b.broker.refuse(nil)
			for i, at := range []string{"q2", "q2/$deadletterqueue"} {
				handle := 20 + uint32(i)
				p.write(0, &amqp.Attach{Name: "x", Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: at}, Target: &amqp.Target{}}, nil)
				p.refused(handle, amqp.CondNotAllowed, spanText+" TrackingId:")
			}
			for i, at := range []string{map[string]string{"q": "q/$deadletterqueue", "t": "t/subscriptions/u/$deadletterqueue"}[via], via + "/$management"} {
				if a := p.attachReceiver(30+uint32(i), at, amqp.SenderUnsettled); a.Source == nil {
					t.Errorf("%s: %+v; want a.Source != nil", at, a)
				}
			}
			p.refusedSender(40, "q2/$deadletterqueue", amqp.CondNotAllowed, toSubQueueText)
			p.net.Close()
		}
	})
}

// A sender can be the first link. When the session ends the group does, and the next one may go
// through another entity.
func TestTransactionGroupEnds(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		asked := b.handing()
		for _, order := range [][]string{{"q", "q2"}, {"q2", "q"}} {
			p.attachSender(1, order[0])
			p.attachSender(2, order[1])
			p.handed(asked, 1, nil, order[0]+"/-")
			p.handed(asked, 2, nil, order[0]+"/"+order[1])
			p.detach(1) // the group stays
			p.attachSender(3, order[1])
			p.handed(asked, 3, nil, order[0]+"/"+order[1])
			p.write(0, &amqp.End{}, nil)
			expect[*amqp.End](p.peerConn)
			p.begin(0)
			p.attachCoordinator(coordinatorHandle)
		}
	})
}

// Without a coordinator before its links a session is no group, and another session of the
// connection is none either.
func TestNoTransactionGroup(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := &transactor{peerConn: b.root()}
		p.attachSender(1, "q")
		p.attachCoordinator(coordinatorHandle)
		p.attachSender(2, "q2")
		p.attachReceiver(3, "q2", amqp.SenderUnsettled)
		asked := b.handing()
		p.handed(asked, 1, nil, "q/-")
		p.handed(asked, 2, nil, "q2/-")
		b.broker.refuse(nil)
		p.begin(1)
		for i, at := range []string{"q", "q2"} {
			p.write(1, &amqp.Attach{Name: "r" + at, Handle: uint32(i), Role: amqp.RoleReceiver, Source: &amqp.Source{Address: at}, Target: &amqp.Target{}}, nil)
			if a := expect[*amqp.Attach](p.peerConn); a.Source == nil {
				t.Errorf("%+v; want a.Source != nil", a)
			}
		}
	})
}

// In a group the right to send to the destination is enough; with the property it takes that to
// both (WP-087).
func TestTransferRights(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.putToken("sb://ns/q", token("sb://ns/q", "listen", "listen-key", time.Hour), "1")
		p.attachCoordinator(coordinatorHandle)
		p.putToken("sb://ns/q2", token("sb://ns/q2", "send", "send-key", time.Hour), "2")
		p.attachReceiver(1, "q", amqp.SenderUnsettled)
		if a := p.attachSender(2, "q2"); a.Target == nil {
			t.Errorf("%+v; want a.Target != nil", a)
		}
		p = b.dial().open()
		p.putToken("sb://ns/q2", token("sb://ns/q2", "send", "send-key", time.Hour), "1")
		p.attachVia(1, "q2", "q")
		p.notAttached(1, amqp.CondUnauthorizedAccess, "Unauthorized access. 'Send' claim(s) are required to perform this operation. Resource: 'sb://ns/q'.")
		p.attachVia(2, "q", "q2")
		p.notAttached(2, amqp.CondUnauthorizedAccess, "")
		p.putToken("sb://ns/q", token("sb://ns/q", "send", "send-key", time.Minute), "2")
		p.attachVia(3, "q2", "q")
		expect[*amqp.Attach](p)
		expect[*amqp.Flow](p)
		time.Sleep(2 * time.Minute) // only the right to the handing entity is left
		if d := expect[*amqp.Detach](p); d.Error == nil || d.Handle != 3 || !strings.Contains(d.Error.Description, "RenewToken") || !strings.Contains(d.Error.Description, "sb://ns/q'") {
			t.Errorf(`%+v; want d.Error != nil && d.Handle == 3 && strings.Contains(d.Error.Description, "RenewToken") && strings.Contains(d.Error.Description, "sb://ns/q'")`, d.Error)
		}
	})
}

// attachVia attaches a sender to an entity that hands its messages over to another one.
func (p *peerConn) attachVia(handle uint32, via string, to any) {
	p.write(0, &amqp.Attach{Name: fmt.Sprint("v", handle), Handle: handle, Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{Address: via},
		Properties: amqp.Map{{Key: amqp.Symbol(keyDestination), Value: to}}}, nil)
}

// notAttached wants the attach of a sender refused.
func (p *peerConn) notAttached(handle uint32, symbol amqp.Symbol, text string) {
	p.Helper()
	if a := expect[*amqp.Attach](p); a.Source != nil || a.Target != nil || a.Handle != handle {
		p.Fatalf("%+v; want a.Source == nil && a.Target == nil && a.Handle == handle", a)
	}
	d := expect[*amqp.Detach](p)
	if d.Handle != handle || d.Error == nil || d.Error.Condition != symbol || !strings.HasPrefix(d.Error.Description, text) {
		p.Fatalf("%+v; want d.Handle == handle && d.Error != nil && d.Error.Condition == symbol && strings.HasPrefix(d.Error.Description, text)", d)
	}
	p.write(0, &amqp.Detach{Handle: handle, Closed: true}, nil)
}

// WP-087: a link says by a property where its messages go; the answer says it too. Its size is the
// smaller one of both entities'.
func TestSendVia(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		b.queue("large", func(p *event.Properties) { p.MaxMessageSizeKilobytes = 1024 })
		b.queue("disabled", func(p *event.Properties) { p.Status = event.Disabled })
		p := &transactor{peerConn: b.root()}
		asked := b.handing()
		for i, test := range []struct{ to, want string }{
			{"q2", "q/q2"}, {"sb://ns/Q2", "q/q2"}, {"t", "q/t"}, {"/q", "q/-"}, {"disabled", "q/disabled"}, {"large", "q/large"},
		} {
			handle := 1 + uint32(i)
			p.attachVia(handle, "q", test.to)
			a := expect[*amqp.Attach](p.peerConn)
			if v, _ := a.Properties.Get(keyDestination); v != test.to || a.Target == nil || a.Target.(*amqp.Target).Address != "q" || a.MaxMessageSize.Value != 256<<10 {
				t.Fatalf(`%+v; want v == test.to && a.Target != nil && a.Target.(*amqp.Target).Address == "q" && a.MaxMessageSize.Value == 256 << 10`, a)
			}
			expect[*amqp.Flow](p.peerConn)
			p.handed(asked, handle, nil, test.want)
		}
		b.broker.refuse(nil)
		for i, test := range []struct {
			via    string
			to     any
			symbol amqp.Symbol
			text   string
		}{
			{"q", "none", amqp.CondNotFound, "The messaging entity 'sb://ns/none' could not be found."},
			{"none", "q", amqp.CondNotFound, "The messaging entity 'sb://ns/none' could not be found."},
			{"q", "q2/$deadletterqueue", amqp.CondNotAllowed, toSubQueueText},
			{"q", "t/subscriptions/u", amqp.CondNotAllowed, toSubscriptionText},
			{"t/subscriptions/u", "q", amqp.CondNotAllowed, toSubscriptionText},
			{"q", "q2/$management", amqp.CondNotAllowed, toNodeText},
			{"q", int32(1), amqp.CondInvalidField, badDestinationText},
			{"disabled", "q", amqp.CondEntityDisabled, ""},
		} {
			p.attachVia(50+uint32(i), test.via, test.to)
			p.notAttached(50+uint32(i), test.symbol, test.text)
		}
	})
}

// A link through another entity ends when either of them ends, and a group with the entity that it
// sends through.
func TestTransferEntitiesChange(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		p.attachReceiver(1, "q", amqp.SenderUnsettled)
		p.attachSender(2, "q2")
		b.queue("q2", func(p *event.Properties) { p.MaxDeliveryCount++ })
		p.detached(amqp.CondDetachForced, "was updated", 2)
		p.attachSender(3, "q2")
		b.queue("q", func(p *event.Properties) { p.MaxDeliveryCount++ })
		p.detached(amqp.CondDetachForced, "was updated", 1, 3)
		p.attachSender(4, "q2")
		b.remove("q2")
		p.detached(amqp.CondNotFound, "sb://ns/q2' could not be found", 4)
		b.queue("q2", nil)
		b.remove("q")
		p.refusedSender(5, "q2", amqp.CondNotFound, "The messaging entity 'sb://ns/q' could not be found")
	})
}

// WP-199, SM-244, SM-245: a message received in one entity is completed, and others are sent to a
// queue and a topic: all of it with the commit, or nothing. Via a subscription the messages are
// sent through the topic. Outside a transaction a transfer is possible as well.
func TestSendViaArrives(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, from := range []string{"q", "t/subscriptions/u"} {
			bubble(t, nil, func(b *bench) {
				b.topic("t", nil)
				b.subscription("t", "u", nil)
				b.topic("t2", nil)
				b.subscription("t2", "u", nil)
				top, _, _ := strings.Cut(from, "/")
				b.put(top, newMessage("1", "x"))
				p := b.transactor()
				p.attachReceiver(2, from, amqp.SenderUnsettled)
				p.attachSender(3, "q2")
				p.attachSender(4, "t2")
				p.credit(2, 0, 1, false)
				m := p.receive()
				txn := p.declare()
				p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
				p.send(txn, 3, newMessage("2", "x"))
				p.send(txn, 4, newMessage("3", "x"))
				p.peerConn.send(3, p.next(), newMessage("of no transaction", "x"))
				b.arrives("q2", "[of no transaction]")
				p.end(txn, commit)
				if commit {
					b.arrives("q2", "[of no transaction 2]")
					b.arrives("t2/subscriptions/u", "[3]")
					b.shows(from, "[]")
				} else {
					time.Sleep(time.Second)
					b.shows("q2", "[of no transaction]")
					b.shows("t2/subscriptions/u", "[]")
					b.shows(from, "[1]")
				}
			})
		}
	}
}

// arrives waits until a peek shows messages that are on their way.
func (b *bench) arrives(entity, want string) {
	b.Helper()
	for range 100 {
		if b.shown(entity) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.shows(entity, want)
}

// WP-087: with the property, and also in a transaction; an entity that accepts no messages still
// hands over.
func TestSendViaExplicitArrives(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		b.queue("closed", func(p *event.Properties) { p.Status = event.SendDisabled })
		p := &transactor{peerConn: b.root()}
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		for handle, via := range map[uint32]string{3: "q", 4: "closed"} {
			p.attachVia(handle, via, "q2")
			expect[*amqp.Attach](p.peerConn)
			expect[*amqp.Flow](p.peerConn)
		}
		p.attachCoordinator(coordinatorHandle)
		p.credit(2, 0, 1, false)
		m := p.receive()
		txn := p.declare()
		p.send(txn, 3, newMessage("2", "x"))
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.commit(txn)
		b.arrives("q2", "[2]")
		b.shows("q", "[]")
		p.peerConn.send(4, p.next(), newMessage("3", "x"))
		b.arrives("q2", "[2 3]")
	})
}
