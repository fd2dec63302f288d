package index

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	manyNumbers = 32 // with more numbers a set is a bitmap
	fewNumbers  = 8  // with fewer it is a list again
)

// set is a set of sequence numbers: a list while there are few, then a roaring bitmap.
type set struct {
	few  []event.SequenceNumber // ascending; empty when there is a bitmap
	many *roaring64.Bitmap
}

// members are the messages of a slice by sub-queue and class.
type members [subQueues][classes]*set

// of returns the set of a class for changing.
func (m *members) of(q event.SubQueue, c class) *set {
	if m[q][c] == nil {
		m[q][c] = new(set)
	}
	return m[q][c]
}

func (s *set) add(seq event.SequenceNumber) {
	if s.many != nil {
		s.many.Add(uint64(seq))
		return
	}
	i := len(s.few)
	if i > 0 && s.few[i-1] >= seq {
		i, _ = slices.BinarySearch(s.few, seq)
	}
	if s.few = slices.Insert(s.few, i, seq); len(s.few) < manyNumbers {
		return
	}
	s.many = roaring64.New()
	for _, seq := range s.few {
		s.many.Add(uint64(seq))
	}
	s.few = nil
}

// remove removes a number. left is how many the set has afterwards.
func (s *set) remove(seq event.SequenceNumber, left uint32) {
	if s.many == nil {
		if i, there := slices.BinarySearch(s.few, seq); there {
			s.few = slices.Delete(s.few, i, i+1)
		}
		return
	}
	if s.many.Remove(uint64(seq)); left > fewNumbers {
		return
	}
	for it := s.many.Iterator(); it.HasNext(); {
		s.few = append(s.few, event.SequenceNumber(it.Next()))
	}
	s.many = nil
}

// first returns the smallest number.
func (s *set) first() (event.SequenceNumber, bool) {
	switch {
	case s == nil:
		return 0, false
	case s.many != nil:
		return event.SequenceNumber(s.many.Minimum()), true
	case len(s.few) > 0:
		return s.few[0], true
	}
	return 0, false
}

// active returns a cursor at the first active message of a sub-queue at or after a number,
// including those that stay.
func (m *members) active(q event.SubQueue, seq event.SequenceNumber) cursorPair {
	return cursorPair{m[q][Active].from(seq), m[q][staying].from(seq)}
}

// cursorPair iterates over two sets in order.
type cursorPair [2]cursor

func (e *cursorPair) hasNext() bool { return e[0].hasNext() || e[1].hasNext() }

func (e *cursorPair) next() event.SequenceNumber {
	if !e[0].hasNext() || e[1].hasNext() && e[1].peek() < e[0].peek() {
		return e[1].next()
	}
	return e[0].next()
}

// cursor iterates over a set in order. The set must not change meanwhile.
type cursor struct {
	few  []event.SequenceNumber
	many roaring64.IntPeekable64
}

// from returns a cursor at the first number that is not smaller than seq.
func (s *set) from(seq event.SequenceNumber) (c cursor) {
	switch {
	case s == nil:
	case s.many != nil:
		c.many = s.many.Iterator()
		c.many.AdvanceIfNeeded(uint64(seq))
	default:
		i, _ := slices.BinarySearch(s.few, seq)
		c.few = s.few[i:]
	}
	return c
}

func (c *cursor) hasNext() bool { return len(c.few) > 0 || c.many != nil && c.many.HasNext() }

func (c *cursor) peek() event.SequenceNumber {
	if c.many != nil {
		return event.SequenceNumber(c.many.PeekNext())
	}
	return c.few[0]
}

func (c *cursor) next() event.SequenceNumber {
	if c.many != nil {
		return event.SequenceNumber(c.many.Next())
	}
	first := c.few[0]
	c.few = c.few[1:]
	return first
}
