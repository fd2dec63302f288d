package servicebus

import (
	"cmp"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// Early connections must not keep out later ones. While memory is short, every connection frees
// what it can. It cannot free links, sessions, answers and output. If these leave less than the
// share that is guaranteed to every connection, the largest connections are closed.

// overuse is the server's knowledge of a connection that has more memory than it may have.
type overuse struct {
	since   time.Time // when it began to have more than it may have; zero: it has not
	evicted bool      // it was told to close
}

// evict closes the largest connections until the guaranteed share of the others is free. A
// connection is closed only after it was told that it has more than it may have and had stuckTime
// to free it, or one second if no memory is left at all. s.mu is held.
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
