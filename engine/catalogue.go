package engine

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hashVersion names the placement hash below. It is stored with every entity: changing the hash needs a new number.
const hashVersion = 1

// Quotas of a namespace and of a topic (semantics.md 16.3).
const (
	maxEntities      = 10_000 // queues and topics
	maxPartitioned   = 100    // of these, partitioned
	maxSubscriptions = 2000   // of a topic
	maxSQLFilters    = 2000   // of a topic
	maxCorrelations  = 100_000
	maxRulesAtOnce   = 10_000 // in one command; a choice
	maxRulesShown    = 10_000 // in one answer, which has its own bound in bytes; a choice
)

// place chooses the partition that hosts an entity partition: FNV-1a of the entity id and the number, so it depends on
// nothing else and never changes. A subscription is where its topic is.
func place(id event.EntityID, number uint8, width int) PartitionID {
	h := fnv.New32a()
	h.Write([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), number})
	return PartitionID(h.Sum32() % uint32(width))
}

// nextID is the id of the next entity. Ids that would place a queue or topic on a partition that is refused are left out: it
// could take no message until that is repaired (reliability.md P24).
func (p *Partition) nextID(kind event.EntityKind) event.EntityID {
	id := p.index.Catalogue.NextID()
	if kind == event.Subscription || p.avoid == nil {
		return id
	}
	for p.avoid[place(id, 0, p.width)] {
		id++
	}
	return id
}

func (p *Partition) onlyCatalogue() {
	if p.id != 0 {
		panic(fmt.Sprintf("engine: catalogue command on partition %d", p.id))
	}
}

// putEntity creates an entity or changes it; see [PutEntity].
func (p *Partition) putEntity(now event.Time, cmd *PutEntity) Outcome {
	p.onlyCatalogue()
	if err := storable(cmd.Kind, &cmd.Properties); err != nil {
		return p.refused(err)
	}
	for i := range cmd.Rules {
		if err := checkRule(&cmd.Rules[i]); err != nil {
			return p.refused(err)
		}
	}
	old, ok := p.index.Catalogue.Find(cmd.Path)
	switch {
	case !ok && cmd.Mode == UpdateOnly:
		return p.refused(NoEntity(cmd.Path))
	case !ok:
		return p.createEntity(now, cmd)
	case cmd.Mode == CreateOnly:
		return p.refused(Refuse(AlreadyExists, "The messaging entity '%s' already exists.", old.Path))
	case old.Kind != cmd.Kind && cmd.Mode == UpdateOnly:
		return p.refused(NoEntity(cmd.Path))
	case old.Kind != cmd.Kind:
		return p.refused(Refuse(AlreadyExists, "There is a %s named '%s' already.", strings.ToLower(old.Kind.String()), old.Path))
	}
	return p.updateEntity(now, cmd, &old)
}

func (p *Partition) createEntity(now event.Time, cmd *PutEntity) Outcome {
	if err := CheckPath(cmd.Kind, cmd.Path); err != nil {
		return p.refused(err)
	}
	id := p.nextID(cmd.Kind)
	path, topic, hosts := cmd.Path, event.EntityID(0), []byte{byte(place(id, 0, p.width))}
	if cmd.Kind == event.Subscription {
		t, err := p.topicFor(cmd)
		if err != nil {
			return p.refused(err)
		}
		path, topic, hosts = SubscriptionPath(t.Path, path[strings.LastIndexByte(path, '/')+1:]), t.ID, slices.Clone(t.Hosts)
	} else if err := p.mayCreate(cmd); err != nil {
		return p.refused(err)
	}
	origin := p.origin(cmd.Origin)
	ev := p.events.New(event.KindEntityCreated).(*event.EntityCreated)
	ev.Envelope = envelope(event.Slice{Entity: id}, origin)
	ev.EntityKind, ev.Path, ev.Topic = cmd.Kind, path, topic
	ev.Properties = effective(cmd.Kind, cmd.Properties)
	ev.HashVersion, ev.Hosts = hashVersion, hosts
	p.out = append(p.out, ev)
	if cmd.Kind == event.Subscription {
		rules := cmd.Rules
		if rules == nil {
			rules = []event.Rule{{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}}
		}
		for _, r := range rules {
			p.addRule(now, id, origin, r)
		}
	}
	return p.done(log.Durable)
}

