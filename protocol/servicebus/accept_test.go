package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// described is a session filter's value as the Go SDK sends it.
func described(v any) amqp.Described {
	return amqp.Described{Descriptor: uint64(0x000000137000000C), Value: v}
}

// wantSession asks for a message session and does not wait for the answer.
func (p *peerConn) wantSession(handle uint32, address string, value any, properties ...amqp.Pair) {
	p.write(0, &amqp.Attach{Name: fmt.Sprint("r", handle), Handle: handle, Role: amqp.RoleReceiver,
		SenderSettleMode: amqp.Some(amqp.SenderUnsettled), ReceiverSettleMode: amqp.Some(amqp.ReceiverSecond),
		Source: &amqp.Source{Address: address, Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: value}}},
		Target: &amqp.Target{Address: "t"}, Properties: properties}, nil)
}

// acceptSession asks for a message session and wants to have it.
func (p *peerConn) acceptSession(handle uint32, address string, value any) *amqp.Attach {
	p.Helper()
	p.wantSession(handle, address, value)
	a := expect[*amqp.Attach](p)
	if a.Source == nil || a.Name != fmt.Sprint("r", handle) {
		p.Fatalf(`%+v; want a.Source != nil && a.Name == fmt.Sprint("r", handle)`, a)
	}
	return a
}

// refused wants an attach without termini and the reason for it.
func (p *peerConn) refused(handle uint32, symbol amqp.Symbol, text string) {
	p.Helper()
	if a := expect[*amqp.Attach](p); a.Source != nil || a.Target != nil || a.Handle != handle || a.Role != amqp.RoleSender {
		p.Fatalf("%+v; want a.Source == nil && a.Target == nil && a.Handle == handle && a.Role == amqp.RoleSender", a)
	}
	d := expect[*amqp.Detach](p)
	if d.Handle != handle || !d.Closed || d.Error == nil || d.Error.Condition != symbol || !strings.HasPrefix(d.Error.Description, text) {
		p.Fatalf("%+v; want d.Handle == handle && d.Closed && d.Error != nil && d.Error.Condition == symbol && strings.HasPrefix(d.Error.Description, text)", d)
	}
	p.tracked(d.Error.Description)
	p.write(0, &amqp.Detach{Handle: handle, Closed: true}, nil)
}

func (p *peerConn) detach(handle uint32) {
	p.Helper()
	p.write(0, &amqp.Detach{Handle: handle, Closed: true}, nil)
	if d := expect[*amqp.Detach](p); d.Handle != handle || !d.Closed || d.Error != nil {
		p.Fatalf("%+v; want d.Handle == handle && d.Closed && d.Error == nil", d)
	}
}

// inSession makes an encoded message of a session.
func inSession(session, id, body string) []byte {
	return amqp.AppendData(amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, GroupID: amqp.Some(session)}), []byte(body))
}

// sessions runs a test with a session queue "s", which the first connection may send to by its
// handle 1.
func sessions(t *testing.T, test func(b *bench, p *peerConn)) {
	t.Helper()
	bubble(t, nil, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p := b.root()
		p.attachSender(1, "s")
		test(b, p)
	})
}

