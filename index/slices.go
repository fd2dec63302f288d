package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// sliceTable finds the slices of a partition, and applies events that concern more than one of
// them. A topic's messages are stored in slices of its subscriptions, which count towards its size.
type sliceTable struct {
	byID   map[event.Slice]*slice
	recent *slice // the slice that was last changed
	shared *sharedTables
}

func newSliceTable(sh *sharedTables) sliceTable {
	return sliceTable{byID: map[event.Slice]*slice{}, shared: sh}
}

// of finds a slice, or makes it, for changing.
func (t *sliceTable) of(id event.Slice) *slice {
	s := t.find(id)
	if s == nil {
		s = newSlice(id, t.shared)
		t.add(s)
	}
	s.own()
	t.recent = s
	return s
}

func (t *sliceTable) add(s *slice) {
	s.slot = t.shared.kept.add(&t.shared.versions, s.keptSlice)
	t.byID[s.id] = s
}

// find finds a slice without making it; nil if there is none. The caller must not change it.
func (t *sliceTable) find(id event.Slice) *slice {
	if t.recent != nil && t.recent.id == id {
		return t.recent
	}
	return t.byID[id]
}

func (t *sliceTable) setSessionState(at event.Time, ev *event.SessionStateSet) {
	s := t.of(ev.Slice)
	if ev.Topic != 0 && s.owner == nil {
		s.setOwner(t.of(event.Slice{Entity: ev.Topic, Partition: ev.Slice.Partition}))
	}
	s.setSessionState(at, ev)
}

// applyMove applies the events of moves and transactions.
func (t *sliceTable) applyMove(ev event.Event) {
	switch ev := ev.(type) {
	case *event.NumbersReserved:
		reserve(t.of(ev.Slice), ev)
	case *event.TransferStarted:
		departures{t.of(ev.Slice)}.start(ev)
	case *event.MessageHandedOver:
		departures{t.of(ev.Slice)}.handOver(ev)
	case *event.TransfersFinished:
		departures{t.of(ev.Slice)}.finish(ev)
	case *event.TransferFailed:
		departures{t.of(ev.Slice)}.fail(ev)
	case *event.SourceForgotten:
		arrivalsOf{t.of(ev.Slice)}.forget(ev)
	default:
		panic(fmt.Sprintf("index: no rule for event %T", ev))
	}
}

// drop removes a slice with all its contents.
func (t *sliceTable) drop(id event.Slice) {
	s := t.byID[id]
	if s == nil {
		return
	}
	s.leaveShared()
	if s.owner != nil {
		s.owner.owns--
		s.owner.owned -= s.bytes
	}
	if s.owns > 0 { // a topic that is removed before its subscriptions
		for _, other := range t.byID {
			if other.owner == s {
				other.own()
				other.owner, other.topic = nil, 0
			}
		}
	}
	delete(t.byID, id)
	t.shared.kept.remove(&t.shared.versions, s.slot)
	t.recent = nil
}

// leaveShared removes the locks and scheduled messages of a slice from the shared tables.
func (s *slice) leaveShared() {
	s.rows.root.each(0, func(p place) bool {
		switch r := p.row(); r.marks.state() {
		case Locked, DeferredLocked:
			s.shared.locks.remove(r.lock)
		case Scheduled:
			s.shared.schedule.remove(r.lock)
		case Transferring:
			s.shared.transfers.remove(&s.shared.versions, r.lock)
		}
		return true
	})
	if s.sessions == nil {
		return
	}
	for _, r := range s.names.records.all() {
		if r.lock != 0 {
			s.shared.locks.remove(r.lock)
		}
	}
}
