package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receiveDecision decides which message a receiver gets next.
type receiveDecision struct {
	slice
	cmd *Receive
}

// receive takes the first deliverable message for a receiver (semantics.md 5.2). There is no answer
// if there is nothing to deliver.
func receive(d *decision, cmd *Receive) *Error {
	of, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := of.receivable(); err != nil {
		return err
	}
	s := receiveDecision{of, cmd}
	if cmd.Mode == Browse {
		s.browse()
		return nil
	}
	m, way, ok := s.next()
	switch {
	case way.any():
		s.end(way)
		// the driver tells the receiver that its session is lost when it writes the event
		d.again = len(way.messages) > 0
	case ok:
		s.give(&m)
	}
	return nil
}

// next returns the message that the receiver gets. There is none while overdue locks or messages
// are in the way.
func (s *receiveDecision) next() (m index.Message, way overdueItems, ok bool) {
	if !s.cmd.HasSession {
		if m, ok = s.index.First(s.id, s.cmd.SubQueue); ok && expired(&m, s.now) {
			way.messages = s.index.Front(s.id, s.now, maxFront)
		}
		return m, way, ok
	}
	if way, live := s.liveSession(s.cmd.Session); !live || sessionLocksFull(s.index, s.id, s.cmd.SessionID) {
		return m, way, false
	}
	if m, ok = s.index.FirstOf(s.id, s.cmd.SessionID); ok && expired(&m, s.now) {
		way.messages = s.index.FrontOf(s.id, s.cmd.SessionID, s.now, maxFront)
	}
	return m, way, ok
}

// give adds the event of a delivery, and answers with it.
func (s *receiveDecision) give(m *index.Message) {
	origin, given := s.origin(s.cmd.Origin), s.deliver(m)
	if s.cmd.Mode == ReceiveAndDelete {
		s.remove(origin, m) // removed before a byte of it leaves (reliability.md P8)
		return
	}
	given.Token = s.cmd.Token
	s.lock(origin, m, given)
	s.early = true // written is enough for a lock (reliability.md P6)
}

// browse shows a receiver the next message after the last one it was shown, whatever its state, and
// changes nothing. Like a [Peek] that continues, it does not show messages that enter a sub-queue
// with a lower number, as a dead letter does.
func (s *receiveDecision) browse() {
	for m := range s.index.Browse(s.id, s.cmd.SubQueue, s.cmd.From) {
		s.deliver(&m).LockedUntil = s.heldUntil(&m)
		return
	}
}

// SessionLocksFull reports whether a session has the maximum of locked messages: its holder gets
// more after settling some.
func (p *Partition) SessionLocksFull(id event.Slice, session []byte) bool {
	return sessionLocksFull(p.index, id, session)
}

func sessionLocksFull(x *index.Index, id event.Slice, session []byte) bool {
	return x.LockedUnder(id, session) >= maxUnderSession
}

// lock adds the event of a lock, whose end the delivery tells. A lock under a session has no end of
// its own.
func (s *slice) lock(origin event.OriginID, m *index.Message, given *Delivery) {
	ev := add[*event.MessageLocked](s.decision, event.KindMessageLocked)
	ev.Envelope, ev.Sequence, ev.Token, ev.DeliveryCount = s.envelope(origin), m.Sequence, given.Token, m.DeliveryCount
	if m.InSession && m.SubQueue == event.Main {
		held, _ := s.index.Session(s.id, []byte(m.SessionID))
		given.LockedUntil = held.Until
		return
	}
	ev.LockedUntil = s.now.Add(s.entity.lockDuration())
	given.LockedUntil = ev.LockedUntil
}

// remove adds the event of a message that is delivered without a lock.
func (s *slice) remove(origin event.OriginID, m *index.Message) {
	ev := add[*event.MessageReceivedAndDeleted](s.decision, event.KindMessageReceivedAndDeleted)
	ev.Envelope, ev.Sequence = s.envelope(origin), m.Sequence
}

// describe returns the description of a message that is delivered or shown, without a lock.
func describe(m *index.Message) Delivery {
	d := Delivery{
		Sequence: m.Sequence, DeliveryCount: m.DeliveryCount, EnqueuedAt: m.EnqueuedAt, ExpiresAt: m.ExpiresAt,
		SubQueue: m.SubQueue, EnqueuedSequence: m.EnqueuedSequence, DeadLetterSource: m.DeadLetterSource, Body: m.Body, Changes: m.Changes[:len(m.Changes):len(m.Changes)],
		WasScheduled: m.WasScheduled,
	}
	switch m.State {
	case index.Deferred, index.DeferredLocked:
		d.State = MessageDeferred
	case index.Scheduled:
		d.State, d.TimeToLive = MessageScheduled, m.TimeToLive
	}
	switch {
	case !m.OwnTTL || m.State == index.Scheduled:
	case m.ExpiresAt != 0:
		d.TimeToLive = m.ExpiresAt.Sub(m.EnqueuedAt)
	default: // it was sent through this entity to the one where it would have begun
		d.TimeToLive = -1
	}
	return d
}

// heldUntil returns when the lock ends under which a peeked message can be received: for a deferred
// message of a session, the session's lock while a receiver holds it. It is 0 for all others.
func (s *slice) heldUntil(m *index.Message) event.Time {
	if m.State != index.Deferred && m.State != index.DeferredLocked || !m.InSession || m.SubQueue != event.Main {
		return 0
	}
	held, ok := s.index.Session(s.id, []byte(m.SessionID))
	if !ok || !held.Held || s.now >= held.Until && !s.pinned(held.Token) {
		return 0
	}
	return held.Until
}

// peek shows messages without touching them (semantics.md 14.2).
func peek(d *decision, cmd *Peek) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := s.receivable(); err != nil {
		return err
	}
	rest := *cmd // the part that is left
	walk := index.Walk{From: max(cmd.From, cmd.next), Left: lookStep}
	messages := s.index.Browse(cmd.Slice, cmd.SubQueue, walk.From)
	if cmd.HasSession {
		messages = s.index.BrowseSession(cmd.Slice, cmd.SubQueue, cmd.SessionID, &walk)
	}
	for m := range messages {
		if len(rest.seen) >= cmd.Count {
			break
		}
		shown := describe(&m)
		shown.LockedUntil = s.heldUntil(&m)
		rest.bytes += int(shown.Stored())
		if rest.bytes > cmd.MaxBytes && len(rest.seen) > 0 {
			d.reply.More = true
			break
		}
		rest.seen = append(rest.seen, shown)
	}
	d.reply.Answer, d.looks = Messages(rest.seen), lookStep-walk.Left
	if !cmd.HasSession {
		d.looks = len(rest.seen)
	}
	if walk.More && len(rest.seen) < cmd.Count {
		rest.next = walk.From
		d.goOn(&rest)
	}
	return nil
}
