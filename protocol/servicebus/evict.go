package servicebus

import (
	"cmp"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// Who is there first must not keep out whoever comes later. While memory is short every connection gives back what it can, but links, sessions, answers and
// what is on its way to the peer it cannot. Where what is promised to all is missing for that, the connections that have most are closed.

// overuse is what is known, for the server, of how a connection deals with memory that is short.
type overuse struct {
	since   time.Time // it has had more than it may have; zero: it has not
	evicted bool      // it was told to go
}

// evict closes the connections that have most, until those that are left have as much less as is missing. Each was told first that it has more than
// it may have, and had its time to let go of it; when there is nothing left for anybody, one second of it. s.mu is held.
func (s *Server) evict(now time.Time) {
	type holder struct {
		*conn
		beyond int64
	}
	var able []holder
	missing, patience := s.Options.Memory.Missing(), stuckTime
	if s.Options.Memory.Level() == budget.Critical {
		patience = time.Second
	}
	for c := range s.conns {
		beyond := c.memory.share.Beyond()
		switch {
		case c.overuse.evicted:
			missing -= beyond
		case !c.memory.share.Exceeds(0):
			c.overuse.since = time.Time{}
		case c.overuse.since.IsZero():
			c.overuse.since = now
		case now.Sub(c.overuse.since) >= patience:
			able = append(able, holder{c, beyond})
		}
	}
	if missing <= 0 || mutant.On(mutant.NobodyGoes) {
		return
	}
	slices.SortFunc(able, func(a, b holder) int { return cmp.Or(cmp.Compare(b.beyond, a.beyond), cmp.Compare(a.number, b.number)) })
	for _, h := range able {
		if missing <= 0 {
			return
		}
		h.overuse.evicted = true
		missing -= h.beyond
		h.outbox.evict()
	}
}
