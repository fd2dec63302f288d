package engine

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hashVersion numbers the placement hash below. It is stored with every entity: changing the hash
// needs a new number.
const hashVersion = 1

// Quotas of a namespace and of a topic (semantics.md 16.3).
const (
	maxEntities      = 10_000 // queues and topics
	maxPartitioned   = 100    // of these, partitioned entities, unless settings say otherwise
	maxSubscriptions = 2000   // of a topic
	maxSQLFilters    = 2000   // of a topic
	maxCorrelations  = 100_000
	maxRulesAtOnce   = 10_000 // in one command; a choice
	maxRulesShown    = 10_000 // in one answer, which is also bounded in bytes; a choice
)

// placePartition chooses the partition that hosts an entity partition. It is FNV-1a of the entity
// id and the number, so it depends on nothing else and never changes. A subscription is placed with
// its topic.
func placePartition(id event.EntityID, number uint8, width int) PartitionID {
	h := fnv.New32a()
	h.Write([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), number})
	return PartitionID(h.Sum32() % uint32(width))
}

// catalogueDecision decides about entities and rules. Only partition 0 keeps them.
type catalogueDecision struct {
	*decision
	there *index.Catalogue // read only
	width int              // partitions of the namespace, for placement
	split int              // see Partition.Split
	most  int              // see Partition.SplitAtMost
	avoid []bool           // see Partition.Avoid
}

func (p *Partition) catalogue() catalogueDecision {
	p.onlyCatalogue()
	return catalogueDecision{&p.decision, &p.index.Catalogue, p.width, p.split, cmp.Or(p.mostSplit, maxPartitioned), p.avoid}
}

func (p *Partition) onlyCatalogue() {
	if p.id != 0 {
		panic(fmt.Sprintf("engine: catalogue command on partition %d", p.id))
	}
}

// decide runs the rule for a command, which fills the decision.
func (c catalogueDecision) decide(cmd Command) *Error {
	switch cmd := cmd.(type) {
	case *PutEntity:
		return c.putEntity(cmd)
	case *DeleteEntity:
		return c.deleteEntity(cmd)
	case *PutRule:
		return c.putRule(cmd)
	case *DeleteRule:
		return c.deleteRule(cmd)
	case *ListRules:
		return c.listRules(cmd)
	case *PutHistoryPolicy:
		return c.putHistoryPolicy(cmd)
	case *touch:
		c.touch(cmd)
		return nil
	}
	panic(fmt.Sprintf("engine: unknown command %T", cmd))
}

// about returns the envelope of every event about an entity or its rules.
func about(id event.EntityID, o event.OriginID) event.Envelope {
	return event.Envelope{Slice: event.Slice{Entity: id}, Origin: o}
}

// nextID returns the id of the next entity. It skips ids that would place a queue or topic on a
// refused partition: such an entity could take no message until the partition is repaired
// (reliability.md P24).
func (c catalogueDecision) nextID(cmd *PutEntity) event.EntityID {
	id := c.there.NextID()
	if cmd.Kind == event.Subscription || c.avoid == nil || c.partitionsOf(cmd) > 1 {
		return id
	}
	for c.avoid[placePartition(id, 0, c.width)] {
		id++
	}
	return id
}

// putEntity creates or changes an entity; see [PutEntity].
func (c catalogueDecision) putEntity(cmd *PutEntity) *Error {
	if err := checkPut(cmd); err != nil {
		return err
	}
	old, ok := c.there.Find(cmd.Path)
	switch {
	case !ok && cmd.Mode == UpdateOnly:
		return NoEntity(cmd.Path)
	case !ok:
		return c.createEntity(cmd)
	case cmd.Mode == CreateOnly:
		return Refuse(AlreadyExists, "The messaging entity '%s' already exists.", old.Path)
	case old.Kind != cmd.Kind && cmd.Mode == UpdateOnly:
		return NoEntity(cmd.Path)
	case old.Kind != cmd.Kind:
		return Refuse(AlreadyExists, "A %s named '%s' already exists.", strings.ToLower(old.Kind.String()), old.Path)
	}
	return c.updateEntity(cmd, &old)
}

// checkPut refuses properties and rules that no entity can have.
func checkPut(cmd *PutEntity) *Error {
	if err := storable(cmd.Kind, &cmd.Properties); err != nil {
		return err
	}
	for i := range cmd.Rules {
		if err := checkRule(&cmd.Rules[i]); err != nil {
			return err
		}
	}
	return nil
}

