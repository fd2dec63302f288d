package index

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// keptSessions is the part of a slice's sessions that a snapshot sees. The owner changes it with
// the slice's own.
type keptSessions struct {
	records slots[record]
	count   int    // number of sessions
	tickets uint64 // number given out so far
}

// record is the data of a session without its messages.
type record struct {
	id     string
	lock   uint32 // slot in the lock table, 0 if it is not held
	there  bool   // false: the slot is free
	set    bool   // it has a state
	state  body
	setAt  event.Time
	ticket uint64 // its place among the sessions that wait for a receiver, 0 if it does not wait
}

// body is a place of bytes in the log.
type body struct {
	position event.Position
	size     uint32
	sum      uint32
}

func bodyOf(b event.Blob) body { return body{b.Position, b.Size, b.Sum} }

func (b body) blob() event.Blob { return event.Blob{Position: b.position, Size: b.size, Sum: b.sum} }

// session finds the messages of a session of a slice (semantics.md 8). It exists while it has a
// message, a state or a holder.
type session struct {
	id      string
	slot    uint32
	members []event.SequenceNumber // of its messages, ascending; some may have been removed since
	gone    int                    // number of removed members
	// the first deliverable member, if there is one and ready is nil; no earlier member is
	// deliverable
	from  int
	ready *roaring64.Bitmap // the deliverable ones, if there are many members; else nil
	// messages that were locked, including all that still are; some more than once
	under   []event.SequenceNumber
	active  int           // number of deliverable ones
	locked  int           // number of locked ones, including deferred-locked ones
	set     bool          // it has a state, according to its record
	counted bool          // its block counts it as listed
	block   *sessionBlock // the block that it is in
}

// sessions has the sessions of one slice.
//
// A session that is not held and has deliverable messages waits for a receiver, in the order in
// which that began. A released session is placed after those not served since, so none starves
// (semantics.md 8.3).
type sessions struct {
	of      *slice
	table   []*session // by slot, the same as that of the record
	byID    map[string]uint32
	waiting []waitingSession
	head    int // of waiting: place of the one that has waited longest, if any
	order   sessionOrder
}

// waitingSession is an entry of the list of waiting sessions. An entry whose ticket is no longer
// that of the session counts as removed.
type waitingSession struct {
	slot   uint32
	ticket uint64
}

func newSessions(s *slice) *sessions {
	s.names = new(keptSessions)
	return &sessions{of: s, byID: map[string]uint32{}}
}

// record returns the data of a session, which the caller must not change.
func (t *sessions) record(n uint32) *record { return t.of.names.records.at(n) }

// edit returns the data of a session for changing.
func (t *sessions) edit(n uint32) *record {
	return t.of.names.records.edit(&t.of.shared.versions, n)
}

// slot finds a session, or makes it.
func (t *sessions) slot(id []byte) uint32 {
	if n, ok := t.byID[string(id)]; ok {
		return n
	}
	s := &session{id: string(id)}
	s.slot = t.of.names.records.add(&t.of.shared.versions, record{id: s.id, there: true})
	t.of.names.count++
	for int(s.slot) >= len(t.table) {
		t.table = append(t.table, nil)
	}
	t.table[s.slot] = s
	t.byID[s.id] = s.slot
	t.order.add(s)
	return s.slot
}

func (t *sessions) find(id []byte) (uint32, *session) {
	n, ok := t.byID[string(id)]
	if !ok {
		return 0, nil
	}
	return n, t.table[n]
}

// reclassify drops a session that has nothing left, and updates whether it waits and whether it is
// listed.
func (t *sessions) reclassify(n uint32) {
	s, r := t.table[n], t.record(n)
	waits := r.lock == 0 && s.active > 0
	switch {
	case waits && r.ticket == 0:
		t.of.names.tickets++
		t.edit(n).ticket = t.of.names.tickets
		if len(t.waiting) > 64 && len(t.waiting) > 2*len(t.byID) {
			t.tidy()
		}
		t.waiting = append(t.waiting, waitingSession{n, t.of.names.tickets})
	case !waits && r.ticket != 0:
		t.edit(n).ticket = 0
	}
	s.count()
	if r.lock == 0 && !s.set && len(s.members) == s.gone {
		delete(t.byID, s.id)
		t.order.remove(s)
		t.table[n] = nil
		t.of.names.records.remove(&t.of.shared.versions, n)
		t.of.names.count--
	}
	t.advance()
}

// isWaiting reports whether an entry of the list of waiting sessions still counts.
func (t *sessions) isWaiting(w waitingSession) bool { return t.record(w.slot).ticket == w.ticket }

