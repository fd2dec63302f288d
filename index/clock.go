package index

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Clock is the newest decision about a clock that was far off (reliability.md 1.4).
type Clock struct {
	Number uint64 // number of the decision; 0: there was none
	// Shift is by how much all decisions together moved the instants of this partition, ms.
	// Partitions with the same number have the same shift: their times can be compared.
	Shift int64
}

// Clock returns the newest decision about a clock.
func (x *Index) Clock() Clock { return x.clock }

// setClock moves every instant, including past ones. So ages, remaining times, and the order of any
// two instants stay the same.
func (x *Index) setClock(ev *event.ClockSet) {
	by := ev.To - ev.From
	x.clock = Clock{Number: ev.Number, Shift: x.clock.Shift + int64(by)}
	x.lastAt = ev.To // even where that is earlier
	if by == 0 {
		return
	}
	x.shared.locks.moveTimes(by)
	x.shared.schedule.moveTimes(by)
	for _, s := range x.slices.byID {
		s.own()
		s.moveTimes(by)
	}
	x.Catalogue.moveTimes(by)
}

// moveInstant returns an instant moved by a number of ms. 0, which is no instant, and the end of
// time stay as they are.
func moveInstant(t, by event.Time) event.Time {
	if t == 0 || t == event.EndOfTime {
		return t
	}
	return min(max(t+by, 1), event.EndOfTime-1)
}

func (t *lockTable) moveTimes(by event.Time) {
	t.ends = newDeadlines()
	for slot, l := range t.all() {
		if l.until != 0 {
			l = t.edit(t.versions, slot)
			l.until = moveInstant(l.until, by)
			t.enterEnds(slot)
		}
	}
}

func (t *schedule) moveTimes(by event.Time) {
	t.byAt = t.byAt[:0]
	for slot, s := range t.all() {
		if s.sequence != 0 {
			s = t.edit(t.versions, slot)
			s.at = moveInstant(s.at, by)
			t.enter(slot)
		}
	}
}

func (s *slice) moveTimes(by event.Time) {
	// the walk continues in the old nodes, even if edit has replaced them by copies
	s.rows.root.each(0, func(p place) bool {
		r := s.rows.edit(&s.shared.versions, p.sequence())
		r.enqueuedAt, r.expiresAt = moveInstant(r.enqueuedAt, by), moveInstant(r.expiresAt, by)
		return true
	})
	s.soonest, s.since = moveInstant(s.soonest, by), moveInstant(s.since, by)
	if s.sessions != nil {
		for n := range s.names.records.all() {
			r := s.sessions.edit(n)
			r.setAt = moveInstant(r.setAt, by)
		}
	}
	if s.history != nil {
		s.history.moveTimes(by)
	}
}

func (h *history) moveTimes(by event.Time) {
	was := h.of.seen
	*h = *newHistory(h.of)
	for e := range was.entries {
		e := *e
		e.until = moveInstant(e.until, by)
		h.enter(e)
	}
}

func (c *Catalogue) moveTimes(by event.Time) {
	if c.history != nil {
		h := *c.history
		h.Since = moveInstant(h.Since, by)
		c.history = &h
	}
	for _, e := range c.All() {
		e.CreatedAt, e.UpdatedAt, e.AccessedAt = moveInstant(e.CreatedAt, by), moveInstant(e.UpdatedAt, by), moveInstant(e.AccessedAt, by)
		// may be shared with callers that have the entity
		e.Properties.AccessRules = slices.Clone(e.Properties.AccessRules)
		for i := range e.Properties.AccessRules {
			r := &e.Properties.AccessRules[i]
			r.CreatedAt, r.ModifiedAt = moveInstant(r.CreatedAt, by), moveInstant(r.ModifiedAt, by)
		}
		for i := range e.added {
			r := *e.added[i]
			r.CreatedAt = moveInstant(r.CreatedAt, by)
			e.setRule(c.versions, &r)
		}
		c.put(&e)
	}
}
