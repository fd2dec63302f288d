package index

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The events of a base (docs/log-format.md 3.3): a whole state, with everything in its encoding, in
// a form that every later version reads.

const (
	baseList  = 1024     // entries of a list in an event, at most
	baseBytes = 64 << 10 // and bytes, roughly; one entry may be longer
)

// Base yields the events that contain the state, in order. Each is valid until the next. In a base
// each is a record, at [Index.LastAt].
func (s *Snapshot) Base() iter.Seq[event.Event] {
	return func(yield func(event.Event) bool) {
		b := baseEncoder{view: &s.view, yield: yield, more: true}
		b.catalogue()
		for _, k := range b.sortedSlices() {
			b.slice(k)
		}
	}
}

// baseEncoder makes the events of a base.
type baseEncoder struct {
	*view
	yield func(event.Event) bool
	more  bool
	bytes int // of the entries in the event that is being filled
}

func (b *baseEncoder) give(ev event.Event) {
	b.more, b.bytes = b.more && b.yield(ev), 0
}

// full counts an entry in a list of n, and reports whether the event is long enough.
func (b *baseEncoder) full(n, bytes int) bool {
	b.bytes += bytes
	return n >= baseList || b.bytes >= baseBytes
}

func (b *baseEncoder) catalogue() {
	b.give(&event.CatalogueRestored{LastEntity: b.lastEntity, NextOrigin: b.nextOrigin, ClockNumber: b.clock.Number, ClockShift: uint64(b.clock.Shift)})
	all := sortedEntities(&b.entities)
	for i := range all {
		e := &all[i]
		of := event.Envelope{Slice: event.Slice{Entity: e.ID}}
		ev := &event.CatalogueRestored{Envelope: of, EntityKind: e.Kind, Path: e.Path, HashVersion: e.HashVersion, Hosts: e.Hosts, KeyHash: e.KeyHash,
			Properties: e.Properties, Topic: e.Topic, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, AccessedAt: e.AccessedAt}
		for _, r := range e.added {
			ev.Rules = append(ev.Rules, *r)
			if b.full(len(ev.Rules), len(r.Filter.Text)+len(r.Action.Text)+64) {
				b.give(ev)
				ev = &event.CatalogueRestored{Envelope: of}
			}
		}
		if ev.Path != "" || len(ev.Rules) > 0 {
			b.give(ev)
		}
		if !b.more {
			return
		}
	}
	b.historyPolicies()
}

// historyPolicies yields the history policies: the namespace's first, then those of patterns.
func (b *baseEncoder) historyPolicies() {
	h := b.policies
	if h == nil {
		return
	}
	ev := &event.HistoryPolicySet{Since: h.Since, Removed: h.Namespace == nil}
	if n := h.Namespace; n != nil {
		ev.Policy, ev.Share, ev.BeforeSends = n.Policy, n.Share, n.BeforeSends
	}
	b.give(ev)
	for _, p := range h.Patterns {
		if b.more {
			b.give(&event.HistoryPolicySet{Since: h.Since, Pattern: p.Pattern, Policy: p.Policy})
		}
	}
}

func (b *baseEncoder) slice(k *keptSlice) {
	of := event.Envelope{Slice: k.id}
	ev := &event.SliceRestored{Envelope: of, Last: k.last, Topic: k.topic, Given: k.given}
	if k.names != nil {
		ev.Tickets = k.names.tickets
	}
	b.give(ev)
	ordinals := b.sessions(of, k.names)
	b.rows(of, k, ordinals)
	b.history(of, k)
}

// sessions yields the sessions of a slice by id, and returns their ordinals by slot, which rows
// use.
func (b *baseEncoder) sessions(of event.Envelope, t *keptSessions) (ordinals []uint32) {
	if t == nil {
		return nil
	}
	ordinals = make([]uint32, t.records.end)
	ev := &event.SessionsRestored{Envelope: of}
	for i, slot := range t.sortedSlots() {
		ordinals[slot] = uint32(i + 1)
		r := t.records.at(slot)
		s := event.RestoredSession{ID: []byte(r.id), Ticket: r.ticket, Set: r.set}
		if r.lock != 0 {
			s.Lock = b.lockAt(r.lock)
		}
		if r.set {
			s.State, s.SetAt = r.state.ref(), r.setAt
		}
		if ev.Sessions = append(ev.Sessions, s); b.full(len(ev.Sessions), len(r.id)+64) {
			b.give(ev)
			ev.Sessions = ev.Sessions[:0]
		}
	}
	if len(ev.Sessions) > 0 {
		b.give(ev)
	}
	return ordinals
}