// advance drops entries that no longer count from the front of the list.
func (t *sessions) advance() {
	for ; t.head < len(t.waiting) && !t.isWaiting(t.waiting[t.head]); t.head++ {
	}
	if t.head == len(t.waiting) {
		t.waiting, t.head = t.waiting[:0], 0
	}
	if t.head > 64 && t.head > len(t.waiting)/2 {
		t.waiting, t.head = slices.Delete(t.waiting, 0, t.head), 0
	}
}

// tidy drops all entries that no longer count, because sessions that are accepted by id leave the
// list from anywhere.
func (t *sessions) tidy() {
	kept := t.waiting[:0]
	for _, w := range t.waiting[t.head:] {
		if t.isWaiting(w) {
			kept = append(kept, w)
		}
	}
	t.waiting, t.head = kept, 0
}

// next returns the session that has waited longest, 0 if there is none.
func (t *sessions) next() uint32 {
	if t.head == len(t.waiting) {
		return 0
	}
	return t.waiting[t.head].slot
}

// deliverable reports whether a receiver may get a member.
func (t *sessions) deliverable(seq event.SequenceNumber) bool {
	r := t.of.rows.find(seq).row()
	return r != nil && r.deliverable()
}

// place returns the place of a member.
func (s *session) place(seq event.SequenceNumber) int {
	i, _ := slices.BinarySearch(s.members, seq)
	return i
}

// manyMembers is the number of messages from which on a session has a set of its deliverable ones.
// Between two of these there may be any number of others, deferred ones or dead letters, which must
// not be examined again and again.
const manyMembers = 1024

// addMessage adds a message. It is newer than all others, except for one with a reserved number,
// which is not deliverable yet.
func (t *sessions) addMessage(seq event.SequenceNumber, r *row) {
	ses := t.table[r.session]
	if n := len(ses.members); n == 0 || ses.members[n-1] < seq {
		ses.members = append(ses.members, seq)
	} else {
		ses.members = slices.Insert(ses.members, ses.place(seq), seq)
	}
	t.messageChanged(r.session, seq, row{}, *r)
	if len(ses.members) < manyMembers || ses.ready != nil {
		return
	}
	ses.ready = roaring64.New()
	for _, seq := range ses.members {
		if t.deliverable(seq) {
			ses.ready.Add(uint64(seq))
		}
	}
}

// dropMessage removes a message. Members are cleaned up only from time to time, so that removing
// them from the front, the usual case, costs little at any number.
func (t *sessions) dropMessage(n uint32) {
	ses := t.table[n]
	if ses.gone++; ses.gone*2 > len(ses.members) {
		ses.members = slices.DeleteFunc(ses.members, func(seq event.SequenceNumber) bool {
			r := t.of.rows.find(seq).row()
			return r == nil || r.session != n
		})
		ses.gone, ses.from = 0, 0
		if len(ses.members) < manyMembers/2 {
			ses.ready = nil
		}
		t.front(ses)
	}
}

// messageChanged updates a session after the state of one of its messages has changed.
func (t *sessions) messageChanged(n uint32, seq event.SequenceNumber, was, is row) {
	s := t.table[n]
	if was.locked() {
		s.locked--
	}
	if is.locked() {
		s.locked++
		s.under = append(s.under, seq)
	} else if s.locked == 0 {
		if s.under = s.under[:0]; cap(s.under) > manyMembers {
			s.under = nil
		}
	}
	if was.deliverable() {
		s.active--
		if s.ready != nil {
			s.ready.Remove(uint64(seq))
		}
	}
	if is.deliverable() {
		s.active++
		s.from = min(s.from, s.place(seq))
		if s.ready != nil {
			s.ready.Add(uint64(seq))
		}
	}
	t.front(s)
}

// front finds the first deliverable member of a session, beginning at the last one found.
func (t *sessions) front(s *session) {
	if s.ready != nil || s.active == 0 {
		return
	}
	for ; s.from < len(s.members) && !t.deliverable(s.members[s.from]); s.from++ {
	}
}

// tidyLocked drops messages that are no longer locked from the list of those locked under a
// session, if they are most of it.
func (t *sessions) tidyLocked(n uint32) {
	if s := t.table[n]; len(s.under) > 64 && len(s.under) > 2*s.locked {
		s.under = t.lockedUnder(s.under)
	}
}

// lockedUnder returns the messages locked under a session, ascending. The cost depends on their
// number.
func (t *sessions) lockedUnder(under []event.SequenceNumber) []event.SequenceNumber {
	slices.Sort(under)
	return slices.DeleteFunc(slices.Compact(under), func(seq event.SequenceNumber) bool {
		r := t.of.rows.find(seq).row()
		return r == nil || !r.locked()
	})
}

// first returns the deliverable message of a session with the smallest number, 0 if there is none.
func (t *sessions) first(ses *session) event.SequenceNumber {
	switch {
	case ses.active == 0:
		return 0
	case ses.ready != nil:
		return event.SequenceNumber(ses.ready.Minimum())
	}
	return ses.members[ses.from]
}
