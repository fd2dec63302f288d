package servicebus

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// topics runs a test with a topic "t" and its subscription "u".
func topics(t *testing.T, test func(b *bench)) {
	t.Helper()
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		test(b)
	})
}

// node is a connection with the management node of an entity.
func (b *bench) node(entity string) *peerConn {
	b.Helper()
	p := b.root()
	p.attachManagement(entity)
	return p
}

// held is the ids of the messages of an entity, in order.
func (b *bench) held(entity string) string {
	b.Helper()
	return strings.Trim(fmt.Sprint(b.node(entity).peekIDs()), "[]")
}

// sqlRule is a rule with an SQL filter, and an action where that is not "".
func sqlRule(name, filter, action string) event.Rule {
	return event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: filter}, Action: event.Action{Text: action}}
}

// with makes an encoded message with application properties.
func with(id any, properties ...amqp.Pair) []byte {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, Subject: amqp.Some("label")})
	if len(properties) > 0 {
		m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map(properties))
	}
	return amqp.AppendData(m, []byte("body"))
}

// refusedSender wants the attach of a sender refused.
func (p *peerConn) refusedSender(handle uint32, address string, symbol amqp.Symbol, text string) {
	p.Helper()
	if a := p.attachSender(handle, address); a.Source != nil || a.Target != nil {
		p.Fatalf("%+v; want a.Source == nil && a.Target == nil", a)
	}
	d := expect[*amqp.Detach](p)
	if d.Handle != handle || !d.Closed || d.Error.Condition != symbol || !strings.HasPrefix(d.Error.Description, text) {
		p.Fatalf("%+v; want d.Handle == handle && d.Closed && d.Error.Condition == symbol && strings.HasPrefix(d.Error.Description, text)", d)
	}
	p.tracked(d.Error.Description)
	p.write(0, &amqp.Detach{Handle: handle, Closed: true}, nil)
}

// WP-031, WP-032, WP-033, WP-034, WP-035: the spellings of the addresses of topics and
// subscriptions, echoed as they came.
func TestTopicAddresses(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("a/T", nil)
		b.subscription("a/T", "Sub", nil)
		p := b.root()
		for i, address := range []string{"a/T", "/A/t", "amqps://any:1/a/t", "sb://h/a/T/", "a%2Ft"} {
			if a := p.attachSender(uint32(i), address); a.Target == nil || a.Target.(*amqp.Target).Address != address {
				t.Errorf("%s: %+v; want a.Target != nil && a.Target.(*amqp.Target).Address == address", address, a)
			}
		}
		for i, address := range []string{
			"a/T/Subscriptions/Sub", "a/t/subscriptions/sub", "/A/T/SUBSCRIPTIONS/SUB", "amqps://h/a/t/Subscriptions/sub", "a%2Ft/Subscriptions/S%75b",
			"a/T/Subscriptions/Sub/$DeadLetterQueue", "a/t/subscriptions/sub/$deadletterqueue", "a/t/subscriptions/sub/$Transfer/$DeadLetterQueue",
			"a/T/$management", "a/t/subscriptions/sub/$management", "a/t/subscriptions/sub/$DeadLetterQueue/$management",
		} {
			if a := p.attachReceiver(uint32(100+i), address, amqp.SenderUnsettled); a.Source == nil || a.Source.Address != address {
				t.Errorf("%s: %+v; want a.Source != nil && a.Source.Address == address", address, a)
			}
		}
		for i, address := range []string{"a/T/Subscriptions/other", "a/T/Subscriptions", "Subscriptions/Sub", "t", "a/T/Sub"} {
			p.attachReceiver(uint32(200+i), address, amqp.SenderUnsettled)
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondNotFound || !strings.HasPrefix(d.Error.Description, "The messaging entity 'sb://ns/"+address) {
				t.Errorf(`%s: %+v; want d.Error.Condition == amqp.CondNotFound && strings.HasPrefix(d.Error.Description, "The messaging entity 'sb://ns/"+address)`, address, d)
			}
		}
	})
}