// mayCreate refuses a queue or topic beyond what a namespace may have.
func (p *Partition) mayCreate(cmd *PutEntity) *Error {
	c := &p.index.Catalogue
	if c.Roots() >= maxEntities {
		return Refuse(QuotaExceeded, "The namespace has %d queues and topics, which is the most there may be: '%s' is not created.", maxEntities, cmd.Path)
	}
	if !cmd.Properties.EnablePartitioning {
		return nil
	}
	if c.Partitioned() >= maxPartitioned {
		return Refuse(QuotaExceeded, "The namespace has %d partitioned queues and topics, which is the most there may be: '%s' is not created.", maxPartitioned, cmd.Path)
	}
	return nil
}

// topicFor finds the topic of a subscription that is to be made, and refuses what would be too many of it.
func (p *Partition) topicFor(cmd *PutEntity) (index.Entity, *Error) {
	path := (&Entity{Kind: event.Subscription, Path: cmd.Path}).TopicPath()
	c := &p.index.Catalogue
	t, ok := c.Find(path)
	if !ok || t.Kind != event.Topic {
		return t, NoEntity(path)
	}
	if c.SubscriptionCount(t.ID) >= maxSubscriptions {
		return t, Refuse(QuotaExceeded, "The topic '%s' has %d subscriptions, which is the most there may be.", t.Path, maxSubscriptions)
	}
	if len(cmd.Rules) > maxRulesAtOnce {
		return t, Refuse(QuotaExceeded, "A subscription can be made with %d rules at most.", maxRulesAtOnce)
	}
	sql, correlation := 0, 0
	if cmd.Rules == nil {
		sql = 1 // $Default
	}
	names := map[string]bool{}
	for i := range cmd.Rules {
		r := &cmd.Rules[i]
		if lower := strings.ToLower(r.Name); names[lower] {
			return t, Refuse(AlreadyExists, "Two rules are named '%s'.", r.Name)
		} else {
			names[lower] = true
		}
		countFilter(&r.Filter, &sql, &correlation)
	}
	return t, p.roomForFilters(&t, sql, correlation)
}

func countFilter(f *event.Filter, sql, correlation *int) {
	if f.Kind == event.CorrelationFilter {
		*correlation++
	} else {
		*sql++
	}
}

// roomForFilters refuses more filters than a topic may have (semantics.md 16.3).
func (p *Partition) roomForFilters(topic *index.Entity, sql, correlation int) *Error {
	hasSQL, hasCorrelation := p.index.Catalogue.Filters(topic.ID)
	switch {
	case sql > 0 && hasSQL+sql > maxSQLFilters:
		return Refuse(QuotaExceeded, "The topic '%s' has %d SQL filters; at most %d are allowed.", topic.Path, hasSQL, maxSQLFilters)
	case correlation > 0 && hasCorrelation+correlation > maxCorrelations:
		return Refuse(QuotaExceeded, "The topic '%s' has %d correlation filters; at most %d are allowed.", topic.Path, hasCorrelation, maxCorrelations)
	}
	return nil
}

func (p *Partition) updateEntity(now event.Time, cmd *PutEntity, old *index.Entity) Outcome {
	if err := fixed(cmd.Kind, &old.Properties, &cmd.Properties); err != nil {
		return p.refused(err)
	}
	properties := effective(cmd.Kind, cmd.Properties)
	origin := event.OriginID(0)
	if cmd.Mode == UpdateOnly || !SameSettings(&old.Properties, &properties) {
		origin = p.origin(cmd.Origin)
		ev := p.events.New(event.KindEntityUpdated).(*event.EntityUpdated)
		ev.Envelope = envelope(event.Slice{Entity: old.ID}, origin)
		ev.Properties, ev.Before = properties, old.Properties
		p.out = append(p.out, ev)
	}
	if cmd.OnlyRules && cmd.Kind == event.Subscription {
		if err := p.replaceRules(now, old, cmd); err != nil {
			return p.refusedWhole(err)
		}
	}
	return p.done(level(p.out))
}

