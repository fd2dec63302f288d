package servicebus

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"

	"github.com/google/go-cmp/cmp"
)

func (p *peerConn) outcomeLost(id uint32) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	r, ok := d.State.(amqp.Rejected)
	if !ok || d.Role != amqp.RoleSender || d.First != id || !d.Settled || r.Error == nil || r.Error.Condition != amqp.CondMessageLockLost ||
		!strings.HasPrefix(r.Error.Description, lockLost) {
		p.Fatalf("%+v; want ok && d.Role == amqp.RoleSender && d.First == id && d.Settled && r.Error != nil && r.Error.Condition == amqp.CondMessageLockLost && strings.HasPrefix(r.Error.Description, lockLost)", d)
	}
	p.tracked(r.Error.Description)
}

// WP-109 to WP-119 (WP-115: a settled disposition has the same effect and no answer), SM-032,
// SM-034, SM-039, SM-040, SM-045, SM-050: all outcomes, two-phase and settled.
func TestOutcomes(t *testing.T) {
	deadLettered := amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition, Description: "x", Info: amqp.Map{
		{Key: amqp.Symbol("DeadLetterReason"), Value: "why"}, {Key: "DeadLetterErrorDescription", Value: nil}, {Key: amqp.Symbol("k"), Value: int32(5)}}}}
	modify := amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}}
	for name, test := range map[string]outcomeTest{
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
					if test.count >= 0 {
						test.again(p, settled)
						return
					}
					if !settled {
						p.outcome(0, test.answer)
					}
					p.quiet(2 * testQueue.LockDuration)
					leftInQueue(p, name == "defer")
					p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
					p.credit(3, 0, 1, false)
					if test.dead {
						deadLetterOf(p, name == "dead-letter")
					} else {
						p.quiet(time.Second)
					}
				})
			})
		}
	}
}

type outcomeTest struct {
	state, answer amqp.DeliveryState
	count         int // of the next delivery; -1: none
	dead          bool
}

// again expects the answer to the settlement, unless the peer wants none, and the message once
// more.
func (test outcomeTest) again(p *peerConn, settled bool) {
	p.Helper()
	var m openedMessage
	if settled {
		m = p.receive()
	} else { // the answer and the next delivery come in any order
		for range 2 {
			switch r := p.next(); f := r.p.(type) {
			case *amqp.Transfer:
				m = decodeMessage(p, r.payload)
			case *amqp.Disposition:
				if f.First != 0 || !cmp.Equal(f.State, test.answer) {
					p.Errorf("the answer to %v begins at %d, want 0, and says\n%s", test.state, f.First, cmp.Diff(test.answer, f.State))
				}
			default:
				p.Fatalf("%+v", r)
			}
		}
	}
	if m.header.DeliveryCount.Value != uint32(test.count) {
		p.Errorf("the delivery count is %v, not %d", m.header.DeliveryCount, test.count)
	}
	if v, ok := m.application.Get("k"); ok != (test.count == 1) || ok && v != "v" {
		p.Errorf("the properties are %+v after %v", m.application, test.state)
	}
	p.quiet(5 * time.Second)
}

// leftInQueue expects nothing in the queue but a deferred message, where there is one.
func leftInQueue(p *peerConn, deferred bool) {
	p.Helper()
	p.attachManagement("q")
	left := p.peekAll()
	if (len(left) == 1) != deferred {
		p.Errorf("%d messages are in the queue, one deferred: %v", len(left), deferred)
	} else if deferred {
		if state, _ := left[0].annotations.Get(keyState); state != int32(1) {
			p.Errorf("the state of the message is %v, not 1", state)
		}
	}
}

