package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const notDeferredText = "Failed to lock one or more specified messages. Either the message is already locked or does not exist."

// maxDeferredAnswer bounds the bytes of the messages in one answer: it stands in memory as a whole.
// One message may be larger.
const maxDeferredAnswer = 16 << 20

// receiveDeferred takes deferred messages by number: all of them or none (semantics.md 14.1). One that has expired expires
// now, and the caller does not find it (7.4).
func (p *Partition) receiveDeferred(now event.Time, cmd *ReceiveDeferred) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		return p.refused(err)
	}
	if e.Properties.RequiresSession && cmd.SubQueue == event.Main && !p.holds(now, e, cmd.Slice, cmd.Session) {
		return p.refused(SessionLost())
	}
	var size int64
	found := make([]index.Message, 0, len(cmd.Sequences))
	seen := map[event.SequenceNumber]bool{}
	whole := true
	for _, seq := range cmd.Sequences {
		m, ok := p.index.Message(cmd.Slice, seq)
		if !ok || m.State != index.Deferred || m.SubQueue != cmd.SubQueue || seen[seq] || !p.ofSession(cmd, &m) {
			whole = false
			continue
		}
		seen[seq] = true
		size += int64(m.Body.Size)
		if expired(&m, now) {
			p.expire(e, cmd.Slice, &m, changed(&m))
			whole = false
		}
		found = append(found, m)
	}
	if !whole || len(found) == 0 {
		return p.refused(Refuse(MessageNotFound, notDeferredText))
	}
	if size > maxDeferredAnswer && len(found) > 1 {
		return p.refused(Refuse(InvalidArgument, "The messages asked for are larger than %d bytes together; ask for fewer at a time.", maxDeferredAnswer))
	}
	if m := &found[0]; m.InSession && p.index.LockedUnder(cmd.Slice, []byte(m.SessionID))+len(found) > maxUnderSession {
		return p.refused(Refuse(QuotaExceeded, "More than %d messages of session '%s' would be locked.", maxUnderSession, m.SessionID))
	}
	until, origin, level := now.Add(e.Properties.LockDuration), p.origin(cmd.Origin), log.Ordered
	var taken Messages
	for i := range found {
		m := &found[i]
		d := describe(m)
		if cmd.Mode == ReceiveAndDelete {
			ev := p.events.New(event.KindMessageReceivedAndDeleted).(*event.MessageReceivedAndDeleted)
			ev.Envelope, ev.Sequence = envelope(cmd.Slice, origin), m.Sequence
			p.out = append(p.out, ev)
			if level = log.Durable; mutant.On(mutant.TakenByNumber) {
				level = log.Ordered
			}
		} else {
			d.Token, d.LockedUntil = cmd.Tokens[i], until
			p.lock(cmd.Slice, origin, m, &d)
		}
		taken = append(taken, d)
	}
	out := p.done(level)
	out.Reply.Answer = taken
	return out
}

// ofSession tells whether a message is for the holder of the session that the command comes from; without sessions it is
// for anybody.
func (p *Partition) ofSession(cmd *ReceiveDeferred, m *index.Message) bool {
	if !m.InSession || m.SubQueue != event.Main {
		return true
	}
	s, ok := p.index.Session(cmd.Slice, []byte(m.SessionID))
	return ok && s.Held && s.Token == cmd.Session
}

// lock adds the event of a lock that a delivery describes. One under a session has no end of its own.
func (p *Partition) lock(id event.Slice, origin event.OriginID, m *index.Message, d *Delivery) {
	ev := p.events.New(event.KindMessageLocked).(*event.MessageLocked)
	ev.Envelope, ev.Sequence, ev.Token, ev.DeliveryCount = envelope(id, origin), m.Sequence, d.Token, m.DeliveryCount
	ev.LockedUntil = d.LockedUntil
	if m.InSession && m.SubQueue == event.Main {
		s, _ := p.index.Session(id, []byte(m.SessionID))
		ev.LockedUntil, d.LockedUntil = 0, s.Until
	}
	p.out = append(p.out, ev)
}
