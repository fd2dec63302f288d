package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// catalogue is the partition whose log has the entities.
const catalogue log.PartitionID = 0

// life is one life of an entity. A path may have several, one after the other.
type life struct {
	id      event.EntityID
	kind    event.EntityKind
	path    string
	topic   event.EntityID // of a subscription
	hosts   []byte
	created event.Time // 0: before history begins
	deleted event.Time // 0: it exists
	// since and until are the numbers of the eras of these times.
	since, until uint64
	gone         event.LSN // frame of the catalogue's log that deleted it
	changes      []change  // the first one created it
}

// change is one change of an entity's settings.
type change struct {
	at          event.Time
	place       address.Address
	by          event.OriginID // of the catalogue's log
	before, now event.Properties
}

// names holds all entities, existing and deleted, and the eras of the clock.
type names struct {
	byID   map[event.EntityID]*life
	byPath map[string][]*life // by lower-cased path, oldest first
	clocks []era
}

// era is a stretch of history in which broker time only grew: from one clock decision to the next.
type era struct {
	number      uint64 // of the decision that it begins with; 0: none
	from, until event.Time
}

var catalogueKinds = []event.Kind{event.KindEntityCreated, event.KindEntityUpdated, event.KindEntityDeleted, event.KindClockSet}

// catalogue reads the history of entities, once.
func (l *Ledger) catalogue(ctx context.Context) (*names, error) {
	if l.names != nil {
		return l.names, nil
	}
	b, err := l.book(ctx, catalogue)
	if err != nil {
		return nil, err
	}
	first, end := b.Bounds()
	n, from := l.memory.names(first, end)
	ours := n == nil // else others also use it
	based := func(event.LSN, event.EntityID) bool { return false }
	if ours {
		start := replay.Begin(b) // of a base
		begin := start.Index
		// The log may still have events before its base, whose effects on these entities the base
		// already has.
		based = func(at event.LSN, id event.EntityID) bool {
			_, known := begin.Catalogue.Get(id)
			return known && at < start.From
		}
		number := begin.Clock().Number
		if first < start.From {
			if number, err = firstClock(ctx, b, number); err != nil {
				return nil, err
			}
		}
		n = &names{byID: make(map[event.EntityID]*life), byPath: make(map[string][]*life), clocks: []era{{number: number, until: event.EndOfTime}}}
		for _, e := range begin.Catalogue.All() {
			n.add(&life{id: e.ID, kind: e.Kind, path: e.Path, topic: e.Topic, hosts: slices.Clone(e.Hosts), created: e.CreatedAt,
				changes: []change{{at: e.UpdatedAt, now: e.Properties}}})
		}
	}
	for rec, err := range replay.FoundAny(ctx, b, from, []log.Search{{Kinds: catalogueKinds}}) {
		if err != nil {
			return nil, err
		}
		if rec.LSN >= end { // of a log that grows
			break
		}
		for _, ev := range rec.Events {
			b.see(ev)
			if !ours && slices.Contains(catalogueKinds, ev.Kind()) {
				n, ours = n.clone(), true
			}
			if !based(rec.LSN, ev.Common().Slice.Entity) {
				n.apply(rec, ev)
			}
		}
	}
	l.names = n
	l.memory.keepNames(n, first, end)
	return n, nil
}

// firstClock returns the number of the clock of the first event that a log still has; last is that
// of its base.
func firstClock(ctx context.Context, b *book, last uint64) (uint64, error) {
	for rec, err := range replay.FoundAny(ctx, b, 0, []log.Search{{Kinds: []event.Kind{event.KindClockSet}}}) {
		if err != nil {
			return 0, err
		}
		for _, ev := range rec.Events {
			if set, ok := ev.(*event.ClockSet); ok {
				return set.Number - 1, nil
			}
		}
	}
	return last, nil
}

