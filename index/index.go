package index

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Index is the state of one partition. It belongs to one goroutine.
type Index struct {
	Catalogue Catalogue // entities; filled on partition 0 only

	slices     map[event.Slice]*slice
	recent     *slice // the slice asked for last
	locks      lockTable
	deadlines  deadlines
	schedule   schedule
	nextOrigin event.OriginID
	lastAt     event.Time
	clock      Clock
}

// New is the state before the first event.
func New() *Index {
	return &Index{
		Catalogue:  newCatalogue(),
		slices:     map[event.Slice]*slice{},
		locks:      newLockTable(),
		deadlines:  newDeadlines(),
		schedule:   newSchedule(),
		nextOrigin: 1,
	}
}

// Apply changes the state by one event, decided at the given broker time. Blobs of the event must say where they stand.
func (x *Index) Apply(at event.Time, ev event.Event) {
	x.lastAt = max(x.lastAt, at)
	switch ev := ev.(type) {
	case *event.OriginDefined:
		x.nextOrigin = max(x.nextOrigin, ev.ID+1)
	case *event.EntityCreated, *event.EntityUpdated, *event.EntityDeleted, *event.EntityTouched,
		*event.RuleAdded, *event.RuleUpdated, *event.RuleRemoved:
		x.Catalogue.apply(at, ev)
	case *event.MessageEnqueued:
		x.slice(ev.Slice).enqueue(ev)
	case *event.MessagePublished:
		x.publish(ev)
	case *event.ScheduledPublished:
		x.publishScheduled(ev)
	case *event.MessageLocked:
		s := x.slice(ev.Slice)
		row := s.must(ev.Sequence, ev)
		row.count = ev.DeliveryCount
		row.lock = x.lockUntil(lock{token: ev.Token, slice: ev.Slice, sequence: ev.Sequence, until: ev.LockedUntil})
		if row.state == Deferred {
			s.move(ev.Sequence, row, DeferredLocked)
		} else {
			s.move(ev.Sequence, row, Locked)
		}
	case *event.LockRenewed:
		row := x.slice(ev.Slice).must(ev.Sequence, ev)
		x.extend(row.lock, ev.LockedUntil)
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
	case *event.MessagesBatchDeleted:
		s := x.slice(ev.Slice)
		for _, seq := range ev.Sequences {
			s.remove(seq, s.must(seq, ev))
		}
	case *event.MessageScheduled:
		x.store(at, ev)
	case *event.ScheduledActivated:
		x.activate(ev)
	case *event.ScheduleCancelled:
		s := x.slice(ev.Slice)
		row := s.must(ev.Sequence, ev)
		x.schedule.remove(row.lock)
		s.remove(ev.Sequence, row)
	case *event.ClockSet:
		x.setClock(ev)
	case *event.DuplicateDropped:
	case *event.SessionAccepted:
		x.accept(ev)
	case *event.SessionLockRenewed:
		_, ses := x.session(ev.Slice, ev.SessionID, ev)
		x.extend(ses.lock, ev.LockedUntil)
	case *event.SessionReleased:
		x.releaseSession(ev)
	case *event.SessionStateSet:
		x.setState(at, ev)
	case *event.SliceDropped:
		x.forget(ev.Slice)
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
	x.dropLock(row.lock)
	row.lock = 0
	return s, row
}

// lockUntil enters a lock and, when it ends by time, its deadline.
func (x *Index) lockUntil(l lock) uint32 {
	slot := x.locks.add(l)
	if l.until != 0 {
		x.deadlines.add(l.until, slot)
	}
	return slot
}

func (x *Index) dropLock(slot uint32) {
	if l := x.locks.at(slot); l.until != 0 {
		x.deadlines.remove(l.until, slot)
	}
	x.locks.remove(slot)
}

// extend moves a lock's end.
func (x *Index) extend(slot uint32, until event.Time) {
	l := x.locks.at(slot)
	x.deadlines.remove(l.until, slot)
	l.until = until
	x.deadlines.add(until, slot)
}

// store makes the row of a scheduled message.
func (x *Index) store(at event.Time, ev *event.MessageScheduled) {
	s := x.slice(ev.Slice)
	s.number(ev.Sequence)
	r := row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum, enqueuedAt: at, marks: marks(0).with(ownTTL, ev.TimeToLive != 0),
		state: Scheduled, subQueue: event.Main,
		lock: x.schedule.add(scheduled{ev.Slice, ev.Sequence, ev.ScheduledFor, ev.TimeToLive}),
	}
	if ev.InSession {
		r.session = s.session(ev.SessionID)
	}
	s.store(ev.Sequence, r)
	if ev.DuplicateUntil != 0 {
		s.remember(at, ev.IDType, ev.MessageID, seen{ev.DuplicateUntil, ev.Sequence})
	}
}

