package servicebus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

func uuids(values ...amqp.UUID) amqp.Array {
	a := amqp.Array{Elem: amqp.CodeUUID}
	for _, v := range values {
		a.Values = append(a.Values, v)
	}
	return a
}

// lockLost is the whole text of 8.4, and what follows it.
const lockLost = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue. TrackingId:"

// WP-160, WP-162, WP-163, WP-164, SM-026, SM-027, SM-048.
func TestRenewLock(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(2)
		p.credit(2, 0, 2, false)
		first, second := uuidOf(p.receive().tag), uuidOf(p.receive().tag)
		time.Sleep(20 * time.Second)
		other := b.root()
		other.attachManagement("q")
		status, _, body := other.manage("com.microsoft:renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(second, first)}})
		v, _ := body.(amqp.Map).Get("expirations")
		times, ok := v.(amqp.Array)
		want := timestampOf(time.Now().Add(30 * time.Second))
		if status != 200 || !ok || len(times.Values) != 2 || times.Values[0] != want || times.Values[1] != want {
			t.Errorf("%d %+v; want status == 200 && ok && len(times.Values) == 2 && times.Values[0] == want && times.Values[1] == want", status, body)
		}
		status, properties, _ := other.manage("com.microsoft:renew-lock", amqp.Map{{Key: "lock-tokens", Value: amqp.List{amqp.UUID{}}}},
			amqp.Pair{Key: "com.microsoft:tracking-id", Value: "mine"})
		text, _ := properties.Get("statusDescription")
		condition, _ := properties.Get("errorCondition")
		tracking, _ := properties.Get("com.microsoft:tracking-id")
		if status != 410 || condition != amqp.CondMessageLockLost || !strings.HasPrefix(text.(string), lockLost) || tracking != "mine" {
			t.Errorf(`%d %+v; want status == 410 && condition == amqp.CondMessageLockLost && strings.HasPrefix(text.(string), lockLost) && tracking == "mine"`, status, properties)
		}
		time.Sleep(20 * time.Second)
		p.settle(0, amqp.StateAccepted, false) // alive through the renewal
		p.outcome(0, amqp.StateAccepted)
		for _, bad := range []amqp.Map{nil, {{Key: "lock-tokens", Value: "x"}}, {{Key: "lock-tokens", Value: amqp.List{}}}, {{Key: "lock-tokens", Value: amqp.List{"x"}}}} {
			if status, _, _ := other.manage("com.microsoft:renew-lock", bad); status != 400 {
				t.Errorf("%+v, want 400", status)
			}
		}
		for _, operation := range []string{"com.microsoft:update-rule", "com.microsoft:get-message-count", "renew-lock", "what", ""} {
			if status, properties, _ := other.manage(operation, amqp.Map{}); status != 501 {
				t.Errorf("%s: %+v; want status == 501", operation, properties)
			}
		}
	})
}

// WP-161, WP-165, WP-166, WP-167, WP-168, WP-183, WP-185.
func TestPeek(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(4)
		p.credit(2, 0, 2, false)
		p.receive()
		p.receive()
		p.settle(1, amqp.Modified{UndeliverableHere: true}, false)
		p.outcome(1, amqp.Modified{UndeliverableHere: true})
		p.attachManagement("q")
		peek := func(from, count any, more ...amqp.Pair) (int32, []openedMessage) {
			t.Helper()
			status, _, body := p.manage("com.microsoft:peek-message", append(amqp.Map{{Key: "from-sequence-number", Value: from}, {Key: "message-count", Value: count}}, more...))
			if body == nil {
				return status, nil
			}
			v, _ := body.(amqp.Map).Get("messages")
			var found []openedMessage
			for _, e := range v.(amqp.List) {
				raw, _ := e.(amqp.Map).Get("message")
				found = append(found, decodeMessage(t, raw.([]byte)))
			}
			return status, found
		}
		status, found := peek(int64(1), int32(10))
		if status != 200 || len(found) != 4 {
			t.Fatalf("%+v %+v; want status == 200 && len(found) == 4", status, len(found))
		}
		for i, m := range found {
			state, _ := m.annotations.Get(keyState)
			seq, _ := m.annotations.Get(keySequence)
			_, locked := m.annotations.Get(keyLockedUntil)
			if want := map[bool]int32{true: 1}[i == 1]; state != want || seq != int64(i+1) || locked {
				t.Errorf("%d: %+v; want state == want && seq == int64(i+1) && !locked", i, m.annotations)
			}
		}
		for _, from := range []any{int32(3), uint32(3), uint64(3), uint8(3), int8(3), int16(3), uint16(3)} {
			if status, found := peek(from, uint8(1)); status != 200 || len(found) != 1 || found[0].properties.MessageID != "2" {
				t.Errorf(`%T: %d %+v; want status == 200 && len(found) == 1 && found[0].properties.MessageID == "2"`, from, status, found)
			}
		}
		if _, found := peek(int64(0), int64(1), amqp.Pair{Key: "omit-message-body", Value: true}); found[0].body != "" || found[0].properties.MessageID != "0" {
			t.Errorf(`%+v; want found[0].body == "" && found[0].properties.MessageID == "0"`, found)
		}
		if status, found := peek(int64(99), int32(1)); status != 204 || found != nil {
			t.Errorf("%+v %+v; want status == 204 && found == nil", status, found)
		}
		if status, _ := peek(int64(1), int32(0)); status != 400 {
			t.Errorf("%+v, want 400", status)
		}
		if status, _ := peek(int64(1), int32(1), amqp.Pair{Key: "session-id", Value: "s"}); status != 204 {
			t.Errorf("%+v, want 204", status)
		}
		if status, _ := peek(int64(1), int32(1), amqp.Pair{Key: "session-id", Value: int32(1)}); status != 400 {
			t.Errorf("%+v, want 400", status)
		}
	})
}

