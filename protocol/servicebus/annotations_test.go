package servicebus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// annotatedMessage makes an encoded message with message annotations; session nil: in no session.
func annotatedMessage(id string, session any, annotations ...amqp.Pair) []byte {
	p := amqp.Properties{MessageID: id}
	if text, ok := session.(string); ok {
		p.GroupID = amqp.Some(text)
	}
	m := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map(annotations))
	return amqp.AppendData(amqp.AppendProperties(m, &p), []byte("x"))
}

// keyForms are the encodings of a text that the annotations which are texts may have: one SDK takes
// strings and symbols for binaries when it receives, and sends them back as such.
func keyForms(text string) []any { return []any{text, amqp.Symbol(text), []byte(text)} }

// 5.2: partition keys, and the other annotations that are texts, may be string, symbol or binary,
// by every way to send; they are delivered, shown and seen by filters as strings.
func TestTextAnnotations(t *testing.T) {
	annotations := func(v any) []amqp.Pair {
		return []amqp.Pair{{Key: amqp.Symbol(keyPartitionKey), Value: v}, {Key: amqp.Symbol(keyViaPartitionKey), Value: v},
			{Key: amqp.Symbol(keyDeadLetterSource), Value: v}, {Key: amqp.Symbol("user"), Value: v}}
	}
	for _, text := range []string{"key", "", fmt.Sprintf("%0128d", 7), fmt.Sprintf("%0256d", 7)} {
		bubble(t, nil, func(b *bench) {
			b.topic("t", nil)
			b.subscription("t", "s", nil, event.Rule{Name: "r", Filter: event.Filter{Kind: event.SQLFilter,
				Text: "sys.PartitionKey = '" + text + "' AND sys.ViaPartitionKey = sys.PartitionKey AND sys.DeadLetterSource = sys.PartitionKey"}})
			for i, v := range keyForms(text) {
				p := b.root()
				p.attachSender(1, "q")
				p.attachSender(2, "t")
				p.attachManagement("q")
				p.attachReceiver(3, "q", amqp.SenderUnsettled)
				one := annotatedMessage("a", nil, annotations(v)...)
				if len(text) > 128 {
					p.transfer(1, 0, one)
					p.rejected(0, amqp.CondArgumentError)
					continue
				}
				p.send(1, 0, one)
				p.send(2, 1, one)
				p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(2)), MessageFormat: amqp.Some(amqp.MessageFormatBatch)},
					amqp.AppendData(one, one)[len(one):])
				expect[*amqp.Disposition](p)
				later := append(annotations(v), amqp.Pair{Key: amqp.Symbol(keyScheduled), Value: timestampOf(time.Now().Add(time.Second))})
				p.managedWith(200, "", "schedule-message", scheduleBody(annotatedMessage("a", nil, later...)))
				shown := p.peekAll()
				p.credit(3, 0, 3, false)
				for range 3 {
					m := p.receive()
					shown = append(shown, m)
					p.settle(m.id, amqp.Rejected{}, true)
				}
				dead := b.root()
				dead.attachReceiver(2, "q/$DeadLetterQueue", amqp.SenderSettled)
				dead.credit(2, 0, 3, false)
				for range 3 {
					shown = append(shown, dead.receive())
				}
				if len(shown) != 3+3+3 {
					t.Errorf("%T: %d messages", v, len(shown))
				}
				for _, m := range shown {
					for _, key := range []string{keyPartitionKey, keyViaPartitionKey, keyDeadLetterSource} {
						if got, _ := m.annotations.Get(key); got != text {
							t.Errorf("%T %q: %s is %#v", v, text, key, got)
						}
					}
					if got, _ := m.annotations.Get("user"); !cmp.Equal(got, v) {
						t.Errorf("%T: the sender's own annotation is %#v (-want +got):\n%s", v, got, cmp.Diff(v, got))
					}
				}
				if got := b.node("t/Subscriptions/s").peekAll(); len(got) != i+1 {
					t.Errorf("%T: the filter has seen %d of %d", v, len(got), i+1)
				}
			}
		})
	}
}

// 5.2: a key that is no text is refused, a dead-letter source that is none is carried.
func TestAnnotationsNoText(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		id := uint32(0)
		for _, key := range []string{keyPartitionKey, keyViaPartitionKey} {
			for _, v := range []any{int32(1), []byte{0xff}, amqp.UUID{1}, true} {
				p.transfer(1, id, annotatedMessage("a", nil, amqp.Pair{Key: amqp.Symbol(key), Value: v}))
				p.rejected(id, amqp.CondArgumentError)
				id++
			}
		}
		for _, v := range []any{nil, []byte{0xff}} {
			p.send(1, id, annotatedMessage("a", nil, amqp.Pair{Key: amqp.Symbol(keyDeadLetterSource), Value: v}))
			id++
		}
	})
}

// semantics.md 2.1: the partition key equals the session id when both are set. "" is a session, and
// sets nothing to be equal to.
func TestPartitionKeyAndSession(t *testing.T) {
	for _, test := range []struct {
		session any
		key     any
		good    bool
	}{
		{"s", "s", true}, {"s", []byte("s"), true}, {"s", amqp.Symbol("s"), true}, {"s", "", true}, {"s", nil, true}, {nil, "k", true},
		{"", "k", true}, {"", []byte("k"), true}, {"", "", true}, {"", nil, true},
		{"s", "k", false}, {"s", []byte("k"), false},
	} {
		bubble(t, nil, func(b *bench) {
			b.queue("sessions", func(p *event.Properties) { p.RequiresSession = true })
			p := b.root()
			p.attachSender(1, "q")
			p.attachSender(2, "sessions")
			for handle := uint32(1); handle <= 2; handle++ {
				if handle == 2 && test.session == nil {
					continue
				}
				p.transfer(handle, handle, annotatedMessage("a", test.session, amqp.Pair{Key: amqp.Symbol(keyPartitionKey), Value: test.key}))
				if !test.good {
					p.rejected(handle, amqp.CondNotAllowed)
				} else if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
					t.Errorf("%+v: %+v, want %+v", test, d.State, amqp.StateAccepted)
				}
			}
		})
	}
}

// 6.3, 4.2: a session id may also be binary.
func TestSessionIDForms(t *testing.T) {
	for _, id := range keyForms("s") {
		bubble(t, nil, func(b *bench) {
			b.queue("sessions", func(p *event.Properties) { p.RequiresSession = true })
			b.put("sessions", annotatedMessage("a", "s"))
			p := b.root()
			p.attachManagement("sessions")
			body := p.managedWith(200, "", "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)},
				{Key: "message-count", Value: int32(9)}, {Key: "session-id", Value: id}})
			if got := openedMessages(t, body); len(got) != 1 {
				t.Errorf("%T: %+v; want len(got) == 1", id, got)
			}
			p.write(0, &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "sessions",
				Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: id}}}, Target: &amqp.Target{}}, nil)
			a := expect[*amqp.Attach](p)
			if got, _ := a.Source.Filter.Get(keySessionFilter); got != "s" {
				t.Errorf("%T: granted %#v", id, got)
			}
		})
	}
}
