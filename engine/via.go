package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// handOver stores messages that are sent through an entity to another one. Whether the other one
// takes them shows when they arrive: this entity knows neither its state nor its duplicate history.
func handOver(d *decision, of slice, cmd *Send) *Error {
	s := sendDecision{slice: of, cmd: cmd}
	if err := s.checkHandOver(); err != nil {
		return err
	}
	s.from = d.origin(cmd.Origin)
	if n := len(cmd.Messages); n > 1 {
		s.batch = uint32(n)
	}
	seq, number := s.next(s.id), d.nextTransfer(s.id)
	var numbers Numbers
	var size int64
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		ev := add[*event.MessageHandedOver](d, event.KindMessageHandedOver)
		ev.Envelope, ev.Sequence, ev.Number, ev.Destination = s.envelope(s.from), seq, number, cmd.Destination.ID
		ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
		ev.TimeToLive, ev.EnqueuedAt, ev.Batch = m.TimeToLive, s.now, s.batch
		ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
		ev.IDType, ev.Details = m.IDType, m.Details
		if cmd.Numbers {
			numbers = append(numbers, seq)
		}
		size += int64(len(m.Body) + len(m.Tail))
		seq, number = seq+1, number+1
	}
	s.noteNext(s.id, seq)
	if d.scratch.several {
		d.scratch.moves.set(s.id, number)
	}
	s.noteBytes(size)
	if cmd.Numbers {
		d.reply.Answer = numbers
	}
	return nil
}

// checkHandOver refuses messages that cannot be stored here until their destination takes them.
func (s *sendDecision) checkHandOver() *Error {
	if st := s.entity.Properties.Status; st == event.Disabled {
		// an entity that takes no new messages still hands over those that result from receiving
		// the others
		return s.sendable()
	}
	var size int64
	for i := range s.cmd.Messages {
		m := &s.cmd.Messages[i]
		size += int64(len(m.Body) + len(m.Tail))
		for _, e := range [...]*Entity{s.entity, s.cmd.Destination} {
			if e.Kind == event.Subscription {
				continue // its messages belong to its topic
			}
			if _, err := e.measure(m); err != nil {
				return err
			}
		}
	}
	return s.room(size)
}

// nextTransfer returns the number of the next transfer of a slice.
func (d *decision) nextTransfer(id event.Slice) event.TransferNumber {
	if n, ok := d.scratch.moves.get(id); ok {
		return n
	}
	return d.index.NextTransfer(id)
}
