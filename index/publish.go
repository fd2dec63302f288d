package index

import (
	"cmp"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A subscription has a slice of its own, like a queue. All slices of a topic are in the topic's
// partition. The slice of the topic holds scheduled messages, the numbers given out and the
// duplicate history. The messages of its subscriptions count towards the topic's size, so their
// slices point to the topic's slice.

// publish stores the copies of a message that was sent to a topic.
func (t *sliceTable) publish(ev *event.MessagePublished) {
	topic := t.of(ev.Slice)
	topic.takeNumber(ev.Sequence)
	arrivalsOf{topic}.arrive(ev.Arrival, ev)
	if ev.DuplicateUntil != 0 {
		topic.remember(ev.EnqueuedAt, ev.Identity(), acceptedID{until: ev.DuplicateUntil, original: ev.Sequence})
	}
	body, along := row{position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum, enqueuedAt: ev.EnqueuedAt}, arrivalDetails(ev.Arrival)
	if ev.Arrival != nil {
		body.marks = body.marks.moves(ev.Arrival.Hops)
	}
	along.origin = cmp.Or(along.origin, ev.Sequence)
	t.copies(topic, ev.Copies, body, &along)
}

// publishScheduled stores the copies of a message that was scheduled in the topic.
func (t *sliceTable) publishScheduled(ev *event.ScheduledPublished) {
	topic := t.of(ev.Slice)
	old := topic.must(ev.Sequence, ev)
	if old.marks.state() != Scheduled {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, ev.Sequence, ev.Slice, old.marks.state()))
	}
	body := row{position: old.position, size: old.size, sum: old.sum, enqueuedAt: ev.EnqueuedAt, marks: wasScheduled.moves(old.marks.hops())}
	along := topic.rows.find(ev.Sequence).moveDetails()
	along.origin = cmp.Or(along.origin, ev.NewSequence)
	t.shared.schedule.remove(old.lock)
	topic.remove(ev.Sequence, old)
	topic.takeNumber(ev.NewSequence)
	t.copies(topic, ev.Copies, body, &along)
}

func (t *sliceTable) copies(topic *slice, copies []event.Copy, body row, along *moveDetails) {
	for i := range copies {
		c := &copies[i]
		s := t.of(event.Slice{Entity: c.Subscription, Partition: topic.id.Partition})
		if s.owner == nil {
			s.setOwner(topic)
		}
		s.takeNumber(c.Sequence)
		r := body
		q := event.Main
		if c.Cause != 0 {
			q = event.DeadLetter
		}
		r.expiresAt, r.marks = c.ExpiresAt, r.marks.withState(q, Active).with(ownTTL, c.OwnTTL)
		if c.InSession {
			r.session = s.session(c.SessionID)
		}
		s.store(c.Sequence, r)
		along.give(s, c.Sequence)
		if c.Changes.Size > 0 {
			s.change(c.Sequence, s.rows.edit(&s.shared.versions, c.Sequence), c.Changes)
		}
	}
}

// setOwner makes a topic's slice the owner of a subscription's.
func (s *slice) setOwner(topic *slice) {
	s.owner, s.topic = topic, topic.id.Entity
	topic.owns++
	topic.owned += s.bytes
}
