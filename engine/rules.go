package engine

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// filterCount is the number of filters of the two kinds that have limits of their own.
type filterCount struct{ sql, correlation int }

// count adds n filters of a rule's kind.
func (c *filterCount) count(r *event.Rule, n int) {
	if r.Filter.Kind == event.CorrelationFilter {
		c.correlation += n
	} else {
		c.sql += n
	}
}

// countRules counts the filters of rules. It refuses two rules of one name.
func countRules(rules []event.Rule) (count filterCount, _ *Error) {
	names := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		lower := strings.ToLower(r.Name)
		if names[lower] {
			return count, Refuse(AlreadyExists, "Two rules are named '%s'.", r.Name)
		}
		names[lower] = true
		count.count(r, 1)
	}
	return count, nil
}

// roomForFilters refuses more filters than a topic may have (semantics.md 16.3).
func (c catalogueDecision) roomForFilters(topic event.EntityID, more filterCount) *Error {
	sql, correlation := c.there.Filters(topic)
	t, _ := c.there.Get(topic)
	switch {
	case more.sql > 0 && sql+more.sql > maxSQLFilters:
		return Refuse(QuotaExceeded, "The topic '%s' has %d SQL filters; at most %d are allowed.", t.Path, sql, maxSQLFilters)
	case more.correlation > 0 && correlation+more.correlation > maxCorrelations:
		return Refuse(QuotaExceeded, "The topic '%s' has %d correlation filters; at most %d are allowed.", t.Path, correlation, maxCorrelations)
	}
	return nil
}

// mayReplace refuses rules that cannot replace those of a subscription.
func (c catalogueDecision) mayReplace(sub *index.Entity, rules []event.Rule) *Error {
	count, err := countRules(rules)
	if err != nil {
		return err
	}
	for _, r := range c.there.Rules(sub.ID) { // the present rules make room
		count.count(r, -1)
	}
	return c.roomForFilters(sub.Topic, count)
}

// replaceRules replaces the rules of a subscription by those of a command; equal rules stay.
func (c catalogueDecision) replaceRules(sub event.EntityID, cmd *PutEntity) {
	keep := map[string]bool{}
	for i := range cmd.Rules {
		keep[strings.ToLower(cmd.Rules[i].Name)] = true
	}
	for _, r := range c.there.Rules(sub) {
		if !keep[strings.ToLower(r.Name)] {
			c.removeRule(sub, c.origin(cmd.Origin), r)
		}
	}
	for _, r := range cmd.Rules {
		switch has := c.there.Rule(sub, r.Name); {
		case has == nil:
			c.addRule(sub, c.origin(cmd.Origin), r)
		case !sameRule(has, &r):
			c.updateRule(sub, c.origin(cmd.Origin), has, r)
		}
	}
}

func sameRule(a, b *event.Rule) bool {
	return sameFilter(a.Filter, b.Filter) && a.Action.Text == b.Action.Text && sameList(a.Action.Parameters, b.Action.Parameters)
}

func sameFilter(a, b event.Filter) bool {
	return a.Kind == b.Kind && a.Text == b.Text && sameList(a.Parameters, b.Parameters) && sameList(a.Conditions, b.Conditions) &&
		sameList(a.Properties, b.Properties)
}

