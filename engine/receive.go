package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receive takes the first deliverable message for a receiver (semantics.md 5.2). The reply has a Delivery, or none when
// there is nothing to deliver.
func (p *Partition) receive(now event.Time, cmd *Receive) Outcome {
	r := cmd.Receiver
	e, err := p.entity(r.Slice)
	if err != nil {
		return p.refused(err)
	}
	if st := e.Properties.Status; st == event.Disabled || st == event.ReceiveDisabled {
		return p.refused(refuse(Disabled, "The messaging entity '%s' is disabled for receiving.", e.Path))
	}
	m, ok := p.index.First(r.Slice, r.SubQueue)
	if !ok {
		return p.done(log.Ordered)
	}
	if expired(&m, now) {
		p.expire(e, r.Slice, &m)
		out := p.done(log.Durable)
		out.Again = true
		return out
	}
	origin := p.origin(r.Origin)
	d := p.deliver(&m)
	if r.Mode == ReceiveAndDelete {
		ev := p.events.New(event.KindMessageReceivedAndDeleted).(*event.MessageReceivedAndDeleted)
		ev.Envelope, ev.Sequence = p.envelope(r.Slice, origin), m.Sequence
		p.out = append(p.out, ev)
		out := p.done(log.Durable) // gone for good before a byte of it leaves (reliability.md P8)
		out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Delivery: d}
		return out
	}
	ev := p.events.New(event.KindMessageLocked).(*event.MessageLocked)
	ev.Envelope, ev.Sequence = p.envelope(r.Slice, origin), m.Sequence
	ev.Token, ev.LockedUntil, ev.DeliveryCount = cmd.Token, now.Add(e.Properties.LockDuration), m.DeliveryCount
	p.out = append(p.out, ev)
	d.Token, d.LockedUntil = ev.Token, ev.LockedUntil
	out := p.done(log.Ordered) // written is enough for a lock (reliability.md P6)
	out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Delivery: d}
	return out
}

// expired tells whether a message's time to live has ended. Nothing expires in a dead-letter queue (semantics.md 7.5).
func expired(m *index.Message, now event.Time) bool {
	return m.SubQueue == event.Main && m.ExpiresAt != 0 && now >= m.ExpiresAt
}

// expire adds the event that ends an active message whose time to live has passed: dropped or dead-lettered.
func (p *Partition) expire(e *Entity, id event.Slice, m *index.Message) {
	if e.Properties.DeadLetteringOnMessageExpiration {
		p.deadLetter(id, m.Sequence, event.CauseExpired, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	ev := p.events.New(event.KindMessageExpired).(*event.MessageExpired)
	ev.Envelope, ev.Sequence, ev.ExpiresAt = p.envelope(id, 0), m.Sequence, m.ExpiresAt
	p.out = append(p.out, ev)
}

// deadLetter adds the broker's own dead-lettering of a message that is not locked (any more).
func (p *Partition) deadLetter(id event.Slice, seq event.SequenceNumber, cause event.Cause, reason, description string) {
	ev := p.events.New(event.KindMessageDeadLettered).(*event.MessageDeadLettered)
	ev.Envelope, ev.Sequence, ev.Cause = p.envelope(id, 0), seq, cause
	ev.Reason, ev.Description = reason, description
	ev.Changes.Data = deadLetterChanges(reason, description)
	p.out = append(p.out, ev)
}

// deliverySlab is how many deliveries are allocated at once.
const deliverySlab = 64

// deliver is a new description of a message for a receiver. It lives as long as the protocol side needs it.
func (p *Partition) deliver(m *index.Message) *Delivery {
	if len(p.slab) == 0 {
		p.slab = make([]Delivery, deliverySlab)
	}
	d := &p.slab[0]
	p.slab = p.slab[1:]
	*d = describe(m)
	return d
}

// describe is a message as it is delivered or shown, without a lock.
func describe(m *index.Message) Delivery {
	d := Delivery{
		Sequence: m.Sequence, DeliveryCount: m.DeliveryCount, EnqueuedAt: m.EnqueuedAt, ExpiresAt: m.ExpiresAt,
		SubQueue: m.SubQueue, Deferred: m.State == index.Deferred || m.State == index.DeferredLocked,
		Body: m.Body, Changes: m.Changes[:len(m.Changes):len(m.Changes)],
	}
	if m.OwnTTL {
		d.TimeToLive = m.ExpiresAt.Sub(m.EnqueuedAt)
	}
	return d
}

// peek shows messages without touching them (semantics.md 14.2).
func (p *Partition) peek(cmd *Peek) Outcome {
	if cmd.HasSession {
		return p.refused(refuse(NotImplemented, "Peeking at one session is not supported yet."))
	}
	out := p.done(log.Ordered)
	left := cmd.MaxBytes
	for m := range p.index.Browse(cmd.Slice, cmd.SubQueue, cmd.From) {
		if len(out.Reply.Messages) >= cmd.Count {
			break
		}
		left -= int(m.Body.Size)
		if left < 0 && len(out.Reply.Messages) > 0 {
			break
		}
		out.Reply.Messages = append(out.Reply.Messages, describe(&m))
	}
	return out
}
