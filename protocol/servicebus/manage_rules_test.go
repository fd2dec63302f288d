package servicebus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

func expression(text any) amqp.Map { return amqp.Map{{Key: "expression", Value: text}} }

func ruleBody(name any, description any) amqp.Map {
	return amqp.Map{{Key: "rule-name", Value: name}, {Key: "rule-description", Value: description}}
}

// correlationRule is the description of a rule as the JavaScript SDK writes it: every key is there.
func correlationRule(label any, properties any) amqp.Map {
	m := amqp.Map{}
	for _, f := range correlationFields {
		m = append(m, amqp.Pair{Key: f.key, Value: map[bool]any{true: label}[f.key == "label"]})
	}
	return amqp.Map{{Key: "correlation-filter", Value: append(m, amqp.Pair{Key: "properties", Value: properties})}}
}

// rules is what enumerate-rules shows.
func (p *peerConn) rules(skip, top any) (shown []amqp.List) {
	p.Helper()
	status, properties, answer := p.manage("com.microsoft:enumerate-rules", amqp.Map{{Key: "top", Value: top}, {Key: "skip", Value: skip}})
	if status == 204 && answer == nil {
		return nil
	}
	if status != 200 {
		p.Fatalf("%+v; want status == 200", properties)
	}
	v, _ := answer.(amqp.Map).Get("rules")
	for _, e := range v.(amqp.List) {
		d, _ := e.(amqp.Map).Get("rule-description")
		if rule := d.(amqp.Described); rule.Descriptor != uint64(0x13700000004) {
			p.Errorf("%+v; want rule.Descriptor == uint64(0x13700000004)", d)
		}
		shown = append(shown, d.(amqp.Described).Value.(amqp.List))
	}
	return shown
}

// WP-179, WP-180, WP-181, SM-280, SM-281, SM-286, SM-287, SM-289: rules of every kind, shown with
// the descriptors of 6.4.
func TestRules(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t/Subscriptions/U")
		start := timestampOf(time.Now())
		none := amqp.Described{Descriptor: uint64(0x13700000005), Value: amqp.List{}}
		want := []amqp.List{{amqp.Described{Descriptor: uint64(0x1370000007), Value: amqp.List{}}, none, "$Default", start}}
		if got := p.rules(int32(0), int32(100)); !cmp.Equal(got, want) {
			t.Errorf("%+v (-want +got):\n%s", got, cmp.Diff(want, got))
		}
		p.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "$default"}})
		if got := p.rules(int32(0), int32(100)); got != nil {
			t.Errorf("%+v, want nil", got)
		}
		b.put("t", with("nobody's"))
		time.Sleep(time.Second)
		at := timestampOf(time.Now())
		properties := amqp.Map{{Key: "Color", Value: "blue"}, {Key: "n", Value: int64(1)}, {Key: "m", Value: int32(2)}, {Key: "f", Value: 0.5}, {Key: "b", Value: true},
			{Key: "u", Value: amqp.UUID{1}}, {Key: "t", Value: amqp.Timestamp(1000)}, {Key: "s", Value: amqp.Described{Descriptor: amqp.Symbol(describedSpan), Value: int64(10)}}}
		sql := func(text string) amqp.Described {
			return amqp.Described{Descriptor: uint64(0x1370000006), Value: amqp.List{text, int32(20)}}
		}
		correlation := func(items ...any) amqp.Described {
			return amqp.Described{Descriptor: uint64(0x1370000009), Value: amqp.List(items)}
		}
		all := amqp.Map{}
		for _, f := range correlationFields {
			all = append(all, amqp.Pair{Key: f.key, Value: f.key})
		}
		action := amqp.Described{Descriptor: uint64(0x13700000006), Value: amqp.List{"SET x = 1", int32(20)}}
		for i, test := range []struct {
			name        any
			description amqp.Map
			shown       amqp.List
		}{
			{"a", amqp.Map{{Key: "sql-filter", Value: expression("color = 'red'")}, {Key: "sql-rule-action", Value: nil}}, amqp.List{sql("color = 'red'"), none, "a", at}},
			{"b", amqp.Map{{Key: "sql-filter", Value: expression("1=1")}, {Key: "sql-rule-action", Value: expression("SET x = 1")}, {Key: "rule-name", Value: "else"}}, amqp.List{sql("1=1"), action, "b", at}},
			{nil, amqp.Map{{Key: "sql-filter", Value: expression("1=0")}, {Key: "correlation-filter", Value: nil}, {Key: "rule-name", Value: "c"}}, amqp.List{sql("1=0"), none, "c", at}},
			{"d", correlationRule("label", nil), amqp.List{correlation(nil, nil, nil, nil, "label", nil, nil, nil), none, "d", at}},
			{"e", correlationRule(nil, properties), amqp.List{correlation(nil, nil, nil, nil, nil, nil, nil, nil, properties), none, "e", at}},
			{"f", amqp.Map{{Key: "correlation-filter", Value: all}}, amqp.List{correlation("correlation-id", "message-id", "to", "reply-to", "label", "session-id", "reply-to-session-id", "content-type"), none, "f", at}},
			{"g", amqp.Map{{Key: "sql-filter", Value: expression("1=0")}, {Key: "sql-rule-action", Value: expression("")}}, amqp.List{sql("1=0"), none, "g", at}},
		} {
			p.managedWith(200, "", "add-rule", ruleBody(test.name, test.description))
			if got := p.rules(uint32(i), int64(1)); !cmp.Equal(got, []amqp.List{test.shown}) {
				t.Errorf("%v: %+v (-want +got):\n%s", test.name, got, cmp.Diff([]amqp.List{test.shown}, got))
			}
		}
		p.managedWith(409, amqp.CondEntityAlreadyExists, "add-rule", ruleBody("A", amqp.Map{{Key: "sql-filter", Value: expression("1=1")}}))
		if got := p.rules(uint8(0), int32(1<<31-1)); len(got) != 7 {
			t.Errorf("%+v; want len(got) == 7", got)
		}
		// as the HTTP API shows it
		rules, err := b.ns.Rules(context.Background(), "T/subscriptions/U", 0, 100)
		if err != nil || len(rules) != 7 || rules[3].Filter.Conditions[0] != (event.Condition{Field: event.FieldLabel, Text: "label"}) {
			t.Errorf(`%v %+v; want len(rules) == 7 && rules[3].Filter.Conditions[0] == (event.Condition{Field: event.FieldLabel, Text: "label"})`, err, rules)
		}
		b.put("t", with("x", amqp.Pair{Key: "color", Value: "red"}), with("y"))
		// rules a and d plain, rule b with its action
		if got := b.held("t/Subscriptions/u"); got != "x x y y" {
			t.Errorf(`%+v, want "x x y y"`, got)
		}
		p.managedWith(200, "", "remove-rule", amqp.Map{{Key: "rule-name", Value: "B"}})
		p.managedWith(404, amqp.CondNotFound, "remove-rule", amqp.Map{{Key: "rule-name", Value: "b"}})
		b.put("t", with("z"))
		if got := b.held("t/Subscriptions/u"); got != "x x y y z" { // SM-285
			t.Errorf(`%+v, want "x x y y z"`, got)
		}
	})
}

