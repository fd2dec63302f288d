package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// mustSession finds a session that must be there.
func (s *slice) mustSession(id []byte, ev event.Event) *session {
	if s.sessions != nil {
		if _, ses := s.sessions.find(id); ses != nil {
			return ses
		}
	}
	panic(fmt.Sprintf("index: %T of session %q in slice %v, which does not exist", ev, id, s.id))
}

func (s *slice) acceptSession(ev *event.SessionAccepted) {
	n := s.session(ev.SessionID)
	ses := s.sessions.table[n]
	if ses.lock != 0 {
		panic(fmt.Sprintf("index: session %q in slice %v accepted while it is held", ev.SessionID, ev.Slice))
	}
	ses.lock = s.shared.locks.add(lock{token: ev.Token, slice: ev.Slice, session: n, until: ev.LockedUntil})
	s.sessions.reclassify(n)
}

// releaseSession unlocks a session and what was locked under it.
func (s *slice) releaseSession(ev *event.SessionReleased) {
	ses := s.mustSession(ev.SessionID, ev)
	n := s.shared.locks.at(ses.lock).session
	for _, back := range ev.Returned {
		row := s.must(back.Sequence, ev)
		s.shared.locks.remove(row.lock)
		row.lock, row.count = 0, back.DeliveryCount
		s.giveBack(back.Sequence, row)
	}
	s.shared.locks.remove(ses.lock)
	ses.lock = 0
	s.sessions.reclassify(n)
}

func (s *slice) setSessionState(at event.Time, ev *event.SessionStateSet) {
	n := s.session(ev.SessionID)
	ses := s.sessions.table[n]
	s.addBytes(int64(ev.State.Size) - int64(ses.state.Size))
	ses.set, ses.state, ses.setAt = !ev.Cleared, ev.State, at
	ses.state.Data, ses.state.Tail = nil, nil
	if ev.Cleared {
		ses.setAt = 0
	}
	s.sessions.reclassify(n)
}
