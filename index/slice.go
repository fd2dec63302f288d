package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// State is the state of a message (semantics.md 3.1).
type State uint8

const (
	Gone State = iota
	Active
	Locked
	Deferred
	DeferredLocked
	Scheduled
	Transferring // on its way to another entity
)

func (s State) String() string {
	return [...]string{"gone", "active", "locked", "deferred", "deferred-locked", "scheduled", "transferring"}[s]
}

// keptSlice is the part of a slice that a snapshot sees. The owner changes it only after
// [slice.own].
type keptSlice struct {
	id   event.Slice
	made version
	// of a subscription: its topic, after the first message and while the topic's slice exists;
	// else 0
	topic event.EntityID
	last  event.SequenceNumber // newest number given out
	given event.TransferNumber // newest number given out
	bytes int64                // stored bytes of live messages and session states, for the quota
	count [subQueues][states]uint32
	rows  rows
	names *keptSessions // nil until there is a session
	seen  *keptHistory  // nil until there is an entry in the duplicate history

	arrived *arrivals // nil while there are no arrivals from other slices
}

// live returns the number of messages.
func (k *keptSlice) live() (n int) {
	for _, states := range k.count {
		for _, c := range states {
			n += int(c)
		}
	}
	return n
}

// slice is the state of one entity partition. All data outside of keptSlice follows from it, and
// serves the owner to find data.
type slice struct {
	*keptSlice
	shared  *sharedTables
	slot    uint32 // of keptSlice in the table of slices
	owns    int    // of a topic: number of slices that it owns
	owner   *slice // of a subscription: its topic's, after the first message
	owned   int64  // of a topic: bytes of the slices it owns
	members members

	sessions *sessions      // nil until there is one
	history  *history       // nil until there is an entry
	moving   *openTransfers // nil while nothing is in transfer
	stays    uint32         // messages of the class staying
	// soonest is a time before which no deliverable message of the main queue expires; since is the
	// same for messages that were added during a sweep. They are not part of the state: only the
	// sweep for expired messages uses them.
	soonest, since event.Time
}

func newSlice(id event.Slice, sh *sharedTables) *slice {
	before, _ := id.Numbers()
	return &slice{keptSlice: &keptSlice{id: id, made: sh.versions.now, last: before}, shared: sh, soonest: event.EndOfTime, since: event.EndOfTime}
}

// own makes the kept part of a slice changeable.
func (s *slice) own() {
	v := &s.shared.versions
	if v.isOwned(s.made) {
		return
	}
	k := *s.keptSlice
	k.made = v.now
	if k.names != nil {
		names := *k.names
		k.names = &names
	}
	if k.seen != nil {
		seen := *k.seen
		k.seen = &seen
	}
	s.keptSlice = &k
	*s.shared.kept.edit(v, s.slot) = &k
}

// enter adds a message to those of its state, leave removes it.
func (s *slice) enter(seq event.SequenceNumber, m marks) {
	q, st, c := m.subQueue(), m.state(), m.class()
	s.count[q][st]++
	if c == staying {
		s.stays++
	}
	s.members.of(q, c).add(seq)
}

func (s *slice) leave(seq event.SequenceNumber, m marks) {
	q, st, c := m.subQueue(), m.state(), m.class()
	s.count[q][st]--
	left := s.count[q][st]
	switch {
	case c == staying:
		s.stays--
		left = s.stays
	case q == event.DeadLetter && st == Active:
		left -= s.stays
	}
	s.members.of(q, c).remove(seq, left)
}

func (s *slice) must(seq event.SequenceNumber, ev event.Event) *row {
	r := s.rows.edit(&s.shared.versions, seq)
	if r == nil {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which does not exist", ev, seq, s.id))
	}
	return r
}

// takeNumber records that a sequence number is given out.
func (s *slice) takeNumber(seq event.SequenceNumber) {
	if seq <= s.last {
		panic(fmt.Sprintf("index: message %d stored in slice %v after %d", seq, s.id, s.last))
	}
	if seq.Partition() != s.id.Partition {
		panic(fmt.Sprintf("index: message %d stored in slice %v, whose numbers say its partition", seq, s.id))
	}
	s.last = max(s.last, seq)
}

