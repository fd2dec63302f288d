package sdkgo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/google/go-cmp/cmp"
)

var rules = group{
	"rule-default":           ruleDefault,
	"rule-none":              ruleNone,
	"rule-sql":               ruleSQL,
	"rule-correlation":       ruleCorrelation,
	"rule-action":            ruleActions,
	"rule-evaluation-error":  ruleEvaluationError,
	"rule-change":            ruleChange,
	"rule-refused":           ruleRefused,
	"rule-parameters":        ruleParameters,
	"rule-round-trip":        ruleRoundTrip,
	"rule-before-publishing": ruleBeforePublishing,
	"rule-survives-kill":     ruleSurvivesKill,
}

// coloured is a message with an application property.
func coloured(body, colour string) *message {
	return &message{Body: []byte(body), ApplicationProperties: map[string]any{"colour": colour}}
}

// wantRules checks the rules of a subscription, in their order.
func (b *bus) wantRules(topic, subscription string, want ...rule) {
	b.Helper()
	got := b.listRules(topic, subscription)
	b.wantNames("rules of "+subscription, ruleNames(got), ruleNames(want)...)
	for i, r := range got {
		if i < len(want) {
			b.wantRule(r, want[i])
		}
	}
}

func (b *bus) wantRule(got, want rule) {
	b.Helper()
	if !cmp.Equal(got, want) {
		b.Errorf("rule %s: filter %+v, action %+v; want %+v, %+v (-want +got):\n%s", got.Name, got.Filter, got.Action, want.Filter, want.Action, cmp.Diff(want, got))
	}
}

// removes receives messages, which it completes.
func (b *bus) removes(r receiver, bodies ...string) []*received {
	b.Helper()
	got := b.take(r, bodies...)
	b.complete(r, got...)
	return got
}

var defaultRule = rule{Name: "$Default", Filter: &admin.TrueFilter{}}

func ruleDefault(b *bus) {
	b.wantRules(b.queue, "one", defaultRule)
	b.createSubscription(b.queue, "two", subscriptionProperties{})
	b.wantRules(b.queue, "two", defaultRule)
	first := sqlRuleWithAction("first", "colour = 'red'", "SET mark = 'm'")
	b.createSubscription(b.queue, "three", subscriptionProperties{DefaultRule: &first})
	b.wantRules(b.queue, "three", first)
	b.post(coloured("A", "red"), coloured("B", "blue"))
	for _, s := range b.both() {
		s.removes(s.receiver(), "A", "B")
	}
	three := b.on("three")
	r := three.receiver()
	three.wantProperties(three.removes(r, "A")[0], map[string]any{"mark": "m"})
	three.nothing(r)
}

func ruleNone(b *bus) {
	bare, one := b.on("bare"), b.on("one")
	b.deleteRule(b.queue, "bare", "$Default")
	b.wantRules(b.queue, "bare")
	b.send("A")
	bare.nothing(bare.receiver())
	r := one.receiver()
	one.removes(r, "A")
	b.deleteRule(b.queue, "one", "$Default")
	b.send("B")
	one.nothing(r)
	one.empty(peekLock)
	b.createRule(b.queue, "one", sqlRule("again", "1=1"))
	b.send("C")
	one.removes(r, "C")
	bare.empty(peekLock)
}

// wantOn checks what each subscription has.
func (b *bus) wantOn(want map[string]string) {
	b.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		s := b.on(name)
		there := bodies(s.peekAll(peekLock))
		if b.place.partitioned != nil { // some have a session of their own, and with it a partition
			slices.Sort(there)
		}
		if got := strings.Join(there, " "); got != want[name] {
			b.Errorf("%s has the messages %q, want %q", name, got, want[name])
		}
		s.empty(deadLetters)
	}
}

func ruleSQL(b *bus) {
	order := func(body, id, subject string, properties map[string]any) *message {
		return &message{Body: []byte(body), MessageID: &id, Subject: &subject, ApplicationProperties: properties}
	}
	b.post(
		order("1", "id-1", "order", map[string]any{"colour": "blue", "qty": 5, "price": 2.5}),
		order("2", "id-2", "order", map[string]any{"colour": "Blue", "qty": 12, "price": 1.5}),
		order("3", "other", "note", nil),
		order("4", "other", "note", map[string]any{"colour": "red", "qty": 12, "price": 10.5}),
	)
	b.wantOn(map[string]string{
		"equal": "1", "not": "2 4", "compare": "2", "precedence": "4", "parentheses": "1 4", "arithmetic": "2 4", "in": "1 4", "not-in": "2",
		"null": "3", "not-null": "1 2 4", "exists": "1 2 4", "like": "1", "like-one": "4", "system": "1 2", "property": "4", "quoted": "4",
		"number": "2 4", "true": "1 2 3 4", "false": "",
	})
}

