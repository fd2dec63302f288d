package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Index is the state of one partition. It belongs to one goroutine.
type Index struct {
	Catalogue Catalogue // entities; filled on partition 0 only

	slices     map[event.Slice]*slice
	recent     *slice // the slice asked for last
	locks      lockTable
	deadlines  deadlines
	nextOrigin event.OriginID
	lastAt     event.Time
}

// New is the state before the first event.
func New() *Index {
	return &Index{
		Catalogue:  newCatalogue(),
		slices:     map[event.Slice]*slice{},
		locks:      newLockTable(),
		deadlines:  newDeadlines(),
		nextOrigin: 1,
	}
}

// Apply changes the state by one event, decided at the given broker time. Blobs of the event must say where they stand.
func (x *Index) Apply(at event.Time, ev event.Event) {
	x.lastAt = max(x.lastAt, at)
	switch ev := ev.(type) {
	case *event.OriginDefined:
		x.nextOrigin = max(x.nextOrigin, ev.ID+1)
	case *event.EntityCreated, *event.EntityUpdated, *event.EntityDeleted:
		x.Catalogue.apply(ev)
	case *event.MessageEnqueued:
		x.slice(ev.Slice).enqueue(ev)
	case *event.MessageLocked:
		s := x.slice(ev.Slice)
		row := s.must(ev.Sequence, ev)
		row.count = ev.DeliveryCount
		row.lock = x.locks.add(lock{token: ev.Token, slice: ev.Slice, sequence: ev.Sequence, until: ev.LockedUntil})
		x.deadlines.add(ev.LockedUntil, row.lock)
		if row.state == Deferred {
			s.move(ev.Sequence, row, DeferredLocked)
		} else {
			s.move(ev.Sequence, row, Locked)
		}
	case *event.LockRenewed:
		row := x.slice(ev.Slice).must(ev.Sequence, ev)
		l := x.locks.at(row.lock)
		x.deadlines.remove(l.until, row.lock)
		l.until = ev.LockedUntil
		x.deadlines.add(l.until, row.lock)
	case *event.LockExpired:
		s, row := x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		row.count = ev.DeliveryCount
		s.giveBack(ev.Sequence, row)
	case *event.MessageReleased:
		s, row := x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		s.giveBack(ev.Sequence, row)
	case *event.MessageAbandoned:
		s, row := x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		row.count = ev.DeliveryCount
		s.change(ev.Sequence, row, ev.Changes)
		s.giveBack(ev.Sequence, row)
	case *event.MessageDeferred:
		s, row := x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		row.count = ev.DeliveryCount
		s.change(ev.Sequence, row, ev.Changes)
		s.move(ev.Sequence, row, Deferred)
	case *event.MessageCompleted:
		s, row := x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		s.remove(ev.Sequence, row)
	case *event.MessageReceivedAndDeleted:
		s := x.slice(ev.Slice)
		s.remove(ev.Sequence, s.must(ev.Sequence, ev))
	case *event.MessageExpired:
		s := x.slice(ev.Slice)
		s.remove(ev.Sequence, s.must(ev.Sequence, ev))
	case *event.MessageDeadLettered:
		s := x.slice(ev.Slice)
		row := s.must(ev.Sequence, ev)
		if row.state == Locked || row.state == DeferredLocked {
			x.unlock(ev.Slice, ev.Sequence, ev.Token, ev)
		}
		s.change(ev.Sequence, row, ev.Changes)
		s.deadLetter(ev.Sequence, row)
	default:
		panic(fmt.Sprintf("index: no rule for event %T", ev))
	}
}

// unlock takes the lock off a message; the caller moves the message on.
func (x *Index) unlock(id event.Slice, seq event.SequenceNumber, token event.LockToken, ev event.Event) (*slice, *row) {
	s := x.slice(id)
	row := s.must(seq, ev)
	if row.state != Locked && row.state != DeferredLocked {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, seq, id, row.state))
	}
	l := x.locks.at(row.lock)
	if l.token != token {
		panic(fmt.Sprintf("index: %T of message %d in slice %v with token %v, the lock has %v", ev, seq, id, token, l.token))
	}
	x.deadlines.remove(l.until, row.lock)
	x.locks.remove(row.lock)
	row.lock = 0
	return s, row
}

func (x *Index) slice(id event.Slice) *slice {
	if x.recent != nil && x.recent.id == id {
		return x.recent
	}
	s := x.slices[id]
	if s == nil {
		s = newSlice(id)
		x.slices[id] = s
	}
	x.recent = s
	return s
}

// look finds a slice without making it.
func (x *Index) look(id event.Slice) *slice {
	if x.recent != nil && x.recent.id == id {
		return x.recent
	}
	s := x.slices[id]
	if s != nil {
		x.recent = s
	}
	return s
}