func (b *baseEncoder) lockAt(slot uint32) event.RestoredLock {
	l := b.locks.at(slot)
	return event.RestoredLock{Token: l.token, Until: l.until}
}

func (b body) ref() event.BodyRef {
	return event.BodyRef{Position: b.position, Size: b.size, Sum: b.sum}
}

func (b *baseEncoder) rows(of event.Envelope, k *keptSlice, ordinals []uint32) {
	ev := &event.RowsRestored{Envelope: of}
	k.rows.root.each(0, func(p place) bool {
		ev.Rows = append(ev.Rows, event.RestoredRow{})
		r := &ev.Rows[len(ev.Rows)-1]
		b.row(r, p, ordinals)
		if b.full(len(ev.Rows), 48+len(r.Way.DeadLetterSource)+16*len(r.Changes)) {
			b.give(ev)
			ev.Rows = ev.Rows[:0]
		}
		return b.more
	})
	if len(ev.Rows) > 0 {
		b.give(ev)
	}
}

// row sets the fields of one message.
func (b *baseEncoder) row(to *event.RestoredRow, p place, ordinals []uint32) {
	r := p.row()
	*to = event.RestoredRow{
		Sequence: p.sequence(), State: event.RowState(r.marks.state()), SubQueue: r.marks.subQueue(),
		OwnTTL: r.marks.has(ownTTL), WasScheduled: r.marks.has(wasScheduled), Stays: r.marks.has(stays),
		Body: event.BodyRef{Position: r.position, Size: r.size, Sum: r.sum}, EnqueuedAt: r.enqueuedAt, ExpiresAt: r.expiresAt, DeliveryCount: r.count,
		Way: event.RestoredWay{First: p.origin(), Hops: r.marks.hops(), DeadLetterSource: p.source()},
	}
	if r.session != 0 {
		to.Session = ordinals[r.session]
	}
	switch r.marks.state() {
	case Locked, DeferredLocked:
		to.Lock = b.lockAt(r.lock)
	case Scheduled:
		s := b.schedule.at(r.lock)
		to.ScheduledFor, to.TimeToLive = s.at, s.ttl
	case Transferring:
		t := b.transfers.at(r.lock)
		to.Transfer = event.RestoredTransfer{Number: t.number, Destination: t.destination, Trigger: t.trigger}
	}
	if r.marks.has(changed) {
		for _, c := range p.changes() {
			to.Changes = append(to.Changes, bodyOf(c).ref())
		}
	}
}

func (b *baseEncoder) history(of event.Envelope, k *keptSlice) {
	ev := &event.HistoryRestored{Envelope: of}
	if k.seen != nil {
		for s := range k.seen.entries {
			ev.IDs = append(ev.IDs, event.RestoredID{Key: s.key, Until: s.until, Original: s.original})
			if b.full(len(ev.IDs), 32) {
				b.give(ev)
				ev.IDs = ev.IDs[:0]
			}
		}
	}
	if k.arrived != nil {
		for i := range k.arrived.sources {
			b.source(ev, &k.arrived.sources[i])
		}
	}
	if len(ev.IDs)+len(ev.Sources) > 0 {
		b.give(ev)
	}
}

// source adds the arrivals from a slice to an event, and yields the event each time it is long
// enough.
func (b *baseEncoder) source(ev *event.HistoryRestored, src *source) {
	next := func(numbers []event.TransferNumber) {
		ev.Sources = append(ev.Sources, event.RestoredSource{Source: src.slice, Floor: src.floor, Numbers: numbers})
		if b.full(len(ev.Sources), 16+4*len(numbers)) {
			b.give(ev)
			ev.IDs, ev.Sources = ev.IDs[:0], ev.Sources[:0]
		}
	}
	if src.numbers == nil || src.numbers.IsEmpty() {
		next(nil)
		return
	}
	for it := src.numbers.Iterator(); it.HasNext(); {
		numbers := make([]event.TransferNumber, 0, baseList)
		for len(numbers) < baseList && it.HasNext() {
			numbers = append(numbers, event.TransferNumber(it.Next()))
		}
		next(numbers)
	}
}

