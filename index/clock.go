package index

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Clock is what an index knows of the decisions about clocks that were far off (reliability.md 1.4).
type Clock struct {
	Number uint64 // of the newest of them; 0: there was none
	// Shift is by how much all of them together moved the instants of this partition, ms. Partitions whose numbers are equal have the
	// same: their times can be compared.
	Shift int64
}

// Clock is the newest decision about a clock.
func (x *Index) Clock() Clock { return x.clock }

// setClock moves every instant there is, those that are past as well: how long something has been there, or has left, stays what it
// was, and so does the order of any two of them.
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
		s.moveTimes(by)
	}
	x.Catalogue.moveTimes(by)
}

// moved is an instant that is later by so much. None stays none, and the end of time where it is.
func moved(t, by event.Time) event.Time {
	if t == 0 || t == event.EndOfTime {
		return t
	}
	return min(max(t+by, 1), event.EndOfTime-1)
}

func (t *lockTable) moveTimes(by event.Time) {
	t.ends = newDeadlines()
	for slot := range t.table {
		if l := &t.table[slot]; l.until != 0 {
			l.until = moved(l.until, by)
			t.ends.add(l.until, uint32(slot))
		}
	}
}

func (t *schedule) moveTimes(by event.Time) {
	t.byAt = t.byAt[:0]
	for slot := range t.table {
		if s := &t.table[slot]; s.sequence != 0 {
			s.at = moved(s.at, by)
			t.enter(uint32(slot))
		}
	}
}

func (s *slice) moveTimes(by event.Time) {
	for _, c := range s.chunks {
		for i := range c.rows {
			r := &c.rows[i]
			r.enqueuedAt, r.expiresAt = moved(r.enqueuedAt, by), moved(r.expiresAt, by)
		}
	}
	s.soonest, s.since = moved(s.soonest, by), moved(s.since, by)
	if s.sessions != nil {
		for _, ses := range s.sessions.table {
			if ses != nil {
				ses.setAt = moved(ses.setAt, by)
			}
		}
	}
	if s.history != nil {
		s.history.moveTimes(by)
	}
}

func (h *history) moveTimes(by event.Time) {
	kept := newHistory()
	for k, e := range h.entries {
		e.until = moved(e.until, by)
		kept.byKey[k] = e
		kept.order = append(kept.order, entry{k, e.until})
	}
	*h = *kept
}

func (c *Catalogue) moveTimes(by event.Time) {
	for _, e := range c.entities {
		e.CreatedAt, e.UpdatedAt, e.AccessedAt = moved(e.CreatedAt, by), moved(e.UpdatedAt, by), moved(e.AccessedAt, by)
		e.Properties.AccessRules = slices.Clone(e.Properties.AccessRules) // may be shared with whoever was given the entity
		for i := range e.Properties.AccessRules {
			r := &e.Properties.AccessRules[i]
			r.CreatedAt, r.ModifiedAt = moved(r.CreatedAt, by), moved(r.ModifiedAt, by)
		}
		if e.rules == nil {
			continue
		}
		for _, r := range e.rules.list {
			r.CreatedAt = moved(r.CreatedAt, by)
		}
	}
}
