package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Changes of the catalogue go one after the other, each in steps: a record of partition 0 is
// durable, then the change comes into force where the entity lives, then it is answered. Anything
// may happen in between.

// put is the request to create or change an entity.
func (w *world) put(q *queue, props event.Properties) *ask {
	a := &ask{op: opUpdate, q: q, tag: w.tag(), asked: w.broker(), props: props,
		cmd: &engine.PutEntity{Kind: q.kind, Path: q.path, Properties: props, Origin: w.origin()}}
	w.admin = a
	return a
}

// give names the rules a subscription is made with; nil: the default one.
func (a *ask) give(rules []model.Rule) {
	if rules != nil {
		a.rules = rules
		a.cmd.(*engine.PutEntity).Rules = rulesOf(rules)
	}
}

// administer changes an entity or its rules, deletes it, or creates one that was deleted again. One
// after the other, as the broker does.
func (w *world) administer(op operation) {
	if w.admin != nil {
		return
	}
	e := &w.o.entities[w.rng.IntN(len(w.o.entities))]
	switch {
	case op == opPutRule || op == opDropRule:
		subs := slices.DeleteFunc(slices.Clone(w.o.entities), func(e spec) bool { return e.kind != event.Subscription })
		e = &subs[w.rng.IntN(len(subs))]
	case op == opUpdate && (w.o.topics || w.o.idle) && w.chance(50):
		// one that was deleted, if there is one
		for i := range w.o.entities {
			if o := &w.o.entities[i]; w.named(o.path).ended {
				e = o
				break
			}
		}
	}
	q := w.named(e.path)
	switch op {
	case opDelete:
		w.delete(q, "client")
	case opPutRule, opDropRule:
		w.changeRule(op, q)
	default:
		w.update(e, q)
	}
}

func (w *world) delete(q *queue, reason string) {
	a := &ask{op: opDelete, q: q, tag: w.tag(), asked: w.broker(), cmd: &engine.DeleteEntity{Path: q.path, Origin: w.origin(), Reason: reason}}
	w.admin = a
	w.submit(a)
}

// update changes an entity, or creates it again.
func (w *world) update(e *spec, q *queue) {
	props := properties(w.rng, e.kind)
	w.o.alter(w.rng, &props)
	props.RequiresSession, props.RequiresDuplicateDetection = e.props.RequiresSession, e.props.RequiresDuplicateDetection
	props.EnablePartitioning = e.props.EnablePartitioning
	created := q.ended
	if created {
		q = w.addQueue(e)
		if w.chance(30) && e.kind != event.Topic {
			props.RequiresSession = !props.RequiresSession
		}
	} else if now, _ := w.decided(q); w.chance(20) {
		props = now
	} else if props.RequiresSession = now.RequiresSession; w.chance(5) {
		props.RequiresDuplicateDetection = !props.RequiresDuplicateDetection // refused
	}
	a := w.put(q, props)
	cmd := a.cmd.(*engine.PutEntity)
	if w.o.topics && w.chance(20) {
		cmd.Mode = pick(w.rng, engine.CreateOnly, engine.UpdateOnly)
	}
	if e.kind == event.Subscription && (created || w.chance(20)) {
		if cmd.OnlyRules = w.chance(30); created && !cmd.OnlyRules && w.chance(30) {
			a.give(nil)
		} else {
			a.give(someRules(w.rng, w.o.sessions))
		}
	}
	w.submit(a)
}

// changeRule gives a subscription a rule, replaces one, or takes one away.
func (w *world) changeRule(op operation, q *queue) {
	a := &ask{op: op, q: q, tag: w.tag(), asked: w.broker()}
	a.rule = someRule(w.rng, w.o.sessions)
	if w.chance(10) {
		a.rule.Name = strings.ToUpper(a.rule.Name)
	}
	if op == opDropRule {
		if s, _ := w.newestSetting(q); len(s.rules) > 0 && w.chance(60) {
			a.rule.Name = s.rules[w.rng.IntN(len(s.rules))].Name
		}
		a.cmd = &engine.DeleteRule{Subscription: q.path, Name: a.rule.Name, Origin: w.origin()}
	} else {
		a.cmd = &engine.PutRule{Subscription: q.path, Rule: ruleOf(a.rule), Origin: w.origin(),
			Mode: pick(w.rng, engine.CreateOrUpdate, engine.CreateOrUpdate, engine.CreateOnly, engine.UpdateOnly)}
	}
	w.admin = a
	w.submit(a)
}

