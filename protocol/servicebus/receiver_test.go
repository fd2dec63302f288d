package servicebus

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
				t.Errorf("%+v", m)
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
		if d := expect[*amqp.Disposition](p); d.First != 100 || d.Last.Value != 1<<19 { // one frame for all
			t.Errorf("%+v", d)
		}
		p.quiet(time.Second)
	})
}

func (p *peerConn) outcomeLost(id uint32) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	r, ok := d.State.(amqp.Rejected)
	if !ok || d.Role != amqp.RoleSender || d.First != id || !d.Settled || r.Error == nil || r.Error.Condition != amqp.CondMessageLockLost ||
		!strings.HasPrefix(r.Error.Description, lockLost) {
		p.Fatalf("%+v", d)
	}
	p.tracked(r.Error.Description)
}

// WP-109 to WP-119 (WP-115: a settled disposition has the same effect and no answer), SM-032, SM-034, SM-039, SM-040, SM-045, SM-050: all outcomes, two-phase and settled.
func TestOutcomes(t *testing.T) {
	deadLettered := amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition, Description: "x", Info: amqp.Map{
		{Key: amqp.Symbol("DeadLetterReason"), Value: "why"}, {Key: "DeadLetterErrorDescription", Value: nil}, {Key: amqp.Symbol("k"), Value: int32(5)}}}}
	modify := amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}}
	for name, test := range map[string]struct {
		state, answer amqp.DeliveryState
		count         int // of the next delivery; -1: none
		dead          bool
	}{
		"complete":        {amqp.StateAccepted, amqp.StateAccepted, -1, false},
		"abandon":         {amqp.Modified{MessageAnnotations: modify}, amqp.Modified{}, 1, false},
		"abandon py":      {amqp.Modified{DeliveryFailed: true, MessageAnnotations: modify}, amqp.Modified{}, 1, false},
		"release":         {amqp.StateReleased, amqp.StateReleased, 0, false},
		"defer":           {amqp.Modified{UndeliverableHere: true}, amqp.Modified{UndeliverableHere: true}, -1, false},
		"dead-letter":     {deadLettered, amqp.Rejected{}, -1, true},
		"rejected, empty": {amqp.Rejected{}, amqp.Rejected{}, -1, true},
	} {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprint(name, settled), func(t *testing.T) {
				bubble(t, nil, func(b *bench) {
					p := b.loaded(1)
					p.credit(2, 0, 10, false)
					p.settle(p.receive().id, test.state, settled)
					if !settled && test.count < 0 {
						p.outcome(0, test.answer)
					}
					if test.count >= 0 {
						var m openedMessage
						if settled {
							m = p.receive()
						} else { // the answer and the next delivery come in any order
							for range 2 {
								switch r := p.next(); f := r.p.(type) {
								case *amqp.Transfer:
									m = decodeMessage(t, r.payload)
								case *amqp.Disposition:
									if f.First != 0 || fmt.Sprint(f.State) != fmt.Sprint(test.answer) {
										t.Errorf("%+v", f)
									}
								default:
									t.Fatalf("%+v", r)
								}
							}
						}
						if m.header.DeliveryCount.Value != uint32(test.count) {
							t.Errorf("count %+v", m.header)
						}
						if v, ok := m.application.Get("k"); ok != (test.count == 1) || ok && v != "v" {
							t.Errorf("%+v", m.application)
						}
						p.quiet(5 * time.Second)
						return
					}
					p.quiet(2 * testQueue.LockDuration)
					p.attachManagement("q")
					left := p.peekAll()
					if deferred := name == "defer"; (len(left) == 1) != deferred {
						t.Errorf("in the queue: %+v", left)
					} else if deferred {
						if state, _ := left[0].annotations.Get(keyState); state != int32(1) {
							t.Errorf("state %v", state)
						}
					}
					p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
					p.credit(3, 0, 1, false)
					if !test.dead {
						p.quiet(time.Second)
						return
					}
					m := p.receive()
					if _, ok := m.annotations.Get(keyDeadLetterSource); ok { // it was not forwarded: docs/decisions/0011
						t.Errorf("%+v", m.annotations)
					}
					reason, hasReason := m.application.Get("DeadLetterReason")
					_, hasText := m.application.Get("DeadLetterErrorDescription")
					if withInfo := name == "dead-letter"; hasReason != withInfo || withInfo && reason != "why" || hasText {
						t.Errorf("%+v", m.application)
					}
					p.settle(m.id, amqp.Rejected{}, false) // no dead-lettering out of a dead-letter queue
					d := expect[*amqp.Disposition](p)
					if r, ok := d.State.(amqp.Rejected); !ok || r.Error == nil || r.Error.Condition != amqp.CondNotAllowed {
						t.Errorf("%+v", d)
					}
				})
			})
		}
	}
}

