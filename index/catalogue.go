package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Entity is a queue, topic or subscription of the catalogue. An entity in the catalogue is never
// changed: a changed copy replaces it.
type Entity struct {
	ID          event.EntityID
	Kind        event.EntityKind
	Path        string
	HashVersion uint8
	Hosts       []byte
	KeyHash     uint8 // 0 where there is one host
	Properties  event.Properties
	Topic       event.EntityID // of a subscription
	CreatedAt   event.Time
	UpdatedAt   event.Time // last change of the properties
	AccessedAt  event.Time // last use, approximately; 0: unknown

	slot            uint32           // its place
	added           []*event.Rule    // of a subscription, in the order in which they were added
	made            version          // added
	rules           *rules           // of a subscription; an index of the owner
	subscriptionsOf *subscriptionsOf // of a topic; counters of the owner
}

// rules is an index of a subscription's rules by name.
type rules struct {
	sorted []*event.Rule    // by lower-cased name
	byName map[string]*rule // by lower-cased name
}

// rule is a rule and its version. Lists of rules point into it.
type rule struct {
	event.Rule
	made version
}

// place returns the place of a rule, existing or not, among the sorted ones.
func (r *rules) place(lower string) int {
	i, _ := slices.BinarySearchFunc(r.sorted, lower, func(r *event.Rule, name string) int {
		return cmp.Compare(strings.ToLower(r.Name), name)
	})
	return i
}

func byLowerName(a, b *event.Rule) int {
	return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
}

// subscriptionsOf has the subscriptions of a topic.
type subscriptionsOf struct {
	subscriptions map[event.EntityID]struct{}
	// filters of all its subscriptions; true and false filters count as SQL filters
	// (management-api.md 3.3)
	sql         int
	correlation int
}

// Catalogue is the state machine of the namespace's entities, on partition 0's log.
type Catalogue struct {
	kept     slots[*Entity] // the part that a snapshot sees
	versions *versions
	entities map[event.EntityID]uint32 // slots
	byPath   map[string]event.EntityID // by lower-cased path
	last     event.EntityID            // newest id given out
	roots    int                       // queues and topics
	split    int                       // number of partitioned ones of these
	history  *History                  // nil: no policy was set
}

func newCatalogue(v *versions) Catalogue {
	return Catalogue{versions: v, entities: map[event.EntityID]uint32{}, byPath: map[string]event.EntityID{}}
}

// at returns an entity, which the caller must not change; nil if there is none.
func (c *Catalogue) at(id event.EntityID) *Entity {
	if slot := c.entities[id]; slot != 0 {
		return *c.kept.at(slot)
	}
	return nil
}

// put replaces an entity by a changed copy.
func (c *Catalogue) put(e *Entity) { *c.kept.edit(c.versions, e.slot) = e }

// NextID returns the id of the next entity.
func (c *Catalogue) NextID() event.EntityID { return c.last + 1 }

// Find looks an entity up by its path, in any letter case.
func (c *Catalogue) Find(path string) (Entity, bool) {
	id, ok := c.byPath[strings.ToLower(path)]
	if !ok {
		return Entity{}, false
	}
	return *c.at(id), true
}

// Get looks an entity up by its id.
func (c *Catalogue) Get(id event.EntityID) (Entity, bool) {
	e := c.at(id)
	if e == nil {
		return Entity{}, false
	}
	return *e, true
}

// Roots returns the number of queues and topics.
func (c *Catalogue) Roots() int { return c.roots }

// Partitioned returns the number of partitioned queues and topics.
func (c *Catalogue) Partitioned() int { return c.split }

// All returns every entity, by id: a topic comes before its subscriptions.
func (c *Catalogue) All() []Entity {
	return sortedEntities(&c.kept)
}

