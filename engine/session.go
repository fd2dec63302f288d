package engine

import (
	"math"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxUnderSession bounds the messages locked under one session: the end of its lock is one record. A receiver that has so
// many gets more as it settles some.
const maxUnderSession = 1 << 16

// acceptSession gives a session to a receiver (semantics.md 8.3). Without an error and without an answer there is none
// for it now.
func (p *Partition) acceptSession(now event.Time, cmd *acceptSession) Outcome {
	r := cmd.receiver
	e, err := p.Entity(r.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		return p.refused(err)
	}
	id := r.Session.ID
	if r.Session.Any {
		s, ok := p.index.NextSession(r.Slice)
		if !ok {
			return p.done(log.Ordered)
		}
		if p.expireFrontOf(now, e, r.Slice, []byte(s.ID)) { // what has expired is nothing to wait for
			out := p.done(log.Durable)
			out.Again = true
			return out
		}
		id = []byte(s.ID)
	} else if s, ok := p.index.Session(r.Slice, id); ok && s.Held {
		if now < s.Until {
			return p.refused(Refuse(SessionCannotBeLocked, "The requested session '%s' cannot be accepted. It may be locked by another receiver.", id))
		}
		p.endSession(now, e, r.Slice, &s, event.ReleaseExpired)
		out := p.done(log.Durable)
		out.Again = true
		return out
	}
	ev := p.events.New(event.KindSessionAccepted).(*event.SessionAccepted)
	ev.Envelope, ev.SessionID, ev.Token = envelope(r.Slice, p.origin(r.Origin)), id, cmd.token
	ev.LockedUntil = now.Add(e.Properties.LockDuration)
	p.out = append(p.out, ev)
	out := p.done(log.Ordered) // written is enough for a lock (reliability.md P6)
	out.Reply.Answer = &SessionGrant{ID: string(id), Token: ev.Token, LockedUntil: ev.LockedUntil}
	return out
}

// endSession adds the end of a session lock. Messages locked under it come back; when the lock's time had passed each of
// them has failed once more (semantics.md 6.3).
func (p *Partition) endSession(now event.Time, e *Entity, id event.Slice, s *index.Session, cause event.ReleaseCause) {
	ev := p.events.New(event.KindSessionReleased).(*event.SessionReleased)
	ev.Envelope, ev.SessionID, ev.Cause = envelope(id, 0), []byte(s.ID), cause
	p.out = append(p.out, ev)
	for m := range p.index.LockedOf(id, ev.SessionID) {
		count := m.DeliveryCount
		if cause == event.ReleaseExpired {
			count = failed(&m)
		}
		ev.Returned = append(ev.Returned, event.Returned{Sequence: m.Sequence, DeliveryCount: count})
		p.back(now, e, id, &m, count, changed(&m))
	}
}

// releaseSession ends the lock of a receiver that is gone; another may have it by now.
func (p *Partition) releaseSession(now event.Time, cmd *releaseSession) Outcome {
	l, ok := p.index.Lock(cmd.token)
	if !ok || l.Slice != cmd.slice || !l.OfSession() {
		return p.done(log.Ordered)
	}
	s, _ := p.index.Session(cmd.slice, []byte(l.Session))
	cause := cmd.cause
	if now >= s.Until {
		cause = event.ReleaseExpired
	}
	p.endSession(now, p.settingsOf(cmd.slice), cmd.slice, &s, cause)
	return p.done(log.Durable)
}

// releaseAll ends every session lock, a batch at a time: nobody holds one after a start, and counts stay, whether a lock's
// time passed meanwhile or not (semantics.md 4.3 R3, 8.5).
func (p *Partition) releaseAll(now event.Time) Outcome {
	held := p.index.HeldSessions()
	again := len(held) > maxTick
	for _, l := range held[:min(len(held), maxTick)] {
		s, _ := p.index.Session(l.Slice, []byte(l.Session))
		p.endSession(now, p.settingsOf(l.Slice), l.Slice, &s, event.ReleaseLinkLost)
	}
	out := p.done(level(p.out))
	out.Again = again
	return out
}

// holds tells whether a token is that of a live session lock of a slice. One whose time has passed is ended here, before
// anybody is answered.
func (p *Partition) holds(now event.Time, e *Entity, id event.Slice, token event.LockToken) bool {
	l, ok := p.index.Lock(token)
	if !ok || l.Slice != id || !l.OfSession() {
		return false
	}
	if now >= l.Until {
		s, _ := p.index.Session(id, []byte(l.Session))
		p.endSession(now, e, id, &s, event.ReleaseExpired)
		return false
	}
	return true
}

// heldSession refuses unless the token is that of the live lock of the named session.
func (p *Partition) heldSession(now event.Time, e *Entity, id event.Slice, name []byte, token event.LockToken) *Error {
	if !p.holds(now, e, id, token) {
		return SessionLost()
	}
	if l, _ := p.index.Lock(token); l.Session != string(name) {
		return SessionLost()
	}
	return nil
}

// renewSession moves a session lock's end to now + LockDuration in force (semantics.md 8.4).
func (p *Partition) renewSession(now event.Time, cmd *RenewSession) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := p.heldSession(now, e, cmd.Slice, cmd.SessionID, cmd.Session); err != nil {
		return p.refused(err)
	}
	ev := p.events.New(event.KindSessionLockRenewed).(*event.SessionLockRenewed)
	ev.Envelope, ev.SessionID = envelope(cmd.Slice, p.origin(cmd.Origin)), cmd.SessionID
	ev.LockedUntil = now.Add(e.Properties.LockDuration)
	p.out = append(p.out, ev)
	out := p.done(log.Ordered)
	out.Reply.Answer = Times{ev.LockedUntil}
	return out
}