// WP-140, WP-141, WP-142, WP-145, WP-147, WP-148, SM-190, SM-191: sessions by id and the next one,
// in every shape of the filter, with messages and without.
func TestAcceptSession(t *testing.T) {
	for name, test := range map[string]struct {
		value  any
		id     string
		answer any
	}{
		"go, named":      {described("a"), "a", described("a")},
		"go, next":       {described(nil), "next", described("next")},
		"symbolic, next": {amqp.Described{Descriptor: amqp.Symbol("com.microsoft:session-filter:string")}, "next", amqp.Described{Descriptor: amqp.Symbol("com.microsoft:session-filter:string"), Value: "next"}},
		"plain, named":   {"a", "a", "a"},
		"plain, next":    {nil, "next", "next"},
		"symbol":         {amqp.Symbol("a"), "a", "a"},
		"empty":          {"", "", ""},
		"go, empty":      {described(""), "", described("")},
	} {
		t.Run(name, func(t *testing.T) {
			sessions(t, func(b *bench, p *peerConn) {
				p.send(1, 0, inSession("next", "1", "x"))
				a := p.acceptSession(2, "S", test.value)
				if want := (amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: test.answer}}); !cmp.Equal(a.Source.Filter, want) {
					t.Errorf("%+v (-want +got):\n%s", a.Source.Filter, cmp.Diff(want, a.Source.Filter))
				}
				until, _ := a.Properties.Get(keyLockedUntilUTC)
				if want := time.Now().Add(30*time.Second).UnixMilli()*10000 + 621355968000000000; until != want {
					t.Errorf("locked until %v, not %d", until, want)
				}
				if a.Source.Address != "S" || a.Target.(*amqp.Target).Address != "t" || a.InitialDeliveryCount != amqp.Some(uint32(0)) || a.ReceiverSettleMode != amqp.Some(amqp.ReceiverSecond) {
					t.Errorf(`%+v; want a.Source.Address == "S" && a.Target.(*amqp.Target).Address == "t" && a.InitialDeliveryCount == amqp.Some(uint32(0)) && a.ReceiverSettleMode == amqp.Some(amqp.ReceiverSecond)`, a)
				}
				p.credit(2, 0, 10, false)
				if test.id == "next" {
					p.receive()
				}
				b.put("s", inSession(test.id, "2", "x"))
				if m := p.receive(); m.properties.GroupID != amqp.Some(test.id) {
					t.Errorf("%+v; want m.properties.GroupID == amqp.Some(test.id)", m)
				}
			})
		})
	}
}

// The lock's end is a long of eight bytes: two SDKs read nothing else (WP-145).
func TestTicks(t *testing.T) {
	ticks := event.TimeOf(time.Date(2024, 5, 6, 7, 8, 9, 10e6, time.UTC)).Ticks()
	if ticks != 638505760890100000 {
		t.Errorf("%+v, want 638505760890100000", ticks)
	}
	if b := amqp.AppendValue(nil, ticks); len(b) != 9 || b[0] != amqp.CodeLong {
		t.Errorf("% x; want len(b) == 9 && b[0] == amqp.CodeLong", b)
	}
}

// WP-143, WP-144, SM-181: without a session the client is answered shortly before its own time-out.
func TestNoSession(t *testing.T) {
	for _, test := range []struct {
		timeout  any
		min, max time.Duration
		text     string
	}{
		{uint32(1000), 900 * time.Millisecond, time.Second, "00:00:01."}, {int64(20000), 19500 * time.Millisecond, 20 * time.Second, "00:00:20."},
		{nil, time.Minute, 65 * time.Second, "00:01:00."}, {uint8(0), 0, time.Millisecond, "00:00:00."}, {int32(-5), 0, time.Millisecond, "00:00:00."},
		{uint16(500), 400 * time.Millisecond, 500 * time.Millisecond, "00:00:00.5000000."},
	} {
		sessions(t, func(b *bench, p *peerConn) {
			start := time.Now()
			var properties []amqp.Pair
			if test.timeout != nil {
				properties = append(properties, amqp.Pair{Key: amqp.Symbol(keyTimeout), Value: test.timeout})
			}
			p.wantSession(2, "s", described(nil), properties...)
			p.refused(2, amqp.CondTimeout, "The operation did not complete within the allotted timeout of "+test.text)
			if d := time.Since(start); d < test.min || d > test.max {
				t.Errorf("%v: after %v", test.timeout, d)
			}
			p.send(1, 0, inSession("late", "1", "x")) // no receiver holds a session or waits
			p.acceptSession(3, "s", nil)
		})
	}
}