// SM-043 and 8.3: reasons to refuse a link to a topic or subscription, and their order.
func TestTopicLinksRefused(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Links = 3 }, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		b.subscription("t", "s", func(p *event.Properties) { p.RequiresSession = true })
		p := b.root()
		receiver := func(handle uint32, address string) {
			p.write(0, &amqp.Attach{Name: fmt.Sprint("r", handle), Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: address}}, nil)
		}
		p.wantSession(1, "t", "a")
		p.refused(1, amqp.CondNotAllowed, "Messages cannot be received from a topic")
		receiver(1, "t/$DeadLetterQueue")
		p.refused(1, amqp.CondNotAllowed, "Messages cannot be received from a topic")
		p.wantSession(1, "t/$Transfer/$DeadLetterQueue", "a")
		p.refused(1, amqp.CondNotAllowed, "Cannot create a MessageSession for a sub-queue.")
		p.refusedSender(1, "t/$Transfer/$DeadLetterQueue", amqp.CondNotAllowed, "Messages cannot be sent to a sub-queue")
		p.refusedSender(1, "t/Subscriptions/u", amqp.CondNotAllowed, "Messages cannot be sent to a subscription")
		p.refusedSender(1, "t/Subscriptions/u/$DeadLetterQueue", amqp.CondNotAllowed, "Messages cannot be sent to a sub-queue")
		receiver(1, "t/Subscriptions/s")
		p.refused(1, amqp.CondNotAllowed, sessionText)
		p.wantSession(1, "t/Subscriptions/u", "a")
		p.refused(1, amqp.CondNotAllowed, noSessionsText)
		for handle := range uint32(3) {
			p.attachSender(10+handle, "t")
		}
		receiver(1, "t/Subscriptions/s")
		p.refused(1, amqp.CondNotAllowed, sessionText) // 4 before 6
		receiver(1, "t")
		p.refused(1, amqp.CondResourceLimit, "There are too many links.") // 6 before 7
		p.refusedSender(1, "t/Subscriptions/u", amqp.CondResourceLimit, "There are too many links.")
		b.subscription("t", "s", func(p *event.Properties) { p.RequiresSession, p.Status = true, event.ReceiveDisabled })
		receiver(1, "t/Subscriptions/s")
		// 3 before 4
		p.refused(1, amqp.CondEntityDisabled, "The messaging entity is currently disabled.")
		listen, send := b.login("listen", "listen-key"), b.login("send", "send-key")
		listen.refusedSender(1, "t", amqp.CondUnauthorizedAccess, "Unauthorized access. 'Send' claim(s) are required to perform this operation. Resource: 'sb://ns/t'.")
		// 1 before 2
		listen.refusedSender(1, "nothing", amqp.CondUnauthorizedAccess, "Unauthorized access.")
		send.wantSession(1, "t/Subscriptions/U", "a")
		send.refused(1, amqp.CondUnauthorizedAccess, "Unauthorized access. 'Listen' claim(s) are required to perform this operation. Resource: 'sb://ns/t/subscriptions/u'.")
	})
}

// A topic has a transfer dead-letter queue, with its own receivers and management node.
func TestTopicTransferDeadLetters(t *testing.T) {
	topics(t, func(b *bench) {
		const path = "T/$transfer/$DeadLetterQueue"
		if a := b.root().attachReceiver(1, path, amqp.SenderUnsettled); a.Source == nil {
			t.Errorf("%+v; want a.Source != nil", a)
		}
		node := b.node(path)
		node.managedWith(204, "", "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(5)}})
		node.managedWith(410, amqp.CondMessageLockLost, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}})
	})
}

// 2.4, WP-053: a claim for a topic covers its subscriptions, and one for a subscription nothing
// else.
func TestTopicClaims(t *testing.T) {
	topics(t, func(b *bench) {
		b.subscription("t", "u2", nil)
		p := b.dial().open()
		p.putToken("sb://ns/t/Subscriptions/u", token("sb://ns/t/Subscriptions/u", "root", "root-key", time.Hour), "1")
		if a := p.attachReceiver(1, "t/Subscriptions/u/$DeadLetterQueue", amqp.SenderUnsettled); a.Source == nil {
			t.Errorf("%+v; want a.Source != nil", a)
		}
		for _, address := range []string{"t/Subscriptions/u2", "t/$management"} {
			p.write(0, &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: address}}, nil)
			p.refused(2, amqp.CondUnauthorizedAccess, "Unauthorized access.")
		}
		p.putToken("sb://ns/t", token("sb://ns/t", "listen", "listen-key", time.Hour), "2")
		if a := p.attachReceiver(2, "T/subscriptions/U2", amqp.SenderUnsettled); a.Source == nil {
			t.Errorf("%+v; want a.Source != nil", a)
		}
	})
}

