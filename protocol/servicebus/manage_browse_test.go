package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-165, WP-167, SM-095, SM-127, SM-142, SM-146: all states, without bodies, and the limits of a
// reply.
func TestPeekStates(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		p.deferAll(1)
		p.credit(2, 1, 1, false)
		p.receive()
		b.put("q", scheduled("later", time.Now().Add(time.Hour)))
		p.attachManagement("q")
		for _, omit := range []any{nil, false, true} {
			peeked := p.peekAll(amqp.Pair{Key: "omit-message-body", Value: omit})
			for i, want := range []int32{1, 0, 0, 2} {
				state, _ := peeked[i].annotations.Get(keyState)
				seq, _ := peeked[i].annotations.Get(keySequence)
				_, locked := peeked[i].annotations.Get(keyLockedUntil)
				if state != want || seq != int64(i+1) || locked || (peeked[i].body == "") != (omit == true) {
					t.Errorf(`%d: %+v; want state == want && seq == int64(i+1) && !locked && (peeked[i].body == "") == (omit == true)`, i, peeked[i])
				}
			}
		}
	})
}

// SM-142: an answer holds as many messages as a message of the entity may have bytes, or as the
// peer's link takes; the first one in any case.
func TestPeekSize(t *testing.T) {
	for _, test := range []struct {
		limit uint64
		want  string
	}{{0, "[0 1]"}, {210_000, "[0 1]"}, {201_000, "[0]"}, {1000, "[0]"}} {
		bubble(t, nil, func(b *bench) {
			body := string(make([]byte, 100_000))
			b.put("q", newMessage("0", body), newMessage("1", body), newMessage("2", body))
			p := b.root()
			p.attachSender(200, "q/$management")
			p.write(0, &amqp.Attach{Name: "r201", Handle: 201, Role: amqp.RoleReceiver, SenderSettleMode: amqp.Some(amqp.SenderSettled),
				MaxMessageSize: amqp.Some(test.limit), Source: &amqp.Source{Address: "q/$management"}, Target: &amqp.Target{Address: "reply201"}}, nil)
			expect[*amqp.Attach](p)
			p.credit(201, 0, 10, false)
			if got := p.peekIDs(); fmt.Sprint(got) != test.want {
				t.Errorf("%d: %v; want fmt.Sprint(got) == test.want", test.limit, got)
			}
		})
	}
}

// WP-182, SM-148, SM-149, SM-150: active messages before a time, oldest first.
func TestBatchDelete(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(4)
		p.deferAll(1)
		p.credit(2, 1, 1, false)
		p.receive()
		b.put("q", scheduled("later", time.Now().Add(time.Hour)))
		time.Sleep(time.Second)
		cut := timestampOf(time.Now())
		b.put("q", newMessage("new", "x"), inSession("a", "session", "x"))
		p.attachManagement("q")
		remove := func(n any, more ...amqp.Pair) any {
			t.Helper()
			status, _, answer := p.manage("com.microsoft:batch-delete-messages", append(amqp.Map{{Key: "message-count", Value: n}}, more...))
			if status == 204 && answer == nil {
				return int32(0)
			}
			count, _ := answer.(amqp.Map).Get("message-count")
			return count
		}
		before := amqp.Pair{Key: "enqueued-time-utc", Value: cut}
		for _, want := range []int32{1, 1, 0} {
			if n := remove(int32(1), before); n != want {
				t.Errorf("%v, not %d", n, want)
			}
		}
		if n := remove(int32(5), amqp.Pair{Key: "enqueued-time-utc", Value: amqp.Timestamp(0)}); n != int32(0) {
			t.Errorf("%+v, want %+v", n, int32(0))
		}
		time.Sleep(time.Second)
		// messages of a plain queue are in no session
		if n := remove(int64(1<<40), amqp.Pair{Key: "session-id", Value: "a"}); n != int32(0) {
			t.Errorf("%+v, want %+v", n, int32(0))
		}
		if n := remove(uint32(500), amqp.Pair{Key: "enqueued-time-utc", Value: amqp.Timestamp(253402300800000)}); n != int32(2) {
			t.Errorf("%+v, want %+v", n, int32(2))
		}
		if got := p.peekIDs(); fmt.Sprint(got) != "[0 1 later]" {
			t.Errorf(`%+v; want fmt.Sprint(got) == "[0 1 later]"`, got)
		}
		for _, bad := range []amqp.Map{nil, {{Key: "message-count", Value: int32(0)}}, {{Key: "message-count", Value: int32(1)}, {Key: "enqueued-time-utc", Value: "now"}}} {
			p.managedWith(400, amqp.CondArgumentError, "batch-delete-messages", bad)
		}
	})
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a", "1", "x"), inSession("b", "2", "x"))
		time.Sleep(time.Second)
		p.attachManagement("s")
		p.managedWith(200, "", "batch-delete-messages", amqp.Map{{Key: "message-count", Value: int32(9)}, {Key: "session-id", Value: "a"}})
		if got := p.peekIDs(); fmt.Sprint(got) != "[2]" {
			t.Errorf(`%+v; want fmt.Sprint(got) == "[2]"`, got)
		}
	})
}

