//go:build mutants

package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Deliverable is a planted bug: what is in transfer from the main queue of a slice can be received.
func Deliverable(x *Index, id event.Slice) {
	s := x.slices.find(id)
	if s == nil {
		return
	}
	for _, t := range x.Transfers() {
		if t.Slice != id {
			continue
		}
		if r := s.must(t.Sequence, nil); r.marks.subQueue() == event.Main {
			d := departures{s}
			d.land(r.lock, d.stored(t.Sequence, r))
			r.lock = 0
			s.move(t.Sequence, r, Active)
		}
	}
}