// WP-117: a range settles every delivery of it, with as few answers.
func TestSettleRange(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(10)
		p.credit(2, 0, 10, false)
		for range 10 {
			p.receive()
		}
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: amqp.Some(uint32(9)), State: amqp.StateAccepted}, nil)
		if d := expect[*amqp.Disposition](p); d.First != 0 || d.Last.Value != 9 || d.State != amqp.StateAccepted {
			t.Errorf("%+v", d)
		}
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: amqp.Some(uint32(1 << 30)), State: amqp.StateAccepted}, nil)
		if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondInvalidField {
			t.Errorf("%+v", e)
		}
	})
}

// A disposition costs what waits to be settled, not what it names: a thousand of these took 16 s.
func TestSettleWideRange(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		p.credit(2, 0, 3, false)
		for range 3 {
			p.receive()
		}
		wide := &amqp.Disposition{Role: amqp.RoleReceiver, First: 1<<32 - 5, Last: amqp.Some(uint32(1<<20 - 10)), State: amqp.StateAccepted}
		p.write(0, wide, nil)
		var answers []string
		for range 3 {
			d := expect[*amqp.Disposition](p)
			outcome := "accepted"
			if rejected, ok := d.State.(amqp.Rejected); ok {
				outcome = string(rejected.Error.Condition)
			}
			answers = append(answers, fmt.Sprint(int32(d.First), " ", int32(d.Last.Value), " ", outcome))
		}
		slices.Sort(answers)
		want := []string{"-5 -1 com.microsoft:message-lock-lost", "0 2 accepted", "3 1048566 com.microsoft:message-lock-lost"}
		if !slices.Equal(answers, want) {
			t.Errorf("%q, want %q", answers, want)
		}
		for range 1000 {
			p.write(0, wide, nil)
			if d := expect[*amqp.Disposition](p); int32(d.First) != -5 || d.Last.Value != 1<<20-10 {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// While the session takes no transfers no message is locked for it, a drain is answered, and what was locked before is
// given back with the credit.
func TestClosedWindow(t *testing.T) {
	window := func(p *peerConn, size, count, credit uint32, drain bool) {
		p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(count + 1), IncomingWindow: size, OutgoingWindow: 5000,
			Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(count), LinkCredit: amqp.Some(credit), Drain: drain}, nil)
	}
	t.Run("never open", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(3)
			window(p, 0, 0, 100, false)
			p.quiet(3 * time.Minute) // three times the lock duration
			p.attachReceiver(3, "q", amqp.SenderSettled)
			window(p, 100, 0, 100, false)
			for range 3 {
				if m := p.receive(); m.header.DeliveryCount.Value != 0 {
					t.Errorf("%+v", m.header)
				}
			}
		})
	})
	t.Run("drain", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(0)
			window(p, 0, 0, 7, true)
			if f := expect[*amqp.Flow](p); f.DeliveryCount != amqp.Some(uint32(7)) || !f.Drain {
				t.Errorf("%+v", f)
			}
		})
	})
	t.Run("closes", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(5)
			window(p, 2, 0, 5, false)
			p.receive()
			p.receive()
			window(p, 0, 2, 0, false) // the other three come back
			synctest.Wait()
			p.attachReceiver(3, "q", amqp.SenderSettled)
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(3)), IncomingWindow: 10, OutgoingWindow: 5000,
				Handle: amqp.Some(uint32(3)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}, nil)
			for range 3 {
				p.receive()
			}
		})
	})
}

// A peer's texts come back no longer than its frames, and are not written out at length.
func TestLongTexts(t *testing.T) {
	var out bytes.Buffer
	bubble(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&out, nil)) }, func(b *bench) {
		p := b.root()
		p.write(0, &amqp.Attach{Name: strings.Repeat("n", 20_000), Handle: 1, Role: amqp.RoleSender,
			Source: &amqp.Source{}, Target: &amqp.Target{Address: strings.Repeat("\x01", 40_000)}}, nil)
		expect[*amqp.Attach](p)
		d := expect[*amqp.Detach](p)
		if d.Error.Condition != amqp.CondNotFound || len(d.Error.Description) > 5000 {
			t.Errorf("%s, %d bytes: %.200s", d.Error.Condition, len(d.Error.Description), d.Error.Description)
		}
		p.tracked(d.Error.Description)
	})
	if out.Len() > 10_000 {
		t.Errorf("%d bytes of log", out.Len())
	}
}