func ruleCorrelation(b *bus) {
	b.post(
		&message{
			Body: []byte("1"), CorrelationID: to.Ptr("correlation"), MessageID: to.Ptr("id"), To: to.Ptr("to"), ReplyTo: to.Ptr("reply-to"),
			Subject: to.Ptr("order"), SessionID: to.Ptr("group"), ReplyToSessionID: to.Ptr("reply-group"), ContentType: to.Ptr("text/plain"),
			ApplicationProperties: map[string]any{"colour": "red", "qty": 5},
		},
		&message{Body: []byte("2"), Subject: to.Ptr("order"), ApplicationProperties: map[string]any{"colour": "Red"}},
		text("3"),
	)
	b.wantOn(map[string]string{"all": "1", "label": "1 2", "label-case": "", "property": "1", "number": "1", "both": "2"})
}

func ruleActions(b *bus) {
	sent := map[string]any{"colour": "red", "priority": "low", "qty": int64(5)}
	b.post(&message{Body: []byte("A"), MessageID: to.Ptr("id"), Subject: to.Ptr("order"), ApplicationProperties: sent})
	one, other := b.on("one"), b.on("other")
	r := one.receiver()
	got := one.take(r, "A", "A", "A")
	one.wantNumbers(got, 1, 2, 3)
	for i, want := range []struct {
		subject    string
		properties map[string]any
	}{
		{"order", sent},
		{"marked", map[string]any{"RuleName": "mark", "priority": "high", "qty": int64(5)}},
		{"order", map[string]any{"RuleName": "count", "colour": "red", "priority": "low", "qty": int64(6), "note": "was red"}},
	} {
		one.wantCount(got[i], 0)
		if m := got[i]; m.MessageID != "id" || deref(m.Subject) != want.subject || !cmp.Equal(m.ApplicationProperties, want.properties) {
			b.Errorf("copy %d: id %q, subject %q, properties %v; want subject %q, properties %v (-want +got):\n%s", i+1, m.MessageID, deref(m.Subject), m.ApplicationProperties, want.subject, want.properties, cmp.Diff(want.properties, m.ApplicationProperties))
		}
	}
	one.complete(r, got[0])
	one.abandon(r, got[2])
	peeked := one.peekAll(peekLock)
	one.wantTexts(peeked, "A", "A")
	one.wantProperties(peeked[0], map[string]any{"RuleName": "mark"})
	one.wantProperties(peeked[1], map[string]any{"RuleName": "count"})
	if m := other.removes(other.receiver(), "A")[0]; !cmp.Equal(m.ApplicationProperties, sent) {
		b.Errorf("properties %v, want %v (-want +got):\n%s", m.ApplicationProperties, sent, cmp.Diff(sent, m.ApplicationProperties))
	}
}

func ruleEvaluationError(b *bus) {
	b.post(coloured("A", "red"))
	strict, lenient, acting, other := b.on("strict"), b.on("lenient"), b.on("acting"), b.on("other")
	strict.removes(strict.receiver(), "A")
	lenient.nothing(lenient.receiver())
	lenient.bare()
	acting.nothing(acting.receiver())
	for s, reason := range map[*bus]string{strict: "FilterException", acting: "RuleActionException"} {
		dead := s.peekAll(deadLetters)
		s.wantTexts(dead, "A")
		s.wantReason(dead[0], reason)
		if deref(dead[0].DeadLetterErrorDescription) == "" {
			b.Errorf("%s: no description", reason)
		}
	}
	other.removes(other.receiver(), "A")
	other.empty(deadLetters)
}

func ruleChange(b *bus) {
	b.post(coloured("A", "red"))
	b.createRule(b.queue, "one", sqlRule("blue", "colour = 'blue'"))
	b.post(coloured("B", "blue"), coloured("C", "green"))
	b.deleteRule(b.queue, "one", "red")
	b.post(coloured("D", "red"), coloured("E", "blue"))
	green := sqlRule("blue", "colour = 'green'")
	_, err := b.admin().UpdateRule(b.patient(), b.queue, "one", green)
	b.must(err)
	b.post(coloured("F", "green"), coloured("G", "blue"))
	one := b.on("one")
	r := one.receiver()
	one.removes(r, "A", "B", "E", "F")
	one.nothing(r)

	b.wantError("admin-exists", b.tryCreateRule(b.queue, "one", sqlRule("BLUE", "1=1")))
	b.wantError("admin-missing", b.tryDeleteRule(b.queue, "one", "red"))
	if r := b.getRule(b.queue, "one", "red"); r != nil {
		b.Errorf("a rule that was deleted: %+v", r)
	}
	_, err = b.admin().UpdateRule(b.patient(), b.queue, "one", sqlRule("red", "1=1"))
	b.wantError("admin-missing", err)
	b.wantRules(b.queue, "one", green)
}

