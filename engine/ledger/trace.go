package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TraceColumns are the columns of the rows of [Ledger.Trace].
var TraceColumns = []string{"Subscription", "Rule", "Verdict", "Part", "Had", "Changes", "Filter"}

// ruleKinds are the kinds of events that determine the rules of a namespace.
var ruleKinds = []event.Kind{event.KindEntityCreated, event.KindEntityUpdated, event.KindEntityDeleted, event.KindRuleAdded, event.KindRuleUpdated, event.KindRuleRemoved}

// rulesOf returns the present entities and rules, according to the catalogue's log.
func rulesOf(ctx context.Context, b *book) (*index.Catalogue, error) {
	s := replay.Begin(b)
	of := func(ev event.Event) bool { return slices.Contains(ruleKinds, ev.Kind()) }
	for rec, err := range s.Found(ctx, []log.Search{{Kinds: ruleKinds}}) {
		if err == nil {
			err = s.ApplyOnly(rec, of)
		}
		if err != nil {
			return nil, err
		}
	}
	return &s.Index.Catalogue, nil
}

// Trace tells which rules of a topic a message would match if it was sent now, and what their
// actions would change. For the other rules it tells the first part of the condition that the
// message does not meet. Nothing is sent. The same code evaluates the rules of a real send.
func (l *Ledger) Trace(ctx context.Context, topic, message string) error {
	m, err := parseMessage(message)
	if err != nil {
		return err
	}
	n, err := l.catalogue(ctx)
	if err != nil {
		return err
	}
	of, err := n.find(topic)
	if err != nil {
		return err
	}
	rules, err := rulesOf(ctx, l.books[catalogue])
	if err != nil {
		return err
	}
	t := tracer{l: l, m: m, topic: of.path}
	switch e, there := rules.Get(of.id); {
	case !there:
		return fmt.Errorf("%w of a topic %s: it was deleted at %s", ErrNothing, word(of.path), of.deleted)
	case e.Kind == event.Queue:
		return fmt.Errorf("%w: %s is a queue, which has no rules", ErrQuestion, word(of.path))
	case e.Kind == event.Subscription:
		return fmt.Errorf("%w: %s is a subscription; name its topic", ErrQuestion, word(of.path))
	}
	return t.run(rules, of.id)
}

// tracer tries a message on the rules of a topic.
type tracer struct {
	l                  *Ledger
	m                  *filter.Message
	topic              string
	subscriptions, got int
	// the first rule that cannot be evaluated; else whose condition is unknown; else that does not
	// match
	first *shownRule
	rank  int // of first
}

// shownRule is a rule of a subscription that was looked at.
type shownRule struct {
	subscription string
	*event.Rule
}

// name returns the subscription without its topic.
func (r *shownRule) name() string {
	return r.subscription[strings.LastIndexByte(r.subscription, '/')+1:]
}

func (t *tracer) run(c *index.Catalogue, topic event.EntityID) error {
	var subscriptions []index.Entity
	for _, e := range c.All() {
		if e.Topic == topic {
			subscriptions = append(subscriptions, e)
		}
	}
	slices.SortFunc(subscriptions, func(a, b index.Entity) int { return cmp.Compare(fold(a.Path), fold(b.Path)) })
	for _, e := range subscriptions {
		if err := t.subscription(&e, c.Rules(e.ID)); err != nil {
			return err
		}
	}
	if err := t.l.answer(print.Object{print.Named("Topic", t.topic), print.Named("Subscriptions", uint64(t.subscriptions)), print.Named("Receiving", uint64(t.got))},
		"%d of %s of %s would get it; nothing was sent", t.got, many(t.subscriptions, "subscription", "subscriptions"), word(t.topic)); err != nil {
		return err
	}
	if t.first == nil {
		return nil
	}
	return t.l.next(fmt.Sprintf("ledgerbus rule show '%s' '%s' '%s'", t.topic, t.first.name(), t.first.Name), fmt.Sprintf("ledgerbus audit '%s'", t.topic))
}

// subscription tells the verdict of each rule, and the resulting copies: one copy for all matching
// rules without an action, and one for each with an action.
func (t *tracer) subscription(e *index.Entity, rules []*event.Rule) error {
	t.subscriptions++
	copies := 0
	var dead string
	withoutSession := false
	for _, r := range rules {
		shown := &shownRule{e.Path, r}
		x, err := filter.Explain(r, t.m, func() [16]byte { return [16]byte{} })
		if err != nil {
			x = filter.Explanation{Err: err}
		}
		switch {
		case x.Err != nil && e.Properties.DeadLetteringOnFilterError:
			dead = "would be dead-lettered in " + word(e.Path) + ", because a rule cannot be evaluated"
		case x.Matches && x.Err == nil:
			copies++
			withoutSession = withoutSession || t.withoutSession(e, &x)
		}
		if rank := suspicion(&x); rank > t.rank {
			t.first, t.rank = shown, rank
		}
		if err := t.rule(shown, &x); err != nil {
			return err
		}
	}
	if copies > 0 {
		t.got++
	}
	if withoutSession {
		dead = word(e.Path) + " requires sessions, but the message has no session id: the copy would be dead-lettered"
	}
	if len(rules) == 0 {
		dead = word(e.Path) + " has no rules, and gets nothing"
	}
	if dead != "" {
		return t.l.note("%s", dead)
	}
	return nil
}