// SM-019, SM-280, SM-284, WP-185: every subscription has its own copy, with its own number and that
// of the topic; each is settled separately, in any way.
func TestTopicCopies(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.put("t", newMessage("nobody's", "x"))
		b.subscription("t", "u", nil)
		b.put("t", newMessage("1", "one"))
		b.subscription("t", "u2", nil)
		b.put("t", newMessage("2", "two"), newMessage(nil, "three"))
		p := b.root()
		p.attachReceiver(2, "t/Subscriptions/u", amqp.SenderUnsettled)
		p.attachReceiver(3, "t/Subscriptions/u2", amqp.SenderSettled)
		p.credit(2, 0, 3, false)
		for i, body := range []string{"one", "two", "three"} {
			m := p.receive()
			number, _ := m.annotations.Get(keySequence)
			from, _ := m.annotations.Get(keyEnqueueSequence)
			if m.body != body || number != int64(i+1) || from != int64(i+2) || m.properties.MessageID == nil || m.settled {
				t.Errorf("%+v; want m.body == body && number == int64(i+1) && from == int64(i+2) && m.properties.MessageID != nil && !m.settled", m)
			}
			p.settle(m.id, []amqp.DeliveryState{amqp.StateAccepted, amqp.Rejected{}, amqp.Modified{UndeliverableHere: true}}[i], true)
		}
		p.credit(3, 0, 1, false)
		if m := p.receive(); m.body != "two" || !m.settled {
			t.Errorf(`%+v; want m.body == "two" && m.settled`, m)
		}
		if got := b.held("t/Subscriptions/u/$DeadLetterQueue"); got != "2" {
			t.Errorf(`%+v, want "2"`, got)
		}
		peeked := b.node("t/Subscriptions/u2").peekAll()
		from, _ := peeked[0].annotations.Get(keyEnqueueSequence)
		if len(peeked) != 1 || peeked[0].body != "three" || from != int64(4) {
			t.Errorf(`%+v; want len(peeked) == 1 && peeked[0].body == "three" && from == int64(4)`, peeked)
		}
		deferred := b.node("t/Subscriptions/u")
		answer := deferred.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), int64(3)))
		from, _ = openedMessages(t, answer)[0].annotations.Get(keyEnqueueSequence)
		if from != int64(4) {
			t.Errorf("%+v; want from == int64(4)", answer)
		}
	})
}

// WP-078, WP-079, SM-282: a batch to a topic, all or nothing; presettled sends.
func TestTopicBatch(t *testing.T) {
	topics(t, func(b *bench) {
		b.subscription("t", "red", nil, sqlRule("a", "color = 'red'", ""), sqlRule("b", "sys.Label = 'label'", ""))
		p := b.root()
		p.attachSender(1, "t")
		batch := func(id uint32, settled bool, messages ...[]byte) {
			var body []byte
			for _, m := range messages {
				body = amqp.AppendData(body, m)
			}
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(id), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch), Settled: amqp.Some(settled)}, body)
		}
		red := amqp.Pair{Key: "Color", Value: "red"}
		batch(0, false, with("1", red), newMessage("2", "x"), with("3", amqp.Pair{Key: "color", Value: "blue"}))
		if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
			t.Errorf("%+v; want d.State == amqp.StateAccepted", d)
		}
		batch(1, false, with("4", red), []byte("no message"))
		p.rejected(1, amqp.CondDecodeError)
		batch(2, true, with("5", red))
		batch(3, false)
		if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
			t.Errorf("%+v; want d.State == amqp.StateAccepted", d)
		}
		if got := b.held("t/Subscriptions/u"); got != "1 2 3 5" {
			t.Errorf(`%+v, want "1 2 3 5"`, got)
		}
		if got := b.held("t/Subscriptions/red"); got != "1 3 5" {
			t.Errorf(`%+v, want "1 3 5"`, got)
		}
	})
}

