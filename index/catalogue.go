package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Entity is a queue or topic of the catalogue.
type Entity struct {
	ID          event.EntityID
	Kind        event.EntityKind
	Path        string
	HashVersion uint8
	Hosts       []byte
	Properties  event.Properties
	CreatedAt   event.Time
	UpdatedAt   event.Time // last change of the properties
	AccessedAt  event.Time // last use, coarsely; 0: none noted
}

// Catalogue is the state machine of the namespace's entities, on partition 0's log.
type Catalogue struct {
	entities map[event.EntityID]*Entity
	byPath   map[string]event.EntityID // by lower-cased path
	last     event.EntityID            // newest ever given out
}

func newCatalogue() Catalogue {
	return Catalogue{entities: map[event.EntityID]*Entity{}, byPath: map[string]event.EntityID{}}
}

// NextID is the id of the next entity to be created.
func (c *Catalogue) NextID() event.EntityID { return c.last + 1 }

// Find looks an entity up by its path, in any letter case.
func (c *Catalogue) Find(path string) (Entity, bool) {
	id, ok := c.byPath[strings.ToLower(path)]
	if !ok {
		return Entity{}, false
	}
	return *c.entities[id], true
}

// Len is the number of entities.
func (c *Catalogue) Len() int { return len(c.entities) }

// All returns every entity, by id.
func (c *Catalogue) All() []Entity {
	out := make([]Entity, 0, len(c.entities))
	for _, e := range c.entities {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Entity) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (c *Catalogue) apply(at event.Time, ev event.Event) {
	id := ev.Common().Slice.Entity
	switch ev := ev.(type) {
	case *event.EntityCreated:
		if id <= c.last {
			panic(fmt.Sprintf("index: entity %d created after %d", id, c.last))
		}
		c.last = id
		c.entities[id] = &Entity{ID: id, Kind: ev.EntityKind, Path: ev.Path, HashVersion: ev.HashVersion,
			Hosts: slices.Clone(ev.Hosts), Properties: ev.Properties, CreatedAt: at, UpdatedAt: at}
		c.byPath[strings.ToLower(ev.Path)] = id
	case *event.EntityUpdated:
		e := c.must(id, ev)
		e.Properties, e.UpdatedAt = ev.Properties, at
	case *event.EntityTouched:
		c.must(id, ev).AccessedAt = ev.AccessedAt
	case *event.EntityDeleted:
		delete(c.byPath, strings.ToLower(c.must(id, ev).Path))
		delete(c.entities, id)
	}
}

func (c *Catalogue) must(id event.EntityID, ev event.Event) *Entity {
	e := c.entities[id]
	if e == nil {
		panic(fmt.Sprintf("index: %T of entity %d, which does not exist; there are %v", ev, id,
			slices.Sorted(maps.Keys(c.entities))))
	}
	return e
}