// WP-179, SM-288: what add-rule refuses; nothing is kept of it.
func TestRulesRefused(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t/Subscriptions/u")
		good := expression("1=1")
		for name, body := range map[string]amqp.Map{
			"no body":              nil,
			"no description":       ruleBody("r", nil),
			"a text":               ruleBody("r", "1=1"),
			"no name":              ruleBody(nil, amqp.Map{{Key: "sql-filter", Value: good}}),
			"a number":             ruleBody(int32(1), amqp.Map{{Key: "sql-filter", Value: good}}),
			"a bad name":           ruleBody("a/b", amqp.Map{{Key: "sql-filter", Value: good}}),
			"a long name":          ruleBody(strings.Repeat("r", 51), amqp.Map{{Key: "sql-filter", Value: good}}),
			"no filter":            ruleBody("r", amqp.Map{{Key: "sql-filter", Value: nil}}),
			"two filters":          ruleBody("r", append(correlationRule("x", nil), amqp.Pair{Key: "sql-filter", Value: good})),
			"no expression":        ruleBody("r", amqp.Map{{Key: "sql-filter", Value: amqp.Map{}}}),
			"an expression":        ruleBody("r", amqp.Map{{Key: "sql-filter", Value: "1=1"}}),
			"bad SQL":              ruleBody("r", amqp.Map{{Key: "sql-filter", Value: expression("color = ")}}),
			"no condition":         ruleBody("r", amqp.Map{{Key: "sql-filter", Value: expression("1")}}),
			"a bad action":         ruleBody("r", amqp.Map{{Key: "sql-filter", Value: good}, {Key: "sql-rule-action", Value: expression("DROP x")}}),
			"no action":            ruleBody("r", amqp.Map{{Key: "sql-filter", Value: good}, {Key: "sql-rule-action", Value: "x"}}),
			"empty correlation":    ruleBody("r", correlationRule(nil, nil)),
			"a list of properties": ruleBody("r", correlationRule("x", amqp.List{"x"})),
			"a label":              ruleBody("r", correlationRule(int32(1), nil)),
			"a binary":             ruleBody("r", correlationRule("x", amqp.Map{{Key: "x", Value: []byte("x")}})),
			"a key":                ruleBody("r", correlationRule("x", amqp.Map{{Key: int32(1), Value: "x"}})),
			"a filter":             ruleBody("r", amqp.Map{{Key: "correlation-filter", Value: "x"}}),
		} {
			status, properties, _ := p.manage("com.microsoft:add-rule", body)
			if condition, _ := properties.Get("errorCondition"); status != 400 || condition != amqp.CondArgumentError {
				t.Errorf("%s: %+v; want status == 400 && condition == amqp.CondArgumentError", name, properties)
			}
		}
		for _, body := range []amqp.Map{nil, {{Key: "rule-name", Value: int32(1)}}} {
			p.managedWith(400, amqp.CondArgumentError, "remove-rule", body)
		}
		for _, page := range [][2]any{{nil, int32(1)}, {int32(0), nil}, {int32(-1), int32(1)}, {int32(0), int32(0)}, {"0", int32(1)}} {
			p.managedWith(400, amqp.CondArgumentError, "enumerate-rules", amqp.Map{{Key: "skip", Value: page[0]}, {Key: "top", Value: page[1]}})
		}
		if got := p.rules(int32(0), int32(100)); len(got) != 1 || got[0][2] != "$Default" {
			t.Errorf(`%+v; want len(got) == 1 && got[0][2] == "$Default"`, got)
		}
	})
}

