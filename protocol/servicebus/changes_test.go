package servicebus

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// detached wants each of the handles detached, in any order.
func (p *peerConn) detached(symbol amqp.Symbol, text string, handles ...uint32) {
	p.Helper()
	left := map[uint32]bool{}
	for _, h := range handles {
		left[h] = true
	}
	for len(left) > 0 {
		d := expect[*amqp.Detach](p)
		if !left[d.Handle] || !d.Closed || d.Error.Condition != symbol || !strings.Contains(d.Error.Description, text) {
			p.Fatalf("%+v; want left[d.Handle] && d.Closed && d.Error.Condition == symbol && strings.Contains(d.Error.Description, text)", d)
		}
		p.tracked(d.Error.Description)
		delete(left, d.Handle)
		p.write(0, &amqp.Detach{Handle: d.Handle, Closed: true}, nil)
	}
}

// WP-090, SM-054: an update detaches every link of the entity but those to its management node, and
// no other; what comes next finds the new settings. Claims, messages and message locks stay.
func TestEntityUpdated(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1")
		p.attachSender(1, "q")
		p.send(1, 0, newMessage("a", "x"))
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.attachReceiver(3, "Q/$DeadLetterQueue", amqp.SenderUnsettled)
		p.attachSender(4, "q2")
		p.attachManagement("q")
		p.credit(2, 0, 5, false)
		m := p.receive()
		b.queue("q", nil) // nothing changes
		b.entity(engine.PutEntity{Kind: event.Queue, Path: "q", Properties: testQueue, Mode: engine.UpdateOnly}, nil)
		p.quiet(time.Second)
		b.queue("q", func(p *event.Properties) { p.LockDuration = 10 * time.Second })
		p.detached(amqp.CondDetachForced, "is force detached by the broker", 1, 2, 3)
		// crossed the detach: no answer, and no effect, for the client asks again
		p.settle(m.id, amqp.StateAccepted, false)
		p.quiet(time.Second)
		p.send(4, 0, newMessage("b", "x"))
		p.attachSender(1, "q")
		p.send(1, 1, newMessage("c", "x"))
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 5, false)
		next := p.receive()
		until, _ := next.annotations.Get(keyLockedUntil)
		if next.properties.MessageID != "c" || until != timestampOf(time.Now().Add(10*time.Second)) {
			t.Errorf(`%+v; want next.properties.MessageID == "c" && until == timestampOf(time.Now().Add(10 * time.Second))`, next)
		}
		time.Sleep(time.Second)
		// over the link of before
		status, _, renewed := p.manage("com.microsoft:renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(next.tag))}})
		times, _ := renewed.(amqp.Map).Get("expirations")
		if status != 200 || times.(amqp.Array).Values[0] != timestampOf(time.Now().Add(10*time.Second)) {
			t.Errorf("%d %+v; want status == 200 && times.(amqp.Array).Values[0] == timestampOf(time.Now().Add(10*time.Second))", status, renewed)
		}
		p.managedWith(200, "", "update-disposition", amqp.Map{{Key: "disposition-status", Value: "completed"}, {Key: "lock-tokens", Value: uuids(uuidOf(m.tag))}})
	})
}

// A settled disposition that crosses the detach is carried out: the client would not repeat it.
func TestSettledAcrossDetach(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(1)
		p.credit(2, 0, 1, false)
		m := p.receive()
		b.queue("q", func(p *event.Properties) { p.MaxDeliveryCount = 9 })
		for range 2 {
			expect[*amqp.Detach](p)
		}
		p.settle(m.id, amqp.StateAccepted, true)
		p.settle(m.id, amqp.StateAccepted, false)
		p.quiet(40 * time.Second)
		p.attachManagement("q")
		if got := p.peekIDs(); got != nil {
			t.Errorf("%+v, want nil", got)
		}
	})
}