// createEntity creates an entity, and the first rules of a subscription.
func (c catalogueDecision) createEntity(cmd *PutEntity) *Error {
	e, err := c.newEntity(cmd)
	if err != nil {
		return err
	}
	origin := c.origin(cmd.Origin)
	ev := add[*event.EntityCreated](c.decision, event.KindEntityCreated)
	ev.Envelope, ev.EntityKind, ev.Path, ev.Topic = about(e.ID, origin), cmd.Kind, e.Path, e.Topic
	ev.Properties = effectiveProperties(cmd.Kind, cmd.Properties)
	c.dateKeys(ev.Properties.AccessRules, nil)
	ev.HashVersion, ev.Hosts, ev.KeyHash = hashVersion, e.Hosts, e.KeyHash
	if cmd.Kind == event.Subscription {
		c.firstRules(e.ID, origin, cmd.Rules)
	}
	c.because(cmd.Why, about(e.ID, origin))
	return nil
}

// firstRules adds the first rules of a new subscription; nil: the rule that every message matches.
func (c catalogueDecision) firstRules(sub event.EntityID, origin event.OriginID, rules []event.Rule) {
	if rules == nil {
		rules = []event.Rule{{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}}
	}
	for _, r := range rules {
		c.addRule(sub, origin, r)
	}
}

// newEntity returns a new entity with its path, its partitions and, for a subscription, its topic.
// It refuses an entity that cannot be created. Only here are the names of queues and topics
// lower-cased, so a replay shows older ones as they were created (semantics.md 1.2).
func (c catalogueDecision) newEntity(cmd *PutEntity) (e index.Entity, _ *Error) {
	if err := CheckPath(cmd.Kind, cmd.Path); err != nil {
		return e, err
	}
	id := c.nextID(cmd)
	if cmd.Kind != event.Subscription {
		e = index.Entity{ID: id, Path: strings.ToLower(cmd.Path), Hosts: c.hosts(id, c.partitionsOf(cmd))}
		if len(e.Hosts) > 1 {
			e.KeyHash = event.KeyHash
		}
		return e, cmp.Or(c.mayCreate(cmd), c.allThere(cmd.Path, e.Hosts), c.maySplit(e.Hosts))
	}
	t, err := c.topicFor(cmd)
	if err := cmp.Or(err, c.allThere(t.Path, t.Hosts)); err != nil {
		return e, err
	}
	name := cmd.Path[strings.LastIndexByte(cmd.Path, '/')+1:]
	return index.Entity{ID: id, Path: SubscriptionPath(t.Path, name), Topic: t.ID, Hosts: slices.Clone(t.Hosts), KeyHash: t.KeyHash}, nil
}

// partitionsOf returns how many partitions a new entity gets.
func (c catalogueDecision) partitionsOf(cmd *PutEntity) int {
	if cmd.Properties.EnablePartitioning && c.split > 1 {
		return c.split
	}
	return 1
}

// hosts returns the log partitions that host the partitions of a new entity.
func (c catalogueDecision) hosts(id event.EntityID, partitions int) []byte {
	hosts := make([]byte, partitions)
	for i := range hosts {
		hosts[i] = byte(placePartition(id, uint8(i), c.width))
	}
	return hosts
}

// maySplit refuses an entity with several partitions while the directory cannot be marked as having
// such entities (see [Partition.RefuseSplits]).
func (c catalogueDecision) maySplit(hosts []byte) *Error {
	if len(hosts) == 1 {
		return nil
	}
	return c.settings.noSplits
}

// allThere refuses a change of an entity with several partitions while one of their log partitions
// does not serve: the change is made in all of them or in none.
func (c catalogueDecision) allThere(path string, hosts []byte) *Error {
	if len(hosts) <= 1 || c.avoid == nil {
		return nil // nextID has chosen the place of a single partition
	}
	for _, h := range hosts {
		if c.avoid[h] {
			return Refuse(Busy, "Partition %d, which hosts a part of '%s', is not available now. Please retry the operation.", h, path)
		}
	}
	return nil
}

// mayCreate refuses a queue or topic beyond the quota of the namespace.
func (c catalogueDecision) mayCreate(cmd *PutEntity) *Error {
	if c.there.Roots() >= maxEntities {
		return Refuse(QuotaExceeded, "The namespace has the maximum of %d queues and topics: '%s' was not created.", maxEntities, cmd.Path)
	}
	if !cmd.Properties.EnablePartitioning {
		return nil
	}
	if c.there.Partitioned() >= c.most {
		return Refuse(QuotaExceeded, "The namespace has %d partitioned queues and topics, and no more are allowed: '%s' was not created.", c.there.Partitioned(), cmd.Path)
	}
	return nil
}

