package index

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Transfer is a message on its way to another entity.
type Transfer struct {
	Slice       event.Slice // slice that it leaves
	Number      event.TransferNumber
	Sequence    event.SequenceNumber
	Destination event.EntityID
	Trigger     event.Trigger
}

// moves answers queries about moving messages.
type moves struct{ slices *sliceTable }

// Movable yields the active messages of a sub-queue that may be forwarded, in sequence order. In
// the dead-letter queue those are the ones that need not stay there.
func (x moves) Movable(id event.Slice, q event.SubQueue) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s := x.slices.find(id)
		if s == nil {
			return
		}
		for c := s.members[q][Active].from(0); c.hasNext(); {
			if !yield(s.message(c.next())) {
				return
			}
		}
	}
}

// NextTransfer returns the number of a slice's next transfer.
func (x moves) NextTransfer(id event.Slice) event.TransferNumber {
	if s := x.slices.find(id); s != nil {
		return s.given + 1
	}
	return 1
}

// OpenTransfers returns how many messages of a slice are in transfer for a reason, and their bytes,
// including property changes.
func (x moves) OpenTransfers(id event.Slice, t event.Trigger) (count int, bytes int64) {
	if s := x.slices.find(id); s != nil && s.moving != nil {
		return s.moving.open[t], s.moving.bytes[t]
	}
	return 0, 0
}

// Transfer finds a message in transfer.
func (x moves) Transfer(id event.Slice, n event.TransferNumber) (Message, Transfer, bool) {
	s := x.slices.find(id)
	if s == nil {
		return Message{}, Transfer{}, false
	}
	slot := s.moving.find(n)
	if slot == 0 {
		return Message{}, Transfer{}, false
	}
	t := x.slices.shared.transfers.at(slot).describe()
	return s.message(t.Sequence), t, true
}

func (t *transfer) describe() Transfer {
	return Transfer{t.slice, t.number, t.sequence, t.destination, t.trigger}
}

// Transfers returns all open transfers, by slice, then by number.
func (x moves) Transfers() (all []Transfer) {
	for _, t := range x.slices.shared.transfers.all() {
		if t.number != 0 {
			all = append(all, t.describe())
		}
	}
	slices.SortFunc(all, func(a, b Transfer) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// LowestOpen returns the smallest number among a slice's open transfers to a destination.
func (x moves) LowestOpen(id event.Slice, destination event.EntityID) (event.TransferNumber, bool) {
	s := x.slices.find(id)
	if s == nil || s.moving == nil || s.moving.to[destination] == nil {
		return 0, false
	}
	n, ok := s.moving.to[destination].numbers.first()
	return event.TransferNumber(n), ok
}

// Arrived reports whether a transfer of another slice has arrived in a slice.
func (x moves) Arrived(id, source event.Slice, n event.TransferNumber) bool {
	s := x.slices.find(id)
	return s != nil && s.arrived.has(source, n)
}

// ArrivalSources returns the slices from which messages arrived in a slice, in order.
func (x moves) ArrivalSources(id event.Slice) (ids []event.Slice) {
	if s := x.slices.find(id); s != nil && s.arrived != nil {
		for _, from := range s.arrived.sources {
			ids = append(ids, from.slice)
		}
	}
	return ids
}

// lockHolds holds and releases locks.
type lockHolds struct{ shared *sharedTables }

// Hold keeps a lock from being due until Unhold is called as often. It is not part of the state: no
// snapshot shows it, and after a replay no lock is held.
func (h lockHolds) Hold(token event.LockToken) {
	if slot := h.shared.locks.find(token); slot != 0 {
		h.shared.locks.hold(slot)
	}
}

// Unhold undoes one [Index.Hold] of a lock, if the lock still exists. A lock whose time has passed
// meanwhile is due at once.
func (h lockHolds) Unhold(token event.LockToken) {
	if slot := h.shared.locks.find(token); slot != 0 {
		h.shared.locks.unhold(slot)
	}
}
