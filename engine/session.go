package engine

import (
	"math"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxUnderSession bounds the messages locked under one session, because the end of its lock is one
// record. A receiver that has that many gets more as it settles some.
const maxUnderSession = 1 << 16

// acceptDecision decides which session a receiver gets.
type acceptDecision struct {
	slice
	cmd *acceptSession
}

// accept gives a session to a receiver (semantics.md 8.3). If it returns no error and no answer,
// there is none for it now.
func accept(d *decision, cmd *acceptSession) *Error {
	of, err := d.slice(cmd.slice)
	if err != nil {
		return err
	}
	s := acceptDecision{of, cmd}
	id, way, err := s.check()
	switch {
	case err != nil:
		return err
	case way.any():
		s.end(way)
		d.again = true
	case id != nil:
		s.grant(id)
	}
	return nil
}

// check returns the session that a receiver can have now; nil: none. Overdue items must end before
// a session can be chosen.
func (s *acceptDecision) check() (id []byte, way overdueItems, err *Error) {
	if err := s.receivable(); err != nil {
		return nil, way, err
	}
	if s.cmd.any {
		next, ok := s.index.NextSession(s.id)
		if !ok {
			return nil, way, nil
		}
		id = []byte(next.ID)
		// expired messages are nothing to wait for
		way.messages = s.index.FrontOf(s.id, id, s.now, maxFront)
		return id, way, nil
	}
	if held, ok := s.index.Session(s.id, s.cmd.session); ok && held.Held {
		if s.now < held.Until || s.pinned(held.Token) {
			return nil, way, Refuse(SessionCannotBeLocked, "The requested session '%s' cannot be accepted. It may be locked by another receiver.", s.cmd.session)
		}
		way.lock = held.Token
	}
	return s.cmd.session, way, nil
}

// grant adds the event of a session lock and answers with it.
func (s *acceptDecision) grant(id []byte) {
	origin := s.origin(s.cmd.origin)
	ev := add[*event.SessionAccepted](s.decision, event.KindSessionAccepted)
	ev.Envelope, ev.SessionID, ev.Token = s.envelope(origin), id, s.cmd.token
	ev.LockedUntil = s.now.Add(s.entity.Properties.LockDuration)
	s.early = true // written is enough for a lock (reliability.md P6)
	s.reply.Answer = &SessionGrant{ID: string(id), Token: ev.Token, LockedUntil: ev.LockedUntil}
}

// release ends the lock of a detached receiver; another receiver may have it by now.
func release(d *decision, cmd *releaseSession) {
	l, ok := d.index.Lock(cmd.token)
	if !ok || l.Slice != cmd.slice || !l.OfSession() {
		return
	}
	cause := cmd.cause
	if d.now >= l.Until {
		cause = event.ReleaseExpired
	}
	s := d.formerSlice(cmd.slice)
	s.endSession(l.Session, cause)
}

// releaseSome ends every session lock, a batch at a time: after a start no receiver holds one.
// Delivery counts stay, whether a lock's time passed meanwhile or not (semantics.md 4.3 R3, 8.5).
func releaseSome(d *decision) {
	held := d.index.HeldSessions()
	d.again = len(held) > maxTick
	for _, l := range held[:min(len(held), maxTick)] {
		s := d.formerSlice(l.Slice)
		s.endSession(l.Session, event.ReleaseLinkLost)
	}
}

// liveSession reports whether a token is that of a live session lock of a slice. An overdue lock is
// returned as overdue.
func (s *slice) liveSession(token event.LockToken) (way overdueItems, live bool) {
	l, ok := s.index.Lock(token)
	if !ok || l.Slice != s.id || !l.OfSession() {
		return way, false
	}
	if s.now >= l.Until && !s.pinned(token) {
		return overdueItems{lock: token}, false
	}
	return way, true
}

// checkHeld refuses unless the token is that of the live lock of the named session.
func (s *slice) checkHeld(name []byte, token event.LockToken) (way overdueItems, err *Error) {
	if way, live := s.liveSession(token); !live {
		return way, SessionLost()
	}
	if l, _ := s.index.Lock(token); l.Session != string(name) {
		return way, SessionLost()
	}
	return way, nil
}

// renewSession moves a session lock's end to now + the LockDuration in force (semantics.md 8.4).
func renewSession(d *decision, cmd *RenewSession) *Error {
	refused := event.SettlementRefused{Envelope: event.Envelope{Slice: cmd.Slice}, Token: cmd.Session, Wanted: event.WantedRenew}
	s, err := d.slice(cmd.Slice)
	if err != nil {
		d.refuse(cmd.Origin, refused, err)
		return err
	}
	if way, err := s.checkHeld(cmd.SessionID, cmd.Session); err != nil {
		d.refuse(cmd.Origin, refused, err)
		s.end(way)
		return err
	}
	origin := s.origin(cmd.Origin)
	ev := add[*event.SessionLockRenewed](d, event.KindSessionLockRenewed)
	ev.Envelope, ev.SessionID = s.envelope(origin), cmd.SessionID
	ev.LockedUntil = d.now.Add(s.entity.Properties.LockDuration)
	d.early, d.reply.Answer = true, Times{ev.LockedUntil}
	return nil
}

// setSessionState replaces or clears a state; an empty one clears it. It counts toward the entity's
// size (semantics.md 8.4).
func setSessionState(d *decision, cmd *SetSessionState) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if way, err := s.checkState(cmd); err != nil {
		s.end(way)
		return err
	}
	origin := s.origin(cmd.Origin)
	ev := add[*event.SessionStateSet](d, event.KindSessionStateSet)
	ev.Envelope, ev.SessionID = s.envelope(origin), cmd.SessionID
	ev.Cleared, ev.State.Data, ev.Topic = len(cmd.State) == 0, cmd.State, s.entity.Topic
	if d.scratch.several {
		s.noteBytes(int64(len(cmd.State) - s.stateSize(cmd.SessionID)))
		enter(&d.scratch.states, sessionID{s.id, string(cmd.SessionID)}, len(cmd.State))
	}
	return nil
}

