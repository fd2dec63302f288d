package engine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// activity records when an entity was last used. All versions of an entity share one; every log
// partition that hosts a part of the entity writes to it.
type activity struct {
	at    atomic.Int64
	noted atomic.Int64 // the last use that is in the log
	// last change of a rule: it keeps a subscription from being deleted as idle, but is not a use
	ruled     atomic.Int64
	turns     atomic.Uint32 // sends without a key; see [Entity.nextInTurn]
	elsewhere atomic.Uint32 // sends that went to another partition
	order     []uint8       // the order in which partitions take turns; set once in View
}

// View returns an entity of the catalogue in the form that clients get. It shares its activity with
// the version before; nil means there was none.
func View(e index.Entity, before *Entity) *Entity {
	v := &Entity{ID: e.ID, Kind: e.Kind, Path: e.Path, Properties: e.Properties, Topic: e.Topic,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}
	for _, h := range e.Hosts {
		v.Hosts = append(v.Hosts, PartitionID(h))
	}
	if before != nil {
		v.activity = before.activity
		return v
	}
	v.activity = &activity{order: inTurn(v.Hosts)}
	v.activity.at.Store(int64(e.AccessedAt))
	v.activity.noted.Store(int64(e.AccessedAt))
	return v
}

// inTurn returns the order in which the partitions of an entity take turns. Partitions that one log
// hosts are next to each other, so consecutive sends reach the same log a few at a time and are
// answered together.
func inTurn(hosts []PartitionID) []uint8 {
	order := make([]uint8, len(hosts))
	for i := range order {
		order[i] = uint8(i)
	}
	slices.SortStableFunc(order, func(a, b uint8) int { return cmp.Compare(hosts[a], hosts[b]) })
	return order
}

// Succeed makes an entity the next version of another: they share their activity.
func (e *Entity) Succeed(before *Entity) { e.activity = before.activity }

// Use notes that an entity was used. It does nothing for a nil entity. It is safe for concurrent
// use.
func (e *Entity) Use(at event.Time) {
	if e != nil && e.activity != nil && e.activity.at.Load() < int64(at) { // never back
		e.activity.at.Store(int64(at))
	}
}

// Ruled notes that a rule of a subscription was changed.
func (e *Entity) Ruled(at event.Time) { e.activity.ruled.Store(int64(at)) }

// LastUse returns when the entity was last used; 0 means never, or unknown.
func (e *Entity) LastUse() event.Time {
	if e.activity == nil {
		return 0
	}
	return event.Time(e.activity.at.Load())
}

// noted returns the last use that is in the log.
func (e *Entity) noted() event.Time { return event.Time(e.activity.noted.Load()) }