// Rules on more than one page, and an answer that the peer's link or the broker's own limit cuts.
func TestRulesPages(t *testing.T) {
	for limit, want := range map[uint64]int{0: 30, 12_000: 10, 1: 1} {
		topics(t, func(b *bench) {
			p := b.root()
			p.attachSender(200, "t/Subscriptions/u/$management")
			p.write(0, &amqp.Attach{Name: "r201", Handle: 201, Role: amqp.RoleReceiver, SenderSettleMode: amqp.Some(amqp.SenderSettled), MaxMessageSize: amqp.Some(limit),
				Source: &amqp.Source{Address: "t/Subscriptions/u/$management"}, Target: &amqp.Target{Address: "reply201"}}, nil)
			expect[*amqp.Attach](p)
			p.credit(201, 0, 100, false)
			for i := range 30 {
				filter := fmt.Sprintf("x = '%s'", strings.Repeat("x", 900))
				p.managedWith(200, "", "add-rule", ruleBody(fmt.Sprintf("r%02d", i), amqp.Map{{Key: "sql-filter", Value: expression(filter)}}))
			}
			names := ""
			for skip := int32(1); ; { // after $Default
				page := p.rules(skip, int32(100))
				if len(page) == 0 {
					break
				}
				if len(page) > want {
					t.Errorf("%d: a page of %d", limit, len(page))
				}
				for _, r := range page {
					names += r[2].(string)
				}
				skip += int32(len(page))
			}
			if len(names) != 90 || names[:6] != "r00r01" || names[87:] != "r29" {
				t.Errorf(`%d: %s; want len(names) == 90 && names[:6] == "r00r01" && names[87:] == "r29"`, limit, names)
			}
		})
	}
}

// reliability.md P23: requests whose answers may be large are few at a time; requests for rules do
// not hold up the connection.
func TestRulesInFlight(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t/Subscriptions/u")
		p.attachSender(1, "t")
		b.broker.hold(func() {
			for i := range maxTaking + 1 {
				p.request(fmt.Sprint(i), "com.microsoft:enumerate-rules", amqp.Map{{Key: "top", Value: int32(1)}, {Key: "skip", Value: int32(0)}})
			}
			if status, _, _ := p.managed(fmt.Sprint(maxTaking)); status != 503 {
				t.Errorf("%+v, want 503", status)
			}
		})
		for i := range maxTaking {
			if status, _, _ := p.managed(fmt.Sprint(i)); status != 200 {
				t.Errorf("%+v, want 200", status)
			}
		}
		p.send(1, 0, newMessage("a", "x"))
		if got := p.rules(int32(0), int32(1)); len(got) != 1 {
			t.Errorf("%+v; want len(got) == 1", got)
		}
	})
}

// 6.2: answers of the engine that are no success, and a deadline.
func TestRulesNotDone(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("t/Subscriptions/u")
		remove := amqp.Map{{Key: "rule-name", Value: "$Default"}}
		b.broker.refuse(func(engine.Command) error { return &engine.Error{Code: engine.Busy, Text: "Too many."} })
		p.managedWith(503, amqp.CondServerBusy, "remove-rule", remove)
		b.broker.refuse(nil)
		b.broker.hold(func() {
			p.managedWith(408, amqp.CondTimeout, "remove-rule", remove, amqp.Pair{Key: "server-timeout", Value: uint32(1000)})
		})
		// it was carried out all the same
		p.managedWith(404, amqp.CondNotFound, "remove-rule", remove)
		b.broker.refuse(func(engine.Command) error { return engine.ErrUnknown })
		p.request("m", "com.microsoft:remove-rule", remove)
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondDetachForced {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondDetachForced", d)
		}
	})
}
