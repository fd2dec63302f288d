package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	access := func(primary event.Secret, rights ...event.Right) func(*event.Properties) {
		return func(p *event.Properties) {
			p.AccessRules = append(p.AccessRules, event.AccessRule{Name: "app", Rights: rights, Primary: primary, Secondary: "MARKER-s", CreatedAt: event.Time(len(primary))})
		}
	}
	withRules := func(only bool, rules ...event.Rule) engine.PutEntity {
		e := put(event.Subscription, "t/Subscriptions/s")
		e.Rules, e.OnlyRules = rules, only
		return e
	}
	sql := func(name, text string) event.Rule {
		return event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: text}}
	}
	action := sql("a", "x > 1")
	action.Action.Text, action.CreatedAt = "SET y = 1", 5
	for _, c := range []struct {
		name       string
		have, want []engine.PutEntity
		text       string
	}{
		{name: "nothing"},
		{"the same", []engine.PutEntity{put(event.Queue, "Q")}, []engine.PutEntity{put(event.Queue, "q")}, ""},
		{"a new queue", nil, []engine.PutEntity{put(event.Queue, "q", access("MARKER-p", event.Send))}, `create queue q
    MaxDeliveryCount: 3
    DefaultMessageTimeToLive: PT1H
    DuplicateDetectionHistoryTimeWindow: PT20S
    AuthorizationRules.app: [Send]`},
		{"a new one with the cloud's defaults", nil, []engine.PutEntity{{Kind: event.Topic, Path: "t", Properties: engine.DefaultProperties(event.Topic)}}, "create topic t"},
		{"properties", []engine.PutEntity{put(event.Queue, "q", func(p *event.Properties) { p.ForwardTo, p.UserMetadata = "sb://host/A", "x\ny" })},
			[]engine.PutEntity{put(event.Queue, "q", func(p *event.Properties) {
				p.ForwardTo, p.ForwardDeadLetteredMessagesTo, p.LockDuration, p.Status = "a", "b", 30*time.Second, event.Disabled
			})}, `update queue q
    LockDuration: PT1M -> PT30S
    ForwardDeadLetteredMessagesTo: none -> b
    Status: Active -> Disabled
    UserMetadata: "x\ny" -> none`},
		{"fixed ones", []engine.PutEntity{put(event.Queue, "q"), put(event.Queue, "k")},
			[]engine.PutEntity{put(event.Queue, "q", func(p *event.Properties) { p.RequiresSession = true }), put(event.Topic, "K")}, `update queue q
    RequiresSession: false -> true; cannot be changed, delete the entity first
update topic K
    Kind: Queue -> Topic; cannot be changed, delete the entity first`},
		{"keys", []engine.PutEntity{put(event.Queue, "q", access("MARKER-p", event.Send))}, []engine.PutEntity{put(event.Queue, "q", access("MARKER-other", event.Send))},
			"update queue q\n    AuthorizationRules.app: [Send] -> [Send] with other keys"},
		{"keys that are not known", []engine.PutEntity{put(event.Queue, "q", access("", event.Send))}, []engine.PutEntity{put(event.Queue, "q", access("MARKER-p", event.Send))}, ""},
		{"rights", []engine.PutEntity{put(event.Queue, "q", access("MARKER-p", event.Send))}, []engine.PutEntity{put(event.Queue, "q", access("MARKER-p", event.Send, event.Listen))},
			"update queue q\n    AuthorizationRules.app: [Send] -> [Send Listen]"},
		{"rules", []engine.PutEntity{withRules(true, sql("a", "x > 1"), sql("b", "x > 2"), sql("C", "x > 3"))},
			[]engine.PutEntity{withRules(true, sql("c", "x > 3"), action, sql("d", "x < 4"))}, `update subscription t/Subscriptions/s
    Rules.a: {"FilterType":"Sql","SqlFilter":{"SqlExpression":"x > 1"}} -> {"FilterType":"Sql","SqlFilter":{"SqlExpression":"x > 1"},"Action":{"SqlExpression":"SET y = 1"}}
    Rules.b: {"FilterType":"Sql","SqlFilter":{"SqlExpression":"x > 2"}} -> none
    Rules.d: none -> {"FilterType":"Sql","SqlFilter":{"SqlExpression":"x < 4"}}`},
		{"rules the file does not speak of", []engine.PutEntity{withRules(true, sql("a", "x > 1"))}, []engine.PutEntity{withRules(false)}, ""},
		{"rules of a new subscription", nil, []engine.PutEntity{withRules(true, sql("a", "x > 1"))}, `create subscription t/Subscriptions/s
    MaxDeliveryCount: 3
    DefaultMessageTimeToLive: PT1H
    Rules.a: {"FilterType":"Sql","SqlFilter":{"SqlExpression":"x > 1"}}`},
		{"what is not wanted", []engine.PutEntity{put(event.Queue, "q"), put(event.Topic, "t"), withRules(true)}, []engine.PutEntity{put(event.Queue, "Q")},
			"delete subscription t/Subscriptions/s\ndelete topic t"},
	} {
		var lines []string
		for _, change := range Diff(c.have, c.want) {
			lines = append(lines, change.String())
		}
		if got := strings.Join(lines, "\n"); got != c.text {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.text)
		}
	}
}
