package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Removals counts the messages that were removed from a state without having been received: purged,
// deleted in a batch, or deleted with their entity. Between two snapshots with equal Removals there
// were no such removals. It is not part of the state: each [Index] counts its own.
type Removals struct {
	of *int64 // distinguishes indexes
	n  uint64
}

// Removals returns the removals at the time of the snapshot.
func (s *Snapshot) Removals() Removals { return s.removed }

func (r *Removals) many(t *sliceTable, ev *event.MessagesBatchDeleted) {
	r.n++
	t.of(ev.Slice).removeAll(ev, ev.Sequences...)
}

func (r *Removals) slice(t *sliceTable, ev *event.SliceDropped) {
	r.n++
	t.drop(ev.Slice)
}
