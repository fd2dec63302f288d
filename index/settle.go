package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func (s *slice) renew(ev *event.LockRenewed) {
	r := s.rows.find(ev.Sequence).row()
	if r == nil {
		s.must(ev.Sequence, ev)
	}
	s.shared.locks.extend(r.lock, ev.LockedUntil)
}

func (s *slice) lock(ev *event.MessageLocked) {
	r := rowAtRest(s, ev.Sequence, ev)
	r.count = ev.DeliveryCount
	r.lock = s.shared.locks.add(lock{token: ev.Token, slice: ev.Slice, sequence: ev.Sequence, until: ev.LockedUntil})
	if r.marks.state() == Deferred {
		s.move(ev.Sequence, r, DeferredLocked)
	} else {
		s.move(ev.Sequence, r, Locked)
	}
}

// unlock removes the lock of a message; the caller changes the message's state.
func (s *slice) unlock(seq event.SequenceNumber, token event.LockToken, ev event.Event) *row {
	r := s.must(seq, ev)
	if st := r.marks.state(); st != Locked && st != DeferredLocked {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, seq, s.id, st))
	}
	l := s.shared.locks.at(r.lock)
	if l.token != token {
		panic(fmt.Sprintf("index: %T of message %d in slice %v with token %v, the lock has %v", ev, seq, s.id, token, l.token))
	}
	s.shared.locks.remove(r.lock)
	r.lock = 0
	return r
}

func (s *slice) endLock(ev *event.LockExpired) {
	r := s.unlock(ev.Sequence, ev.Token, ev)
	r.count = ev.DeliveryCount
	s.endLocked(ev.Sequence, r)
}

func (s *slice) release(ev *event.MessageReleased) {
	s.endLocked(ev.Sequence, s.unlock(ev.Sequence, ev.Token, ev))
}

func (s *slice) abandon(ev *event.MessageAbandoned) {
	r := s.unlock(ev.Sequence, ev.Token, ev)
	r.count = ev.DeliveryCount
	s.change(ev.Sequence, r, ev.Changes)
	s.endLocked(ev.Sequence, r)
}

func (s *slice) deferMessage(ev *event.MessageDeferred) {
	r := s.unlock(ev.Sequence, ev.Token, ev)
	r.count = ev.DeliveryCount
	s.change(ev.Sequence, r, ev.Changes)
	s.move(ev.Sequence, r, Deferred)
}

func (s *slice) deadLetter(ev *event.MessageDeadLettered) {
	r := rowAtRest(s, ev.Sequence, ev)
	if st := r.marks.state(); st == Locked || st == DeferredLocked {
		s.unlock(ev.Sequence, ev.Token, ev)
	}
	s.change(ev.Sequence, r, ev.Changes)
	q := event.DeadLetter
	if ev.SubQueue == event.TransferDeadLetter {
		q = ev.SubQueue
	}
	s.shift(ev.Sequence, r, r.marks.withState(q, Active).with(stays, ev.Cause == event.CauseHopLimit || r.marks.has(stays)))
}

func (s *slice) complete(ev *event.MessageCompleted) {
	s.remove(ev.Sequence, s.unlock(ev.Sequence, ev.Token, ev))
}

// removeAll removes messages that are not locked.
func (s *slice) removeAll(ev event.Event, sequences ...event.SequenceNumber) {
	for _, seq := range sequences {
		s.remove(seq, rowAtRest(s, seq, ev))
	}
}

// endLocked ends a locked state: a message that was deferred stays deferred.
func (s *slice) endLocked(seq event.SequenceNumber, r *row) {
	if r.marks.state() == DeferredLocked {
		s.move(seq, r, Deferred)
	} else {
		s.move(seq, r, Active)
	}
}