// WP-146, WP-150, SM-180, SM-181, SM-185, SM-187: one holder at a time, and the messages that a
// close releases.
func TestSessionIsExclusive(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 5, false)
		first := p.receive()
		other := b.root()
		other.wantSession(2, "s", described("a"), amqp.Pair{Key: amqp.Symbol(keyTimeout), Value: uint32(60000)})
		start := time.Now()
		other.refused(2, amqp.CondSessionCannotBeLocked, "The requested session 'a' cannot be accepted. It may be locked by another receiver.")
		if time.Since(start) != 0 {
			t.Errorf("refused after %v", time.Since(start))
		}
		other.wantSession(3, "s", nil)
		other.quiet(time.Second)
		p.detach(2)
		a := expect[*amqp.Attach](other)
		if a.Handle != 3 {
			t.Errorf("%+v; want a.Handle == 3", a)
		}
		other.credit(3, 0, 5, false)
		m := other.receive()
		if m.header.DeliveryCount.Value != 0 || m.properties.MessageID != "1" || string(m.tag) == string(first.tag) {
			t.Errorf(`%+v; want m.header.DeliveryCount.Value == 0 && m.properties.MessageID == "1" && string(m.tag) != string(first.tag)`, m)
		}
		other.detach(3)
		p.acceptSession(4, "s", "a") // the first client again: its old token is dead
		p.attachManagement("s")
		for _, disposition := range []string{"completed", "abandoned", "defered", "suspended"} {
			p.disposed(410, amqp.CondSessionLockLost, disposition, []amqp.UUID{uuidOf(first.tag)}, amqp.Pair{Key: "session-id", Value: "a"})
		}
		p.credit(4, 0, 5, false)
		if m := p.receive(); m.header.DeliveryCount.Value != 0 {
			t.Errorf("%+v; want m.header.DeliveryCount.Value == 0", m)
		}
	})
}

// WP-149, SM-183, SM-184, SM-196: order, later arrivals, and the lock of the session on its
// messages.
func TestSessionOrder(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		for i := range uint32(6) {
			p.send(1, i, inSession([]string{"a", "b"}[i%2], fmt.Sprint(i), "x"))
		}
		p.acceptSession(2, "s", described("a"))
		locked := timestampOf(time.Now().Add(30 * time.Second))
		p.credit(2, 0, 2, false)
		want := func(id string, count uint32) openedMessage {
			t.Helper()
			m := p.receive()
			until, _ := m.annotations.Get(keyLockedUntil)
			if m.properties.MessageID != id || m.header.DeliveryCount.Value != count || until != locked {
				t.Errorf("%+v; want m.properties.MessageID == id && m.header.DeliveryCount.Value == count && until == locked", m)
			}
			return m
		}
		first := want("0", 0)
		want("2", 0)
		time.Sleep(10 * time.Second)
		p.settle(first.id, amqp.Modified{}, false)
		p.outcome(first.id, amqp.Modified{})
		p.credit(2, 2, 10, false)
		want("0", 1) // the abandoned one is next
		want("4", 0)
		b.put("s", inSession("a", "9", "x"))
		want("9", 0)
		p.quiet(5 * time.Second)
	})
}

// semantics.md D-20, 8.4: neither receiving nor settling nor credit that waits keeps a session: the
// lock ends when it would have.
func TestSessionNotRenewedByUse(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.acceptSession(2, "s", "a")
		start := time.Now()
		p.credit(2, 0, 100, false)
		for i, state := range []amqp.DeliveryState{amqp.StateAccepted, amqp.Modified{UndeliverableHere: true}, amqp.StateAccepted} {
			b.put("s", inSession("a", fmt.Sprint(i), "x"))
			m := p.receive()
			if until, _ := m.annotations.Get(keyLockedUntil); until != timestampOf(start.Add(30*time.Second)) {
				t.Errorf("%d: locked until %v", i, until)
			}
			p.settle(m.id, state, false)
			p.outcome(m.id, state)
			time.Sleep(9 * time.Second)
		}
		d := expect[*amqp.Detach](p)
		if after := time.Since(start).Round(100 * time.Millisecond); d.Error.Condition != amqp.CondSessionLockLost || after != 30*time.Second {
			t.Errorf("%+v after %v", d, after)
		}
	})
}