// SM-309, semantics.md 16.1: a disabled subscription continues to collect; messages that a disabled
// topic has distributed can be received.
func TestTopicStatus(t *testing.T) {
	topics(t, func(b *bench) {
		status := func(s event.Status) func(*event.Properties) { return func(p *event.Properties) { p.Status = s } }
		for i, s := range []event.Status{event.Disabled, event.ReceiveDisabled} {
			b.subscription("t", "u", status(s))
			b.put("t", newMessage(fmt.Sprint(i), "x"))
			p := b.root()
			p.write(0, &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "t/Subscriptions/u"}}, nil)
			p.refused(2, amqp.CondEntityDisabled, "The messaging entity is currently disabled.")
		}
		b.subscription("t", "u", nil)
		for _, s := range []event.Status{event.Disabled, event.SendDisabled} {
			b.topic("t", status(s))
			b.root().refusedSender(1, "t", amqp.CondEntityDisabled, "The messaging entity is currently disabled.")
			if got := b.held("t/Subscriptions/u"); got != "0 1" {
				t.Errorf(`%+v, want "0 1"`, got)
			}
		}
		p := b.root()
		p.attachReceiver(2, "t/Subscriptions/u", amqp.SenderUnsettled)
		p.credit(2, 0, 2, false)
		if m := p.receive(); m.properties.MessageID != "0" {
			t.Errorf(`%+v; want m.properties.MessageID == "0"`, m)
		}
		b.topic("t", status(event.ReceiveDisabled)) // of a topic it says nothing
		b.put("t", newMessage("2", "x"))
	})
}

// SM-043, SM-409, WP-240: a peek on a topic shows its scheduled messages, even after a receiver of
// the topic was attached, which some SDKs do first. The receiver gets nothing: it is detached as
// soon as it gives credit, and no answer is sent to it.
func TestTopicPeek(t *testing.T) {
	for name, partitioned := range map[string]bool{"plain": false, "partitioned": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.topic("t", func(p *event.Properties) { p.EnablePartitioning = partitioned })
				b.subscription("t", "u", nil)
				p := b.node("t")
				later := time.Now().Add(time.Hour)
				b.put("t", scheduled("one", later), scheduled("two", later), newMessage("now", "x"))
				receiver := &amqp.Attach{Name: "reply201", Handle: 5, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "t"}, Target: &amqp.Target{Address: "reply201"}}
				attached := func() {
					t.Helper()
					p.write(0, receiver, nil)
					if a := expect[*amqp.Attach](p); a.Source == nil || a.Source.Address != "t" {
						t.Fatalf("%+v; want a.Source.Address == \"t\"", a)
					}
				}
				attached()
				p.credit(5, 0, 0, false)
				shown := map[any]any{}
				for _, m := range p.peekAll() {
					shown[m.properties.MessageID], _ = m.annotations.Get(keyState)
				}
				if want := (map[any]any{"one": int32(2), "two": int32(2)}); !cmp.Equal(shown, want) {
					t.Errorf("%v (-want +got):\n%s", shown, cmp.Diff(want, shown))
				}
				for _, drain := range []bool{false, true} {
					p.credit(5, 0, 1, drain)
					d := expect[*amqp.Detach](p)
					if d.Handle != 5 || !d.Closed || d.Error == nil || d.Error.Condition != amqp.CondNotAllowed || !strings.HasPrefix(d.Error.Description, fromTopicText) {
						t.Fatalf("%+v %v; want handle 5 refused", d, d.Error)
					}
					p.tracked(d.Error.Description)
					p.write(0, &amqp.Detach{Handle: 5, Closed: true}, nil)
					attached()
				}
				p.detach(5)
				if got := len(p.peekAll()); got != 2 {
					t.Errorf("%d messages afterwards", got)
				}
			})
		})
	}
}

