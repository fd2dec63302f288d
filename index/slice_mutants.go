//go:build mutants

package index

import "github.com/ledgerbus/ledgerbus/log/event"

// leastFailed is a planted bug: of the deliverable messages the one that failed least comes first.
func (t *sessions) leastFailed(ses *session) (first event.SequenceNumber) {
	least := ^uint32(0)
	for _, seq := range ses.members {
		if r := t.rows.find(seq); r != nil && r.deliverable() && r.count < least {
			first, least = seq, r.count
		}
	}
	return first
}

// newestLive is half of a planted bug: numbers go on behind the newest message that is still there.
func (s *slice) newestLive() (newest event.SequenceNumber) {
	for q := range s.members {
		for _, b := range s.members[q] {
			if b != nil && !b.IsEmpty() {
				newest = max(newest, event.SequenceNumber(b.Maximum()))
			}
		}
	}
	return newest
}