func ruleRefused(b *bus) {
	for i, r := range []rule{
		sqlRule("", "colour ="), sqlRule("", "colour = 'red"), sqlRule("", "AND"), sqlRule("", "1"), sqlRule("", "colour LIKE"),
		sqlRule("", "qty = 99999999999999999999"), sqlRuleWithAction("", "1=1", "SET colour"), sqlRule("", "colour = '"+strings.Repeat("x", 1025-11)+"'"),
		{Filter: &admin.CorrelationFilter{}},
	} {
		r.Name = fmt.Sprint("rule", i)
		b.wantError("admin-bad-request", b.tryCreateRule(b.queue, "one", r))
	}
	b.wantRules(b.queue, "one", defaultRule)
	b.send("A")
	one := b.on("one")
	one.removes(one.receiver(), "A")
}

func ruleParameters(b *bus) {
	typed := rule{
		Name: "typed",
		Filter: &admin.SQLFilter{
			Expression: "colour = @colour AND qty >= @qty AND price < @price AND active = @active AND sys.EnqueuedTimeUtc > @since",
			Parameters: map[string]any{"@colour": "red", "@qty": int64(5), "@price": 2.5, "@active": true, "@since": time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)},
		},
		Action: &admin.SQLAction{Expression: "SET mark = @mark", Parameters: map[string]any{"@mark": "done"}},
	}
	b.createRule(b.queue, "one", typed)
	b.deleteRule(b.queue, "one", "$Default")
	b.wantRules(b.queue, "one", typed)
	for body, properties := range map[string]map[string]any{
		"A": {}, "B": {"qty": 4}, "C": {"active": false},
	} {
		m := &message{Body: []byte(body), ApplicationProperties: map[string]any{"colour": "red", "qty": 5, "price": 2.0, "active": true}}
		maps.Copy(m.ApplicationProperties, properties)
		b.post(m)
	}
	one := b.on("one")
	r := one.receiver()
	one.wantProperties(one.removes(r, "A")[0], map[string]any{"mark": "done"})
	one.nothing(r)
}

func ruleRoundTrip(b *bus) {
	all := []rule{
		defaultRule,
		sqlRuleWithAction("a-sql", "qty > 5 AND colour <> 'a&b<c>'", "SET colour = 'a&b<c>'; REMOVE qty"),
		{Name: "b-correlation", Filter: &admin.CorrelationFilter{
			CorrelationID: to.Ptr("correlation"), MessageID: to.Ptr("id"), To: to.Ptr("to"), ReplyTo: to.Ptr("reply-to"), Subject: to.Ptr("subject"),
			SessionID: to.Ptr("session"), ReplyToSessionID: to.Ptr("reply-session"), ContentType: to.Ptr("text/plain"),
			ApplicationProperties: map[string]any{"text": "x", "whole": int64(7), "half": 0.5, "yes": true},
		}},
		{Name: "c-true", Filter: &admin.TrueFilter{}},
		{Name: "d-false", Filter: &admin.FalseFilter{}},
	}
	b.createRule(b.queue, "one", all[1:]...)
	b.wantRules(b.queue, "one", all...)
	for _, want := range all {
		if got := b.getRule(b.queue, "one", want.Name); got == nil {
			b.Errorf("%s is not found", want.Name)
		} else {
			b.wantRule(*got, want)
		}
	}
	changed := rule{Name: "a-sql", Filter: &admin.CorrelationFilter{Subject: to.Ptr("order")}}
	_, err := b.admin().UpdateRule(b.patient(), b.queue, "one", changed)
	b.must(err)
	if got := b.getRule(b.queue, "one", "a-sql"); got == nil {
		b.Errorf("a-sql is not found")
	} else {
		b.wantRule(*got, changed)
	}
	b.deleteRule(b.queue, "one", ruleNames(all)...)
	b.wantRules(b.queue, "one")
}

func ruleBeforePublishing(b *bus) {
	b.post(coloured("A", "red"))
	b.wantError("no-match", b.trySend(coloured("B", "blue")))
	one := b.on("one")
	r := one.receiver()
	one.removes(r, "A")
	one.nothing(r)
}

func ruleSurvivesKill(b *bus) {
	b = b.at("rule-survives-kill-made")
	red := sqlRuleWithAction("red", "colour = 'red'", "SET id = newid(); SET mark = 'm'")
	b.createTopic(b.queue, topicProperties{}, "one")
	b.createRule(b.queue, "one", red)
	b.deleteRule(b.queue, "one", "$Default")
	b.post(coloured("A", "red"))
	one := b.on("one")
	before := one.peekAll(peekLock)
	one.wantTexts(before, "A")
	b.kill(nil)
	b.wantRules(b.queue, "one", red)
	r := one.receiver()
	id := before[0].ApplicationProperties["id"]
	one.wantProperties(one.removes(r, "A")[0], map[string]any{"id": id, "mark": "m"})
	b.post(coloured("B", "blue"), coloured("C", "red"))
	c := one.removes(r, "C")[0]
	one.wantProperties(c, map[string]any{"mark": "m"})
	if other := c.ApplicationProperties["id"]; id == nil || other == id {
		b.Errorf("ids %v, then %v", id, other)
	}
	one.nothing(r)
}