// WP-151, SM-186, SM-188: the end of the lock, and renewal before it.
func TestSessionLockEnds(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 5, false)
		m := p.receive()
		p.attachManagement("s")
		named := amqp.Pair{Key: keyAssociatedLink, Value: "r2"}
		body := amqp.Map{{Key: "session-id", Value: "a"}}
		time.Sleep(20 * time.Second)
		status, _, answer := p.manage("com.microsoft:renew-session-lock", body, named)
		until, _ := answer.(amqp.Map).Get("expiration")
		if status != 200 || until != timestampOf(time.Now().Add(30*time.Second)) {
			t.Errorf("%d %+v; want status == 200 && until == timestampOf(time.Now().Add(30*time.Second))", status, answer)
		}
		start := time.Now()
		d := expect[*amqp.Detach](p)
		if d.Handle != 2 || !d.Closed || d.Error.Condition != amqp.CondSessionLockLost || time.Since(start).Round(100*time.Millisecond) != 30*time.Second {
			t.Errorf("%+v after %v", d, time.Since(start))
		}
		p.tracked(d.Error.Description)
		// crosses the detach; an answer would end the session of one SDK
		p.settle(m.id, amqp.StateAccepted, false)
		p.quiet(time.Second)
		for _, operation := range []string{"renew-session-lock", "get-session-state", "set-session-state"} {
			status, properties, _ := p.manage("com.microsoft:"+operation, append(body, amqp.Pair{Key: "session-state", Value: nil}), named)
			if c, _ := properties.Get("errorCondition"); status != 410 || c != amqp.CondSessionLockLost {
				t.Errorf("%s: %+v; want status == 410 && c == amqp.CondSessionLockLost", operation, properties)
			}
		}
		other := b.root()
		other.acceptSession(2, "s", nil)
		other.credit(2, 0, 5, false)
		if m := other.receive(); m.header.DeliveryCount.Value != 1 {
			t.Errorf("%+v; want m.header.DeliveryCount.Value == 1", m)
		}
	})
}

// A settlement that the end of the session overtakes, and one of nothing, on a link of a session:
// session-lock-lost.
func TestSettleInLostSession(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 5, false)
		m := p.receive()
		lost := func(id uint32) {
			t.Helper()
			d := expect[*amqp.Disposition](p)
			if r, ok := d.State.(amqp.Rejected); !ok || d.First != id || !d.Settled || r.Error.Condition != amqp.CondSessionLockLost {
				t.Errorf("%+v; want ok && d.First == id && d.Settled && r.Error.Condition == amqp.CondSessionLockLost", d)
			}
		}
		p.credit(2, 1, 0, false)
		p.settle(m.id, amqp.StateReleased, false)
		p.outcome(m.id, amqp.StateReleased)
		p.credit(2, 1, 1, false)
		m2 := p.receive()
		p.settle(m.id, amqp.StateAccepted, false)
		lost(m.id)
		// the broker's clock passes the end of the lock before it handles the settlement
		b.broker.hold(func() {
			p.settle(m2.id, amqp.StateAccepted, false)
			synctest.Wait()
			time.Sleep(31 * time.Second)
		})
		lost(m2.id)
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondSessionLockLost {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondSessionLockLost", d)
		}
	})
}

// SM-194, SM-195: the maximum delivery count in a session; its dead-letter queue knows no sessions.
func TestSessionDeadLetters(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "bad", "x"))
		p.send(1, 1, inSession("a", "good", "x"))
		p.acceptSession(2, "s", "a")
		for i := range uint32(3) {
			p.credit(2, i, 1, false)
			if m := p.receive(); m.properties.MessageID != "bad" || m.header.DeliveryCount.Value != i {
				t.Errorf(`%+v; want m.properties.MessageID == "bad" && m.header.DeliveryCount.Value == i`, m)
			}
			p.settle(i, amqp.Modified{}, false)
			p.outcome(i, amqp.Modified{})
		}
		p.credit(2, 3, 1, false)
		if m := p.receive(); m.properties.MessageID != "good" {
			t.Errorf(`%+v; want m.properties.MessageID == "good"`, m)
		}
		p.wantSession(3, "s/$DeadLetterQueue", "a")
		// SM-411
		p.refused(3, amqp.CondNotAllowed, "Cannot create a MessageSession for a sub-queue. TrackingId:")
		p.attachReceiver(4, "s/$deadletterqueue", amqp.SenderUnsettled)
		p.credit(4, 0, 1, false)
		m := p.receive()
		if reason, _ := m.application.Get(deadLetterReason); reason != "MaxDeliveryCountExceeded" || m.properties.GroupID != amqp.Some("a") || m.header.DeliveryCount.Value != 3 {
			t.Errorf(`%+v; want reason == "MaxDeliveryCountExceeded" && m.properties.GroupID == amqp.Some("a") && m.header.DeliveryCount.Value == 3`, m)
		}
	})
}

