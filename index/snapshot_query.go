package index

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Queries of a snapshot have the results that the index had when it was taken. Their cost may
// depend on the number of messages in the slice, because a snapshot has none of the owner's search
// structures.

// LastAt returns the time of the newest record applied.
func (s *Snapshot) LastAt() event.Time { return s.lastAt }

// Entities returns the entities of the catalogue, by id: a topic comes before its subscriptions.
func (s *Snapshot) Entities() []Entity { return sortedEntities(&s.entities) }

// Slices returns the existing slices, in order.
func (s *Snapshot) Slices() (ids []event.Slice) {
	for _, k := range s.sortedSlices() {
		ids = append(ids, k.id)
	}
	return ids
}

// Live returns the number of live messages in all slices.
func (s *Snapshot) Live() (n int) {
	for _, k := range s.byID() {
		n += k.live()
	}
	return n
}

// Count returns the number of messages of a sub-queue in a state.
func (s *Snapshot) Count(id event.Slice, q event.SubQueue, st State) int {
	if k := s.byID()[id]; k != nil {
		return int(k.count[q][st])
	}
	return 0
}

// Bytes returns the same as [Index.Bytes].
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

// All yields the messages of a sub-queue in sequence order from a number on, in every state: also
// messages in transfer, which Browse leaves out. Unlike Browse it finds the slice without a map of
// all, for callers with one question to a snapshot.
func (s *Snapshot) All(id event.Slice, q event.SubQueue, from event.SequenceNumber) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		k := s.find(id)
		if k == nil {
			return
		}
		k.rows.root.each(from, func(p place) bool {
			return p.row().marks.subQueue() != q || yield(k.describe(p, &s.schedule, &s.locks))
		})
	}
}

// find returns the kept part of a slice, without a map of all; nil: there is none.
func (s *Snapshot) find(id event.Slice) *keptSlice {
	for _, k := range s.slices.all() {
		if *k != nil && (*k).id == id {
			return *k
		}
	}
	return nil
}

// FirstSessions returns the first n sessions of a slice after an id, by id, and the number of all
// sessions of the slice. nil is before every id.
func (s *Snapshot) FirstSessions(id event.Slice, after *string, n int) (first []Session, total int) {
	k := s.find(id)
	if k == nil || k.names == nil {
		return nil, 0
	}
	name := func(slot uint32) string { return k.names.records.at(slot).id }
	var slots []uint32 // of the first ones, by id
	for slot, r := range k.names.records.all() {
		if !r.there {
			continue
		}
		total++
		if after != nil && r.id <= *after || len(slots) == n && r.id > name(slots[n-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(slots, r.id, func(slot uint32, id string) int { return cmp.Compare(name(slot), id) })
		if slots = slices.Insert(slots, at, slot); len(slots) > n {
			slots = slots[:n]
		}
	}
	places := make([]int32, k.names.records.end) // indexes into first, by slot, from 1
	for i, slot := range slots {
		first = append(first, k.names.describe(slot, &s.locks))
		places[slot] = int32(i + 1)
	}
	k.rows.root.each(0, func(p place) bool {
		switch r := p.row(); {
		case r.session == 0 || places[r.session] == 0:
		case r.deliverable():
			first[places[r.session]-1].Active++
		case r.locked():
			first[places[r.session]-1].Locked++
		}
		return true
	})
	return first, total
}

// Sessions returns the sessions of a slice, by id.
func (s *Snapshot) Sessions(id event.Slice) (all []Session) {
	k := s.byID()[id]
	if k == nil || k.names == nil {
		return nil
	}
	at := make([]int, k.names.records.end) // indexes into all, by slot
	for _, slot := range k.names.sortedSlots() {
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
