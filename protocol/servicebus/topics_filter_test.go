package servicebus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-283, SM-293, SM-296: a copy for each rule with an action, changed as it says, on a link, in a
// peek and by number.
func TestTopicActions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", func(p *event.Properties) { p.RequiresDuplicateDetection = true })
		two := sqlRule("two", "1=1", "SET sys.Label = 'changed'; SET sys.MessageId = 'fixed'; SET sys.ReplyTo = 'back'; SET sys.TimeToLive = @life; REMOVE sys.ContentType")
		two.Action.Parameters = []event.Property{{Name: "@life", Value: event.Value{Type: event.Span, Bits: 5000 * event.TicksPerMillisecond}}}
		b.subscription("t", "u", nil, sqlRule("plain", "n = 1", ""), sqlRule("also", "n >= 1", ""),
			sqlRule("one", "n = 1", "SET N = n + 1; SET added = sys.Label; REMOVE gone; REMOVE never"), two)
		b.put("t", with("a", amqp.Pair{Key: "n", Value: int32(1)}, amqp.Pair{Key: "gone", Value: true}))
		want := func(i int, m openedMessage) {
			t.Helper()
			rule, _ := m.application.Get("RuleName")
			n, _ := m.application.Get("n")
			added, _ := m.application.Get("added")
			_, there := m.application.Get("gone")
			from, _ := m.annotations.Get(keyEnqueueSequence)
			got := []any{m.properties.MessageID, m.properties.Subject.Value, m.properties.ReplyTo.Value, m.header.TTL.Value, rule, n, added, there, from, m.body}
			if all := [][]any{
				{"a", "label", "", uint32(0), nil, int32(1), nil, true, int64(1), "body"},
				{"a", "label", "", uint32(0), "one", int32(2), "label", false, int64(1), "body"},
				{"fixed", "changed", "back", uint32(5000), "two", int32(1), nil, true, int64(1), "body"},
			}; !cmp.Equal(got, all[i]) {
				t.Errorf("%d: %v (-want +got):\n%s", i, got, cmp.Diff(all[i], got))
			}
		}
		p := b.node("t/Subscriptions/u")
		for i, m := range p.peekAll() {
			want(i, m)
		}
		p.attachReceiver(2, "t/Subscriptions/u", amqp.SenderUnsettled)
		p.credit(2, 0, 3, false)
		for i := range 3 {
			m := p.receive()
			want(i, m)
			p.settle(m.id, amqp.Modified{UndeliverableHere: true, MessageAnnotations: amqp.Map{{Key: amqp.Symbol("more"), Value: "x"}}}, true)
		}
		answer := p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), int64(1), int64(2), int64(3)))
		for i, m := range openedMessages(t, answer) {
			want(i, m)
			if more, _ := m.application.Get("more"); more != "x" {
				t.Errorf(`%+v; want more == "x"`, m)
			}
		}
		// one of them: no duplicate of the id that the rule has set, but of each other
		b.put("t", with("fixed"), with("fixed"))
		if got := b.held("t/Subscriptions/u"); got != "a a fixed fixed" {
			t.Errorf(`%+v, want "a a fixed fixed"`, got)
		}
	})
}

// SM-291, 15.6: a rule that cannot be evaluated dead-letters a copy, or does not match; the send
// and the others go on.
func TestTopicFilterErrors(t *testing.T) {
	topics(t, func(b *bench) {
		b.subscription("t", "dead", nil, sqlRule("bad", "1 / n = 1", ""), sqlRule("good", "n = 0", ""))
		b.subscription("t", "quiet", func(p *event.Properties) { p.DeadLetteringOnFilterError = false }, sqlRule("bad", "1 / n = 1", ""))
		b.put("t", with("a", amqp.Pair{Key: "n", Value: int32(0)}))
		for entity, want := range map[string]string{"t/Subscriptions/u": "a", "t/Subscriptions/dead": "a", "t/Subscriptions/dead/$DeadLetterQueue": "a", "t/Subscriptions/quiet": ""} {
			if got := b.held(entity); got != want {
				t.Errorf("%s: %s, want %s", entity, got, want)
			}
		}
		m := b.node("t/Subscriptions/dead/$DeadLetterQueue").peekAll()[0]
		reason, _ := m.application.Get(deadLetterReason)
		text, _ := m.application.Get(deadLetterDescription)
		if reason != "FilterException" || !strings.Contains(fmt.Sprint(text), "bad") {
			t.Errorf(`%+v; want reason == "FilterException" && strings.Contains(fmt.Sprint(text), "bad")`, m.application)
		}
	})
}

// SM-294: a topic that filters before publishing refuses a message that no subscription gets.
func TestTopicFilteringBeforePublishing(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", func(p *event.Properties) { p.FilteringBeforePublishing = true })
		b.subscription("t", "u", nil, sqlRule("r", "n = 1", ""))
		p := b.root()
		p.attachSender(1, "t")
		p.transfer(1, 0, with("a"))
		p.rejected(0, amqp.CondNoMatchingSubscription)
		p.send(1, 1, with("b", amqp.Pair{Key: "n", Value: int64(1)}))
		if got := b.held("t/Subscriptions/u"); got != "b" {
			t.Errorf(`%+v, want "b"`, got)
		}
	})
}
