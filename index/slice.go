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

const (
	chunkBits = 6
	chunkRows = 1 << chunkBits
	states    = int(Scheduled) + 1
	subQueues = int(event.TransferDeadLetter) + 1
)

// row is what is kept of a live message. Keep it at 48 bytes: there may be tens of millions.
type row struct {
	position   event.Position // of the body
	enqueuedAt event.Time
	expiresAt  event.Time
	size       uint32 // bytes of the body
	sum        uint32 // checksum of the body
	count      uint32 // failed deliveries
	lock       uint32 // slot in the lock table, 0 when not locked; while scheduled, slot in the schedule
	session    uint32 // slot in the slice's sessions, 0 when it belongs to none
	state      State
	subQueue   event.SubQueue
	marks      marks
}

// marks are what is true of a message or not.
type marks uint8

const (
	ownTTL       marks = 1 << iota // the sender gave a time to live
	changed                        // there are property changes
	wasScheduled                   // it was scheduled before it became active
)

func (m marks) has(mark marks) bool { return m&mark != 0 }

// with sets a mark, or takes it away.
func (m marks) with(mark marks, set bool) marks {
	if set {
		return m | mark
	}
	return m &^ mark
}

// deliverable tells whether a receiver of the main queue may get the message.
func (r *row) deliverable() bool { return r.state == Active && r.subQueue == event.Main }

// locked tells whether the message is locked in the main queue.
func (r *row) locked() bool {
	return r.subQueue == event.Main && (r.state == Locked || r.state == DeferredLocked)
}

// chunk holds the rows of chunkRows consecutive sequence numbers and is dropped with the last live one.
type chunk struct {
	live    int
	origins *[chunkRows]event.SequenceNumber // numbers the messages had where they were sent to; nil: none of them came from elsewhere
	rows    [chunkRows]row
}

// slice is the state of one entity partition.
type slice struct {
	id      event.Slice
	last    event.SequenceNumber // newest ever given out
	bytes   int64                // stored bytes of live messages and session states, for the quota
	owner   *slice               // of a subscription: its topic's, once there was a message
	owns    int                  // of a topic: slices that have it for owner
	owned   int64                // and their bytes
	chunks  map[uint64]*chunk
	recent  *chunk // the chunk asked for last
	at      uint64 // its number
	members [subQueues][states]*roaring64.Bitmap
	changes map[event.SequenceNumber][]event.Blob

	sessions *sessions // nil until there is one
	history  *history  // nil until there is something in it
	// soonest is a time before which no deliverable message of the main queue expires; since is the same of those that came
	// while a sweep is under way. Not part of the state: only the sweep that looks for expired messages asks.
	soonest, since event.Time
}

func newSlice(id event.Slice) *slice {
	return &slice{id: id, chunks: map[uint64]*chunk{}, changes: map[event.SequenceNumber][]event.Blob{},
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

// find returns the row of a live message, or nil.
func (s *slice) find(seq event.SequenceNumber) *row {
	n := uint64(seq) >> chunkBits
	c := s.recent
	if c == nil || s.at != n {
		if c = s.chunks[n]; c == nil {
			return nil
		}
		s.recent, s.at = c, n
	}
	if r := &c.rows[uint64(seq)&(chunkRows-1)]; r.state != Gone {
		return r
	}
	return nil
}

func (s *slice) must(seq event.SequenceNumber, ev event.Event) *row {
	r := s.find(seq)
	if r == nil {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which does not exist", ev, seq, s.id))
	}
	return r
}

// insert makes the row of a new live message.
func (s *slice) insert(seq event.SequenceNumber) *row {
	n := uint64(seq) >> chunkBits
	c := s.recent
	if c == nil || s.at != n {
		if c = s.chunks[n]; c == nil {
			c = new(chunk)
			s.chunks[n] = c
		}
		s.recent, s.at = c, n
	}
	c.live++
	return &c.rows[uint64(seq)&(chunkRows-1)]
}

// number books a sequence number that is given out.
func (s *slice) number(seq event.SequenceNumber) {
	if seq <= s.last && !mutant.On(mutant.ReuseSequenceNumber) {
		panic(fmt.Sprintf("index: message %d stored in slice %v after %d", seq, s.id, s.last))
	}
	s.last = max(s.last, seq)
}

func (s *slice) enqueue(ev *event.MessageEnqueued) {
	s.number(ev.Sequence)
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
		s.sessions = newSessions()
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
	s.grow(int64(r.size))
	s.set(r.subQueue, r.state).Add(uint64(seq))
	if r.session != 0 {
		s.join(seq, &r)
		s.sessions.settle(r.session)
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
		s.sessions.counted(r.session, seq, was, *r)
		if ses := s.sessions.table[r.session]; len(ses.under) > 64 && len(ses.under) > 2*ses.locked {
			s.lockedUnder(ses)
		}
		s.sessions.settle(r.session)
	}
	s.awaits(r)
}

// giveBack ends a locked state: a message that was deferred stays deferred.
func (s *slice) giveBack(seq event.SequenceNumber, r *row) {
	if r.state == DeferredLocked {
		s.move(seq, r, Deferred)
	} else {
		s.move(seq, r, Active)
	}
}

func (s *slice) deadLetter(seq event.SequenceNumber, r *row) {
	s.shift(seq, r, event.DeadLetter, Active)
}

func (s *slice) change(seq event.SequenceNumber, r *row, b event.Blob) {
	if b.Size == 0 {
		return
	}
	r.marks |= changed
	b.Data, b.Tail = nil, nil
	s.changes[seq] = append(s.changes[seq], b)
	s.grow(int64(b.Size))
}

// grow books stored bytes, with the topic as well.
func (s *slice) grow(n int64) {
	s.bytes += n
	if s.owner != nil {
		s.owner.owned += n
	}
}

func (s *slice) remove(seq event.SequenceNumber, r *row) {
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	s.grow(-int64(r.size))
	if r.marks.has(changed) {
		for _, b := range s.changes[seq] {
			s.grow(-int64(b.Size))
		}
		delete(s.changes, seq)
	}
	was := *r
	*r = row{}
	if was.session != 0 {
		s.sessions.counted(was.session, seq, was, row{})
		s.drop(was.session)
		s.sessions.settle(was.session)
	}
	n := uint64(seq) >> chunkBits
	c := s.chunks[n]
	if c.live--; c.live == 0 {
		delete(s.chunks, n)
		s.recent = nil
	}
}
