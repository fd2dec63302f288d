package index

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// State is where a message is in its life (semantics.md 3.1).
type State uint8

const (
	Gone State = iota
	Active
	Locked
	Deferred
	DeferredLocked
	Scheduled
)

func (s State) String() string {
	return [...]string{"gone", "active", "locked", "deferred", "deferred-locked", "scheduled"}[s]
}

// slice is the state of one entity partition.
type slice struct {
	rows
	shared  *shared
	id      event.Slice
	last    event.SequenceNumber // newest ever given out
	bytes   int64                // stored bytes of live messages and session states, for the quota
	owner   *slice               // of a subscription: its topic's, once there was a message
	owns    int                  // of a topic: slices that have it for owner
	owned   int64                // and their bytes
	members [subQueues][states]*roaring64.Bitmap
	changes map[event.SequenceNumber][]event.Blob

	sessions *sessions // nil until there is one
	history  *history  // nil until there is something in it
	// soonest is a time before which no deliverable message of the main queue expires; since is the same of those that came
	// while a sweep is under way. Not part of the state: only the sweep that looks for expired messages asks.
	soonest, since event.Time
}

func newSlice(id event.Slice, sh *shared) *slice {
	before, _ := id.Numbers()
	return &slice{rows: newRows(), shared: sh, id: id, last: before, changes: map[event.SequenceNumber][]event.Blob{},
		soonest: event.EndOfTime, since: event.EndOfTime}
}

func (s *slice) set(q event.SubQueue, st State) *roaring64.Bitmap {
	b := s.members[q][st]
	if b == nil {
		b = roaring64.New()
		s.members[q][st] = b
	}
	return b
}

func (s *slice) must(seq event.SequenceNumber, ev event.Event) *row {
	r := s.find(seq)
	if r == nil {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which does not exist", ev, seq, s.id))
	}
	return r
}

// takeNumber books a sequence number that is given out.
func (s *slice) takeNumber(seq event.SequenceNumber) {
	if seq <= s.last && !mutant.On(mutant.ReuseSequenceNumber) {
		panic(fmt.Sprintf("index: message %d stored in slice %v after %d", seq, s.id, s.last))
	}
	if seq.Partition() != s.id.Partition {
		panic(fmt.Sprintf("index: message %d stored in slice %v, whose numbers say its partition", seq, s.id))
	}
	s.last = max(s.last, seq)
}

func (s *slice) enqueue(ev *event.MessageEnqueued) {
	s.takeNumber(ev.Sequence)
	r := row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum,
		enqueuedAt: ev.EnqueuedAt, expiresAt: ev.ExpiresAt, marks: marks(0).with(ownTTL, ev.TimeToLive != 0),
		state: Active, subQueue: event.Main,
	}
	if ev.InSession {
		r.session = s.session(ev.SessionID)
	}
	s.store(ev.Sequence, r)
	if ev.DuplicateUntil != 0 {
		s.remember(ev.EnqueuedAt, ev.IDType, ev.MessageID, seen{ev.DuplicateUntil, ev.Sequence})
	}
}

// session is the slot of a session, which is made when it does not exist.
func (s *slice) session(id []byte) uint32 {
	if s.sessions == nil {
		s.sessions = newSessions(&s.rows)
	}
	return s.sessions.slot(id)
}

func (s *slice) remember(now event.Time, t event.IDType, id []byte, e seen) {
	if s.history == nil {
		s.history = newHistory()
	}
	s.history.remember(now, keyOf(t, id), e)
}

// store makes the row of a message that was not there before.
func (s *slice) store(seq event.SequenceNumber, r row) {
	*s.insert(seq) = r
	s.addBytes(int64(r.size))
	s.set(r.subQueue, r.state).Add(uint64(seq))
	if r.session != 0 {
		s.sessions.addMessage(seq, &r)
		s.sessions.reclassify(r.session)
	}
	s.awaits(&r)
}

// awaits notes when a message expires that nobody holds.
func (s *slice) awaits(r *row) {
	if r.expiresAt != 0 && r.expiresAt < s.since && r.deliverable() {
		s.since = r.expiresAt
		s.soonest = min(s.soonest, s.since)
	}
}

func (s *slice) move(seq event.SequenceNumber, r *row, to State) { s.shift(seq, r, r.subQueue, to) }

// shift moves a message to another state, or sub-queue.
func (s *slice) shift(seq event.SequenceNumber, r *row, q event.SubQueue, to State) {
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	was := *r
	r.subQueue, r.state = q, to
	s.set(q, to).Add(uint64(seq))
	if r.session != 0 {
		s.sessions.messageChanged(r.session, seq, was, *r)
		s.sessions.tidyLocked(r.session)
		s.sessions.reclassify(r.session)
	}
	s.awaits(r)
}

func (s *slice) change(seq event.SequenceNumber, r *row, b event.Blob) {
	if b.Size == 0 {
		return
	}
	r.marks |= changed
	b.Data, b.Tail = nil, nil
	s.changes[seq] = append(s.changes[seq], b)
	s.addBytes(int64(b.Size))
}

// addBytes books stored bytes, with the topic as well.
func (s *slice) addBytes(n int64) {
	s.bytes += n
	if s.owner != nil {
		s.owner.owned += n
	}
}

func (s *slice) remove(seq event.SequenceNumber, r *row) {
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	s.addBytes(-int64(r.size))
	if r.marks.has(changed) {
		for _, b := range s.changes[seq] {
			s.addBytes(-int64(b.Size))
		}
		delete(s.changes, seq)
	}
	was := *r
	*r = row{}
	if was.session != 0 {
		s.sessions.messageChanged(was.session, seq, was, row{})
		s.sessions.dropMessage(was.session)
		s.sessions.reclassify(was.session)
	}
	s.removed(seq)
}