// clone returns a copy that can be changed while others read the original.
func (n *names) clone() *names {
	c := &names{byID: make(map[event.EntityID]*life, len(n.byID)), byPath: make(map[string][]*life, len(n.byPath)), clocks: slices.Clone(n.clocks)}
	for id, e := range n.byID {
		own := *e
		own.changes = slices.Clip(own.changes)
		c.byID[id] = &own
	}
	for path, lives := range n.byPath {
		for _, e := range lives {
			c.byPath[path] = append(c.byPath[path], c.byID[e.id])
		}
	}
	return c
}

// apply applies one event to the entities and the clock.
func (n *names) apply(rec *replay.Record, ev event.Event) {
	id := ev.Common().Slice.Entity
	switch ev := ev.(type) {
	case *event.EntityCreated:
		n.add(&life{id: id, kind: ev.EntityKind, path: ev.Path, topic: ev.Topic, hosts: slices.Clone(ev.Hosts), created: rec.At,
			since: n.clocks[len(n.clocks)-1].number, changes: []change{{at: rec.At, place: address.At(catalogue, rec.LSN), by: ev.Origin, now: ev.Properties}}})
	case *event.EntityUpdated:
		if e := n.byID[id]; e != nil {
			before := e.changes[len(e.changes)-1].now
			e.changes = append(e.changes, change{at: rec.At, place: address.At(catalogue, rec.LSN), by: ev.Origin, before: before, now: ev.Properties})
		}
	case *event.EntityDeleted:
		if e := n.byID[id]; e != nil {
			e.deleted, e.until, e.gone = rec.At, n.clocks[len(n.clocks)-1].number, rec.LSN
		}
	case *event.ClockSet:
		n.clocks[len(n.clocks)-1].until = ev.From
		n.clocks = append(n.clocks, era{number: ev.Number, from: ev.To, until: event.EndOfTime})
	}
}

func (n *names) add(e *life) {
	n.byID[e.id] = e
	path := fold(e.path)
	n.byPath[path] = append(n.byPath[path], e)
}

// find returns the entity of a path: the existing one, else the one that was deleted last.
func (n *names) find(path string) (*life, error) {
	lives, err := n.lives(path)
	if err != nil {
		return nil, err
	}
	return lives[len(lives)-1], nil
}

// some returns the paths of a few entities, for an error about an unknown one.
func (n *names) some() string {
	var list []string
	for _, e := range n.byID {
		if e.deleted == 0 {
			list = append(list, e.path)
		}
	}
	slices.Sort(list)
	if more := len(list) - 8; more > 0 {
		list = append(list[:8], fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// hosts returns the logs that have the slices of an entity, by entity partition.
func (n *names) hosts(e *life) []byte {
	if topic := n.byID[e.topic]; topic != nil {
		return topic.hosts
	}
	return e.hosts
}

// host returns the log that has a slice.
func (n *names) host(s event.Slice) (log.PartitionID, bool) {
	e := n.byID[s.Entity]
	if e == nil {
		return 0, false
	}
	hosts := n.hosts(e)
	if int(s.Partition) >= len(hosts) {
		return 0, false
	}
	return log.PartitionID(hosts[s.Partition]), true
}

// slices returns the slices of an entity that a log has.
func (n *names) slices(e *life, in log.PartitionID) (list []event.Slice) {
	for i, h := range n.hosts(e) {
		if log.PartitionID(h) == in {
			list = append(list, event.Slice{Entity: e.id, Partition: uint8(i)})
		}
	}
	return list
}

// logs returns the logs that have something of some entities, in order.
func (n *names) logs(entities ...*life) (list []log.PartitionID) {
	for _, e := range entities {
		for _, h := range n.hosts(e) {
			list = append(list, log.PartitionID(h))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// path returns the path of an entity, or a name for an unknown one.
func (n *names) path(id event.EntityID) string {
	if e := n.byID[id]; e != nil {
		return e.path
	}
	return fmt.Sprintf("entity-%d", id)
}

// message returns the address of a message.
func (n *names) message(s event.Slice, number event.SequenceNumber) string {
	return address.Of(n.path(s.Entity), number).String()
}

// fold returns a path in the form in which paths are compared.
func fold(path string) string { return strings.ToLower(path) }