// setSessionState replaces or clears a state; an empty one is none. It counts toward the entity's size (semantics.md 8.4).
func (p *Partition) setSessionState(now event.Time, cmd *SetSessionState) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := p.heldSession(now, e, cmd.Slice, cmd.SessionID, cmd.Session); err != nil {
		return p.refused(err)
	}
	if limit := p.messageLimit(e); int64(len(cmd.State)) > limit {
		return p.refused(Refuse(MessageTooLarge, "The session state of %d bytes is over the limit of %d bytes of '%s'.", len(cmd.State), limit, e.Path))
	}
	s, _ := p.index.Session(cmd.Slice, cmd.SessionID)
	if err := p.room(e, cmd.Slice, int64(len(cmd.State))-int64(s.State.Size)); err != nil {
		return p.refused(err)
	}
	ev := p.events.New(event.KindSessionStateSet).(*event.SessionStateSet)
	ev.Envelope, ev.SessionID = envelope(cmd.Slice, p.origin(cmd.Origin)), cmd.SessionID
	ev.Cleared, ev.State.Data, ev.Topic = len(cmd.State) == 0, cmd.State, e.Topic
	p.out = append(p.out, ev)
	return p.done(log.Durable)
}

// messageLimit is the size limit of messages in bytes, which a subscription has from its topic.
func (p *Partition) messageLimit(e *Entity) int64 {
	if e.Kind == event.Subscription {
		if e = p.entities[e.Topic]; e == nil {
			return math.MaxInt64 // it is just being deleted
		}
	}
	return int64(e.Properties.MaxMessageSizeKilobytes) << 10
}

func (p *Partition) getSessionState(cmd *GetSessionState) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		return p.refused(err)
	}
	out := p.done(log.Ordered)
	if s, ok := p.index.Session(cmd.Slice, cmd.SessionID); ok && s.Set {
		out.Reply.Answer = SessionState{&s.State}
	}
	return out
}

// listSessions answers a page of session ids (semantics.md 8.6).
func (p *Partition) listSessions(cmd *ListSessions) Outcome {
	if _, err := p.Entity(cmd.Slice); err != nil {
		return p.refused(err)
	}
	if cmd.listing == nil {
		cmd.listing = &index.Listing{Slice: cmd.Slice, All: cmd.All, Since: cmd.Since, Skip: cmd.Skip, Top: cmd.Top}
	}
	out := p.done(log.Ordered)
	var done bool
	out.Looks, done = p.index.List(cmd.listing, lookStep)
	out.Again, out.Reply.Answer = !done, SessionIDs(cmd.listing.IDs)
	return out
}
