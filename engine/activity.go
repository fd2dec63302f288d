package engine

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// activity is when an entity was last used. All versions of an entity share one; every log
// partition that hosts a part of the entity writes to it.
type activity struct {
	at    atomic.Int64
	noted atomic.Int64 // the last use that stands in the log
	// when a rule was last added or changed: that keeps a subscription from being deleted as idle,
	// and does not count as a use
	ruled     atomic.Int64
	turns     atomic.Uint32 // sends without a key: see [Entity.nextInTurn]
	elsewhere atomic.Uint32 // sends that went to another partition
	order     []uint8       // in which partitions take turns; set once in View
}

// View is an entity of the catalogue in the form that clients get. It shares its activity with the
// version before; nil: there is none.
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

// inTurn is the order in which the partitions of an entity take turns: those that one log hosts
// stand together. So what is sent one after the other comes to the same log a few messages at a
// time, and is answered so.
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

// Use notes that something was asked of an entity. Nothing is noted of a nil one. It is safe for
// concurrent use.
func (e *Entity) Use(at event.Time) {
	if e != nil && e.activity != nil && e.activity.at.Load() < int64(at) { // never back
		e.activity.at.Store(int64(at))
	}
}

// Ruled notes that a rule of a subscription was changed.
func (e *Entity) Ruled(at event.Time) { e.activity.ruled.Store(int64(at)) }

// LastUse is when something was last asked of an entity; 0: never, or it is not known.
func (e *Entity) LastUse() event.Time {
	if e.activity == nil {
		return 0
	}
	return event.Time(e.activity.at.Load())
}

// noted is the last use that stands in the log.
func (e *Entity) noted() event.Time { return event.Time(e.activity.noted.Load()) }
