package index

import (
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Session is the state of a session.
type Session struct {
	ID     string
	Held   bool
	Token  event.LockToken // of its lock
	Until  event.Time      // end of its lock; may have passed without an event about it yet
	Active int             // deliverable messages
	Locked int             // messages locked under it
	Set    bool            // it has a state
	State  event.Blob
	SetAt  event.Time // when the state was set
}

func (t *sessions) describe(s *session) Session {
	d := t.of.names.describe(s.slot, &t.of.shared.locks.slots)
	d.Active, d.Locked = s.active, s.locked
	return d
}

// describe returns the state of a session without its messages.
func (t *keptSessions) describe(slot uint32, locks *slots[lock]) Session {
	r := t.records.at(slot)
	d := Session{ID: r.id, Set: r.set, State: r.state.blob(), SetAt: r.setAt}
	if r.lock != 0 {
		held := locks.at(r.lock)
		d.Held, d.Token, d.Until = true, held.token, held.until
	}
	return d
}

// Session finds a session.
func (x *Index) Session(id event.Slice, name []byte) (Session, bool) {
	if s, ses := x.slices.session(id, name); ses != nil {
		return s.sessions.describe(ses), true
	}
	return Session{}, false
}

// session finds a slice and a session of it without making them; nil if there is none.
func (t *sliceTable) session(id event.Slice, name []byte) (*slice, *session) {
	s := t.find(id)
	if s == nil || s.sessions == nil {
		return nil, nil
	}
	_, ses := s.sessions.find(name)
	return s, ses
}

// NextSession returns the session that has waited longest among those that are not held and have
// deliverable messages.
func (x *Index) NextSession(id event.Slice) (Session, bool) {
	s := x.slices.find(id)
	if s == nil || s.sessions == nil {
		return Session{}, false
	}
	n := s.sessions.next()
	if n == 0 {
		return Session{}, false
	}
	return s.sessions.describe(s.sessions.table[n]), true
}

// LockedUnder returns the number of messages that are locked under a session.
func (x *Index) LockedUnder(id event.Slice, name []byte) int {
	if _, ses := x.slices.session(id, name); ses != nil {
		return ses.locked
	}
	return 0
}

// FirstOf returns the deliverable message of a session with the smallest sequence number.
func (x *Index) FirstOf(id event.Slice, name []byte) (Message, bool) {
	s, ses := x.slices.session(id, name)
	if ses == nil {
		return Message{}, false
	}
	seq := s.sessions.first(ses)
	if seq == 0 {
		return Message{}, false
	}
	return s.message(seq), true
}

// LockedOf yields the messages that are locked under a session, by sequence number.
func (x *Index) LockedOf(id event.Slice, name []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s, ses := x.slices.session(id, name)
		if ses == nil {
			return
		}
		for _, seq := range s.sessions.lockedUnder(slices.Clone(ses.under)) {
			if !yield(s.message(seq)) {
				return
			}
		}
	}
}

// Walk is the position of a walk over the messages of a session. It is made in steps, because there
// may be many messages of other sub-queues in between.
type Walk struct {
	From event.SequenceNumber // where it continues
	Left int                  // how many may still be examined in this step
	More bool                 // the step has ended before the walk
}

// BrowseSession yields the messages of one session in a sub-queue in sequence order, in every state
// that [Index.Browse] shows, until the step ends.
func (x *Index) BrowseSession(id event.Slice, q event.SubQueue, name []byte, w *Walk) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s, ses := x.slices.session(id, name)
		if ses == nil {
			return
		}
		i, _ := slices.BinarySearch(ses.members, w.From)
		for _, seq := range ses.members[i:] {
			if w.Left == 0 {
				w.From, w.More = seq, true
				return
			}
			w.Left--
			if p := s.rows.find(seq); p.leaf != nil && p.row().isShownIn(q) && !yield(s.describe(p)) {
				return
			}
		}
	}
}

// Sessions yields every session of a slice, by id.
func (x *Index) Sessions(id event.Slice) iter.Seq[Session] {
	return func(yield func(Session) bool) {
		s := x.slices.find(id)
		if s == nil || s.sessions == nil {
			return
		}
		for ses := range s.sessions.order.all {
			if !yield(s.sessions.describe(ses)) {
				return
			}
		}
	}
}

// HeldSessions returns every session lock, in no particular order.
func (x *Index) HeldSessions() (locks []Lock) {
	for slot, l := range x.shared.locks.all() {
		if l.sequence == 0 && l.session != 0 {
			locks = append(locks, x.slices.lock(slot))
		}
	}
	slices.SortFunc(locks, func(a, b Lock) int { return slices.Compare(a.Token[:], b.Token[:]) })
	return locks
}

// Slices returns the existing slices, in order.
func (x *Index) Slices() (ids []event.Slice) {
	for id := range x.slices.byID {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareSlices)
	return ids
}

// Has reports whether a slice has, or ever had, any contents.
func (x *Index) Has(id event.Slice) bool { return x.slices.find(id) != nil }

// Duplicate looks an id up in the duplicate history and returns the message with which it was first
// accepted.
func (x *Index) Duplicate(id event.Slice, now event.Time, of event.Identity) (event.SequenceNumber, bool) {
	s := x.slices.find(id)
	if s == nil || s.history == nil {
		return 0, false
	}
	e, ok := s.history.find(keyOf(&of))
	if !ok || e.until <= now {
		return 0, false
	}
	return e.original, true
}

// Remembered returns the number of message-ids in the duplicate history, including some expired
// ones.
func (x *Index) Remembered(id event.Slice) int {
	if s := x.slices.find(id); s != nil && s.history != nil {
		return len(s.history.byKey)
	}
	return 0
}

// Forgettable returns how many message-ids leave the duplicate history when more new ones are
// added.
func (x *Index) Forgettable(id event.Slice, now event.Time, more int) int {
	if s := x.slices.find(id); s != nil && s.history != nil {
		return s.history.countExpired(now, more)
	}
	return 0
}
