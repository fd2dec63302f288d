package servicebus

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
)

// checkBooks compares what connections count as they go with what there is to count, once all of
// them are idle. An error in these counts, something counted twice or never taken out, becomes a
// limit that a peer meets after days.
func checkBooks(t testing.TB, s *Server) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		if c.phase != opened {
			continue // its books are closed
		}
		if m := &c.memory; m.reserved < m.kept() || m.reserved >= m.kept()+(spareUnits+1)*unit {
			t.Errorf("connection %d has taken %d bytes for %d", c.number, m.reserved, m.kept())
		}
		if got, want := c.counted(), c.recount(); got != want {
			t.Errorf("connection %d counts\n%+v, and there are\n%+v", c.number, got, want)
		}
	}
}

// books is all that a connection counts.
type books struct {
	links, detached, names, holders, tokens int
	held, joining, pending                  int
	requests, taking, answered, expected    int
	timed, detaches, unanswered             int
	locked, unsettled, byToken              int
	ends, occupied, staged                  int
}

func (c *conn) counted() books {
	b := books{
		links: c.links.attached, detached: c.links.detached, names: len(c.links.names), holders: len(c.links.holders), held: c.memory.held, joining: c.unfinished.bytes,
		pending: c.pendings.bytes, requests: c.pendings.requests, taking: c.pendings.taking, answered: c.memory.answered, expected: c.pendings.expected, timed: len(c.deadlines.requests),
		detaches: c.pendings.detaches, unanswered: c.pendings.unanswered, locked: c.outstanding.count, byToken: len(c.outstanding.byToken),
		ends: c.pendings.ends, occupied: c.transactions.occupied, staged: c.memory.staged,
	}
	for _, l := range c.links.tokens {
		if l != nil {
			b.tokens++
		}
	}
	for _, s := range c.sessions {
		for _, l := range s.links {
			if l.receiver != nil {
				b.unsettled += l.receiver.unsettled
			}
		}
	}
	return b
}

func (c *conn) recount() (b books) {
	for _, x := range c.transactions.open {
		b.held += transactionCost + len(x.lost)*lostCost
		b.add(x)
	}
	for _, s := range c.sessions {
		b.held += sessionCost
		for range s.unsettled.all() {
			b.locked++
			b.unsettled++
			if c.outstanding.byToken != nil {
				b.byToken++
			}
		}
		for _, l := range s.links {
			b.held += l.held
			if l.detached {
				b.detached++
				continue
			}
			b.links++
			b.names++
			if l.at.cbs {
				b.tokens++
			}
			if l.sender != nil {
				b.joining += l.sender.size
				continue
			}
			for _, a := range l.receiver.answers {
				b.answered += len(a) + answerCost
			}
			if l.receiver.grant != nil {
				b.holders++
			}
		}
	}
	for i := range c.pendings.table {
		p := &c.pendings.table[i]
		b.pending += int(p.size)
		b.expected += int(p.expected)
		switch p.kind {
		case pendingSend, pendingSettle:
			b.unanswered++
		case pendingDetach:
			b.detaches++
		case pendingDischarge:
			b.unanswered++
			b.ends++
			b.add(p.in)
		case pendingRollback:
			b.ends++
			b.add(p.in)
		case pendingRequest:
			b.unanswered++
			b.requests++
			if p.request.takes {
				b.taking++
			}
			if !p.request.deadline.IsZero() {
				b.timed++
			}
		}
	}
	return b
}

// add counts a transaction.
func (b *books) add(x *transaction) {
	if x.entity != 0 {
		b.occupied++
		b.staged += x.bytes
	}
}