// Restorer makes an index from the events of a base.
type Restorer struct {
	x     *Index
	begun bool          // the partition's own numbers are set
	slice sliceAssembly // the one that the events are about
	order event.Slice
	last  event.SequenceNumber // of the rows of the slice
}

// Restore returns a Restorer with the state before the first event.
func Restore() *Restorer { return &Restorer{x: New()} }

// Apply adds the contents of an event of the base; at is the time of its record. After an error r
// must not be used.
func (r *Restorer) Apply(at event.Time, ev event.Event) (err error) {
	x := r.x
	x.lastAt = max(x.lastAt, at)
	if c, ok := ev.(*event.CatalogueRestored); ok {
		return r.catalogue(c)
	}
	if h, ok := ev.(*event.HistoryPolicySet); ok && r.begun && r.slice.slice == nil {
		return x.Catalogue.restorePolicy(h)
	}
	id := ev.Common().Slice
	if s, ok := ev.(*event.SliceRestored); ok {
		if r.slice.slice != nil && compareSlices(r.order, id) >= 0 {
			return fmt.Errorf("slice %v after %v", id, r.order)
		}
		r.slice, err = indexAssembly{x}.restoreSlice(id, s.Last, s.Topic)
		if err != nil {
			return err
		}
		r.order, r.last = id, 0
		r.slice.restoreTickets(s.Tickets)
		r.slice.given = s.Given
		return nil
	}
	if r.slice.slice == nil || r.order != id {
		return fmt.Errorf("%v before its slice %v", ev.Kind(), id)
	}
	return r.contents(ev)
}

// catalogue adds the partition's own numbers, an entity, or rules.
func (r *Restorer) catalogue(ev *event.CatalogueRestored) error {
	x, c := r.x, &r.x.Catalogue
	if numbers := ev.NextOrigin != 0; numbers == r.begun || r.slice.slice != nil {
		return fmt.Errorf("%v out of place", ev.Kind())
	} else if numbers {
		r.begun = true
		c.last, x.nextOrigin, x.clock = ev.LastEntity, ev.NextOrigin, Clock{ev.ClockNumber, int64(ev.ClockShift)}
		if ev.Path == "" && len(ev.Rules) == 0 {
			return nil
		}
	}
	id := ev.Slice.Entity
	if ev.Path != "" {
		err := c.restoreEntity(&Entity{ID: id, Kind: ev.EntityKind, Path: ev.Path, HashVersion: ev.HashVersion, Hosts: slices.Clone(ev.Hosts), KeyHash: ev.KeyHash,
			Properties: ev.Properties, Topic: ev.Topic, CreatedAt: ev.CreatedAt, UpdatedAt: ev.UpdatedAt, AccessedAt: ev.AccessedAt})
		if err != nil {
			return err
		}
	}
	e := c.at(id)
	if e == nil {
		return fmt.Errorf("rules of unknown entity %d", id)
	}
	for _, rule := range ev.Rules {
		if err := c.restoreRule(e, rule); err != nil {
			return err
		}
	}
	return nil
}

// contents adds the contents of a slice.
func (r *Restorer) contents(ev event.Event) error {
	s := r.slice
	switch ev := ev.(type) {
	case *event.SessionsRestored:
		for i := range ev.Sessions {
			if err := s.restoreSession(&ev.Sessions[i]); err != nil {
				return err
			}
		}
	case *event.RowsRestored:
		for i := range ev.Rows {
			row := &ev.Rows[i]
			if row.Sequence <= r.last {
				return fmt.Errorf("message %d after %d", row.Sequence, r.last)
			}
			r.last = row.Sequence
			if err := s.restoreRow(row); err != nil {
				return err
			}
		}
	case *event.HistoryRestored:
		for i := range ev.IDs {
			if err := s.restoreID(&ev.IDs[i]); err != nil {
				return err
			}
		}
		for i := range ev.Sources {
			if err := s.restoreSource(&ev.Sources[i]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%v does not belong in a base", ev.Kind())
	}
	return nil
}

// Index checks that all parts are consistent, and returns the index.
func (r *Restorer) Index() (*Index, error) {
	if !r.begun {
		return nil, errors.New("the base is empty")
	}
	return r.x, indexAssembly{r.x}.complete()
}
