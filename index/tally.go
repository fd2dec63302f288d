package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Tally has the counts of an entity's slices, as shown to its manager, now or at an instant of the
// past.
type Tally struct {
	Active             int // in the main queue, including locked and deferred ones
	DeadLetter         int // including those that wait to be forwarded
	TransferDeadLetter int
	Transfer           int // from the main queue to another entity
	Scheduled          int
	Bytes              int64 // of the slices themselves, see [Index.Bytes]
}

// CountSource is the source of a tally's counts: an [Index] or a [Snapshot].
type CountSource interface {
	Count(id event.Slice, q event.SubQueue, st State) int
	Bytes(id event.Slice) int64
}

// Add adds the counts of a slice.
func (t *Tally) Add(x CountSource, id event.Slice) {
	count := func(q event.SubQueue) int {
		return x.Count(id, q, Active) + x.Count(id, q, Locked) + x.Count(id, q, Deferred) + x.Count(id, q, DeferredLocked)
	}
	t.Active += count(event.Main)
	// that is where they wait
	t.DeadLetter += count(event.DeadLetter) + x.Count(id, event.DeadLetter, Transferring)
	t.TransferDeadLetter += count(event.TransferDeadLetter)
	t.Transfer += x.Count(id, event.Main, Transferring)
	t.Scheduled += x.Count(id, event.Main, Scheduled)
	t.Bytes += x.Bytes(id)
}

// AddQueue adds the counts of one sub-queue of a slice; of the main queue, those of the whole
// slice. Bytes are counted for a slice as a whole, so another sub-queue has none.
func (t *Tally) AddQueue(x CountSource, id event.Slice, q event.SubQueue) {
	if q == event.Main {
		t.Add(x, id)
		return
	}
	all := Tally{}
	if all.Add(x, id); q == event.DeadLetter {
		t.DeadLetter += all.DeadLetter
	} else {
		t.TransferDeadLetter += all.TransferDeadLetter
	}
}