// administered carries on with a change of the catalogue that is durable, as the broker does.
func (w *world) administered(a *ask, ok bool) {
	if w.admin == a {
		w.admin = nil
	}
	q := a.q
	switch {
	case a.op == opTouch:
		w.collector.waits = false
	case a.op == opDrop:
		q.forgotten = true
	case a.op == opOrder:
	case a.op == opEnforce:
		if *a.left--; *a.left > 0 {
			w.admin = a // other logs have yet to say so
			return
		}
		q.now(a.entity)
		w.reorder(q)
	case !ok:
		if q.host == nil { // it was never created
			w.queues = w.queues[:q.n]
		}
	case a.op == opDelete:
		gone := append(slices.SortedFunc(slices.Values(a.subscriptions), func(a, b *queue) int { return cmp.Compare(a.path, b.path) }), q)
		for _, o := range gone {
			for _, part := range o.whole.parts {
				part.ended = true
			}
			w.reorder(o)
			for _, part := range o.whole.parts {
				if part.away() {
					continue // it forgets the slice when it is back
				}
				drop := &ask{op: opDrop, q: part, tag: w.tag(), asked: a.asked, cmd: loop.DropSlice(part.slice)}
				w.admin = drop
				w.submit(drop)
			}
		}
	default:
		w.enforce(a)
	}
}

// enforce puts a change that is durable in force where the entity lives.
func (w *world) enforce(a *ask) {
	q, x := a.q, w.parts[0].state.Index()
	created := q.host == nil
	if created {
		// the partition, fenced now, may have been serving when this was decided
		if w.placed(q, x); q.host.corruption != nil && q.topic == nil && !q.several() {
			w.broken("P24", "%s was created on partition %d, which is refused", q.path, q.host.id)
		}
	}
	s, _ := w.newestSetting(q)
	if a.op == opPutRule || a.op == opDropRule {
		q.ruledNow(w.broker())
	}
	entity, sites := w.version(q, q.entity), q.sites()
	left := len(sites)
	for _, site := range sites {
		e := &ask{op: opEnforce, q: site, tag: w.tag(), asked: a.asked, props: s.props, rules: s.rules, entity: entity, left: &left}
		switch a.op {
		case opPutRule:
			rule := *x.Catalogue.Rule(q.slice.Entity, a.rule.Name)
			e.cmd = loop.ConfigureRule(entity, &rule, "")
		case opDropRule:
			e.cmd = loop.ConfigureRule(entity, nil, a.rule.Name)
		default:
			ruled := q.kind == event.Subscription && (created || a.cmd.(*engine.PutEntity).OnlyRules)
			var rules []event.Rule
			for _, r := range x.Catalogue.Rules(q.slice.Entity) {
				rules = append(rules, *r)
			}
			e.cmd = loop.Configure(entity, ruled, rules)
		}
		if w.admin = e; site.away() { // it comes into force there when the log is back
			w.administered(e, true)
			continue
		}
		w.submit(e)
	}
}

// ruledNow: a rule of a subscription was changed, which counts as a use of the subscription (7.7).
func (q *queue) ruledNow(now int64) {
	q.ruled = now
	q.entity.Ruled(event.Time(now))
}

// admin decides about the catalogue.
func (s *shadow) admin(now int64, a *ask) (r model.Refusal) {
	w, q := s.w, a.q
	old, exists := w.newestSetting(q)
	next := setting{q: q, props: old.props, rules: old.rules, changed: old.changed, noted: old.noted}
	changes := true
	if !exists && a.op != opUpdate {
		return model.NoEntity
	}
	if a.op != opUpdate && w.notWhole(a, true) {
		return model.Busy
	}
	switch a.op {
	case opDelete:
		next.deleted = true
		a.subscriptions = w.subscriptionsOf(q)
	case opUpdate:
		changes, r = w.putDecided(now, a, &next, exists)
	case opPutRule:
		mode := a.cmd.(*engine.PutRule).Mode
		next.rules, changes, r = putRule(old.rules, a.rule, mode)
	case opDropRule:
		i := ruleNamed(old.rules, a.rule.Name)
		if i < 0 {
			return model.NoEntity
		}
		next.rules = slices.Delete(slices.Clone(old.rules), i, i+1)
	}
	if r != model.Accepted || !changes {
		return r
	}
	if a.op == opUpdate || a.op == opPutRule {
		if !w.faults.admits(a.weightOf(exists, &old, &next)) {
			w.stats.BusyByFault++
			return model.Busy
		}
	}
	s.m.Catalogued(now, true)
	next.record = s.m.Records
	for _, sub := range a.subscriptions {
		end, _ := w.newestSetting(sub)
		end.deleted, end.record = true, next.record
		w.catalogue = append(w.catalogue, end)
	}
	w.catalogue = append(w.catalogue, next)
	return model.Accepted
}