func (s *slice) enqueue(ev *event.MessageEnqueued) {
	s.takeNumber(ev.Sequence)
	arrivalsOf{s}.arrive(ev.Arrival, ev)
	r := row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum,
		enqueuedAt: ev.EnqueuedAt, expiresAt: ev.ExpiresAt, marks: in(event.Main, Active).with(ownTTL, ev.TimeToLive != 0),
	}
	if ev.InSession {
		r.session = s.session(ev.SessionID)
	}
	if ev.Arrival != nil {
		r.marks = r.marks.moves(ev.Arrival.Hops)
	}
	s.store(ev.Sequence, r)
	if ev.Arrival != nil {
		along := arrivalDetails(ev.Arrival)
		along.give(s, ev.Sequence)
	}
	if ev.DuplicateUntil != 0 {
		s.remember(ev.EnqueuedAt, ev.Identity(), acceptedID{until: ev.DuplicateUntil, original: ev.Sequence})
	}
}

// session returns the slot of a session, which it makes if necessary.
func (s *slice) session(id []byte) uint32 {
	if s.sessions == nil {
		s.sessions = newSessions(s)
	}
	return s.sessions.slot(id)
}

func (s *slice) remember(now event.Time, id event.Identity, e acceptedID) {
	if s.history == nil {
		s.history = newHistory(s)
	}
	s.history.remember(now, keyOf(&id), e)
}

// store makes the row of a new message.
func (s *slice) store(seq event.SequenceNumber, r row) {
	*s.rows.insert(&s.shared.versions, seq) = r
	s.addBytes(int64(r.size))
	s.enter(seq, r.marks)
	if r.session != 0 {
		s.sessions.addMessage(seq, &r)
		s.sessions.reclassify(r.session)
	}
	s.noteExpiry(&r)
}

// noteExpiry records when a deliverable message expires.
func (s *slice) noteExpiry(r *row) {
	if r.expiresAt != 0 && r.expiresAt < s.since && r.deliverable() {
		s.since = r.expiresAt
		s.soonest = min(s.soonest, s.since)
	}
}

func (s *slice) move(seq event.SequenceNumber, r *row, to State) {
	s.shift(seq, r, r.marks.withState(r.marks.subQueue(), to))
}

// shift changes the state or the sub-queue of a message.
func (s *slice) shift(seq event.SequenceNumber, r *row, to marks) {
	was := *r
	r.marks = to
	s.leave(seq, was.marks)
	s.enter(seq, r.marks)
	if r.session != 0 {
		s.sessions.messageChanged(r.session, seq, was, *r)
		s.sessions.tidyLocked(r.session)
		s.sessions.reclassify(r.session)
	}
	s.noteExpiry(r)
}

func (s *slice) change(seq event.SequenceNumber, r *row, b event.Blob) {
	if b.Size == 0 {
		return
	}
	r.marks |= changed
	b.Data, b.Tail = nil, nil
	s.rows.find(seq).addChange(b) // the row may be changed, so its leaf may be as well
	s.addBytes(int64(b.Size))
}

// addBytes counts stored bytes, for a subscription also those of its topic.
func (s *slice) addBytes(n int64) {
	s.bytes += n
	if s.owner != nil {
		s.owner.owned += n
	}
}

func (s *slice) remove(seq event.SequenceNumber, r *row) {
	was := *r
	s.leave(seq, was.marks)
	s.addBytes(-int64(was.size))
	if was.marks.has(changed) {
		for _, b := range s.rows.find(seq).changes() {
			s.addBytes(-int64(b.Size))
		}
	}
	s.rows.remove(&s.shared.versions, seq)
	if was.session != 0 {
		s.sessions.messageChanged(was.session, seq, was, row{})
		s.sessions.dropMessage(was.session)
		s.sessions.reclassify(was.session)
	}
}
