package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// scratch holds what a decision has assigned and removed so far. The index does not show it yet,
// because nothing is applied before the record is complete. If one record is made of several
// operations, each rule looks here for what those before it did; else most of it stays empty, and
// costs nothing. Additions for an operation that is then refused can be taken back
// ([decision.savepoint]).
type scratch struct {
	several bool // the record is made of several operations
	// of earlier operations that are not in the index either; nil: there are none
	before *scratch

	next bySlice[event.SequenceNumber] // number of the next message
	// stored bytes, by the slice whose quota they count toward
	bytes   bySlice[int64]
	ids     map[sentID]event.SequenceNumber // accepted ids, with their messages
	entered []sentID                        // the same in order
	// of scheduled messages: whether they exist, or were removed
	life   map[messageID]index.State
	states map[sessionID]int             // bytes of the states that were set
	moves  bySlice[event.TransferNumber] // number of the next transfer
}

type messageID struct {
	slice    event.Slice
	sequence event.SequenceNumber
}

type sessionID struct {
	slice event.Slice
	name  string
}

// maxScratch is the largest number of entries of a kind whose memory is kept for the next decision.
const maxScratch = 1 << 10

func (s *scratch) reset() {
	s.several, s.before = false, nil
	s.next.reset()
	s.bytes.reset()
	s.moves.reset()
	empty(&s.ids)
	empty(&s.life)
	empty(&s.states)
	clear(s.entered)
	if s.entered = s.entered[:0]; cap(s.entered) > maxScratch {
		s.entered = nil
	}
}

func empty[K comparable, V any](m *map[K]V) {
	switch n := len(*m); {
	case n > maxScratch:
		*m = nil
	case n > 0:
		clear(*m)
	}
}

func enter[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// next returns the number of the next message of a slice.
func (d *decision) next(id event.Slice) event.SequenceNumber {
	if seq, ok := d.scratch.next.get(id); ok {
		return seq
	}
	return d.index.NextSequence(id)
}

// noteNext notes which number comes next in a slice, after some were assigned.
func (d *decision) noteNext(id event.Slice, next event.SequenceNumber) {
	if d.scratch.several {
		d.scratch.next.set(id, next)
	}
}

// take returns the next number of a slice for which one decision assigns many numbers, each by
// itself.
func (d *decision) take(id event.Slice) event.SequenceNumber {
	seq := d.next(id)
	d.scratch.next.set(id, seq+1)
	return seq
}

// noteBytes notes bytes that are stored in a slice. Those of a subscription count toward the quota
// of its topic.
func (s *slice) noteBytes(more int64) {
	if !s.scratch.several {
		return
	}
	if _, id := s.storingEntity(); more != 0 {
		before, _ := s.scratch.bytes.get(id)
		s.scratch.bytes.set(id, before+more)
	}
}

// scheduled reports whether a message waits to become active.
func (s *slice) scheduled(seq event.SequenceNumber) bool {
	for at := &s.scratch; at != nil; at = at.before {
		if state, ok := at.life[messageID{s.id, seq}]; ok {
			return state == index.Scheduled
		}
	}
	m, ok := s.index.Message(s.id, seq)
	return ok && m.State == index.Scheduled
}

// noteState notes that a message is scheduled, or was removed.
func (s *slice) noteState(seq event.SequenceNumber, state index.State) {
	enter(&s.scratch.life, messageID{s.id, seq}, state)
}

// stateSize returns the size of a session's state in bytes.
func (s *slice) stateSize(name []byte) int {
	for at := &s.scratch; at != nil; at = at.before {
		if n, ok := at.states[sessionID{s.id, string(name)}]; ok {
			return n
		}
	}
	session, _ := s.index.Session(s.id, name)
	return int(session.State.Size)
}

// savepoint marks how far a decision had come. What a check added after it can be taken back, so
// that a refused operation leaves nothing in a record that continues with others.
type savepoint struct{ ids, copies, changes int }

func (d *decision) savepoint() savepoint {
	return savepoint{len(d.scratch.entered), len(d.fan.copies), len(d.fan.changes)}
}

// rollbackTo forgets the ids and the copies added after a savepoint, and the numbers that these
// copies got in an entity partition.
func (d *decision) rollbackTo(to savepoint, partition uint8) {
	for _, id := range d.scratch.entered[to.ids:] {
		delete(d.scratch.ids, id)
	}
	d.scratch.entered = d.scratch.entered[:to.ids]
	for i := len(d.fan.copies) - 1; i >= to.copies; i-- {
		c := &d.fan.copies[i]
		d.scratch.next.set(event.Slice{Entity: c.Subscription, Partition: partition}, c.Sequence)
	}
	d.fan.copies, d.fan.changes = d.fan.copies[:to.copies], d.fan.changes[:to.changes]
}
