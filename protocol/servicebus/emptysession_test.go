package servicebus

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-147: the session with the id "" is like any other: messages are sent and scheduled for it, and
// it is accepted by its id and as the next one.
func TestEmptySession(t *testing.T) {
	for name, filter := range map[string]any{"named": "", "named, go": described(""), "next": nil, "next, go": described(nil)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
				p := b.root()
				p.attachSender(1, "s")
				p.send(1, 0, inSession("", "sent", "x"))
				p.attachManagement("s")
				later := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{
					{Key: amqp.Symbol(keyScheduled), Value: timestampOf(time.Now().Add(10 * time.Second))},
				})
				p.managedWith(200, "", "schedule-message", amqp.Map{{Key: "messages", Value: amqp.List{amqp.Map{
					{Key: "message-id", Value: "scheduled"}, {Key: "session-id", Value: ""}, {Key: "message", Value: append(later, inSession("", "scheduled", "x")...)},
				}}}})
				if ids := p.peekIDs(amqp.Pair{Key: "session-id", Value: ""}); fmt.Sprint(ids) != "[sent scheduled]" {
					t.Errorf("peeked %v", ids)
				}
				a := p.acceptSession(2, "s", filter)
				if got, ok := a.Source.Filter.Get(keySessionFilter); !ok || got != "" && got != described("") {
					t.Errorf(`%+v; want ok && (got == "" || got == described(""))`, a.Source.Filter)
				}
				p.credit(2, 0, 10, false)
				for _, id := range []string{"sent", "scheduled"} {
					m := p.receive()
					if m.properties.MessageID != id || m.properties.GroupID != amqp.Some("") {
						t.Errorf(`%+v; want m.properties.MessageID == id && m.properties.GroupID == amqp.Some("")`, m.properties)
					}
					p.settle(m.id, amqp.StateAccepted, false)
					p.outcome(m.id, amqp.StateAccepted)
				}
				p.managedWith(200, "", "set-session-state", sessionBody("", amqp.Pair{Key: "session-state", Value: []byte("state")}), linked("r2"))
			})
		})
	}
}
