package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxTick is the most locks that one [Tick] ends, so that other commands get their turn.
const maxTick = 1024

// tick does the next work due: it ends an overdue transaction, makes a scheduled message active, or
// ends overdue locks.
func tick(d *decision, cmd *Tick) {
	if d.abortOverdue() {
		return
	}
	locks := d.index.LockDeadline()
	if next, ok := d.index.DueScheduled(d.now); ok && (locks == 0 || next.For < locks) {
		activate(d, next, cmd)
		return
	}
	for _, l := range d.index.Due(d.now, maxTick) {
		s := d.formerSlice(l.Slice)
		s.endLock(&l)
	}
}

// activate adds the event that makes a scheduled message active: as if it were sent now
// (semantics.md 7.6).
func activate(d *decision, next index.ScheduledMessage, cmd *Tick) {
	ceiling := event.Forever
	if s, err := d.slice(next.Slice); err == nil {
		if s.entity.Kind == event.Topic {
			p := publishDecision{slice: s, fan: &d.fan}
			p.activate(next, cmd)
			return
		}
		ceiling = s.entity.ceiling()
	}
	ev := add[*event.ScheduledActivated](d, event.KindScheduledActivated)
	ev.Envelope, ev.Sequence = event.Envelope{Slice: next.Slice}, next.Sequence
	ev.NewSequence, ev.EnqueuedAt = d.next(next.Slice), d.now
	ev.TimeToLive, ev.ExpiresAt = timeToLive(d.now, next.TimeToLive, ceiling)
}

// schedule adds the event of a message that becomes active later.
func (s *sendDecision) schedule(i int, seq event.SequenceNumber, until event.Time) *event.MessageScheduled {
	m := &s.cmd.Messages[i]
	ev := add[*event.MessageScheduled](s.decision, event.KindMessageScheduled)
	ev.Envelope, ev.Sequence = s.envelope(s.from), seq
	ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
	ev.TimeToLive, ev.ScheduledFor, ev.Batch = m.TimeToLive, m.ScheduledFor, s.batch
	ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
	ev.IDType, ev.DuplicateUntil, ev.Details, ev.Arrival = m.IDType, until, m.Details, s.arrival
	ev.Reserved, ev.Keyed = s.cmd.reserved(i), s.entity.keyed(m)
	if s.cmd.Numbers {
		s.noteState(seq, index.Scheduled)
	}
	return ev
}

// cancelScheduled ends messages that are not active yet: all of them or none.
func cancelScheduled(d *decision, cmd *CancelScheduled) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := s.checkCancel(cmd); err != nil || cmd.Try {
		return err
	}
	origin := s.origin(cmd.Origin)
	for _, seq := range cmd.Sequences {
		ev := add[*event.ScheduleCancelled](d, event.KindScheduleCancelled)
		ev.Envelope, ev.Sequence = s.envelope(origin), seq
		if d.scratch.several {
			s.noteState(seq, index.Gone)
		}
	}
	return nil
}

// checkCancel refuses if one of the messages is not scheduled, or is named twice. An entity that
// takes no new messages still allows this.
func (s *slice) checkCancel(cmd *CancelScheduled) *Error {
	if s.entity.Properties.Status == event.Disabled {
		return s.sendable()
	}
	seen := map[event.SequenceNumber]bool{}
	for _, seq := range cmd.Sequences {
		if !s.scheduled(seq) || seen[seq] {
			return Refuse(MessageNotFound, "There is no scheduled message with the sequence number %d.", seq)
		}
		seen[seq] = true
	}
	return nil
}