// 8.5: a session lock ends with its link when the entity is updated, and nothing counts as failed.
func TestEntityOfSessionUpdated(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 5, false)
		held := p.receive()
		b.entity(engine.PutEntity{Kind: event.Queue, Path: "s", Properties: testQueue, Mode: engine.UpdateOnly}, func(p *event.Properties) { p.RequiresSession = true })
		p.quiet(time.Second) // nothing has changed: the session is still held
		p.attachManagement("s")
		p.managedWith(200, "", "set-session-state", sessionBody("a", amqp.Pair{Key: "session-state", Value: []byte("x")}), linked("r2"))
		p.settle(held.id, amqp.StateReleased, false)
		bringForward[*amqp.Transfer](p)
		if again := p.receive(); again.properties.MessageID != "1" {
			t.Errorf(`%+v; want again.properties.MessageID == "1"`, again)
		}
		p.outcome(held.id, amqp.StateReleased)
		b.queue("s", func(p *event.Properties) { p.RequiresSession, p.MaxDeliveryCount = true, 9 })
		p.detached(amqp.CondDetachForced, "", 1, 2)
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 5, false)
		if m := p.receive(); m.header.DeliveryCount.Value != 0 {
			t.Errorf("%+v; want m.header.DeliveryCount.Value == 0", m)
		}
	})
}

// WP-130, SM-055: a deletion detaches with not-found, and so does every attach after it.
func TestEntityDeleted(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.acceptSession(2, "s", "a")
		p.wantSession(3, "s", nil)
		p.attachManagement("s")
		p.attachSender(4, "q")
		if err := b.ns.DeleteEntity(context.Background(), engine.DeleteEntity{Path: "s", Reason: "client"}); err != nil {
			t.Fatal(err)
		}
		for range 5 { // the one that waits gets an attach first
			for {
				if r := p.next(); r.err != nil {
					t.Fatal(r.err)
				} else if d, ok := r.p.(*amqp.Detach); ok {
					if d.Error.Condition != amqp.CondNotFound || !strings.HasPrefix(d.Error.Description, "The messaging entity 'sb://ns/s") || !strings.Contains(d.Error.Description, "' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. ") {
						t.Errorf("%+v", d)
					}
					break
				}
			}
		}
		p.write(0, &amqp.Attach{Name: "again", Handle: 9, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "s"}}, nil)
		p.refused(9, amqp.CondNotFound, "The messaging entity 'sb://ns/s' could not be found.")
		p.send(4, 0, newMessage("a", "x"))
		// made again: another one, and empty
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p.begin(1)
		synctest.Wait()
		other := b.root()
		other.acceptSession(2, "s", "a")
	})
}

// SM-002, SM-054: the peer's requests are answered before its link or its connection ends.
// Otherwise it would repeat them: a message would be stored twice, a settlement would seem lost.
func TestAnswersBeforeParting(t *testing.T) {
	for name, part := range map[string]func(b *bench){
		"update": func(b *bench) { b.queue("q", func(p *event.Properties) { p.MaxDeliveryCount = 9 }) },
		"stop":   func(b *bench) { go b.server.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.loaded(1)
				p.credit(2, 0, 1, false)
				m := p.receive()
				b.broker.hold(func() {
					p.transfer(1, 7, newMessage("seven", "x"))
					p.settle(m.id, amqp.StateAccepted, false)
					synctest.Wait()
					part(b)
					synctest.Wait()
					go p.transfer(1, 8, newMessage("eight", "x")) // is not read, and not stored
					synctest.Wait()
				})
				answered := map[amqp.Role]uint32{}
				for range 2 {
					d := expect[*amqp.Disposition](p)
					if d.State != amqp.StateAccepted {
						t.Errorf("%+v; want d.State == amqp.StateAccepted", d)
					}
					answered[d.Role] = d.First
				}
				if answered[amqp.RoleReceiver] != 7 || answered[amqp.RoleSender] != m.id {
					t.Errorf("%v; want answered[amqp.RoleReceiver] == 7 && answered[amqp.RoleSender] == m.id", answered)
				}
				if name == "stop" {
					expect[*amqp.Close](p)
					return
				}
				p.detached(amqp.CondDetachForced, "is force detached by the broker", 1, 2)
				p.attachReceiver(2, "q", amqp.SenderSettled)
				p.credit(2, 0, 5, false)
				if m := p.receive(); m.properties.MessageID != "seven" {
					t.Errorf(`%+v; want m.properties.MessageID == "seven"`, m.properties)
				}
				p.quiet(time.Second)
			})
		})
	}
}