func sameList[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// checkRule refuses a rule that no subscription can have.
func checkRule(r *event.Rule) *Error {
	if err := CheckName("Rule", r.Name); err != nil {
		return err
	}
	if err := filter.Check(r); err != nil {
		return Refuse(InvalidArgument, "The rule '%s' cannot be used: %v", r.Name, err)
	}
	return nil
}

// subscription returns the subscription whose rules a command is about.
func (c catalogueDecision) subscription(path string) (index.Entity, *Error) {
	e, ok := c.there.Find(path)
	if !ok || e.Kind != event.Subscription {
		return e, NoEntity(path)
	}
	return e, nil
}

// putRule adds a rule to a subscription or replaces one; see [PutRule].
func (c catalogueDecision) putRule(cmd *PutRule) *Error {
	sub, err := c.subscription(cmd.Subscription)
	if err != nil {
		return err
	}
	if err := cmp.Or(checkRule(&cmd.Rule), c.allThere(sub.Path, sub.Hosts)); err != nil {
		return err
	}
	old := c.there.Rule(sub.ID, cmd.Rule.Name)
	switch {
	case old != nil && cmd.Mode == CreateOnly:
		return Refuse(AlreadyExists, "The rule '%s' of '%s' already exists.", old.Name, sub.Path)
	case old == nil && cmd.Mode == UpdateOnly:
		return noRule(cmd.Rule.Name, &sub)
	case old != nil && cmd.Mode == CreateOrUpdate && sameRule(old, &cmd.Rule):
		return nil
	}
	var more filterCount
	more.count(&cmd.Rule, 1)
	if old != nil {
		more.count(old, -1)
	}
	if err := c.roomForFilters(sub.Topic, more); err != nil {
		return err
	}
	origin := c.origin(cmd.Origin)
	if old == nil {
		c.addRule(sub.ID, origin, cmd.Rule)
	} else {
		c.updateRule(sub.ID, origin, old, cmd.Rule)
	}
	c.because(cmd.Why, about(sub.ID, origin))
	return nil
}

// noRule returns the refusal of a rule's name. Its text begins like that for entities: the
// JavaScript SDK recognises by it that something was not found.
func noRule(name string, sub *index.Entity) *Error {
	return Refuse(NotFound, "The messaging entity '%s/Rules/%s' could not be found.", sub.Path, name)
}

// deleteRule removes a rule of a subscription.
func (c catalogueDecision) deleteRule(cmd *DeleteRule) *Error {
	sub, err := c.subscription(cmd.Subscription)
	if err := cmp.Or(err, c.allThere(cmd.Subscription, sub.Hosts)); err != nil {
		return err
	}
	r := c.there.Rule(sub.ID, cmd.Name)
	if r == nil {
		return noRule(cmd.Name, &sub)
	}
	origin := c.origin(cmd.Origin)
	c.removeRule(sub.ID, origin, r)
	c.because(cmd.Why, about(sub.ID, origin))
	return nil
}

func (c catalogueDecision) addRule(sub event.EntityID, origin event.OriginID, r event.Rule) {
	ev := add[*event.RuleAdded](c.decision, event.KindRuleAdded)
	ev.Envelope, ev.Rule = about(sub, origin), r
	ev.Rule.CreatedAt = c.now
}

func (c catalogueDecision) updateRule(sub event.EntityID, origin event.OriginID, old *event.Rule, r event.Rule) {
	ev := add[*event.RuleUpdated](c.decision, event.KindRuleUpdated)
	ev.Envelope, ev.Rule, ev.Before = about(sub, origin), r, *old
	ev.Rule.Name, ev.Rule.CreatedAt = old.Name, old.CreatedAt
}

func (c catalogueDecision) removeRule(sub event.EntityID, origin event.OriginID, r *event.Rule) {
	ev := add[*event.RuleRemoved](c.decision, event.KindRuleRemoved)
	ev.Envelope, ev.Rule = about(sub, origin), *r
}

// listRules answers with rules by lower-cased name.
func (c catalogueDecision) listRules(cmd *ListRules) *Error {
	sub, err := c.subscription(cmd.Subscription)
	if err != nil {
		return err
	}
	if cmd.Name != "" {
		r := c.there.Rule(sub.ID, cmd.Name)
		if r == nil {
			return noRule(cmd.Name, &sub)
		}
		c.reply.Answer = Rules{*r}
		return nil
	}
	sorted := c.there.RulesByName(sub.ID)
	sorted = sorted[min(max(0, cmd.Skip), len(sorted)):]
	sorted = sorted[:min(max(0, cmd.Top), len(sorted), maxRulesShown)]
	rules := make(Rules, 0, len(sorted))
	for _, r := range sorted {
		rules = append(rules, *r)
	}
	c.reply.Answer, c.looks = rules, len(sorted)
	return nil
}
