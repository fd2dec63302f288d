//go:build mutants

package index

import "github.com/ledgerbus/ledgerbus/log/event"

// leastFailed is a planted bug: of the deliverable messages the one that failed least comes first.
func (t *sessions) leastFailed(ses *session) (first event.SequenceNumber) {
	least := ^uint32(0)
	for _, seq := range ses.members {
		if r := t.of.rows.find(seq).row(); r != nil && r.deliverable() && r.count < least {
			first, least = seq, r.count
		}
	}
	return first
}

// newestLive is half of a planted bug: numbers go on behind the newest message that is still there.
func (s *slice) newestLive() (newest event.SequenceNumber) {
	s.rows.root.each(0, func(p place) bool {
		newest = p.sequence()
		return true
	})
	return newest
}

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