// suspicion returns how likely it is that a rule does not do what its author meant; more is
// likelier.
func suspicion(x *filter.Explanation) int {
	switch {
	case x.Err != nil:
		return 3
	case x.Matches:
		return 0
	case x.Unknown:
		return 2
	}
	return 1
}

// withoutSession reports whether a copy would lack a session that its subscription requires.
func (t *tracer) withoutSession(e *index.Entity, x *filter.Explanation) bool {
	session := t.m.System[filter.SessionID]
	for _, p := range x.Changes.System {
		if p.Name == filter.SessionID.String() {
			session = p.Value
		}
	}
	return e.Properties.RequiresSession && session.Type == event.Null
}

// rule tells the verdict of one rule.
func (t *tracer) rule(r *shownRule, x *filter.Explanation) error {
	var verdict, part, had, changes string
	switch {
	case x.Err != nil:
		verdict, part = "fails", quote(x.Err.Error())
	case x.Matches:
		verdict, changes = "matches", changesText(&x.Changes)
	case x.Unknown:
		verdict, part, had = "unknown", word(x.Part), observedText(x.Values)
	default:
		verdict, part, had = "false", word(x.Part), observedText(x.Values)
	}
	text := fmt.Sprintf("%-8s %s  rule %s", verdict, word(r.subscription), word(r.Name))
	for _, s := range []string{part, had, changes} {
		if s != "" {
			text += "  " + s
		}
	}
	return t.l.tell(Line{Part: Row, Text: text, Fields: print.Object{print.Named("Subscription", r.subscription), print.Named("Rule", print.Text([]byte(r.Name))), print.Named("Verdict", verdict),
		print.Named("Part", part), print.Named("Had", had), print.Named("Changes", changes), print.Named("Filter", word(filterText(&r.Filter)))}})
}

// observedText returns the values in a condition.
func observedText(values []filter.Observed) string {
	var list []string
	for _, v := range values {
		switch {
		case !v.Set && strings.HasPrefix(v.Name, "sys.") && slices.ContainsFunc(onlySent, func(p filter.SystemProperty) bool { return strings.EqualFold(v.Name[4:], p.String()) }):
			list = append(list, word(v.Name)+" is known only when the message is sent")
		case !v.Set:
			list = append(list, word(v.Name)+" is not set")
		case v.Value == "" && v.Type != "a string":
			list = append(list, word(v.Name)+" is "+v.Type)
		case v.Type == "a string":
			list = append(list, word(v.Name)+" is "+quote(v.Value))
		default:
			list = append(list, word(v.Name)+" is "+word(v.Value))
		}
	}
	return strings.Join(list, ", ")
}

// onlySent are the properties that filters see but that only the broker knows, once a message is
// sent.
var onlySent = []filter.SystemProperty{filter.SequenceNumber, filter.EnqueuedSequenceNumber, filter.EnqueuedTimeUtc, filter.ExpiresAtUtc, filter.Size}

// changesText returns what an action changes, in words.
func changesText(c *event.RuleChanges) string {
	var list []string
	for _, p := range c.Set {
		list = append(list, word(p.Name)+" becomes "+valueText(p.Value))
	}
	for _, name := range c.Removed {
		list = append(list, word(name)+" is removed")
	}
	for _, p := range c.System {
		if p.Value.Type == event.Null {
			list = append(list, "sys."+p.Name+" is removed")
		} else {
			list = append(list, "sys."+p.Name+" becomes "+valueText(p.Value))
		}
	}
	return strings.Join(list, ", ")
}

// valueText returns a simple value as answers show it.
func valueText(v event.Value) string {
	if o := filter.Observe("", v); o.Type != "a string" {
		return word(o.Value)
	}
	return quote(v.Text)
}

// filterText returns the condition of a rule, in the language of filters.
func filterText(f *event.Filter) string {
	switch f.Kind {
	case event.SQLFilter:
		return f.Text
	case event.TrueFilter:
		return "TRUE"
	case event.FalseFilter:
		return "FALSE"
	}
	var list []string
	for _, c := range f.Conditions {
		list = append(list, fmt.Sprintf("sys.%s = '%s'", c.Field, strings.ReplaceAll(c.Text, "'", "''")))
	}
	for _, p := range f.Properties {
		list = append(list, p.Name+" = "+filter.Observe("", p.Value).Value)
	}
	return strings.Join(list, " AND ")
}
