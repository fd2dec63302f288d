package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// activate adds the event that makes a scheduled message active: as if it were sent now (semantics.md 7.6).
func (p *Partition) activate(now event.Time, s index.ScheduledMessage, tick *Tick) {
	ceiling := event.Forever
	if e := p.entities[s.Slice.Entity]; e != nil {
		if e.Kind == event.Topic {
			p.activateIn(now, e, s, tick)
			return
		}
		ceiling = e.Properties.DefaultMessageTimeToLive
	}
	ev := p.events.New(event.KindScheduledActivated).(*event.ScheduledActivated)
	ev.Envelope, ev.Sequence = envelope(s.Slice, 0), s.Sequence
	ev.NewSequence, ev.EnqueuedAt = p.index.NextSequence(s.Slice), now
	ev.TimeToLive, ev.ExpiresAt = timeToLive(now, s.TimeToLive, ceiling)
	p.out = append(p.out, ev)
}

// scheduleMessage adds the event of a message that becomes active later.
func (p *Partition) scheduleMessage(id event.Slice, origin event.OriginID, m *Message, seq event.SequenceNumber, until event.Time, batch uint32) *event.MessageScheduled {
	ev := p.events.New(event.KindMessageScheduled).(*event.MessageScheduled)
	ev.Envelope, ev.Sequence = envelope(id, origin), seq
	ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
	ev.TimeToLive, ev.ScheduledFor, ev.Batch = m.TimeToLive, m.ScheduledFor, batch
	ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
	ev.IDType, ev.DuplicateUntil = m.IDType, until
	p.out = append(p.out, ev)
	return ev
}

// cancelScheduled ends messages that are not active yet: all of them or none.
func (p *Partition) cancelScheduled(cmd *CancelScheduled) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := sendable(e); err != nil {
		return p.refused(err)
	}
	seen := map[event.SequenceNumber]bool{}
	for _, seq := range cmd.Sequences {
		m, ok := p.index.Message(cmd.Slice, seq)
		if !ok || m.State != index.Scheduled || seen[seq] {
			return p.refused(Refuse(MessageNotFound, "There is no scheduled message with the sequence number %d.", seq))
		}
		seen[seq] = true
	}
	origin := p.origin(cmd.Origin)
	for _, seq := range cmd.Sequences {
		ev := p.events.New(event.KindScheduleCancelled).(*event.ScheduleCancelled)
		ev.Envelope, ev.Sequence = envelope(cmd.Slice, origin), seq
		p.out = append(p.out, ev)
	}
	return p.done(log.Durable)
}
