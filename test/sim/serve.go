package sim

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Whose turn it is, as the shadow of a loop has it: credit is served in the order it arrived
// (wire-protocol.md 4.3).

func (ln *line) set(r *receiver, credit int32) {
	more := credit - int32(r.limit-r.assigned)
	r.limit = r.assigned + uint32(credit)
	if more > 0 {
		ln.grants = append(ln.grants, grant{r, more})
	}
	for i := len(ln.grants) - 1; i >= 0 && more < 0; i-- {
		if g := &ln.grants[i]; g.rcv == r {
			n := min(g.credit, -more)
			g.credit -= n
			more += n
		}
	}
	ln.trim()
}

func (ln *line) trim() {
	ln.grants = slices.DeleteFunc(ln.grants, func(g grant) bool { return g.credit <= 0 })
}

// serveAll serves receivers and gives sessions to those that wait, until there is nothing more to
// do.
func (s *shadow) serveAll(now int64) {
	for !s.halted {
		var later []*line
		for len(s.marked) > 0 {
			ln := s.marked[0]
			all := s.serve(now, ln)
			if s.marked = s.marked[1:]; all {
				ln.marked = false
				s.endDrains(now, ln)
			} else {
				later = append(later, ln)
			}
		}
		if s.marked = later; len(s.openWaiters) == 0 || !s.acceptWaiting(now) {
			return
		}
	}
}

// next is the message for a receiver, or nil. The loop takes a token for every record that clears
// expired messages out of the way, and one for the message, unless that is for another turn.
func (s *shadow) next(now int64, r *receiver, q *queue) (m *model.Message, token model.Token, again, cleared bool) {
	before := s.m.Records
	s.skip()
	var lost, enough bool
	if spent := s.m.Spent; r.shared { // whether it still has credit is looked at behind each record
		s.m.Spent = func() bool { enough, cleared = spent(), true; return true }
		defer func() { s.m.Spent = spent }()
	}
	switch {
	case q.model.Dropped:
	case r.real.Session != nil:
		m, lost, again = s.m.NextOf(now, q.model, r.lock)
	default:
		m, again = s.m.Next(now, q.model, r.sub)
	}
	if !r.delete {
		n := s.m.Records - before + 1 - bit(again || lost && s.m.Records > before)
		token = s.p.tokens(q, n)[n-1]
	}
	s.heard()
	if r.shared {
		again = again && enough
	}
	return m, token, again, cleared && !lost
}

// serve reports whether credit or messages ran out; else there is more than one turn should do.
func (s *shadow) serve(now int64, ln *line) (all bool) {
	defer func() { ln.trim() }()
	if len(ln.look) == 0 {
		ln.look = slices.Clone(ln.here)
	}
	yielded := 0
	for r := s.served(ln); r != nil; r = s.served(ln) {
		from := ln.turn()
		if from == nil {
			return true
		}
		if s.yields(ln, r) {
			if yielded++; yielded >= len(ln.grants) {
				return false
			}
			continue
		}
		m, token, again, cleared := s.next(now, r, from)
		switch {
		case m == nil && again:
			return false
		case m == nil && cleared:
			continue
		case m == nil:
			ln.empty(from)
			continue
		case !s.takes(ln, r):
			continue
		}
		ln.last = int(from.slice.Partition)
		x := want{tag: r.tag, kind: engine.ReplyDelivery, q: from, rcv: r, at: now}
		q := from.model
		if r.delete {
			x.showing(q, []*model.Message{m})
			s.m.Take(now, q, m.Seq)
			x.shows = s.m.Solid
		} else {
			s.m.Lock(now, q, m.Seq, token)
			// it also shows that those in front have gone
			if x.showing(q, []*model.Message{m}); r.real.Session != nil {
				x.shows = max(x.shows, q.Cleared)
			}
		}
		r.assigned++
		x.granted = true
		s.tell(r, x, x.shows)
	}
	return true
}
