package host

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// directory finds the entities of a running namespace by path and id. The truth is the catalogue.
type directory struct {
	mu     sync.RWMutex              // guards the fields below
	byPath map[string]*engine.Entity // by lower-cased path
	byID   map[event.EntityID]*engine.Entity
	// by lower-cased path; nil: to be sorted again; never changed once it is made
	order []*engine.Entity
}

func (d *directory) find(lower string) *engine.Entity {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byPath[lower]
}

// entity returns the entity with an id; nil: it was deleted.
func (d *directory) entity(id event.EntityID) *engine.Entity {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// put adds an entity or its new version, and returns the previous version.
func (d *directory) put(e *engine.Entity) (old *engine.Entity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byPath == nil {
		d.byPath, d.byID = map[string]*engine.Entity{}, map[event.EntityID]*engine.Entity{}
	}
	lower := strings.ToLower(e.Path)
	if old = d.byPath[lower]; old != e {
		d.byPath[lower], d.byID[e.ID], d.order = e, e, nil
	}
	return old
}

func (d *directory) remove(e *engine.Entity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byPath, strings.ToLower(e.Path))
	delete(d.byID, e.ID)
	d.order = nil
}

// subscriptions returns every subscription of a topic, sorted by id; none for any other entity.
func (d *directory) subscriptions(topic *engine.Entity) (subscriptions []*engine.Entity) {
	if topic.Kind != event.Topic {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.byPath {
		if e.Kind == event.Subscription && e.Topic == topic.ID {
			subscriptions = append(subscriptions, e)
		}
	}
	slices.SortFunc(subscriptions, func(a, b *engine.Entity) int { return cmp.Compare(a.ID, b.ID) })
	return subscriptions
}

// sorted returns every entity, sorted by lower-cased path. The caller must not change the list.
func (d *directory) sorted() []*engine.Entity {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.order == nil {
		type pathEntry struct {
			lower string
			e     *engine.Entity
		}
		all := make([]pathEntry, 0, len(d.byPath))
		for lower, e := range d.byPath {
			all = append(all, pathEntry{lower, e})
		}
		slices.SortFunc(all, func(a, b pathEntry) int { return cmp.Compare(a.lower, b.lower) })
		d.order = make([]*engine.Entity, len(all))
		for i := range all {
			d.order[i] = all[i].e
		}
	}
	return d.order
}

// resolve finds the entity and sub-queue of a path.
func (d *directory) resolve(path string) (engine.Target, error) {
	name, q := engine.SplitPath(path)
	e := d.find(name)
	if e == nil {
		return engine.Target{}, engine.NoEntity(path)
	}
	return engine.Target{Entity: e, SubQueue: q}, nil
}