// WP-118, WP-121, SM-033: lock expiry.
func TestLockExpiry(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(1)
		p.credit(2, 0, 10, false)
		for i := range uint32(3) {
			if m := p.receive(); m.header.DeliveryCount.Value != i {
				t.Errorf("%+v", m)
			}
		}
		p.settle(0, amqp.StateAccepted, false)
		p.outcomeLost(0)
		p.quiet(40 * time.Second)
		p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderSettled)
		p.credit(3, 0, 1, false)
		m := p.receive()
		if reason, _ := m.application.Get("DeadLetterReason"); reason != "MaxDeliveryCountExceeded" {
			t.Errorf("%+v", m.application)
		}
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
				t.Errorf("%+v", m)
			}
			p.settle(m.id, amqp.StateAccepted, false)
			p.settle(m.id, amqp.StateAccepted, true)
		}
		p.credit(2, 0, 10, false)
		p.quiet(time.Minute)
	})
}

// Credit is a number of deliveries, and counts are serial numbers: the largest of them are no less than nothing.
func TestLargeCredit(t *testing.T) {
	for _, credit := range []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(3)
			p.credit(2, 0, credit, false)
			for range 3 {
				p.receive()
			}
			p.credit(2, 0, 2, false) // less than what has come
			p.send(1, 100, newMessage("x", "x"))
			p.quiet(time.Second)
		})
	}
}

// Drains that come before the first is answered are one: they made each other for ever.
func TestDrainTwice(t *testing.T) {
	for _, credits := range [][]uint32{{10, 10}, {10, 12}, {12, 10}, {10, 10, 11, 10, 10}} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(0)
			var frames []byte
			for _, credit := range credits {
				frames = amqp.AppendFrame(frames, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000,
					Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(credit), Drain: true}, nil)
			}
			p.net.Write(frames)
			if f := expect[*amqp.Flow](p); f.DeliveryCount.Value != credits[len(credits)-1] || f.LinkCredit != amqp.Some(uint32(0)) || !f.Drain {
				t.Errorf("%v: %+v", credits, f)
			}
			p.quiet(time.Second)
		})
	}
}

// WP-123, WP-124, SM-044: drain.
func TestDrain(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		start := time.Now()
		p.credit(2, 0, 10, true)
		for range 3 {
			p.receive()
		}
		drained := func(count uint32) {
			t.Helper()
			f := expect[*amqp.Flow](p)
			if f.Handle != amqp.Some(uint32(2)) || f.LinkCredit != amqp.Some(uint32(0)) || !f.Drain || f.Echo || f.DeliveryCount != amqp.Some(count) {
				t.Errorf("%+v", f)
			}
		}
		drained(10)
		p.credit(2, 10, 5, true) // nothing is there any more
		drained(15)
		if d := time.Since(start); d > 200*time.Millisecond {
			t.Error(d)
		}
		p.attachReceiver(3, "q", amqp.SenderUnsettled)
		p.send(1, 100, newMessage("x", "x"))
		p.quiet(time.Second) // the credit is gone
		p.credit(2, 15, 1, false)
		p.receive()
		p.credit(2, 16, 3, false) // credit after drains is not counted double
		for i := range uint32(5) {
			p.transfer(1, 200+i, newMessage("x", "x"))
		}
		n := 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			select {
			case r := <-p.in:
				if _, ok := r.p.(*amqp.Transfer); ok {
					n++
				}
			case <-time.After(100 * time.Millisecond):
			}
		}
		if n != 3 {
			t.Errorf("%d deliveries for a credit of 3", n)
		}
	})
}

// WP-120, WP-127, SM-035: locks outlive links and connections; a detach that does not close is answered by one, and nothing follows.
func TestDetachKeepsLocks(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(2)
		p.credit(2, 0, 1, false)
		m := p.receive()
		p.write(0, &amqp.Detach{Handle: 2, Closed: false}, nil)
		if d := expect[*amqp.Detach](p); d.Handle != 2 || d.Closed || d.Error != nil {
			t.Errorf("%+v", d)
		}
		p.quiet(time.Second)
		p.net.Close()

		p = b.root()
		p.attachManagement("q")
		tokens := amqp.Array{Elem: amqp.CodeUUID, Values: []any{uuidOf(m.tag)}}
		if status, _, _ := p.manage("com.microsoft:update-disposition", amqp.Map{{Key: "lock-tokens", Value: tokens}, {Key: "disposition-status", Value: "completed"}}); status != 200 {
			t.Error(status)
		}
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.credit(2, 0, 10, false)
		if m := p.receive(); m.properties.MessageID != "1" {
			t.Errorf("%+v", m)
		}
		p.quiet(time.Minute)
	})
}