// putDecided decides what a put comes to, and whether it changes anything.
func (w *world) putDecided(now int64, a *ask, next *setting, exists bool) (changes bool, r model.Refusal) {
	cmd := a.cmd.(*engine.PutEntity)
	switch {
	case exists && cmd.Mode == engine.CreateOnly:
		return false, model.Exists
	case !exists && cmd.Mode == engine.UpdateOnly:
		return false, model.NoEntity
	case !exists:
		if a.q.topic != nil {
			if _, there := w.decided(a.q.topic); !there {
				return false, model.NoEntity
			}
		}
		if w.notWhole(a, false) {
			return false, model.Busy
		}
		if next.props, next.changed = a.props, now; a.q.kind == event.Subscription {
			if next.rules = a.rules; a.rules == nil {
				next.rules = []model.Rule{{Name: "$Default"}}
			}
		}
		return true, model.Accepted
	case next.props.RequiresSession != a.props.RequiresSession || next.props.RequiresDuplicateDetection != a.props.RequiresDuplicateDetection:
		return false, model.Invalid
	case w.notWhole(a, true):
		return false, model.Busy
	}
	if changes = cmd.Mode == engine.UpdateOnly || !next.props.Equal(&a.props); changes {
		next.changed = now
	}
	if next.props = a.props; cmd.OnlyRules {
		before := next.rules
		next.rules = replaced(before, a.rules)
		changes = changes || !slices.EqualFunc(before, next.rules, func(a, b model.Rule) bool { return a.Equal(&b) })
	}
	return changes, model.Accepted
}

// putRule adds a rule behind the others, or puts it in the place of the one with its name.
func putRule(rules []model.Rule, r model.Rule, mode engine.PutMode) (after []model.Rule, changes bool, _ model.Refusal) {
	i := ruleNamed(rules, r.Name)
	switch {
	case i >= 0 && mode == engine.CreateOnly:
		return nil, false, model.Exists
	case i < 0 && mode == engine.UpdateOnly:
		return nil, false, model.NoEntity
	case i < 0:
		return append(slices.Clone(rules), r), true, model.Accepted
	}
	r.Name = rules[i].Name
	after = slices.Clone(rules)
	after[i] = r
	return after, mode == engine.UpdateOnly || !r.Equal(&rules[i]), model.Accepted
}

// replaced is a list of rules once others take their place: those whose names stay keep their
// order.
func replaced(rules, by []model.Rule) (after []model.Rule) {
	for _, r := range rules {
		if ruleNamed(by, r.Name) >= 0 {
			after = append(after, r)
		}
	}
	for _, r := range by {
		after, _, _ = putRule(after, r, engine.CreateOrUpdate)
	}
	return after
}

func ruleNamed(rules []model.Rule, name string) int {
	return slices.IndexFunc(rules, func(r model.Rule) bool { return strings.EqualFold(r.Name, name) })
}

// weightOf is how much a change of the catalogue adds to the log.
func (a *ask) weightOf(exists bool, old, next *setting) weight {
	most := light
	if !exists {
		return growth
	}
	put, _ := a.cmd.(*engine.PutEntity)
	rule, _ := a.cmd.(*engine.PutRule)
	if put != nil && put.Mode == engine.UpdateOnly || rule != nil && rule.Mode == engine.UpdateOnly || !old.props.Equal(&next.props) {
		most = change // an update counts as one, even if it changes nothing
	}
	for _, r := range next.rules {
		i := ruleNamed(old.rules, r.Name)
		switch {
		case i < 0:
			return growth
		case !r.Equal(&old.rules[i]):
			most = change
		}
	}
	return most
}

// enforced: settings and rules come into force in all partitions that an entity has in a log.
func (s *shadow) enforced(a *ask) {
	for _, q := range a.q.local() {
		q.inForce(a.props, a.rules)
		s.movable(q)
	}
}
