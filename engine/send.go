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
	e, err := p.entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if st := e.Properties.Status; st == event.Disabled || st == event.SendDisabled {
		return p.refused(refuse(Disabled, "The messaging entity '%s' is disabled for sending.", e.Path))
	}
	var size int64
	limit := int64(e.Properties.MaxMessageSizeKilobytes) << 10
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		if max(len(m.ID), len(m.SessionID), len(m.PartitionKey)) > maxKey {
			return p.refused(refuse(InvalidArgument, "A message id, session id or partition key is longer than 128 characters."))
		}
		n := int64(len(m.Body))
		if n > limit+idRoom {
			return p.refused(refuse(MessageTooLarge, "The message of %d bytes is over the limit of %d bytes of '%s'.", n, limit, e.Path))
		}
		size += n
	}
	quota := int64(e.Properties.MaxSizeMegabytes) << 20
	if stored := p.index.Bytes(cmd.Slice); stored+size > quota {
		return p.refused(refuse(QuotaExceeded, "The maximum entity size has been reached or exceeded for Queue: '%s'. "+
			"Size of entity in bytes:%d, Max entity size in bytes: %d.", e.Path, stored, quota))
	}
	origin := p.origin(cmd.Origin)
	seq := p.index.NextSequence(cmd.Slice)
	var batch uint32
	if len(cmd.Messages) > 1 {
		batch = uint32(len(cmd.Messages))
	}
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		ev := p.events.New(event.KindMessageEnqueued).(*event.MessageEnqueued)
		ev.Envelope = p.envelope(cmd.Slice, origin)
		ev.Sequence = seq + event.SequenceNumber(i)
		ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
		ev.EnqueuedAt, ev.Batch = now, batch
		ev.TimeToLive, ev.ExpiresAt = timeToLive(now, m.TimeToLive, e.Properties.DefaultMessageTimeToLive)
		ev.Body.Data = m.Body
		p.out = append(p.out, ev)
	}
	return p.done(log.Durable)
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