// P23: answers that a client has no credit for are bounded in bytes; what comes then is refused
// until it takes them.
func TestAnswersWithoutCredit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.BufferedOut = 64 << 10 }, func(b *bench) {
		b.put("q", newMessage("large", strings.Repeat("x", 100<<10)))
		p := b.root()
		p.attachSender(200, "q/$management")
		p.attachReceiver(201, "q/$management", amqp.SenderSettled)
		peek := amqp.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(1)}}
		for i := range 5 { // without credit for an answer
			p.request(fmt.Sprint(i), "com.microsoft:peek-message", peek)
			synctest.Wait()
		}
		p.credit(201, 0, 100, false)
		for i := range 5 {
			want := int32(503)
			if i == 0 {
				want = 200
			}
			if status, _, _ := p.managed(fmt.Sprint(i)); status != want {
				t.Errorf("request %d: status %d, want %d", i, status, want)
			}
		}
		p.request("again", "com.microsoft:peek-message", peek)
		if status, _, _ := p.managed("again"); status != 200 {
			t.Errorf("status %d after the answers were taken", status)
		}
	})
}

// P23: that holds for enumerations of sessions as well, including those requested before the first
// answer.
func TestSessionsWithoutCredit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.BufferedOut = 40 << 10 }, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		for i := range 400 {
			b.put("s", inSession(fmt.Sprintf("%0120d", i), fmt.Sprint(i), "x"))
		}
		p := b.root()
		p.attachSender(200, "s/$management")
		p.attachReceiver(201, "s/$management", amqp.SenderSettled)
		for i := range 5 {
			p.request(fmt.Sprint(i), "com.microsoft:get-message-sessions", amqp.Map{{Key: "last-updated-time", Value: amqp.Timestamp(event.EndOfTime)},
				{Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(400)}})
		}
		synctest.Wait()
		p.credit(201, 0, 100, false)
		for i := range 5 {
			want := int32(503)
			if i == 0 {
				want = 200
			}
			if status, _, _ := p.managed(fmt.Sprint(i)); status != want {
				t.Errorf("request %d: status %d, want %d", i, status, want)
			}
		}
	})
}

// SM-405: forwarded messages cannot be browsed in the forwarding entity, by a request or by a
// browsing link; messages in a sub-queue can.
func TestDotnetPeekWhereMessagesAreForwarded(t *testing.T) {
	const refusal = "Cannot create a message browser on an entity with auto-forwarding enabled. TrackingId:"
	bubble(t, nil, func(b *bench) {
		b.queue("a", nil)
		b.topic("t", nil)
		b.subscription("t", "u", func(p *event.Properties) { p.ForwardTo = "q" })
		b.put("a", scheduled("later", time.Now().Add(time.Hour)))
		// links to $management outlive an update
		for _, p := range []*peerConn{b.node("a"), b.node("t/Subscriptions/u")} {
			b.queue("a", func(p *event.Properties) { p.ForwardTo, p.ForwardDeadLetteredMessagesTo = "q", "q" })
			synctest.Wait() // the connection hears of it a little later
			status, properties, _ := p.manage("com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}})
			condition, _ := properties.Get("errorCondition")
			text, _ := properties.Get("statusDescription")
			if status != 400 || condition != amqp.CondNotAllowed || !strings.HasPrefix(fmt.Sprint(text), refusal) {
				t.Errorf("peek: %d %+v", status, properties)
			}
		}
		p := b.root()
		// SM-268
		for address, allowed := range map[string]bool{"a": false, "a/$DeadLetterQueue": true} {
			a := p.receiverOf(&amqp.Source{Address: address, DistributionMode: "copy"}, nil, amqp.Some(amqp.SenderSettled))
			if (a.Source != nil) != allowed {
				t.Errorf("a browser of %s: %+v", address, a)
			}
			if !allowed {
				if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondNotAllowed || !strings.HasPrefix(d.Error.Description, refusal) {
					t.Errorf("a browser of %s: %+v", address, d.Error)
				}
			}
			p.write(0, &amqp.Detach{Handle: 2, Closed: true}, nil)
			if allowed {
				expect[*amqp.Detach](p)
			}
		}
		if got := b.held("a/$DeadLetterQueue"); got != "" {
			t.Errorf("peeked %s", got)
		}
		b.queue("a", nil)
		if got := b.held("a"); got != "later" {
			t.Errorf("peeked %s", got)
		}
	})
}