// deadLetterOf receives the dead letter, which has the reason that was given, and settles it in the
// one way that is not allowed.
func deadLetterOf(p *peerConn, withInfo bool) {
	p.Helper()
	m := p.receive()
	// it was not forwarded: docs/decisions/0011
	if _, ok := m.annotations.Get(keyDeadLetterSource); ok {
		p.Errorf("the dead letter has a source: %+v", m.annotations)
	}
	reason, hasReason := m.application.Get("DeadLetterReason")
	_, hasText := m.application.Get("DeadLetterErrorDescription")
	if hasReason != withInfo || withInfo && reason != "why" || hasText {
		p.Errorf("the dead letter's properties are %+v; a reason was given: %v", m.application, withInfo)
	}
	p.settle(m.id, amqp.Rejected{}, false) // no dead-lettering out of a dead-letter queue
	d := expect[*amqp.Disposition](p)
	if r, ok := d.State.(amqp.Rejected); !ok || r.Error == nil || r.Error.Condition != amqp.CondNotAllowed {
		p.Errorf("a dead letter is dead-lettered: %+v", d)
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
			t.Errorf("%+v; want d.First == 0 && d.Last.Value == 9 && d.State == amqp.StateAccepted", d)
		}
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: amqp.Some(uint32(1 << 30)), State: amqp.StateAccepted}, nil)
		if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondInvalidField {
			t.Errorf("%+v; want e.Error.Condition == amqp.CondInvalidField", e)
		}
	})
}

// The cost of a disposition depends on the deliveries that wait to be settled, not on those that it
// names: a thousand of these took 16 s.
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
				t.Fatalf("%+v; want int32(d.First) == -5 && d.Last.Value == 1<<20 - 10", d)
			}
		}
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
				t.Errorf("%+v; want m.header.DeliveryCount.Value == i", m)
			}
		}
		p.settle(0, amqp.StateAccepted, false)
		p.outcomeLost(0)
		p.quiet(40 * time.Second)
		p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderSettled)
		p.credit(3, 0, 1, false)
		m := p.receive()
		if reason, _ := m.application.Get("DeadLetterReason"); reason != "MaxDeliveryCountExceeded" {
			t.Errorf(`%+v; want reason == "MaxDeliveryCountExceeded"`, m.application)
		}
	})
}

// WP-120, WP-127, SM-035: locks outlive links and connections; a detach that does not close is
// answered by one, and nothing follows.
func TestDetachKeepsLocks(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(2)
		p.credit(2, 0, 1, false)
		m := p.receive()
		p.write(0, &amqp.Detach{Handle: 2, Closed: false}, nil)
		if d := expect[*amqp.Detach](p); d.Handle != 2 || d.Closed || d.Error != nil {
			t.Errorf("%+v; want d.Handle == 2 && !d.Closed && d.Error == nil", d)
		}
		p.quiet(time.Second)
		p.net.Close()

		p = b.root()
		p.attachManagement("q")
		tokens := amqp.Array{Elem: amqp.CodeUUID, Values: []any{uuidOf(m.tag)}}
		if status, _, _ := p.manage("com.microsoft:update-disposition", amqp.Map{{Key: "lock-tokens", Value: tokens}, {Key: "disposition-status", Value: "completed"}}); status != 200 {
			t.Errorf("%+v, want 200", status)
		}
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.credit(2, 0, 10, false)
		if m := p.receive(); m.properties.MessageID != "1" {
			t.Errorf(`%+v; want m.properties.MessageID == "1"`, m)
		}
		p.quiet(time.Minute)
	})
}

// uuidOf is a delivery tag as the token in management requests (4.5, WP-105).
func uuidOf(tag []byte) amqp.UUID { return amqp.UUID(message.DeliveryTag(event.LockToken(tag))) }

// SM-025: a lock begins when the message is taken. A delivery that the session window holds back
// for ten seconds has ten seconds less. One held back for longer than its lock is never sent: the
// message is taken again, like any message whose lock has ended.
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
		if m = p.receive(); m.properties.MessageID != "0" || until(m) != 35*time.Second+testQueue.LockDuration {
			t.Errorf("%v: locked until %v after it was taken", m.properties.MessageID, until(m))
		}
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcome(m.id, amqp.StateAccepted)
	})
}

// A read from the log takes longer than locks last: deliveries of that read whose locks have ended
// are not sent either.
func TestLockEndsWhileReading(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		b.broker.slow.Store(int64(testQueue.LockDuration + time.Second))
		p.credit(2, 0, 3, false)
		p.receive() // it was locked when it was read
		for range 2 {
			m := p.receive()
			if at, _ := m.annotations.Get(keyLockedUntil); !time.UnixMilli(int64(at.(amqp.Timestamp))).After(time.Now()) {
				t.Errorf("%v comes with a lock that has ended", m.properties.MessageID)
			}
		}
	})
}
