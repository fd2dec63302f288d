package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A subscription has a slice of its own, like a queue; all of a topic's are in the topic's partition. The slice of the topic
// holds what waits to be published, the numbers given out and the duplicate history. What its subscriptions store counts
// towards the topic's size, so their slices know that of the topic.

// publish stores the copies of a message that was sent to a topic.
func (x *Index) publish(ev *event.MessagePublished) {
	t := x.slice(ev.Slice)
	t.number(ev.Sequence)
	if ev.DuplicateUntil != 0 {
		t.remember(ev.EnqueuedAt, ev.IDType, ev.MessageID, seen{ev.DuplicateUntil, ev.Sequence})
	}
	x.copies(t, ev.Sequence, ev.Copies, row{position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum,
		enqueuedAt: ev.EnqueuedAt})
}

// publishScheduled stores the copies of a message that waited in the topic.
func (x *Index) publishScheduled(ev *event.ScheduledPublished) {
	t := x.slice(ev.Slice)
	old := t.must(ev.Sequence, ev)
	if old.state != Scheduled {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, ev.Sequence, ev.Slice, old.state))
	}
	body := row{position: old.position, size: old.size, sum: old.sum, enqueuedAt: ev.EnqueuedAt, marks: wasScheduled}
	x.schedule.remove(old.lock)
	t.remove(ev.Sequence, old)
	t.number(ev.NewSequence)
	x.copies(t, ev.NewSequence, ev.Copies, body)
}

func (x *Index) copies(t *slice, number event.SequenceNumber, copies []event.Copy, body row) {
	for i := range copies {
		c := &copies[i]
		s := x.slice(event.Slice{Entity: c.Subscription, Partition: t.id.Partition})
		if s.owner == nil {
			s.belong(t)
		}
		s.number(c.Sequence)
		r := body
		r.expiresAt, r.state = c.ExpiresAt, Active
		r.marks = r.marks.with(ownTTL, c.OwnTTL)
		if c.Cause != 0 {
			r.subQueue = event.DeadLetter
		}
		if c.InSession {
			r.session = s.session(c.SessionID)
		}
		s.store(c.Sequence, r)
		s.came(c.Sequence, number)
		if c.Changes.Size > 0 {
			s.change(c.Sequence, s.find(c.Sequence), c.Changes)
		}
	}
}

// belong makes a topic's slice the owner of a subscription's.
func (s *slice) belong(t *slice) {
	s.owner = t
	t.owns++
	t.owned += s.bytes
}

// came notes the number a message had where it was sent to.
func (s *slice) came(seq, origin event.SequenceNumber) {
	c := s.chunks[uint64(seq)>>chunkBits]
	if c.origins == nil {
		c.origins = new([chunkRows]event.SequenceNumber)
	}
	c.origins[uint64(seq)&(chunkRows-1)] = origin
}

// origin is the number a message had where it was sent to; 0 when that was here.
func (s *slice) origin(seq event.SequenceNumber) event.SequenceNumber {
	if c := s.chunks[uint64(seq)>>chunkBits]; c != nil && c.origins != nil {
		return c.origins[uint64(seq)&(chunkRows-1)]
	}
	return 0
}
