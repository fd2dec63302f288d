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
)

func (s State) String() string {
	return [...]string{"gone", "active", "locked", "deferred", "deferred-locked"}[s]
}

const (
	chunkBits = 8
	chunkRows = 1 << chunkBits
	states    = int(DeferredLocked) + 1
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
	lock       uint32 // slot in the lock table, 0 when not locked
	state      State
	subQueue   event.SubQueue
	ownTTL     bool // the sender gave a time to live
	changed    bool // there are property changes
}

// chunk holds the rows of chunkRows consecutive sequence numbers and is dropped with the last live one.
type chunk struct {
	live int
	rows [chunkRows]row
}

// slice is the state of one entity partition.
type slice struct {
	id      event.Slice
	last    event.SequenceNumber // newest ever given out
	bytes   int64                // stored bytes of live messages, for the quota
	chunks  map[uint64]*chunk
	recent  *chunk // the chunk asked for last
	at      uint64 // its number
	members [subQueues][states]*roaring64.Bitmap
	changes map[event.SequenceNumber][]event.Blob
}

func newSlice(id event.Slice) *slice {
	return &slice{id: id, chunks: map[uint64]*chunk{}, changes: map[event.SequenceNumber][]event.Blob{}}
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

func (s *slice) enqueue(ev *event.MessageEnqueued) {
	if ev.Sequence <= s.last && !mutant.On(mutant.ReuseSequenceNumber) {
		panic(fmt.Sprintf("index: message %d enqueued in slice %v after %d", ev.Sequence, s.id, s.last))
	}
	s.last = max(s.last, ev.Sequence)
	*s.insert(ev.Sequence) = row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum,
		enqueuedAt: ev.EnqueuedAt, expiresAt: ev.ExpiresAt, ownTTL: ev.TimeToLive != 0,
		state: Active, subQueue: event.Main,
	}
	s.bytes += int64(ev.Body.Size)
	s.set(event.Main, Active).Add(uint64(ev.Sequence))
}

func (s *slice) move(seq event.SequenceNumber, r *row, to State) {
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	r.state = to
	s.set(r.subQueue, to).Add(uint64(seq))
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
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	r.state, r.subQueue = Active, event.DeadLetter
	s.set(r.subQueue, r.state).Add(uint64(seq))
}

func (s *slice) change(seq event.SequenceNumber, r *row, b event.Blob) {
	if b.Size == 0 {
		return
	}
	r.changed = true
	b.Data = nil
	s.changes[seq] = append(s.changes[seq], b)
	s.bytes += int64(b.Size)
}

func (s *slice) remove(seq event.SequenceNumber, r *row) {
	s.set(r.subQueue, r.state).Remove(uint64(seq))
	s.bytes -= int64(r.size)
	if r.changed {
		for _, b := range s.changes[seq] {
			s.bytes -= int64(b.Size)
		}
		delete(s.changes, seq)
	}
	*r = row{}
	n := uint64(seq) >> chunkBits
	c := s.chunks[n]
	if c.live--; c.live == 0 {
		delete(s.chunks, n)
		s.recent = nil
	}
}
