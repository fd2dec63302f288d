package servicebus

import (
	"fmt"
	"math"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

const needsRuleName = "The request needs 'rule-name', a string."

// addRule adds a rule to a subscription (semantics.md 15.1).
func addRule(req *request, body amqp.Map) {
	rule, e := ruleOf(body)
	if e != nil {
		req.refuseFor(e)
		return
	}
	why, ok := req.why()
	if !ok {
		return
	}
	req.rule = rule.Name
	cmd := &engine.PutRule{Subscription: req.l.target.Entity.Path, Rule: rule, Mode: engine.CreateOnly, Origin: req.l.origin, Why: why}
	req.askCatalogue(cmd, func(req *request, _ *engine.Reply) { req.succeed(nil) })
}

// removeRule removes a rule.
func removeRule(req *request, body amqp.Map) {
	name := message.TextOf(body, "rule-name")
	if name == "" {
		req.bad(needsRuleName)
		return
	}
	why, ok := req.why()
	if !ok {
		return
	}
	req.rule = name
	cmd := &engine.DeleteRule{Subscription: req.l.target.Entity.Path, Name: name, Origin: req.l.origin, Why: why}
	req.askCatalogue(cmd, func(req *request, _ *engine.Reply) { req.succeed(nil) })
}

// describe returns the condition and text for a refused request. The text names a rule as the
// service does, in the client's words.
func (req *request) describe(err error) (condition, string) {
	c, text := req.l.describe(err)
	format := ""
	switch {
	case req.rule == "":
	case c.symbol == amqp.CondEntityAlreadyExists:
		format = "The messaging entity '%s' already exists."
	case c.symbol == amqp.CondNotFound:
		format = notFoundText
	}
	if format == "" {
		return c, text
	}
	topic, name := req.l.target.Entity.TopicPath(), req.l.target.Entity.Name()
	if path := req.l.at.path; len(path) > len(topic)+len(name) {
		topic, name = path[:len(topic)], path[len(path)-len(name):]
	}
	return c, fmt.Sprintf(format, req.l.c.namespace+":Topic:"+topic+"|"+name+"|"+req.rule)
}

// maxRules bounds the rules of the engine's answer.
const maxRules = 10_000

// enumerateRules answers with rules: as many as requested, unless the peer's link or an answer has
// too little room for them. It always includes the first one.
func enumerateRules(req *request, body amqp.Map) {
	c := req.l.c
	skip, ok1 := message.Integer(body, "skip")
	top, ok2 := message.Integer(body, "top")
	if !ok1 || !ok2 || skip < 0 || top <= 0 {
		req.bad("The request needs 'skip' and a positive 'top'.")
		return
	}
	if c.pendings.taking >= maxTaking {
		req.refuse(503, amqp.CondServerBusy, tooManyTaking)
		return
	}
	req.takes = true
	room := c.limits.BufferedOut
	if r := req.l.c.sessions.replyLink(req); r != nil {
		room = min(room, r.maxSize)
	}
	cmd := &engine.ListRules{
		Subscription: req.l.target.Entity.Path, Skip: int(min(skip, math.MaxInt32)), Top: int(min(top, maxRules)),
	}
	req.askCatalogue(cmd, func(req *request, r *engine.Reply) {
		rules := describeRules(r.Rules(), room-answerRoom)
		if len(rules) == 0 {
			req.nothing()
			return
		}
		req.succeed(amqp.Map{{Key: "rules", Value: rules}})
	})
}

// describeRules returns the list of rules for an answer of at most room bytes.
func describeRules(rules []event.Rule, room int) amqp.List {
	var list amqp.List
	var scratch []byte
	for i := range rules {
		d := describeRule(&rules[i])
		scratch = amqp.AppendValue(scratch[:0], d)
		if room -= len(scratch) + entryRoom; room < 0 && len(list) > 0 {
			break
		}
		list = append(list, amqp.Map{{Key: "rule-description", Value: d}})
	}
	return list
}

// Descriptors of rules and their parts (6.4).
const (
	describedRule              uint64 = 0x13700000004
	describedNoAction          uint64 = 0x13700000005
	describedAction            uint64 = 0x13700000006
	describedSQLFilter         uint64 = 0x1370000006
	describedTrueFilter        uint64 = 0x1370000007
	describedFalseFilter       uint64 = 0x1370000008
	describedCorrelationFilter uint64 = 0x1370000009
)

// compatibility is the level of the SQL language; clients ignore it (6.4).
const compatibility int32 = 20

func describeRule(r *event.Rule) amqp.Described {
	action := amqp.Described{Descriptor: describedNoAction, Value: amqp.List{}}
	if r.Action.Text != "" {
		action = amqp.Described{Descriptor: describedAction, Value: amqp.List{r.Action.Text, compatibility}}
	}
	return amqp.Described{Descriptor: describedRule, Value: amqp.List{
		describeFilter(&r.Filter), action, r.Name, amqp.Timestamp(r.CreatedAt),
	}}
}

func describeFilter(f *event.Filter) amqp.Described {
	switch f.Kind {
	case event.TrueFilter:
		return amqp.Described{Descriptor: describedTrueFilter, Value: amqp.List{}}
	case event.FalseFilter:
		return amqp.Described{Descriptor: describedFalseFilter, Value: amqp.List{}}
	case event.CorrelationFilter:
		return amqp.Described{Descriptor: describedCorrelationFilter, Value: describeCorrelation(f)}
	}
	return amqp.Described{Descriptor: describedSQLFilter, Value: amqp.List{f.Text, compatibility}}
}

// correlationFields lists the fields of a correlation filter, in the order of 6.4, with their names
// in a request.
var correlationFields = [...]struct {
	key   string
	field event.Field
}{
	{"correlation-id", event.FieldCorrelationID}, {"message-id", event.FieldMessageID}, {"to", event.FieldTo},
	{"reply-to", event.FieldReplyTo}, {"label", event.FieldLabel}, {"session-id", event.FieldSessionID},
	{"reply-to-session-id", event.FieldReplyToSessionID}, {"content-type", event.FieldContentType},
}

// describeCorrelation returns the list of a correlation filter. Properties are at its end or left
// out, because null would stop one SDK.
func describeCorrelation(f *event.Filter) amqp.List {
	list := make(amqp.List, len(correlationFields), len(correlationFields)+1)
	for i, known := range correlationFields {
		for _, c := range f.Conditions {
			if c.Field == known.field {
				list[i] = c.Text
			}
		}
	}
	if len(f.Properties) == 0 {
		return list
	}
	m := make(amqp.Map, len(f.Properties))
	for i, p := range f.Properties {
		m[i] = amqp.Pair{Key: p.Name, Value: message.OnWire(p.Value)}
	}
	return append(list, m)
}

// ruleOf reads the rule of a request. The engine checks its content.
func ruleOf(body amqp.Map) (event.Rule, *amqp.Error) {
	v, _ := body.Get("rule-description")
	description, ok := v.(amqp.Map)
	if !ok {
		return event.Rule{}, message.ArgumentError("The request needs 'rule-description', a map.")
	}
	r := event.Rule{Name: message.TextOf(body, "rule-name")}
	if r.Name == "" {
		r.Name = message.TextOf(description, "rule-name")
	}
	if r.Name == "" {
		return r, message.ArgumentError(needsRuleName)
	}
	var e *amqp.Error
	if r.Filter, e = filterOf(description); e != nil {
		return r, e
	}
	r.Action.Text, _, e = expressionOf(description, "sql-rule-action")
	return r, e
}

// filterOf reads the one filter of a rule. A null value means that the filter is of another kind.
func filterOf(description amqp.Map) (event.Filter, *amqp.Error) {
	text, isSQL, e := expressionOf(description, "sql-filter")
	if e != nil {
		return event.Filter{}, e
	}
	v, _ := description.Get("correlation-filter")
	correlation, isCorrelation := v.(amqp.Map)
	switch {
	case v != nil && !isCorrelation:
		return event.Filter{}, message.ArgumentError("The 'correlation-filter' of a rule must be a map.")
	case isSQL == isCorrelation:
		return event.Filter{}, message.ArgumentError("The rule description needs either 'sql-filter' or 'correlation-filter'.")
	case isSQL:
		return event.Filter{Kind: event.SQLFilter, Text: text}, nil
	}
	return correlationOf(correlation)
}

// expressionOf reads a map with an SQL text.
func expressionOf(description amqp.Map, key string) (text string, given bool, e *amqp.Error) {
	v, _ := description.Get(key)
	if v == nil {
		return "", false, nil
	}
	m, _ := v.(amqp.Map)
	v, _ = m.Get("expression")
	if text, given = message.Text(v); !given {
		return "", false, message.ArgumentError("The '%s' of a rule must be a map with an 'expression', a string.", key)
	}
	return text, true, nil
}

func correlationOf(m amqp.Map) (event.Filter, *amqp.Error) {
	f := event.Filter{Kind: event.CorrelationFilter}
	for _, known := range correlationFields {
		v, _ := m.Get(known.key)
		if v == nil { // one SDK sends every key
			continue
		}
		text, ok := message.Text(v)
		if !ok {
			return f, message.ArgumentError("The '%s' of a correlation filter must be a string.", known.key)
		}
		f.Conditions = append(f.Conditions, event.Condition{Field: known.field, Text: text})
	}
	v, _ := m.Get("properties")
	properties, ok := v.(amqp.Map)
	if v != nil && !ok {
		return f, message.ArgumentError("The 'properties' of a correlation filter must be a map.")
	}
	for _, p := range properties {
		name, ok := message.Text(p.Key)
		if !ok {
			return f, message.ArgumentError("The name of a property of a correlation filter must be a string.")
		}
		value := message.Value(amqp.AppendValue(nil, p.Value))
		if value.Type == filter.Opaque {
			return f, message.ArgumentError("The property '%s' of a correlation filter is not of a simple type.", clip([]byte(name)))
		}
		f.Properties = append(f.Properties, event.Property{Name: name, Value: value})
	}
	return f, nil
}
