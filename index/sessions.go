package index

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// session is the state of one session of a slice (semantics.md 8). It lasts while it has a message, a state or a holder.
type session struct {
	id      string
	members []event.SequenceNumber // of its messages, ascending; some may be gone since
	gone    int                    // how many of members are
	from    int                    // no member before this one is deliverable
	ready   *roaring64.Bitmap      // the deliverable ones, when there are many members; else nil
	under   []event.SequenceNumber // those that were locked, among them every one that is; some more than once
	active  int                    // deliverable ones
	locked  int                    // locked ones, deferred-locked included
	lock    uint32                 // slot in the lock table, 0 when nobody holds it
	ticket  uint64                 // its place among the sessions that wait for a receiver, 0 when it does not
	set     bool                   // it has a state
	counted bool                   // its block counts it among those that are listed
	state   event.Blob
	setAt   event.Time
	block   *sessionBlock // it stands in
}

// sessions is the sessions of one slice.
//
// A session that nobody holds and that has something to deliver waits for a receiver, in the order in which that became so:
// a session given back goes behind those not served since, so none starves (semantics.md 8.3).
type sessions struct {
	slots[*session]
	rows    *rows // of the slice
	byID    map[string]uint32
	tickets uint64 // given out so far
	waiting []waiting
	head    int // of waiting
	order   sessionOrder
}

// waiting is an entry of the row of waiting sessions; one whose ticket is not the session's any more has left it.
type waiting struct {
	slot   uint32
	ticket uint64
}

func newSessions(r *rows) *sessions {
	return &sessions{rows: r, slots: newSlots[*session](), byID: map[string]uint32{}}
}

// slot finds a session, or makes it.
func (t *sessions) slot(id []byte) uint32 {
	if n, ok := t.byID[string(id)]; ok {
		return n
	}
	s := &session{id: string(id)}
	n := t.add(s)
	t.byID[s.id] = n
	t.order.add(s)
	return n
}

func (t *sessions) find(id []byte) (uint32, *session) {
	n, ok := t.byID[string(id)]
	if !ok {
		return 0, nil
	}
	return n, t.table[n]
}

// reclassify drops a session that is no more, and enters or leaves it in the row of those that wait and among those that are listed.
func (t *sessions) reclassify(n uint32) {
	s := t.table[n]
	waits := s.lock == 0 && s.active > 0
	switch {
	case waits && s.ticket == 0:
		t.tickets++
		s.ticket = t.tickets
		if len(t.waiting) > 64 && len(t.waiting) > 2*len(t.byID) {
			t.tidy()
		}
		t.waiting = append(t.waiting, waiting{n, s.ticket})
	case !waits:
		s.ticket = 0
	}
	s.count()
	if s.lock == 0 && !s.set && len(s.members) == s.gone {
		delete(t.byID, s.id)
		t.order.remove(s)
		t.remove(n)
	}
}

// tidy drops those from the row that have left it: sessions that are accepted by id alone leave it from anywhere.
func (t *sessions) tidy() {
	kept := t.waiting[:0]
	for _, w := range t.waiting[t.head:] {
		if s := t.table[w.slot]; s != nil && s.ticket == w.ticket {
			kept = append(kept, w)
		}
	}
	t.waiting, t.head = kept, 0
}

// next is the session that has waited longest, 0 when there is none.
func (t *sessions) next() uint32 {
	for ; t.head < len(t.waiting); t.head++ {
		w := t.waiting[t.head]
		if s := t.table[w.slot]; s != nil && s.ticket == w.ticket {
			break
		}
	}
	if t.head == len(t.waiting) {
		t.waiting, t.head = t.waiting[:0], 0
		return 0
	}
	if t.head > 64 && t.head > len(t.waiting)/2 {
		t.waiting, t.head = slices.Delete(t.waiting, 0, t.head), 0
	}
	return t.waiting[t.head].slot
}

// place is where a member stands.
func (s *session) place(seq event.SequenceNumber) int {
	i, _ := slices.BinarySearch(s.members, seq)
	return i
}

// manyMembers is from how many messages on a session knows the deliverable ones: those between two of them, deferred ones or dead
// letters, may be any number, and nobody is to look at them again and again.
const manyMembers = 1024

// addMessage adds a message, which is younger than all others.
func (t *sessions) addMessage(seq event.SequenceNumber, r *row) {
	ses := t.table[r.session]
	ses.members = append(ses.members, seq)
	t.messageChanged(r.session, seq, row{}, *r)
	if len(ses.members) < manyMembers || ses.ready != nil {
		return
	}
	ses.ready = roaring64.New()
	for _, seq := range ses.members {
		if r := t.rows.find(seq); r != nil && r.deliverable() {
			ses.ready.Add(uint64(seq))
		}
	}
}

// dropMessage takes a message out that is gone. Members are cleaned up now and then, so that taking them from the front, the
// usual way, costs little however many there are.
func (t *sessions) dropMessage(n uint32) {
	ses := t.table[n]
	if ses.gone++; ses.gone*2 > len(ses.members) {
		ses.members = slices.DeleteFunc(ses.members, func(seq event.SequenceNumber) bool {
			r := t.rows.find(seq)
			return r == nil || r.session != n
		})
		ses.gone, ses.from = 0, 0
		if len(ses.members) < manyMembers/2 {
			ses.ready = nil
		}
	}
}

// messageChanged tells a session that one of its messages is in another state.
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
}

// tidyLocked drops those from the messages noted as locked under a session that are not any more, when most of them are not.
func (t *sessions) tidyLocked(n uint32) {
	if s := t.table[n]; len(s.under) > 64 && len(s.under) > 2*s.locked {
		t.lockedUnder(s)
	}
}

// lockedUnder are the messages locked under a session, ascending. What it costs depends on how many those are.
func (t *sessions) lockedUnder(ses *session) []event.SequenceNumber {
	slices.Sort(ses.under)
	ses.under = slices.DeleteFunc(slices.Compact(ses.under), func(seq event.SequenceNumber) bool {
		r := t.rows.find(seq)
		return r == nil || !r.locked()
	})
	return ses.under
}

// first is the deliverable message of a session with the smallest number, 0 when there is none.
func (t *sessions) first(ses *session) event.SequenceNumber {
	if ses.active == 0 {
		return 0
	}
	if mutant.On(mutant.AbandonedToBack) {
		return t.leastFailed(ses)
	}
	if ses.ready != nil {
		return event.SequenceNumber(ses.ready.Minimum())
	}
	for ; ses.from < len(ses.members); ses.from++ {
		if r := t.rows.find(ses.members[ses.from]); r != nil && r.deliverable() {
			return ses.members[ses.from]
		}
	}
	return 0
}