// SM-095, SM-292, WP-169: scheduled messages are the topic's until they are due; the rules of then
// decide.
func TestTopicSchedule(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t")
		rules := b.node("t/Subscriptions/u")
		later := time.Now().Add(30 * time.Second)
		one := append(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyScheduled), Value: timestampOf(later)}}),
			with("one", amqp.Pair{Key: "n", Value: int32(1)})...)
		answer := p.managedWith(200, "", "schedule-message", scheduleBody(one, scheduled("two", later), scheduled(nil, later)))
		if want := numbers(int64(1), int64(2), int64(3)); !cmp.Equal(answer, want) {
			t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(want, answer))
		}
		// its time is not in the future
		answer = p.managedWith(200, "", "schedule-message", scheduleBody(newMessage("now", "x")))
		if want := numbers(int64(4)); !cmp.Equal(answer, want) {
			t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(want, answer))
		}
		b.put("t", scheduled("sent", later)) // WP-170
		p.managedWith(404, amqp.CondMessageNotFound, "cancel-scheduled-message", numbers(int64(3), int64(4)))
		p.managedWith(200, "", "cancel-scheduled-message", numbers(int64(3)))
		if got := b.held("t/Subscriptions/u"); got != "now" {
			t.Errorf(`%+v, want "now"`, got)
		}
		rules.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "$Default"}})
		rules.managedWith(200, "", "add-rule", ruleBody("r", amqp.Map{{Key: "sql-filter", Value: expression("n = 1 OR sys.MessageId = 'sent'")}}))
		time.Sleep(31 * time.Second)
		if got := b.held("t/Subscriptions/u"); got != "now one sent" {
			t.Errorf(`%+v, want "now one sent"`, got)
		}
		m := b.node("t/Subscriptions/u").peekAll()[1]
		at, _ := m.annotations.Get(keyEnqueuedTime)
		from, _ := m.annotations.Get(keyEnqueueSequence)
		if at != timestampOf(later) || from != int64(6) {
			t.Errorf("%+v; want at == timestampOf(later) && from == int64(6)", m.annotations)
		}
	})
}

// 6.3, 14.2: operations that the management nodes of topics and subscriptions do not have.
func TestTopicOperationsRefused(t *testing.T) {
	topics(t, func(b *bench) {
		topic, subscription, dead, queue := b.node("t"), b.node("t/Subscriptions/u"), b.node("t/Subscriptions/u/$DeadLetterQueue"), b.node("q")
		for name, op := range operations {
			for _, test := range []struct {
				p    *peerConn
				lies bool
				text string
			}{
				{topic, op.about == ofReceived, fromTopicText}, {subscription, op.about == ofSent, toSubscriptionText}, {dead, op.about == ofSent, toSubscriptionText},
				{topic, op.about == ofRules, noRulesText}, {dead, op.about == ofRules, noRulesText}, {queue, op.about == ofRules, noRulesText},
			} {
				if !test.lies {
					continue
				}
				status, properties, _ := test.p.manage(operationPrefix+name, amqp.Map{})
				condition, _ := properties.Get("errorCondition")
				text, _ := properties.Get("statusDescription")
				if status != 400 || condition != amqp.CondNotAllowed || !strings.HasPrefix(fmt.Sprint(text), test.text) {
					t.Errorf("%s: %+v; want status == 400 && condition == amqp.CondNotAllowed && strings.HasPrefix(fmt.Sprint(text), test.text)", name, properties)
				}
			}
		}
	})
}

// SM-160, SM-164: the duplicate history is the topic's.
func TestTopicDuplicates(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", func(p *event.Properties) {
			p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Minute
		})
		b.subscription("t", "u", nil)
		b.put("t", newMessage("a", "x"), newMessage("a", "y"), newMessage("b", "x"))
		p := b.node("t")
		answer := p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("b", time.Now().Add(time.Hour))))
		if want := numbers(int64(0)); !cmp.Equal(answer, want) {
			t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(want, answer))
		}
		b.subscription("t", "later", nil)
		b.put("t", newMessage("b", "z"))
		if one, two := b.held("t/Subscriptions/u"), b.held("t/Subscriptions/later"); one != "a b" || two != "" {
			t.Errorf(`%+v %+v; want one == "a b" && two == ""`, one, two)
		}
		time.Sleep(time.Minute)
		b.put("t", newMessage("b", "z"))
		if got := b.held("t/Subscriptions/later"); got != "b" {
			t.Errorf(`%+v, want "b"`, got)
		}
	})
}

