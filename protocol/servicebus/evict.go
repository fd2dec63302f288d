package servicebus

import (
	"cmp"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// Those who came first must not keep out those who come later. While memory is short every
// connection gives back what it can; links, sessions, answers and what is on its way to the peer it
// cannot give back. Where these leave less than what is promised to every connection, the
// connections that have most are closed.

// overuse is what the server knows of a connection that has more memory than it may have.
type overuse struct {
	since   time.Time // it has had more than it may have; zero: it has not
	evicted bool      // it was told to go
}

// evict closes the connections that have most, until the others have room for what is promised to
// them. Each was told first that it has more than it may have, and was given stuckTime to let go of
// it; or one second, when there is nothing left for anybody. s.mu is held.
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
	if missing <= 0 {
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
