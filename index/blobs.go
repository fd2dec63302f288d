package index

import (
	"iter"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Blobs yields all data in the log that the state refers to: bodies of messages in every state and
// sub-queue, the changes of their properties, and the states of sessions. A body that several
// messages share is yielded once for each. No later state refers to anything else that was in the
// log when the snapshot was taken (docs/decisions/0050).
func (s *Snapshot) Blobs() iter.Seq[event.Blob] {
	return func(yield func(event.Blob) bool) {
		for _, k := range s.slices.all() {
			if *k != nil && !(*k).blobs(yield) {
				return
			}
		}
	}
}

// blobs yields the blobs of a slice, and reports whether it yielded all of them.
func (k *keptSlice) blobs(yield func(event.Blob) bool) bool {
	if k.names != nil {
		for _, r := range k.names.records.all() {
			if r.there && r.set && r.state.size > 0 && !yield(r.state.blob()) {
				return false
			}
		}
	}
	return k.rows.root.each(0, func(p place) bool {
		r := p.row()
		if r.marks.has(changed) {
			for _, b := range p.changes() {
				if !yield(b) {
					return false
				}
			}
		}
		return r.size == 0 || yield(event.Blob{Position: r.position, Size: r.size, Sum: r.sum})
	})
}
