package index

import (
	"iter"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Soonest returns a time before which no deliverable message of the main queue expires;
// [event.EndOfTime] if none does.
func (x *Index) Soonest(id event.Slice) event.Time {
	if s := x.slices.find(id); s != nil {
		return s.soonest
	}
	return event.EndOfTime
}

// Front returns the expired messages at the head of the main queue, before the first one that has
// not expired, at most limit.
func (x *Index) Front(id event.Slice, now event.Time, limit int) (found []Message) {
	s := x.slices.find(id)
	if s == nil {
		return nil
	}
	for c := s.members[event.Main][Active].from(0); c.hasNext() && len(found) < limit; {
		p := s.rows.find(c.next())
		if r := p.row(); r.expiresAt == 0 || r.expiresAt > now {
			break
		}
		found = append(found, s.describe(p))
	}
	return found
}

// FrontOf does the same as [Index.Front] for one session.
func (x *Index) FrontOf(id event.Slice, name []byte, now event.Time, limit int) (found []Message) {
	s, ses := x.slices.session(id, name)
	if ses == nil || s.sessions.first(ses) == 0 {
		return nil
	}
	for seq := range s.sessions.readyOf(ses) {
		p := s.rows.find(seq)
		if r := p.row(); r.expiresAt == 0 || r.expiresAt > now || len(found) == limit {
			break
		}
		found = append(found, s.describe(p))
	}
	return found
}

// readyOf yields the deliverable messages of a session from the first one on.
func (t *sessions) readyOf(ses *session) iter.Seq[event.SequenceNumber] {
	return func(yield func(event.SequenceNumber) bool) {
		if ses.ready != nil {
			for it := ses.ready.Iterator(); it.HasNext() && yield(event.SequenceNumber(it.Next())); {
			}
			return
		}
		for _, seq := range ses.members[ses.from:] {
			if t.deliverable(seq) && !yield(seq) {
				return
			}
		}
	}
}

// Sweep is one pass over the deliverable messages of a slice's main queue to find expired ones, in
// steps.
type Sweep struct {
	Slice   event.Slice
	next    event.SequenceNumber
	soonest event.Time // of the examined ones that have not expired
	begun   bool
}

// Step examines up to examine messages and returns the expired ones, at most limit. done means that
// the pass is complete. Then the slice knows when to look again: unlike other queries, a step
// stores its result.
func (x *Index) Step(w *Sweep, now event.Time, examine, limit int) (found []Message, done bool) {
	s := x.slices.find(w.Slice)
	if s == nil {
		return nil, true
	}
	if !w.begun {
		w.begun, w.soonest = true, event.EndOfTime
		s.since = event.EndOfTime // messages added from now on make it earlier
	}
	c := s.members[event.Main][Active].from(w.next)
	for ; examine > 0 && len(found) < limit && c.hasNext(); examine-- {
		seq := c.next()
		w.next = seq + 1
		p := s.rows.find(seq)
		switch r := p.row(); {
		case r.expiresAt == 0:
		case r.expiresAt <= now:
			found = append(found, s.describe(p))
		default:
			w.soonest = min(w.soonest, r.expiresAt)
		}
	}
	if c.hasNext() {
		return found, false
	}
	s.soonest = min(s.since, w.soonest) // an incomplete pass leaves it unchanged
	return found, true
}
