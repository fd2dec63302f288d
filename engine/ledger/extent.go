package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Extent is a self-contained part of the logs: the part of each log from a place on, up to an
// instant, with all or some of the entities.
type Extent struct {
	// the first frame of each log in the extent, which is not before the first instant
	Begin map[log.PartitionID]event.LSN
	Until event.Time // the last instant; [event.EndOfTime]: everything
	// Entities are the entities in the extent; nil: all. A topic, or one of its subscriptions,
	// includes the topic and all its subscriptions, because their messages are in one event.
	Entities map[event.EntityID]bool
	Paths    []string // of the entities in Entities, in order

	clock uint64 // number of the clock decision that Until comes after
}

// Extent returns the part of the logs between two instants, either of which may be nil. entity is a
// path; "": all entities.
func (l *Ledger) Extent(ctx context.Context, since, until *Instant, entity string) (*Extent, error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	x := &Extent{Begin: make(map[log.PartitionID]event.LSN), Until: event.EndOfTime, clock: n.clocks[len(n.clocks)-1].number}
	if until != nil {
		at, eras, err := l.eras(ctx, *until)
		if err != nil {
			return nil, err
		}
		x.Until, x.clock = at, eras[len(eras)-1].number
	}
	if err := x.narrow(n, entity); err != nil {
		return nil, err
	}
	for _, id := range l.src.Partitions() {
		b, err := l.book(ctx, id)
		if err != nil {
			return nil, err
		}
		if x.Begin[id], err = x.beginning(ctx, l, b, since); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// narrow notes which entities the extent includes.
func (x *Extent) narrow(n *names, path string) error {
	if path == "" {
		return nil
	}
	if _, err := n.find(path); err != nil {
		return err
	}
	x.Entities = make(map[event.EntityID]bool)
	for _, e := range n.byPath[fold(path)] { // in each of its lives
		top := e
		if t := n.byID[e.topic]; t != nil {
			top = t
		}
		for _, other := range n.byID {
			if other.id == top.id || other.topic == top.id {
				x.Entities[other.id] = true
				x.Paths = append(x.Paths, other.path)
			}
		}
	}
	slices.Sort(x.Paths)
	x.Paths = slices.Compact(x.Paths)
	return nil
}

// beginning returns where the part of a log begins.
func (x *Extent) beginning(ctx context.Context, l *Ledger, b *book, since *Instant) (event.LSN, error) {
	if since == nil {
		first, _ := b.Bounds()
		if base, ok := b.Base(); ok {
			first = max(first, base.LSN)
		}
		return first, nil
	}
	at, eras, err := l.eras(ctx, *since)
	if err != nil {
		return 0, err
	}
	if at > x.Until && eras[0].number >= x.clock {
		return 0, fmt.Errorf("%w: %s is after %s", ErrQuestion, at, x.Until)
	}
	s, err := l.state(ctx, b, *since, at, eras[0], nil)
	if err != nil {
		return 0, err
	}
	first, _ := b.Bounds()
	return max(first, s.At()), nil
}

// Beyond reports whether a record is after the end of the extent. clock is the number of the newest
// clock decision before the record; Beyond changes it if the record has a newer one.
func (x *Extent) Beyond(clock *uint64, rec *replay.Record) bool {
	for _, ev := range rec.Events {
		if c, ok := ev.(*event.ClockSet); ok {
			if c.Number > x.clock {
				return true
			}
			*clock = c.Number
		}
	}
	return *clock == x.clock && rec.At > x.Until
}