// replaceRules makes the rules of a subscription those of a command; what is equal already stays.
func (p *Partition) replaceRules(now event.Time, sub *index.Entity, cmd *PutEntity) *Error {
	c := &p.index.Catalogue
	topic, _ := c.Get(sub.Topic)
	keep := map[string]bool{}
	sql, correlation := 0, 0
	for i := range cmd.Rules {
		r := &cmd.Rules[i]
		lower := strings.ToLower(r.Name)
		if keep[lower] {
			return Refuse(AlreadyExists, "Two rules are named '%s'.", r.Name)
		}
		keep[lower] = true
		countFilter(&r.Filter, &sql, &correlation)
	}
	for _, r := range c.Rules(sub.ID) { // those make room
		n, m := 0, 0
		countFilter(&r.Filter, &n, &m)
		sql, correlation = sql-n, correlation-m
	}
	if err := p.roomForFilters(&topic, sql, correlation); err != nil {
		return err
	}
	for _, r := range c.Rules(sub.ID) {
		if !keep[strings.ToLower(r.Name)] {
			p.removeRule(sub.ID, p.origin(cmd.Origin), r)
		}
	}
	for _, r := range cmd.Rules {
		switch has := c.Rule(sub.ID, r.Name); {
		case has == nil:
			p.addRule(now, sub.ID, p.origin(cmd.Origin), r)
		case !sameRule(has, &r):
			p.updateRule(sub.ID, p.origin(cmd.Origin), has, r)
		}
	}
	return nil
}

func sameRule(a, b *event.Rule) bool {
	return sameFilter(a.Filter, b.Filter) && a.Action.Text == b.Action.Text && sameList(a.Action.Parameters, b.Action.Parameters)
}

func sameFilter(a, b event.Filter) bool {
	return a.Kind == b.Kind && a.Text == b.Text && sameList(a.Parameters, b.Parameters) && sameList(a.Conditions, b.Conditions) &&
		sameList(a.Properties, b.Properties)
}