// activate gives a scheduled message its new number.
func (x *Index) activate(ev *event.ScheduledActivated) {
	s := x.slice(ev.Slice)
	old := s.must(ev.Sequence, ev)
	if old.state != Scheduled {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, ev.Sequence, ev.Slice, old.state))
	}
	s.number(ev.NewSequence)
	r := *old
	x.schedule.remove(r.lock)
	r.lock, r.state = 0, Active
	r.enqueuedAt, r.expiresAt = ev.EnqueuedAt, ev.ExpiresAt
	r.marks = (r.marks | wasScheduled).with(ownTTL, ev.TimeToLive != 0)
	s.store(ev.NewSequence, r) // before the old one goes: a session must not vanish in between
	s.remove(ev.Sequence, s.must(ev.Sequence, ev))
}

// session finds a session that must be there.
func (x *Index) session(id event.Slice, name []byte, ev event.Event) (*slice, *session) {
	s := x.slice(id)
	if s.sessions != nil {
		if _, ses := s.sessions.find(name); ses != nil {
			return s, ses
		}
	}
	panic(fmt.Sprintf("index: %T of session %q in slice %v, which does not exist", ev, name, id))
}

func (x *Index) accept(ev *event.SessionAccepted) {
	s := x.slice(ev.Slice)
	n := s.session(ev.SessionID)
	ses := s.sessions.table[n]
	if ses.lock != 0 {
		panic(fmt.Sprintf("index: session %q in slice %v accepted while it is held", ev.SessionID, ev.Slice))
	}
	ses.lock = x.lockUntil(lock{token: ev.Token, slice: ev.Slice, session: n, until: ev.LockedUntil})
	s.sessions.settle(n)
}

// releaseSession unlocks a session and what was locked under it.
func (x *Index) releaseSession(ev *event.SessionReleased) {
	s, ses := x.session(ev.Slice, ev.SessionID, ev)
	n := x.locks.at(ses.lock).session
	for _, back := range ev.Returned {
		row := s.must(back.Sequence, ev)
		x.dropLock(row.lock)
		row.lock, row.count = 0, back.DeliveryCount
		s.giveBack(back.Sequence, row)
	}
	x.dropLock(ses.lock)
	ses.lock = 0
	s.sessions.settle(n)
}

func (x *Index) setState(at event.Time, ev *event.SessionStateSet) {
	s := x.slice(ev.Slice)
	if ev.Topic != 0 && s.owner == nil {
		s.belong(x.slice(event.Slice{Entity: ev.Topic, Partition: ev.Slice.Partition}))
	}
	n := s.session(ev.SessionID)
	ses := s.sessions.table[n]
	s.grow(int64(ev.State.Size) - int64(ses.state.Size))
	ses.set, ses.state, ses.setAt = !ev.Cleared, ev.State, at
	ses.state.Data, ses.state.Tail = nil, nil
	if ev.Cleared {
		ses.setAt = 0
	}
	s.sessions.settle(n)
}

// forget drops a slice with everything in it.
func (x *Index) forget(id event.Slice) {
	s := x.slices[id]
	if s == nil {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(s.chunks)) { // freed slots are used again: no map order
		c := s.chunks[n]
		for i := range c.rows {
			switch r := &c.rows[i]; r.state {
			case Locked, DeferredLocked:
				x.dropLock(r.lock)
			case Scheduled:
				x.schedule.remove(r.lock)
			}
		}
	}
	if s.sessions != nil {
		for _, ses := range s.sessions.table {
			if ses != nil && ses.lock != 0 {
				x.dropLock(ses.lock)
			}
		}
	}
	if s.owner != nil {
		s.owner.owns--
		s.owner.owned -= s.bytes
	}
	if s.owns > 0 { // a topic that goes before its subscriptions
		for _, other := range x.slices {
			if other.owner == s {
				other.owner = nil
			}
		}
	}
	delete(x.slices, id)
	x.recent = nil
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