// checkState refuses a state that the caller may not set, or for which there is no room.
func (s *slice) checkState(cmd *SetSessionState) (way overdueItems, err *Error) {
	if way, err := s.checkHeld(cmd.SessionID, cmd.Session); err != nil {
		return way, err
	}
	if limit := s.messageLimit(); int64(len(cmd.State)) > limit {
		return way, Refuse(MessageTooLarge, "The session state of %d bytes exceeds the limit of %d bytes of '%s'.", len(cmd.State), limit, s.entity.Path)
	}
	return way, s.room(int64(len(cmd.State) - s.stateSize(cmd.SessionID)))
}

// messageLimit returns the size limit of messages in bytes. A subscription has that of its topic.
func (s *slice) messageLimit() int64 {
	e := s.settings.storingEntity(s.entity)
	if e == nil {
		return math.MaxInt64 // it is being deleted
	}
	return int64(e.Properties.MaxMessageSizeKilobytes) << 10
}

// getSessionState answers where a session's state is stored.
func getSessionState(d *decision, cmd *GetSessionState) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := s.receivable(); err != nil {
		return err
	}
	if session, ok := d.index.Session(cmd.Slice, cmd.SessionID); ok && session.Set {
		d.reply.Answer = SessionState{&session.State}
	}
	return nil
}

// listSessions answers with a page of session ids (semantics.md 8.6).
func listSessions(d *decision, cmd *ListSessions) *Error {
	if _, err := d.slice(cmd.Slice); err != nil {
		return err
	}
	listing := cmd.listing
	if !cmd.begun {
		listing = index.Listing{Slice: cmd.Slice, All: cmd.All, Since: cmd.Since, Skip: cmd.Skip, Top: cmd.Top}
	}
	looks, done := d.index.List(&listing, lookStep)
	d.looks, d.reply.Answer = looks, SessionIDs{listing.IDs, listing.Skip}
	if !done {
		rest := *cmd
		rest.begun, rest.listing = true, listing
		d.goOn(&rest)
	}
	return nil
}
