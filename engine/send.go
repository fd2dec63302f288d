package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxKey bounds ids and keys in bytes: 128 characters of at most 4 (semantics.md 16.3). Whoever knows characters counts
	// them; this is what the log relies on.
	maxKey = 512
	// idRoom is how much longer a message may be than the entity's limit: a message that was sent without a message-id is
	// stored with one.
	idRoom = 64
)

// send stores messages: checks of semantics.md 5.1 that need the entity's state, then numbers, times and events.
func (p *Partition) send(now event.Time, cmd *Send) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := sendable(e); err != nil {
		return p.refused(err)
	}
	var size int64
	limit := int64(e.Properties.MaxMessageSizeKilobytes) << 10
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		if max(len(m.ID), len(m.SessionID), len(m.PartitionKey)) > maxKey {
			return p.refused(Refuse(InvalidArgument, "A message id, session id or partition key is longer than 128 characters."))
		}
		n := int64(len(m.Body) + len(m.Tail))
		if n > limit+idRoom {
			return p.refused(Refuse(MessageTooLarge, "The message of %d bytes is over the limit of %d bytes of '%s'.", n, limit, e.Path))
		}
		size += n
	}
	if e.Properties.RequiresSession {
		for i := range cmd.Messages {
			if !cmd.Messages[i].HasSession {
				return p.refused(Refuse(NotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity. "+
					"Entities that have session support enabled can only receive messages that have the SessionId set to a valid value."))
			}
		}
	}
	if e.Kind == event.Subscription {
		return p.refused(Refuse(NotAllowed, "Messages are sent to a topic, not to its subscription '%s'.", e.Path))
	}
	if e.Kind != event.Topic {
		if err := p.room(e, cmd.Slice, size); err != nil {
			return p.refused(err)
		}
	}
	if n := len(cmd.Messages); e.Properties.RequiresDuplicateDetection && p.index.Remembered(cmd.Slice)+n > p.history &&
		p.index.Forgettable(cmd.Slice, now, n) < n {
		return p.refused(Refuse(Busy, "The duplicate history of '%s' holds %d ids; older ones must leave its window first.", e.Path, p.history))
	}
	if e.Kind == event.Topic {
		return p.publish(now, e, cmd)
	}
	p.store(now, e, cmd)
	out := p.done(log.Durable)
	if cmd.Numbers {
		out.Reply.Answer = p.numbers
		p.numbers = nil
	}
	return out
}

// sendable refuses when the entity's status forbids sending (semantics.md 16.1).
func sendable(e *Entity) *Error {
	if st := e.Properties.Status; st == event.Disabled || st == event.SendDisabled {
		return Refuse(Disabled, "The messaging entity '%s' is disabled for sending.", e.Path)
	}
	return nil
}

// room refuses what would make a slice larger than its quota (semantics.md 16.3). What a subscription stores counts with its
// topic.
func (p *Partition) room(e *Entity, id event.Slice, more int64) *Error {
	if e.Kind == event.Subscription {
		topic := p.entities[e.Topic]
		if topic == nil {
			return nil // it is just being deleted
		}
		e, id = topic, event.Slice{Entity: topic.ID, Partition: id.Partition}
	}
	quota := int64(e.Properties.MaxSizeMegabytes) << 20
	if stored := p.index.Bytes(id); more > 0 && stored+more > quota {
		return Refuse(EntityFull, "The maximum entity size has been reached or exceeded for %s: '%s'. "+
			"Size of entity in bytes:%d, Max entity size in bytes: %d.", e.Kind, e.Path, stored, quota)
	}
	return nil
}

// store adds the events of messages that were let in.
func (p *Partition) store(now event.Time, e *Entity, cmd *Send) {
	origin := p.origin(cmd.Origin)
	seq := p.index.NextSequence(cmd.Slice)
	var batch uint32
	if len(cmd.Messages) > 1 {
		batch = uint32(len(cmd.Messages))
	}
	fresh := p.duplicates(now, e, cmd)
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		if original, twice := fresh.original(m); twice {
			p.drop(cmd.Slice, origin, m, original)
			if cmd.Numbers {
				p.numbers = append(p.numbers, p.stillScheduled(cmd.Slice, original))
			}
			continue
		}
		until := fresh.remember(m, seq)
		if m.ScheduledFor > now {
			p.scheduleMessage(cmd.Slice, origin, m, seq, until, batch).InSession = e.Properties.RequiresSession
		} else {
			ev := p.events.New(event.KindMessageEnqueued).(*event.MessageEnqueued)
			ev.Envelope, ev.Sequence = p.envelope(cmd.Slice, origin), seq
			ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
			ev.EnqueuedAt, ev.Batch = now, batch
			ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
			ev.TimeToLive, ev.ExpiresAt = timeToLive(now, m.TimeToLive, e.Properties.DefaultMessageTimeToLive)
			ev.InSession, ev.IDType, ev.DuplicateUntil = e.Properties.RequiresSession, m.IDType, until
			p.out = append(p.out, ev)
		}
		if cmd.Numbers {
			p.numbers = append(p.numbers, seq)
		}
		seq++
	}
}

// timeToLive cuts the sender's own time to live to the entity's and says when the message expires (semantics.md 7.1).
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
