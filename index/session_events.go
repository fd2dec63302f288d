package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// mustSession finds a session that must be there.
func (s *slice) mustSession(id []byte, ev event.Event) uint32 {
	if s.sessions != nil {
		if n, ses := s.sessions.find(id); ses != nil {
			return n
		}
	}
	panic(fmt.Sprintf("index: %T of session %q in slice %v, which does not exist", ev, id, s.id))
}

func (s *slice) acceptSession(ev *event.SessionAccepted) {
	n := s.session(ev.SessionID)
	r := s.sessions.edit(n)
	if r.lock != 0 {
		panic(fmt.Sprintf("index: session %q in slice %v accepted while it is held", ev.SessionID, ev.Slice))
	}
	r.lock = s.shared.locks.add(lock{token: ev.Token, slice: ev.Slice, session: n, until: ev.LockedUntil})
	s.sessions.reclassify(n)
}

func (s *slice) renewSession(ev *event.SessionLockRenewed) {
	s.shared.locks.extend(s.sessions.record(s.mustSession(ev.SessionID, ev)).lock, ev.LockedUntil)
}

// releaseSession unlocks a session and the messages locked under it.
func (s *slice) releaseSession(ev *event.SessionReleased) {
	n := s.mustSession(ev.SessionID, ev)
	for _, back := range ev.Returned {
		row := s.must(back.Sequence, ev)
		s.shared.locks.remove(row.lock)
		row.lock, row.count = 0, back.DeliveryCount
		s.endLocked(back.Sequence, row)
	}
	r := s.sessions.edit(n)
	s.shared.locks.remove(r.lock)
	r.lock = 0
	s.sessions.reclassify(n)
}

func (s *slice) setSessionState(at event.Time, ev *event.SessionStateSet) {
	n := s.session(ev.SessionID)
	r := s.sessions.edit(n)
	s.addBytes(int64(ev.State.Size) - int64(r.state.size))
	r.set, r.state, r.setAt = !ev.Cleared, bodyOf(ev.State), at
	if ev.Cleared {
		r.setAt = 0
	}
	s.sessions.table[n].set = r.set
	s.sessions.reclassify(n)
}