// WP-128, SM-041, 8.3: receivers that do not fit the entity, and filters that make no sense.
func TestSessionRefusals(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.queue("off", func(p *event.Properties) { p.RequiresSession, p.Status = true, event.ReceiveDisabled })
		p.wantSession(2, "q", nil)
		// SM-410
		p.refused(2, amqp.CondNotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions. TrackingId:")
		p.wantSession(2, "q/$DeadLetterQueue", "a")
		p.refused(2, amqp.CondNotAllowed, "Cannot create a MessageSession for a sub-queue. TrackingId:")
		p.write(0, &amqp.Attach{Name: "r2", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "s"}}, nil)
		p.refused(2, amqp.CondNotAllowed, sessionText)
		p.wantSession(2, "off", nil)
		p.refused(2, amqp.CondEntityDisabled, "")
		p.wantSession(2, "s", int32(5))
		p.refused(2, amqp.CondArgumentError, "")
		p.wantSession(2, "s", strings.Repeat("x", 129))
		p.refused(2, amqp.CondArgumentError, "")
		p.acceptSession(3, "s", strings.Repeat("x", 128))
		p.transfer(1, 7, newMessage("none", "x"))
		// WP-088, SM-115
		if e := p.rejected(7, amqp.CondNotAllowed); !strings.HasPrefix(e.Description, "The SessionId was not set on a message, and it cannot be sent to the entity.") {
			t.Errorf(`%+v; want strings.HasPrefix(e.Description, "The SessionId was not set on a message, and it cannot be sent to the entity.")`, e)
		}
		p.send(1, 8, inSession("a", "1", "x")) // the link stays
	})
}

// SM-192: one connection holds many sessions.
func TestManySessions(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		const n = 100
		for i := range uint32(n) {
			p.send(1, i, inSession(fmt.Sprint("s", i), fmt.Sprint(i), "x"))
		}
		for i := range uint32(n) {
			if a := p.acceptSession(10+i, "s", nil); !cmp.Equal(a.Source.Filter, amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: fmt.Sprint("s", i)}}) {
				t.Fatalf("%+v (-want +got):\n%s", a.Source.Filter, cmp.Diff(amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: fmt.Sprint("s", i)}}, a.Source.Filter))
			}
			p.credit(10+i, 0, 2, false)
			if m := p.receive(); m.properties.MessageID != fmt.Sprint(i) {
				t.Fatalf("%+v; want m.properties.MessageID == fmt.Sprint(i)", m)
			}
		}
	})
}

// What the peer sends for a link that waits for its session is kept until the session is there.
func TestPipelinedSessionAttach(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.wantSession(2, "s", nil)
		p.credit(2, 0, 7, false)
		p.credit(2, 0, 2, false) // the last one counts
		p.quiet(30 * time.Second)
		b.put("s", inSession("a", "0", "x"), inSession("a", "1", "x"), inSession("a", "2", "x"))
		expect[*amqp.Attach](p)
		p.receive()
		p.receive()
		p.quiet(time.Second)
		p.detach(2)
		p.wantSession(4, "s", "none")
		p.credit(4, 0, 5, true) // a drain before the session is there
		expect[*amqp.Attach](p)
		for {
			f, ok := p.next().p.(*amqp.Flow)
			if !ok {
				t.Fatal("no flow")
			}
			if f.Handle == amqp.Some(uint32(4)) {
				if f.LinkCredit.Value != 0 || !f.LinkCredit.Set || !f.Drain || f.Echo || f.DeliveryCount.Value != 5 {
					t.Errorf("%+v; want f.LinkCredit.Value == 0 && f.LinkCredit.Set && f.Drain && !f.Echo && f.DeliveryCount.Value == 5", f)
				}
				break
			}
		}
	})
}

