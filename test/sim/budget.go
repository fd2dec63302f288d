package sim

import "github.com/ledgerbus/ledgerbus/log"

// maxUnasked bounds what nobody asked for in one group of frames, in bytes: once for what ends by
// itself, and once more for what comes from other entities. The rest is for a later turn (decision
// 17, P23): rings of topics make more of it than a loop can finish in one.
const maxUnasked = 256 << 10

// budget is how much of that the next group has so far. The log says how large a record is, the
// model which records there must be.
type budget struct {
	background int // ends of locks and of messages, moves that begin and end
	arrived    int // messages from other entities
	counted    int // records that were added up, or need not be
}

// sizes are how large records are.
type sizes struct {
	of    map[int]int // by record, in bytes
	last  int         // the newest that is known
	bytes int         // of the frame it is in, up to that record
	none  int         // … of a frame without any record
}

// Batch is asked for before each record and behind it, so none is missed.
func (t *simWriter) Batch() *log.Batch {
	b, s := t.ManualWriter.Batch(), &t.sizes
	switch n := t.p.appended + b.Count(); {
	case b.Count() == 0:
		s.bytes, s.none = b.Len(), b.Len()
	case n != s.last:
		s.of[n], s.last, s.bytes = b.Len()-s.bytes, n, b.Len()
	}
	return b
}

// skip leaves out what somebody asked for.
func (s *shadow) skip() { s.budget.counted = s.m.Records }

// add is the size of what was decided since.
func (s *shadow) add() (n int) {
	for ; s.budget.counted < s.m.Records; s.budget.counted++ {
		n += s.p.writer.sizes.of[s.budget.counted+1]
	}
	return n
}

// unasked counts what was decided since as what nobody asked for, and reports whether that is
// enough for now.
func (s *shadow) unasked() bool {
	s.budget.background += s.add()
	return s.spent()
}

func (s *shadow) spent() bool { return s.budget.background >= maxUnasked }

// forgetSynced: once nothing waits for a sync, the group holds at most what is in the frame being
// filled.
func (s *shadow) forgetSynced() {
	if s.m.Solid > s.durable {
		return
	}
	n := 0
	for r := s.handed + 1; r <= s.m.Records; r++ {
		n += s.p.writer.sizes.of[r]
	}
	if n > 0 {
		n += s.p.writer.sizes.none
	}
	s.budget.background, s.budget.arrived = min(s.budget.background, n), min(s.budget.arrived, n)
}

// more tells that a turn ended with work for the next one.
func (s *shadow) more() bool {
	return len(s.arrivals) > 0 || len(s.marked) > 0 || len(s.openWaiters) > 0 || len(s.sweepers.running) > 0
}