// uuidOf is a delivery tag as the token in management requests (4.5, WP-105).
func uuidOf(tag []byte) amqp.UUID { return amqp.UUID(tagOf(event.LockToken(tag))) }

// SM-025: a lock runs from the taking of the message. A delivery that the session window holds back for ten seconds has ten
// seconds less, and one that is held back for longer than its lock lasts is gone when it comes: its token settles nothing.
func TestLockRunsFromTaking(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		window := func(seen uint32) { // for one more transfer
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(1 + seen), IncomingWindow: 1, OutgoingWindow: 1,
				Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(seen), LinkCredit: amqp.Some(3 - seen)}, nil)
		}
		taken := time.Now()
		until := func(m openedMessage) time.Duration {
			t.Helper()
			at, _ := m.annotations.Get(keyLockedUntil)
			return time.UnixMilli(int64(at.(amqp.Timestamp))).Sub(taken)
		}
		window(0)
		if m := p.receive(); until(m) != testQueue.LockDuration {
			t.Errorf("locked for %v", until(m))
		}
		p.quiet(10 * time.Second)
		window(1)
		m := p.receive()
		if m.properties.MessageID != "1" || until(m) != testQueue.LockDuration {
			t.Errorf("%v: locked until %v after it was taken", m.properties.MessageID, until(m))
		}
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcome(m.id, amqp.StateAccepted)
		p.quiet(25 * time.Second)
		window(2)
		if m = p.receive(); until(m) != testQueue.LockDuration {
			t.Errorf("%v: locked until %v after it was taken", m.properties.MessageID, until(m))
		}
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcomeLost(m.id)
	})
}

// 4.7: what was taken for a link but never written goes back without counting.
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
				t.Errorf("%+v", m)
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
				t.Errorf("%+v", m)
			}
		}
	})
}

// A body that is not what was stored is never delivered, and the partition hears of it.
func TestDamagedBody(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(1)
		b.broker.corrupt.Store(true)
		p.credit(2, 0, 1, false)
		p.quiet(time.Second)
		if b.broker.damage.Load() == 0 {
			t.Error("not reported")
		}
		b.broker.corrupt.Store(false)
		if m := p.receive(); m.body != "body 0" { // its lock ran out
			t.Errorf("%+v", m)
		}
	})
}

// reliability.md F18: what cannot be read for want of a file descriptor is not called damaged, and is delivered when it can be, in order.
func TestBodyNotReadableNow(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		p.attachManagement("q")
		b.broker.starved.Store(true)
		p.credit(2, 0, 3, false)
		p.quiet(10 * time.Second)
		status, _, _ := p.manage("com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(3)}})
		if status != 204 {
			t.Errorf("peek: %d", status)
		}
		b.broker.starved.Store(false)
		for i := range 3 {
			if m := p.receive(); m.body != fmt.Sprintf("body %d", i) || m.header.DeliveryCount.Value != 0 {
				t.Errorf("%d: %+v", i, m)
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
			{"forward", amqp.CondNotAllowed, "auto-forwarding"}, {"off", amqp.CondEntityDisabled, "disabled"}, {"none", amqp.CondNotFound, "could not be found"},
		} {
			if a := p.attachReceiver(uint32(i), test.entity, amqp.SenderUnsettled); a.Source != nil || a.Target != nil {
				t.Errorf("%+v", a)
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != test.symbol || !strings.Contains(d.Error.Description, test.text) {
				t.Errorf("%+v", d.Error)
			}
		}
		p.attachReceiver(50, "session/$DeadLetterQueue", amqp.SenderUnsettled)
		p.attachSender(51, "off")
	})
}

// semantics.md 7.1, 7.3, 7.5: what a time to live looks like on the way out.
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
				t.Errorf("%+v", d)
			}
			detached[d.Handle] = d.Error.Description
		}
		if d := time.Since(start); d != 37*time.Minute {
			t.Error(d)
		}
		if !strings.Contains(detached[2], "AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00.") ||
			!strings.Contains(detached[200], "AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00.") {
			t.Errorf("%v", detached)
		}
	})
}

// SM-113: properties that a settlement adds, with those the message was sent with over 64 KiB, send it to the dead-letter
// queue; to its sender's and receiver's eyes nothing failed.
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