// topicFor returns the topic of a new subscription. It refuses a subscription or rules beyond the
// quotas of the topic.
func (c catalogueDecision) topicFor(cmd *PutEntity) (index.Entity, *Error) {
	path := (&Entity{Kind: event.Subscription, Path: cmd.Path}).TopicPath()
	t, ok := c.there.Find(path)
	if !ok || t.Kind != event.Topic {
		return t, NoEntity(path)
	}
	if c.there.SubscriptionCount(t.ID) >= maxSubscriptions {
		return t, Refuse(QuotaExceeded, "The topic '%s' has the maximum of %d subscriptions.", t.Path, maxSubscriptions)
	}
	if len(cmd.Rules) > maxRulesAtOnce {
		return t, Refuse(QuotaExceeded, "A subscription can be created with at most %d rules.", maxRulesAtOnce)
	}
	if cmd.Rules == nil {
		return t, c.roomForFilters(t.ID, filterCount{sql: 1}) // $Default
	}
	count, err := countRules(cmd.Rules)
	if err != nil {
		return t, err
	}
	return t, c.roomForFilters(t.ID, count)
}

// updateEntity changes the properties of an entity, and its rules if the command names them.
func (c catalogueDecision) updateEntity(cmd *PutEntity, old *index.Entity) *Error {
	ruled := cmd.OnlyRules && cmd.Kind == event.Subscription
	if err := cmp.Or(checkFixed(cmd.Kind, &old.Properties, &cmd.Properties), c.allThere(old.Path, old.Hosts)); err != nil {
		return err
	}
	if ruled {
		if err := c.mayReplace(old, cmd.Rules); err != nil {
			return err
		}
	}
	properties := effectiveProperties(cmd.Kind, cmd.Properties)
	c.dateKeys(properties.AccessRules, old.Properties.AccessRules)
	if cmd.Mode == UpdateOnly || !SameSettings(&old.Properties, &properties) {
		origin := c.origin(cmd.Origin)
		ev := add[*event.EntityUpdated](c.decision, event.KindEntityUpdated)
		ev.Envelope, ev.Properties, ev.Before = about(old.ID, origin), properties, old.Properties
	}
	if ruled {
		c.replaceRules(old.ID, cmd)
	}
	if len(c.events) > 0 {
		c.because(cmd.Why, about(old.ID, c.origin(cmd.Origin)))
	}
	return nil
}

// effectiveProperties returns the properties as they are stored: a subscription that forwards has
// no AutoDeleteOnIdle (semantics.md 7.7).
func effectiveProperties(kind event.EntityKind, p event.Properties) event.Properties {
	if kind == event.Subscription && p.ForwardTo != "" {
		p.AutoDeleteOnIdle = event.Forever
	}
	p.AccessRules = slices.Clone(p.AccessRules)
	return p
}

// dateKeys sets the times at which access rules were created and last changed, whatever times the
// command has. An unchanged rule keeps its times; one that an older version created has none.
func (c catalogueDecision) dateKeys(rules, before []event.AccessRule) {
	for i := range rules {
		r := &rules[i]
		r.CreatedAt, r.ModifiedAt = c.now, c.now
		for _, old := range before {
			if !strings.EqualFold(old.Name, r.Name) {
				continue
			}
			r.CreatedAt = old.CreatedAt
			if old.Name == r.Name && slices.Equal(old.Rights, r.Rights) && old.Primary == r.Primary && old.Secondary == r.Secondary {
				r.ModifiedAt = old.ModifiedAt
			}
		}
	}
}

// deleteEntity deletes an entity from the catalogue, a topic together with its subscriptions. Their
// partitions forget the slices afterwards: see [DropSlice].
func (c catalogueDecision) deleteEntity(cmd *DeleteEntity) *Error {
	old, ok := c.there.Find(cmd.Path)
	if !ok {
		return NoEntity(cmd.Path)
	}
	if err := c.allThere(old.Path, old.Hosts); err != nil {
		return err
	}
	origin := c.origin(cmd.Origin)
	for _, id := range c.there.Subscriptions(old.ID) {
		sub, _ := c.there.Get(id)
		c.end(&sub, origin, cmd.Reason)
	}
	c.end(&old, origin, cmd.Reason)
	c.because(cmd.Why, about(old.ID, origin))
	return nil
}

// end adds the deletion of one entity.
func (c catalogueDecision) end(e *index.Entity, origin event.OriginID, reason string) {
	ev := add[*event.EntityDeleted](c.decision, event.KindEntityDeleted)
	ev.Envelope, ev.Reason = about(e.ID, origin), reason
	ev.EntityKind, ev.Path, ev.Before = e.Kind, e.Path, e.Properties
}

// drop forgets a slice of a deleted entity.
func drop(d *decision, cmd *dropSlice) {
	if !d.index.Has(cmd.slice) {
		return
	}
	ev := add[*event.SliceDropped](d, event.KindSliceDropped)
	ev.Envelope = event.Envelope{Slice: cmd.slice}
}
