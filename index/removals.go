package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Removals stands for all that was removed from a state without having been received: purged,
// deleted in a batch, or gone with its entity. Between two snapshots with equal Removals nothing
// was removed so. It is not part of the state: each [Index] counts its own.
type Removals struct {
	of *int64 // tells those of one index from those of another
	n  uint64
}

// Removals are those that the snapshot shows.
func (s *Snapshot) Removals() Removals { return s.removed }

func (r *Removals) many(t *sliceTable, ev *event.MessagesBatchDeleted) {
	r.n++
	t.of(ev.Slice).removeAll(ev, ev.Sequences...)
}

func (r *Removals) slice(t *sliceTable, ev *event.SliceDropped) {
	r.n++
	t.drop(ev.Slice)
}