func sortedEntities(kept *slots[*Entity]) (all []Entity) {
	for _, e := range kept.all() {
		if *e != nil {
			all = append(all, **e)
		}
	}
	slices.SortFunc(all, func(a, b Entity) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Subscriptions returns the ids of a topic's subscriptions, ascending.
func (c *Catalogue) Subscriptions(topic event.EntityID) []event.EntityID {
	if e := c.at(topic); e != nil && e.subscriptionsOf != nil {
		return slices.Sorted(maps.Keys(e.subscriptionsOf.subscriptions))
	}
	return nil
}

// SubscriptionCount returns the number of a topic's subscriptions.
func (c *Catalogue) SubscriptionCount(topic event.EntityID) int {
	if e := c.at(topic); e != nil && e.subscriptionsOf != nil {
		return len(e.subscriptionsOf.subscriptions)
	}
	return 0
}

// Filters counts the filters in all subscriptions of a topic; true and false filters are counted
// with the SQL filters.
func (c *Catalogue) Filters(topic event.EntityID) (sql, correlation int) {
	if e := c.at(topic); e != nil && e.subscriptionsOf != nil {
		return e.subscriptionsOf.sql, e.subscriptionsOf.correlation
	}
	return 0, 0
}

// Rules returns the rules of a subscription in the order in which they were added. The caller must
// not change them.
func (c *Catalogue) Rules(subscription event.EntityID) []*event.Rule {
	if e := c.at(subscription); e != nil {
		return e.added
	}
	return nil
}

// RulesByName returns the rules of a subscription by lower-cased name. The caller must not change
// them.
func (c *Catalogue) RulesByName(subscription event.EntityID) []*event.Rule {
	if e := c.at(subscription); e != nil && e.rules != nil {
		return e.rules.sorted
	}
	return nil
}

// Rule finds a rule by its name, in any letter case; nil if there is none. The caller must not
// change it.
func (c *Catalogue) Rule(subscription event.EntityID, name string) *event.Rule {
	if e := c.at(subscription); e != nil && e.rules != nil {
		if r := e.rules.byName[strings.ToLower(name)]; r != nil {
			return &r.Rule
		}
	}
	return nil
}

func (c *Catalogue) apply(at event.Time, ev event.Event) {
	id := ev.Common().Slice.Entity
	switch ev := ev.(type) {
	case *event.EntityCreated:
		if id <= c.last {
			panic(fmt.Sprintf("index: entity %d created after %d", id, c.last))
		}
		c.last = id
		c.add(&Entity{ID: id, Kind: ev.EntityKind, Path: ev.Path, HashVersion: ev.HashVersion, Hosts: slices.Clone(ev.Hosts), KeyHash: ev.KeyHash,
			Properties: ev.Properties, Topic: ev.Topic, CreatedAt: at, UpdatedAt: at}, ev)
	case *event.EntityUpdated:
		e := *c.must(id, ev)
		c.countRoot(&e, -1)
		e.Properties, e.UpdatedAt = ev.Properties, at
		c.countRoot(&e, 1)
		c.put(&e)
	case *event.HistoryPolicySet:
		c.setHistory(at, ev)
	case *event.EntityTouched:
		e := *c.must(id, ev)
		e.AccessedAt = ev.AccessedAt
		c.put(&e)
	case *event.EntityDeleted:
		c.remove(c.must(id, ev), ev)
	case *event.RuleAdded:
		c.addRule(*c.must(id, ev), ev.Rule, ev)
	case *event.RuleUpdated:
		e := *c.must(id, ev)
		c.countFilter(&e, c.mustRule(&e, ev.Rule.Name, ev), -1)
		e.setRule(c.versions, &ev.Rule)
		c.countFilter(&e, &ev.Rule, 1)
		c.put(&e)
	case *event.RuleRemoved:
		c.removeRule(*c.must(id, ev), ev.Rule.Name, ev)
	}
}

func (c *Catalogue) add(e *Entity, ev event.Event) {
	switch e.Kind {
	case event.Subscription:
		c.topic(e, ev).subscriptions[e.ID] = struct{}{}
		e.rules, e.made = &rules{byName: map[string]*rule{}}, c.versions.now
	case event.Topic:
		e.subscriptionsOf = &subscriptionsOf{subscriptions: map[event.EntityID]struct{}{}}
	}
	c.countRoot(e, 1)
	e.slot = c.kept.add(c.versions, e)
	c.entities[e.ID] = e.slot
	c.byPath[strings.ToLower(e.Path)] = e.ID
}

func (c *Catalogue) remove(e *Entity, ev event.Event) {
	switch e.Kind {
	case event.Subscription:
		for _, r := range e.added {
			c.countFilter(e, r, -1)
		}
		delete(c.topic(e, ev).subscriptions, e.ID)
	case event.Topic:
		if n := len(e.subscriptionsOf.subscriptions); n > 0 {
			panic(fmt.Sprintf("index: topic %d deleted with %d subscriptions", e.ID, n))
		}
	}
	c.countRoot(e, -1)
	delete(c.byPath, strings.ToLower(e.Path))
	delete(c.entities, e.ID)
	c.kept.remove(c.versions, e.slot)
}

// topic returns the subscriptions of a subscription's topic.
func (c *Catalogue) topic(e *Entity, ev event.Event) *subscriptionsOf {
	t := c.must(e.Topic, ev)
	if t.subscriptionsOf == nil {
		panic(fmt.Sprintf("index: %T of subscription %d of entity %d, which is a %v", ev, e.ID, t.ID, t.Kind))
	}
	return t.subscriptionsOf
}

// countRoot counts a queue or topic.
func (c *Catalogue) countRoot(e *Entity, by int) {
	if e.Kind == event.Subscription {
		return
	}
	c.roots += by
	if e.Properties.EnablePartitioning {
		c.split += by
	}
}

func (c *Catalogue) addRule(e Entity, added event.Rule, ev event.Event) {
	name := strings.ToLower(added.Name)
	if e.rules == nil || e.rules.byName[name] != nil {
		panic(fmt.Sprintf("index: %T of rule %q of entity %d, which has it or can have none", ev, added.Name, e.ID))
	}
	r := &rule{added, c.versions.now}
	// holders of the old list do not see the new entry after its end
	e.added = append(e.added, &r.Rule)
	e.rules.sorted = slices.Insert(e.rules.sorted, e.rules.place(name), &r.Rule)
	e.rules.byName[name] = r
	c.countFilter(&e, &r.Rule, 1)
	c.put(&e)
}

func (c *Catalogue) removeRule(e Entity, name string, ev event.Event) {
	r := c.mustRule(&e, name, ev)
	name = strings.ToLower(name)
	e.ownAdded(c.versions)
	i := slices.Index(e.added, r)
	e.added = slices.Delete(e.added, i, i+1)
	i = e.rules.place(name)
	e.rules.sorted = slices.Delete(e.rules.sorted, i, i+1)
	delete(e.rules.byName, name)
	c.countFilter(&e, r, -1)
	c.put(&e)
}

// ownAdded makes a copied entity's list of rules its own, for changing.
func (e *Entity) ownAdded(v *versions) {
	if !v.isOwned(e.made) {
		e.added, e.made = slices.Clone(e.added), v.now
	}
}

// setRule replaces a rule by its new form.
func (e *Entity) setRule(v *versions, is *event.Rule) {
	name := strings.ToLower(is.Name)
	was := e.rules.byName[name]
	if v.isOwned(was.made) {
		was.Rule = *is
		return
	}
	r := &rule{*is, v.now}
	e.ownAdded(v)
	e.added[slices.Index(e.added, &was.Rule)] = &r.Rule
	e.rules.sorted[e.rules.place(name)] = &r.Rule
	e.rules.byName[name] = r
}

// countFilter counts a filter for its topic.
func (c *Catalogue) countFilter(e *Entity, r *event.Rule, by int) {
	b := c.at(e.Topic).subscriptionsOf
	if r.Filter.Kind == event.CorrelationFilter {
		b.correlation += by
	} else {
		b.sql += by
	}
}

func (c *Catalogue) mustRule(e *Entity, name string, ev event.Event) *event.Rule {
	r := c.Rule(e.ID, name)
	if r == nil {
		panic(fmt.Sprintf("index: %T of rule %q of entity %d, which does not exist", ev, name, e.ID))
	}
	return r
}

func (c *Catalogue) must(id event.EntityID, ev event.Event) *Entity {
	e := c.at(id)
	if e == nil {
		panic(fmt.Sprintf("index: %T of entity %d, which does not exist; there are %d, the newest is %d", ev, id, len(c.entities), c.last))
	}
	return e
}
