package index

import (
	"iter"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Questions to a snapshot have the answers that the index had when it was taken. What they cost may
// depend on how many messages the slice has, since a snapshot has none of the owner's structures
// for finding things.

// LastAt is the time of the newest record applied.
func (s *Snapshot) LastAt() event.Time { return s.lastAt }

// Entities are those of the catalogue, by id: a topic comes before its subscriptions.
func (s *Snapshot) Entities() []Entity { return sortedEntities(&s.entities) }

// Slices are the slices there are, in order.
func (s *Snapshot) Slices() (ids []event.Slice) {
	for _, k := range s.sorted() {
		ids = append(ids, k.id)
	}
	return ids
}

// Live is the number of messages there are, in all slices.
func (s *Snapshot) Live() (n int) {
	for _, k := range s.byID() {
		n += k.live()
	}
	return n
}

// Count is the number of messages of a sub-queue in a state.
func (s *Snapshot) Count(id event.Slice, q event.SubQueue, st State) int {
	if k := s.byID()[id]; k != nil {
		return int(k.count[q][st])
	}
	return 0
}

// Bytes is what [Index.Bytes] is.
func (s *Snapshot) Bytes(id event.Slice) (n int64) {
	k := s.byID()[id]
	if k == nil {
		return 0
	}
	n = k.bytes
	for _, o := range s.byID() {
		if o.topic == id.Entity && o.id.Partition == id.Partition {
			n += o.bytes
		}
	}
	return n
}

// Message finds a live message.
func (s *Snapshot) Message(id event.Slice, seq event.SequenceNumber) (Message, bool) {
	k := s.byID()[id]
	if k == nil {
		return Message{}, false
	}
	p := k.rows.find(seq)
	if p.leaf == nil {
		return Message{}, false
	}
	return k.describe(p, &s.schedule, &s.locks), true
}

// Browse yields the messages of a sub-queue in sequence order from a number on, as [Index.Browse]
// does.
func (s *Snapshot) Browse(id event.Slice, q event.SubQueue, from event.SequenceNumber) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		k := s.byID()[id]
		if k == nil {
			return
		}
		k.rows.root.each(from, func(p place) bool {
			return !p.row().isShownIn(q) || yield(k.describe(p, &s.schedule, &s.locks))
		})
	}
}

// Sessions are those of a slice, by id.
func (s *Snapshot) Sessions(id event.Slice) (all []Session) {
	k := s.byID()[id]
	if k == nil || k.names == nil {
		return nil
	}
	at := make([]int, k.names.records.end) // in all, by slot
	for _, slot := range k.names.sorted() {
		at[slot] = len(all)
		all = append(all, k.names.describe(slot, &s.locks))
	}
	k.rows.root.each(0, func(p place) bool {
		switch r := p.row(); {
		case r.session == 0:
		case r.deliverable():
			all[at[r.session]].Active++
		case r.locked():
			all[at[r.session]].Locked++
		}
		return true
	})
	return all
}