// WP-174, WP-175, WP-185, SM-036, SM-049: settling by token alone, in the main queue and the
// dead-letter queue.
func TestUpdateDisposition(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(4)
		p.credit(2, 0, 4, false)
		var tokens []amqp.UUID
		for range 4 {
			tokens = append(tokens, uuidOf(p.receive().tag))
		}
		m := b.root()
		m.attachManagement("q")
		update := func(status string, lock []amqp.UUID, more ...amqp.Pair) int32 {
			t.Helper()
			code, _, _ := m.manage("com.microsoft:update-disposition", append(amqp.Map{{Key: "disposition-status", Value: status}, {Key: "lock-tokens", Value: uuids(lock...)}}, more...))
			return code
		}
		if code := update("completed", []amqp.UUID{tokens[0], {9}}); code != 410 {
			t.Errorf("%+v, want 410", code)
		}
		if code := update("completed", tokens[:1]); code != 200 { // none was applied above
			t.Errorf("%+v, want 200", code)
		}
		if code := update("suspended", tokens[1:2], amqp.Pair{Key: "deadletter-reason", Value: "r"}, amqp.Pair{Key: "deadletter-description", Value: nil},
			amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: int64(1)}}}); code != 200 {
			t.Errorf("%+v, want 200", code)
		}
		if code := update("defered", tokens[2:3]); code != 200 {
			t.Errorf("%+v, want 200", code)
		}
		if code := update("abandoned", tokens[3:4], amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: "v"}}}); code != 200 {
			t.Errorf("%+v, want 200", code)
		}
		if code := update("lost", tokens[3:4]); code != 400 {
			t.Errorf("%+v, want 400", code)
		}
		if code := update("completed", tokens[3:4]); code != 410 {
			t.Errorf("%+v, want 410", code)
		}
		p.credit(2, 4, 10, false)
		if d := p.receive(); d.header.DeliveryCount.Value != 1 || d.properties.MessageID != "3" {
			t.Errorf(`%+v; want d.header.DeliveryCount.Value == 1 && d.properties.MessageID == "3"`, d)
		}
		dead := b.root()
		dead.attachManagement("q/$DeadLetterQueue")
		dead.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
		dead.credit(3, 0, 1, false)
		d := dead.receive()
		if r, _ := d.application.Get("DeadLetterReason"); r != "r" || len(d.application) != 2 {
			t.Errorf(`%+v; want r == "r" && len(d.application) == 2`, d.application)
		}
		token := uuids(uuidOf(d.tag))
		dead.disposed(400, amqp.CondNotAllowed, "suspended", []amqp.UUID{uuidOf(d.tag)})
		dead.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: token}})
		dead.disposed(200, "", "completed", []amqp.UUID{uuidOf(d.tag)})
		dead.managedWith(410, amqp.CondMessageLockLost, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: token}})
		if left := dead.peekAll(); left != nil {
			t.Errorf("%+v, want nil", left)
		}
	})
}

// reliability.md S10: the right is checked for each request; 1.1: an unknown outcome is not
// answered.
func TestManagementRefusals(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.login("send", "send-key")
		p.attachManagement("q")
		status, properties, _ := p.manage("com.microsoft:peek-message", amqp.Map{})
		if c, _ := properties.Get("errorCondition"); status != 401 || c != amqp.CondUnauthorizedAccess {
			t.Errorf("%+v; want status == 401 && c == amqp.CondUnauthorizedAccess", properties)
		}
		p = b.root()
		p.attachManagement("q")
		b.broker.refuse(func(engine.Command) error { return engine.ErrUnknown })
		m := amqp.AppendSection(nil, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: "com.microsoft:renew-lock"}})
		m = amqp.AppendSection(m, amqp.SectionValue, amqp.Map{{Key: "lock-tokens", Value: uuids(amqp.UUID{})}})
		p.write(0, &amqp.Transfer{Handle: 200, DeliveryID: amqp.Some(uint32(0)), Settled: amqp.Some(true)}, m)
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondDetachForced {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondDetachForced", d)
		}
	})
}

