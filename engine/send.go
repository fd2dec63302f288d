package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxKey bounds ids and keys in bytes: 128 characters of at most 4 (semantics.md 16.3). Callers
	// that know characters count them; the log relies on this bound.
	maxKey = 512
	// idRoom is the number of bytes by which a message may exceed the entity's limit: a message
	// that was sent without a message-id is stored with one.
	idRoom = 64
)

// sendDecision decides a send to a slice: of a queue, or of a topic (topic.go).
type sendDecision struct {
	slice
	cmd   *Send
	from  event.OriginID
	batch uint32 // messages, if more than one
	// arrival tells where a message that moved comes from, which is then the only one; nil: the
	// messages were sent here.
	arrival *event.Arrival
}

// send stores messages: the checks of semantics.md 5.1 that need the entity's state, then numbers,
// times and events.
func send(d *decision, cmd *Send) *Error {
	if d.settings.noSends != nil {
		return d.settings.noSends
	}
	of, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if cmd.Destination != nil {
		if d.settings.noHandOvers != nil {
			return d.settings.noHandOvers
		}
		return handOver(d, of, cmd)
	}
	s := sendDecision{slice: of, cmd: cmd}
	if err := s.check(); err != nil {
		return err
	}
	if of.entity.Kind == event.Topic {
		p := publishDecision{slice: of, fan: &d.fan}
		if err := p.check(cmd); err != nil {
			return err
		}
		s.noteBytes(p.bytes)
	}
	s.from = d.origin(cmd.Origin)
	if n := len(cmd.Messages); n > 1 {
		s.batch = uint32(n)
	}
	var numbers Numbers
	if of.entity.Kind == event.Topic {
		numbers = s.publish(d.fan.plan)
	} else {
		numbers = s.store()
	}
	if cmd.Numbers {
		d.reply.Answer = numbers
	}
	return nil
}

// check refuses messages that cannot be stored.
func (s *sendDecision) check() *Error {
	if err := s.sendable(); err != nil {
		return err
	}
	size, err := s.checkMessages()
	if err != nil {
		return err
	}
	if s.entity.Kind == event.Subscription {
		return Refuse(NotAllowed, "Messages are sent to a topic, not to its subscription '%s'.", s.entity.Path)
	}
	if s.entity.Kind != event.Topic {
		if err := s.room(size); err != nil {
			return err
		}
	}
	n, history := len(s.cmd.Messages), s.settings.history
	if s.entity.Properties.RequiresDuplicateDetection && s.historySize()+n > history && s.index.Forgettable(s.id, s.now, n) < n {
		return Refuse(Busy, "The duplicate history of '%s' holds %d ids; retry when older ones have left its window.", s.entity.Path, history)
	}
	return nil
}

// checkMessages looks at each message by itself, and adds up their bytes.
func (s *sendDecision) checkMessages() (size int64, _ *Error) {
	for i := range s.cmd.Messages {
		n, err := s.entity.measure(&s.cmd.Messages[i])
		if err != nil {
			return 0, err
		}
		size += n
	}
	size += s.carriedSize()
	if !s.entity.Properties.RequiresSession {
		return size, nil
	}
	for i := range s.cmd.Messages {
		if !s.cmd.Messages[i].HasSession {
			return 0, Refuse(NotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity. "+
				"Entities that have session support enabled can only receive messages that have the SessionId set to a valid value.")
		}
	}
	return size, nil
}

// measure returns the size of a message in an entity. It refuses one that is larger than the entity
// allows.
func (e *Entity) measure(m *Message) (int64, *Error) {
	if max(len(m.ID), len(m.SessionID), len(m.PartitionKey)) > maxKey {
		return 0, Refuse(InvalidArgument, "A message id, session id or partition key is longer than 128 characters.")
	}
	n, limit := int64(len(m.Body)+len(m.Tail)), int64(e.Properties.MaxMessageSizeKilobytes)<<10
	if n > limit+idRoom {
		return 0, Refuse(MessageTooLarge, "The message of %d bytes exceeds the limit of %d bytes of '%s'.", n, limit, e.Path)
	}
	return n, nil
}

// store adds the events of accepted messages, and returns their numbers if the command asks for
// them.
func (s *sendDecision) store() (numbers Numbers) {
	seq := s.next(s.id)
	fresh := s.duplicates(len(s.cmd.Messages))
	var size int64
	for i := range s.cmd.Messages {
		m, number := &s.cmd.Messages[i], s.cmd.found(i).number
		if original, twice := fresh.original(s.cmd, i); twice {
			s.drop(m, original)
			if s.cmd.Numbers {
				number = s.stillScheduled(original)
			}
		} else {
			if number == 0 {
				number = seq
				seq++
			}
			s.storeOne(i, number, fresh.remember(m, number))
			size += int64(len(m.Body)+len(m.Tail)) + s.carriedSize()
		}
		if s.cmd.Numbers {
			numbers = append(numbers, number)
		}
	}
	s.noteNext(s.id, seq)
	s.noteBytes(size)
	return numbers
}

// reserved reports whether message i has a number that was assigned when it was staged. Such a
// message is scheduled whatever the time is now: its number is smaller than others that were
// assigned since.
func (cmd *Send) reserved(i int) bool { return cmd.found(i).number != 0 }

// storeOne adds the event of a message whose id is remembered until a time.
func (s *sendDecision) storeOne(i int, seq event.SequenceNumber, until event.Time) {
	m, p := &s.cmd.Messages[i], &s.entity.Properties
	if m.ScheduledFor > s.now || s.cmd.reserved(i) {
		s.schedule(i, seq, until).InSession = p.RequiresSession
		return
	}
	ev := add[*event.MessageEnqueued](s.decision, event.KindMessageEnqueued)
	ev.Envelope, ev.Sequence = s.envelope(s.from), seq
	ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
	ev.EnqueuedAt, ev.Batch = s.now, s.batch
	ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
	ev.TimeToLive, ev.ExpiresAt = timeToLive(s.now, m.TimeToLive, s.entity.ceiling())
	ev.InSession, ev.IDType, ev.DuplicateUntil, ev.Details = p.RequiresSession, m.IDType, until, m.Details
	ev.Arrival, ev.Keyed = s.arrival, s.entity.keyed(m)
}

// carriedSize returns how many bytes a moved message brings in addition to its own.
func (s *sendDecision) carriedSize() int64 {
	if s.arrival == nil {
		return 0
	}
	return int64(len(s.arrival.Changes.Data))
}

// ceiling returns the longest time that messages of an entity live. An entity that forwards them
// has none of its own: it does not keep them.
func (e *Entity) ceiling() time.Duration {
	if e.Properties.ForwardTo != "" {
		return event.Forever
	}
	return e.Properties.DefaultMessageTimeToLive
}

// timeToLive cuts the sender's time to live to the entity's and returns when the message expires
// (semantics.md 7.1).
func timeToLive(now event.Time, own, ceiling time.Duration) (time.Duration, event.Time) {
	ttl := ceiling
	if own > 0 {
		own = min(own, ceiling)
		ttl = own
	}
	if ttl == event.Forever {
		return own, 0
	}
	return own, now.Add(ttl)
}