// A wait for a session ends when its link ends, for any reason, and leaves no state.
func TestAbandonedSessionAttach(t *testing.T) {
	for name, test := range map[string]struct {
		end    func(p *peerConn)
		closed bool
	}{
		"detach": {func(p *peerConn) {
			p.write(0, &amqp.Detach{Handle: 2, Closed: true}, nil)
			if a := expect[*amqp.Attach](p); a.Source != nil || a.Target != nil {
				p.Errorf("%+v; want a.Source == nil && a.Target == nil", a)
			}
			if d := expect[*amqp.Detach](p); d.Error != nil || !d.Closed {
				p.Errorf("%+v; want d.Error == nil && d.Closed", d)
			}
			p.wantSession(2, "s", "x") // the handle is free again
			expect[*amqp.Attach](p)
			p.detach(2)
		}, false},
		"session": {func(p *peerConn) {
			p.write(0, &amqp.End{}, nil)
			expect[*amqp.End](p)
			p.begin(0)
		}, false},
		"connection": {func(p *peerConn) { p.net.Close() }, true},
		"stolen": {func(p *peerConn) {
			p.write(0, &amqp.Attach{Name: "r2", Handle: 3, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}, nil)
			p.refused(2, amqp.CondLinkStolen, "")
			expect[*amqp.Attach](p)
		}, false},
		"update": {func(p *peerConn) {
			p.queue("s", func(q *event.Properties) { q.RequiresSession, q.MaxDeliveryCount = true, 7 })
			for range 2 { // and the sender
				switch f := p.next().p.(type) {
				case *amqp.Attach:
					if d := expect[*amqp.Detach](p); f.Source != nil || d.Handle != 2 || d.Error.Condition != amqp.CondDetachForced {
						p.Errorf("%+v %+v; want f.Source == nil && d.Handle == 2 && d.Error.Condition == amqp.CondDetachForced", f, d)
					}
				case *amqp.Detach:
					if f.Handle != 1 {
						p.Errorf("%+v; want f.Handle == 1", f)
					}
				}
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			sessions(t, func(b *bench, p *peerConn) {
				p.wantSession(2, "s", nil)
				p.quiet(10 * time.Second)
				test.end(p)
				synctest.Wait()
				other := b.root()
				other.attachSender(1, "s")
				other.send(1, 0, inSession("a", "1", "x"))
				other.acceptSession(2, "s", nil) // the receiver that waited before does not get it
				if !test.closed {
					p.quiet(2 * time.Minute)
				}
			})
		})
	}
}

// reliability.md 8: links that wait for a session count, and do not end for idleness.
func TestSessionAttachLimits(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Limits.Links, o.Limits.LinkIdle, o.Limits.IdleTimeout = 3, time.Minute, time.Hour
	}, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p := b.root()
		for i := range uint32(3) {
			p.wantSession(i, "s", nil, amqp.Pair{Key: amqp.Symbol(keyTimeout), Value: uint32(600_000)})
		}
		p.wantSession(3, "s", nil)
		p.refused(3, amqp.CondResourceLimit, "")
		start := time.Now()
		for range 3 {
			a := expect[*amqp.Attach](p)
			if d := expect[*amqp.Detach](p); a.Source != nil || d.Error.Condition != amqp.CondTimeout {
				t.Errorf("%+v %+v; want a.Source == nil && d.Error.Condition == amqp.CondTimeout", a, d)
			}
			p.write(0, &amqp.Detach{Handle: a.Handle, Closed: true}, nil)
		}
		if d := time.Since(start); d < 599*time.Second {
			t.Errorf("given up after %v", d)
		}
		p.wantSession(3, "s", "a")
		expect[*amqp.Attach](p)
		// 30 s; one of a plain link is longer
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondSessionLockLost {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondSessionLockLost", d)
		}
	})
}

// A session lock ends with its AMQP session and its connection, and nothing counts as failed
// (SM-185, 8.5).
func TestSessionLinkLost(t *testing.T) {
	for _, end := range []func(p *peerConn){
		func(p *peerConn) { p.write(0, &amqp.End{}, nil) }, func(p *peerConn) { p.net.Close() }, func(p *peerConn) { p.write(0, &amqp.Close{}, nil) },
	} {
		sessions(t, func(b *bench, p *peerConn) {
			p.send(1, 0, inSession("a", "1", "x"))
			p.acceptSession(2, "s", "a")
			p.credit(2, 0, 5, false)
			p.receive()
			end(p)
			synctest.Wait()
			other := b.root()
			other.acceptSession(2, "s", "a")
			other.credit(2, 0, 5, false)
			if m := other.receive(); m.header.DeliveryCount.Value != 0 {
				t.Errorf("%+v; want m.header.DeliveryCount.Value == 0", m)
			}
		})
	}
}
