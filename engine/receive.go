package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receive takes the first deliverable message for a receiver (semantics.md 5.2). There is no answer when
// there is nothing to deliver.
func (p *Partition) receive(now event.Time, cmd *Receive) Outcome {
	r := cmd.Receiver
	e, err := p.Entity(r.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		return p.refused(err)
	}
	if r.Mode == Browse {
		return p.browse(cmd)
	}
	m, ok := firstFor(p.index, cmd)
	if r.Session != nil && !p.holds(now, e, r.Slice, cmd.Session) {
		return p.done(level(p.out)) // whoever writes the event tells the receiver
	}
	if !ok || r.Session != nil && p.Crowded(r.Slice, cmd.SessionID) {
		return p.done(log.Ordered)
	}
	if expired(&m, now) {
		if r.Session != nil {
			p.expireFrontOf(now, e, r.Slice, cmd.SessionID)
		} else {
			p.expireFront(now, e, r.Slice)
		}
		out := p.done(log.Durable)
		out.Again = true
		return out
	}
	origin := p.origin(r.Origin)
	d := p.deliver(&m)
	if r.Mode == ReceiveAndDelete {
		ev := p.events.New(event.KindMessageReceivedAndDeleted).(*event.MessageReceivedAndDeleted)
		ev.Envelope, ev.Sequence = envelope(r.Slice, origin), m.Sequence
		p.out = append(p.out, ev)
		out := p.done(log.Durable) // gone for good before a byte of it leaves (reliability.md P8)
		if mutant.On(mutant.TakeBeforeDurable) {
			out.Level = log.Ordered
		}
		out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Answer: d}
		return out
	}
	d.Token, d.LockedUntil = cmd.Token, now.Add(e.Properties.LockDuration)
	p.lock(r.Slice, origin, &m, d)
	out := p.done(log.Ordered) // written is enough for a lock (reliability.md P6)
	out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Answer: d}
	return out
}

// browse shows a receiver the next message behind the last one it was shown, whatever its state, and changes nothing. What comes to
// a sub-queue with a lower number, as a dead letter does, is not shown: it is a [Peek] that goes on.
func (p *Partition) browse(cmd *Receive) Outcome {
	r := cmd.Receiver
	out := p.done(log.Ordered)
	for m := range p.index.Browse(r.Slice, r.SubQueue, cmd.From) {
		out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Answer: p.deliver(&m)}
		break
	}
	return out
}

// receivable refuses when the entity's status forbids receiving (semantics.md 16.1).
func receivable(e *Entity) *Error {
	if st := e.Properties.Status; st == event.Disabled || st == event.ReceiveDisabled {
		return Refuse(Disabled, "The messaging entity '%s' is disabled for receiving.", e.Path)
	}
	return nil
}

// settingsOf is what is in force for a slice, or, of an entity that is no more, what lets locks end.
func (p *Partition) settingsOf(id event.Slice) *Entity {
	if e := p.entities[id.Entity]; e != nil {
		return e
	}
	return &Entity{Properties: event.Properties{MaxDeliveryCount: ^uint32(0)}}
}

// Crowded tells whether a session has as many locked messages as it may: its holder gets more when some of them are settled.
func (p *Partition) Crowded(id event.Slice, session []byte) bool {
	return p.index.LockedUnder(id, session) >= maxUnderSession
}

// firstFor is the next message for a receiver: of its session, when it has one.
func firstFor(x *index.Index, cmd *Receive) (index.Message, bool) {
	r := cmd.Receiver
	if r.Session != nil {
		return x.FirstOf(r.Slice, cmd.SessionID)
	}
	return x.First(r.Slice, r.SubQueue)
}

// expired tells whether a message's time to live has ended. Nothing expires in a dead-letter queue (semantics.md 7.5).
func expired(m *index.Message, now event.Time) bool {
	if mutant.On(mutant.DeliverExpired) && m.DeliveryCount > 0 && m.State != index.Deferred {
		return false
	}
	return m.SubQueue == event.Main && m.ExpiresAt != 0 && now >= m.ExpiresAt
}

// expire adds the event that ends an active message whose time to live has passed: dropped or dead-lettered. Its header has so many
// bytes, as far as that is known.
func (p *Partition) expire(e *Entity, id event.Slice, m *index.Message, header int) {
	if e.Properties.DeadLetteringOnMessageExpiration {
		p.deadLetter(id, m.Sequence, header, event.CauseExpired, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	ev := p.events.New(event.KindMessageExpired).(*event.MessageExpired)
	ev.Envelope, ev.Sequence, ev.ExpiresAt = envelope(id, 0), m.Sequence, m.ExpiresAt
	p.out = append(p.out, ev)
}

// deadLetter adds the broker's own dead-lettering of a message that is not locked (any more), whose header has so many bytes as
// far as that is known.
func (p *Partition) deadLetter(id event.Slice, seq event.SequenceNumber, header int, cause event.Cause, reason, description string) {
	ev := p.events.New(event.KindMessageDeadLettered).(*event.MessageDeadLettered)
	ev.Envelope, ev.Sequence = envelope(id, 0), seq
	ev.Cause, ev.Reason, ev.Description, ev.Changes.Data = explained(header, cause, reason, description)
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
		SubQueue: m.SubQueue, EnqueuedSequence: m.EnqueuedSequence, Body: m.Body, Changes: m.Changes[:len(m.Changes):len(m.Changes)],
		WasScheduled: m.WasScheduled,
	}
	switch m.State {
	case index.Deferred, index.DeferredLocked:
		d.State = MessageDeferred
	case index.Scheduled:
		d.State, d.TimeToLive = MessageScheduled, m.TimeToLive
	}
	if m.OwnTTL && m.ExpiresAt != 0 {
		d.TimeToLive = m.ExpiresAt.Sub(m.EnqueuedAt)
	}
	return d
}

// peek shows messages without touching them (semantics.md 14.2).
func (p *Partition) peek(cmd *Peek) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		return p.refused(err)
	}
	walk := index.Walk{From: max(cmd.From, cmd.next), Left: lookStep}
	messages := p.index.Browse(cmd.Slice, cmd.SubQueue, walk.From)
	if cmd.HasSession {
		messages = p.index.BrowseSession(cmd.Slice, cmd.SubQueue, cmd.SessionID, &walk)
	}
	for m := range messages {
		if len(cmd.seen) >= cmd.Count {
			break
		}
		cmd.bytes += int(m.Body.Size)
		if cmd.bytes > cmd.MaxBytes && len(cmd.seen) > 0 {
			break
		}
		cmd.seen = append(cmd.seen, describe(&m))
	}
	out := p.done(log.Ordered)
	out.Reply.Answer, out.Again, cmd.next = Messages(cmd.seen), walk.More && len(cmd.seen) < cmd.Count, walk.From
	out.Looks = lookStep - walk.Left
	if !cmd.HasSession {
		out.Looks = len(cmd.seen)
	}
	return out
}