// 6.3, reliability.md S10: the right that each operation needs.
func TestOperationRights(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		send, listen := b.login("send", "send-key"), b.login("listen", "listen-key")
		rules, root := b.login("listen", "listen-key"), b.root()
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		for _, p := range []*peerConn{send, listen, rules, root} {
			p.attachManagement(map[bool]string{true: "t/Subscriptions/u", false: "q"}[p == rules || p == root])
		}
		for name, op := range operations {
			with, without := listen, send
			switch op.right {
			case access.Send:
				with, without = send, listen
			case access.Manage:
				with, without = root, rules
			}
			without.managedWith(401, amqp.CondUnauthorizedAccess, name, amqp.Map{})
			if status, _, _ := with.manage(operationPrefix+name, amqp.Map{}); status == 401 || status == 501 {
				t.Errorf("%s: %d; want status != 401 && status != 501", name, status)
			}
			if (op.about == ofSent) != (op.right == access.Send) || (op.about == ofRules) != (op.right == access.Manage) {
				t.Errorf("%s: %v; want (op.about == ofSent) == (op.right == access.Send) && (op.about == ofRules) == (op.right == access.Manage)", name, op.right)
			}
		}
	})
}

// A delivery that is settled by its token no longer counts as unsettled on its link.
func TestSettledElsewhere(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Locked = 2; o.Limits.ReceiverCredit = 2 }, func(b *bench) {
		p := b.loaded(4)
		p.credit(2, 0, 5, false)
		first, second := p.receive(), p.receive()
		p.quiet(time.Second)
		p.attachManagement("q")
		p.request("m", "com.microsoft:update-disposition", amqp.Map{{Key: "disposition-status", Value: "completed"},
			{Key: "lock-tokens", Value: uuids(uuidOf(first.tag), uuidOf(second.tag))}})
		got := map[any]int{}
		for range 3 { // the answer and two deliveries in its place
			_, b := expectFrame[*amqp.Transfer](p)
			s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			properties, _ := amqp.DecodeProperties(s.Properties.Of(b))
			got[properties.MessageID]++
		}
		if got["2"] != 1 || got["3"] != 1 || got[nil] != 1 {
			t.Errorf(`%v; want got["2"] == 1 && got["3"] == 1 && got[nil] == 1`, got)
		}
		p.settle(first.id, amqp.StateAccepted, false) // SM-031
		p.outcomeLost(first.id)
	})
}

// WP-175: settling by a token whose lock has ended, or by an unknown one.
func TestUpdateDispositionLost(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(1)
		p.credit(2, 0, 1, false)
		m := p.receive()
		p.attachManagement("q")
		time.Sleep(30 * time.Second)
		for _, token := range []amqp.UUID{uuidOf(m.tag), {}} {
			p.managedWith(410, amqp.CondMessageLockLost, "update-disposition", amqp.Map{{Key: "disposition-status", Value: "completed"}, {Key: "lock-tokens", Value: uuids(token)}})
		}
	})
}

// WP-044: two connections send requests at once, with the same message-id and the same reply-to,
// and each gets only its own answer: from a management node and from $cbs.
func TestTwoConnections(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q2", newMessage("a", "x"))
		first, second := b.dial().open(), b.dial().open()
		put := func(p *peerConn, id, key string) {
			p.tokenRequest("servicebus.windows.net:sastoken", "sb://ns", token("sb://ns", "root", key, time.Hour), id)
		}
		for i, p := range []*peerConn{first, second} {
			p.attachTokens()
			p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "login"), 202, "")
			p.attachManagement([]string{"q", "q2"}[i])
		}
		const peek = operationPrefix + "peek-message"
		body := amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}}
		for i := range 3 {
			first.request(fmt.Sprint(i), peek, body)
			second.request(fmt.Sprint(i), peek, body)
			for p, want := range map[*peerConn]int32{first: 204, second: 200} {
				if status, _, _ := p.managed(fmt.Sprint(i)); status != want {
					t.Errorf("%d instead of %d", status, want)
				}
			}
			put(first, fmt.Sprint(i), "root-key")
			put(second, fmt.Sprint(i), "wrong")
			first.tokenAnswer(first.reply(fmt.Sprint(i)), 202, "Accepted")
			second.tokenAnswer(second.reply(fmt.Sprint(i)), 401, "InvalidSignature")
			first.noAnswer(second)
		}
	})
}

// noAnswer wants silence on both connections, flows apart.
func (p *peerConn) noAnswer(other *peerConn) {
	p.Helper()
	synctest.Wait()
	for _, c := range []*peerConn{p, other} {
		for len(c.in) > 0 {
			if r := c.next(); r.err != nil || reflect.TypeOf(r.p) != reflect.TypeFor[*amqp.Flow]() {
				p.Fatalf("unexpected: %T %+v %v", r.p, r.p, r.err)
			}
		}
	}
}