func sameList[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// effective is what properties come to: a subscription that forwards has no AutoDeleteOnIdle (semantics.md 7.7).
func effective(kind event.EntityKind, p event.Properties) event.Properties {
	if kind == event.Subscription && p.ForwardTo != "" {
		p.AutoDeleteOnIdle = event.Forever
	}
	p.AccessRules = slices.Clone(p.AccessRules)
	return p
}

// deleteEntity ends an entity in the catalogue, a topic together with its subscriptions. Their slices are forgotten by their
// partitions afterwards: see [DropSlice].
func (p *Partition) deleteEntity(cmd *DeleteEntity) Outcome {
	p.onlyCatalogue()
	old, ok := p.index.Catalogue.Find(cmd.Path)
	if !ok {
		return p.refused(NoEntity(cmd.Path))
	}
	origin := p.origin(cmd.Origin)
	for _, id := range p.index.Catalogue.Subscriptions(old.ID) {
		sub, _ := p.index.Catalogue.Get(id)
		p.end(&sub, origin, cmd.Reason)
	}
	p.end(&old, origin, cmd.Reason)
	return p.done(log.Durable)
}

func (p *Partition) end(e *index.Entity, origin event.OriginID, reason string) {
	ev := p.events.New(event.KindEntityDeleted).(*event.EntityDeleted)
	ev.Envelope, ev.Reason = envelope(event.Slice{Entity: e.ID}, origin), reason
	ev.EntityKind, ev.Path, ev.Before = e.Kind, e.Path, e.Properties
	p.out = append(p.out, ev)
}

// checkRule refuses a rule that cannot be.
func checkRule(r *event.Rule) *Error {
	if err := CheckName("Rule", r.Name); err != nil {
		return err
	}
	if err := filter.Check(r); err != nil {
		return Refuse(InvalidArgument, "The rule '%s' cannot be used: %v", r.Name, err)
	}
	return nil
}

// subscription finds the subscription whose rules a command is about.
func (p *Partition) subscription(path string) (index.Entity, *Error) {
	p.onlyCatalogue()
	e, ok := p.index.Catalogue.Find(path)
	if !ok || e.Kind != event.Subscription {
		return e, NoEntity(path)
	}
	return e, nil
}

// putRule gives a subscription a rule or replaces one; see [PutRule].
func (p *Partition) putRule(now event.Time, cmd *PutRule) Outcome {
	sub, err := p.subscription(cmd.Subscription)
	if err != nil {
		return p.refused(err)
	}
	if err := checkRule(&cmd.Rule); err != nil {
		return p.refused(err)
	}
	old := p.index.Catalogue.Rule(sub.ID, cmd.Rule.Name)
	switch {
	case old != nil && cmd.Mode == CreateOnly:
		return p.refused(Refuse(AlreadyExists, "The rule '%s' of '%s' already exists.", old.Name, sub.Path))
	case old == nil && cmd.Mode == UpdateOnly:
		return p.refused(noRule(cmd.Rule.Name, &sub))
	case old != nil && cmd.Mode == CreateOrUpdate && sameRule(old, &cmd.Rule):
		return p.done(log.Ordered)
	}
	sql, correlation := 0, 0
	countFilter(&cmd.Rule.Filter, &sql, &correlation)
	if old != nil {
		n, m := 0, 0
		countFilter(&old.Filter, &n, &m)
		sql, correlation = sql-n, correlation-m
	}
	topic, _ := p.index.Catalogue.Get(sub.Topic)
	if err := p.roomForFilters(&topic, sql, correlation); err != nil {
		return p.refused(err)
	}
	if old == nil {
		p.addRule(now, sub.ID, p.origin(cmd.Origin), cmd.Rule)
	} else {
		p.updateRule(sub.ID, p.origin(cmd.Origin), old, cmd.Rule)
	}
	return p.done(log.Durable)
}

// noRule begins as the refusal for other entities does: the JavaScript SDK tells by that what was not found.
func noRule(name string, sub *index.Entity) *Error {
	return Refuse(NotFound, "The messaging entity '%s/Rules/%s' could not be found.", sub.Path, name)
}

// deleteRule takes a rule of a subscription away.
func (p *Partition) deleteRule(cmd *DeleteRule) Outcome {
	sub, err := p.subscription(cmd.Subscription)
	if err != nil {
		return p.refused(err)
	}
	r := p.index.Catalogue.Rule(sub.ID, cmd.Name)
	if r == nil {
		return p.refused(noRule(cmd.Name, &sub))
	}
	p.removeRule(sub.ID, p.origin(cmd.Origin), r)
	return p.done(log.Durable)
}

func (p *Partition) addRule(now event.Time, sub event.EntityID, origin event.OriginID, r event.Rule) {
	ev := p.events.New(event.KindRuleAdded).(*event.RuleAdded)
	ev.Envelope, ev.Rule = envelope(event.Slice{Entity: sub}, origin), r
	ev.Rule.CreatedAt = now
	p.out = append(p.out, ev)
}

func (p *Partition) updateRule(sub event.EntityID, origin event.OriginID, old *event.Rule, r event.Rule) {
	ev := p.events.New(event.KindRuleUpdated).(*event.RuleUpdated)
	ev.Envelope, ev.Rule, ev.Before = envelope(event.Slice{Entity: sub}, origin), r, *old
	ev.Rule.Name, ev.Rule.CreatedAt = old.Name, old.CreatedAt
	p.out = append(p.out, ev)
}

func (p *Partition) removeRule(sub event.EntityID, origin event.OriginID, r *event.Rule) {
	ev := p.events.New(event.KindRuleRemoved).(*event.RuleRemoved)
	ev.Envelope, ev.Rule = envelope(event.Slice{Entity: sub}, origin), *r
	p.out = append(p.out, ev)
}

// listRules shows rules by lower-cased name.
func (p *Partition) listRules(cmd *ListRules) Outcome {
	sub, err := p.subscription(cmd.Subscription)
	if err != nil {
		return p.refused(err)
	}
	out := p.done(log.Ordered)
	if cmd.Name != "" {
		r := p.index.Catalogue.Rule(sub.ID, cmd.Name)
		if r == nil {
			return p.refused(noRule(cmd.Name, &sub))
		}
		out.Reply.Answer = Rules{*r}
		return out
	}
	sorted := p.index.Catalogue.RulesByName(sub.ID)
	sorted = sorted[min(max(0, cmd.Skip), len(sorted)):]
	sorted = sorted[:min(max(0, cmd.Top), len(sorted), maxRulesShown)]
	rules := make(Rules, 0, len(sorted))
	for _, r := range sorted {
		rules = append(rules, *r)
	}
	out.Reply.Answer, out.Looks = rules, len(sorted)
	return out
}

// dropSlice forgets a slice of an entity that is no more.
func (p *Partition) dropSlice(cmd *dropSlice) Outcome {
	if !p.index.Has(cmd.slice) {
		return p.done(log.Ordered)
	}
	ev := p.events.New(event.KindSliceDropped).(*event.SliceDropped)
	ev.Envelope = envelope(cmd.slice, 0)
	p.out = append(p.out, ev)
	return p.done(log.Durable)
}