// WP-086, SM-320, 8.4: a full topic is one, by what its subscriptions hold.
func TestTopicFull(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", func(p *event.Properties) { p.MaxSizeMegabytes = 1 })
		b.subscription("t", "u", nil)
		b.subscription("t", "u2", nil)
		p := b.root()
		p.attachSender(1, "t")
		body := strings.Repeat("x", 200<<10)
		for id := range uint32(2) {
			p.send(1, id, newMessage(fmt.Sprint(id), body))
		}
		p.transfer(1, 2, newMessage("over", body))
		if e := p.rejected(2, amqp.CondResourceLimit); !strings.HasPrefix(e.Description, "The maximum entity size has been reached or exceeded for Topic: '") || !strings.Contains(e.Description, "QuotaType: EntitySize") {
			t.Errorf(`%+v; want strings.HasPrefix(e.Description, "The maximum entity size has been reached or exceeded for Topic: '") && strings.Contains(e.Description, "QuotaType: EntitySize")`, e.Description)
		}
	})
}

// WP-090, WP-130: a topic's deletion takes the links of its subscriptions along; an update of it
// does not touch them.
func TestTopicChanged(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.root()
		p.attachSender(1, "t")
		p.attachReceiver(2, "t/Subscriptions/u", amqp.SenderUnsettled)
		p.attachReceiver(3, "t/Subscriptions/u/$DeadLetterQueue", amqp.SenderUnsettled)
		p.attachManagement("t/Subscriptions/u")
		b.topic("t", func(p *event.Properties) { p.UserMetadata = "x" })
		p.detached(amqp.CondDetachForced, "is force detached by the broker", 1)
		p.attachSender(1, "t")
		b.subscription("t", "u", func(p *event.Properties) { p.UserMetadata = "x" })
		p.detached(amqp.CondDetachForced, "is force detached by the broker", 2, 3)
		p.attachReceiver(2, "t/Subscriptions/u", amqp.SenderUnsettled)
		if err := b.ns.DeleteEntity(context.Background(), engine.DeleteEntity{Path: "T", Reason: "client"}); err != nil {
			t.Fatal(err)
		}
		p.detached(amqp.CondNotFound, "could not be found", 1, 2, 200, 201)
	})
}

// SM-190: message sessions of a subscription; a copy without one is dead there, and not elsewhere.
func TestTopicSessions(t *testing.T) {
	topics(t, func(b *bench) {
		b.subscription("t", "s", func(p *event.Properties) { p.RequiresSession = true },
			event.Rule{Name: "plain", Filter: event.Filter{Kind: event.TrueFilter}}, sqlRule("moved", "sys.SessionId = 'a'", "SET sys.SessionId = 'b'"))
		b.put("t", inSession("a", "1", "x"), newMessage("2", "x"))
		p := b.root()
		for handle, session := range []string{"a", "b"} {
			p.acceptSession(uint32(handle), "t/Subscriptions/s", session)
			p.credit(uint32(handle), 0, 5, false)
			if m := p.receive(); m.properties.MessageID != "1" || m.properties.GroupID.Value != session {
				t.Errorf(`%+v; want m.properties.MessageID == "1" && m.properties.GroupID.Value == session`, m)
			}
		}
		p.quiet(time.Second)
		if one, dead := b.held("t/Subscriptions/u"), b.held("t/Subscriptions/s/$DeadLetterQueue"); one != "1 2" || dead != "2" {
			t.Errorf(`%+v %+v; want one == "1 2" && dead == "2"`, one, dead)
		}
	})
}

// The filter data of sends to a topic counts as well: reading pauses, and continues when the sends
// are answered (reliability.md S15).
func TestTopicBufferedIn(t *testing.T) {
	const messages = 100
	bubble(t, func(o *Options) { o.Limits.BufferedIn = 1 << 20 }, func(b *bench) {
		b.topic("t", nil)
		p := b.root()
		p.attachSender(1, "t")
		var properties []amqp.Pair
		for i := range 1000 { // 5 KiB as sent, and ten times that as filters see them
			properties = append(properties, amqp.Pair{Key: fmt.Sprint(i), Value: true})
		}
		var written atomic.Int32
		b.broker.hold(func() {
			go func() {
				for id := range uint32(messages) {
					p.transfer(1, id, with("a", properties...))
					written.Add(1)
				}
			}()
			time.Sleep(time.Second)
			if n := written.Load(); n == 0 || n > messages/2 {
				t.Errorf("%d messages were read", n)
			}
		})
		for n := uint32(0); n < messages; {
			d := expect[*amqp.Disposition](p)
			n += d.Last.Value - d.First + 1
		}
	})
}
