package sim

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// What the shadow knows of receivers without a session: that they are there, what they ask for, and
// that they leave.

// attended reports whether somebody is attached to a sub-queue.
func (q *queue) attended() bool {
	return slices.ContainsFunc(q.lines[:], func(ln *line) bool { return ln != nil })
}

func (s *shadow) attach(a *ask, x want) {
	ln := a.q.lines[a.sub]
	if ln == nil && len(a.rcv.from()) > 0 {
		ln = &line{q: a.q, sub: a.sub, here: a.rcv.from()}
		a.q.lines[a.sub] = ln
	}
	if len(a.rcv.from()) > 0 {
		ln.attached++
		a.rcv.line = ln
	}
	a.rcv.there = true
	if a.rcv.shared {
		x.joint = a.of
	}
	s.tell(a.rcv, x, 0)
}

func (s *shadow) flow(now int64, a *ask) {
	r := a.rcv
	ln := r.line
	if ln == nil {
		return
	}
	var credit int32
	if r.shared {
		credit = s.sharedFlow(ln, a)
	} else {
		// the newest flow counts
		ln.drains = slices.DeleteFunc(ln.drains, func(d *ask) bool { return d.rcv == r })
		credit = max(0, int32(a.limit-r.assigned))
		ln.set(r, credit)
	}
	if credit > 0 && !r.hasPulled && r.sub == model.Main {
		r.hasPulled = true
		for _, q := range r.from() {
			s.sweepers.attached(q)
		}
	}
	ln.look = slices.Clone(ln.here)
	if !a.drain {
		s.markLine(ln)
		return
	}
	ln.drains = append(ln.drains, a)
	if (!s.halted || len(ln.grants) == 0) && s.serve(now, ln) {
		s.endDrains(now, ln)
	} else {
		s.markLine(ln)
	}
}

// endDrains answers those who give up what is left of their credit.
func (s *shadow) endDrains(now int64, ln *line) {
	for _, a := range ln.drains {
		r := a.rcv
		if r.line != ln {
			continue // it lost its session, or has gone
		}
		if r.shared {
			s.sharedDrain(now, ln, a)
			continue
		}
		ln.set(r, 0)
		r.assigned, r.limit = a.limit, a.limit
		s.tell(r, want{tag: r.tag, kind: engine.ReplyDrained, ask: a, rcv: nil, at: now}, s.m.Solid)
	}
	ln.drains = nil
}

func (s *shadow) detach(now int64, a *ask) {
	r := a.rcv
	if r.shared && r.there {
		s.looks(r)
	}
	if r.real.Session != nil {
		s.detachSession(now, r)
		return
	}
	r.there = false
	if r.line == nil {
		return
	}
	r.line.revoke(r, r.line.queued(r))
	ln := r.line
	r.line = nil
	s.deactivate(r)
	if ln.attached--; ln.attached == 0 {
		a.q.lines[a.sub] = nil
		s.mayForget(a.q)
	}
	for _, t := range a.tokens {
		q := r.q.whole.ofToken(t)
		if !r.shared || slices.Contains(r.from(), q) {
			s.putBack(now, r, q, t)
		}
	}
}

func (s *shadow) putBack(now int64, r *receiver, q *queue, t model.Token) {
	if !q.model.Dropped {
		s.m.Settle(now, q.model, r.sub, []model.Token{t}, model.Release, model.Change{}, []int{0})
		s.heard()
	}
}

// detached is told behind all that was told before, by the last port.
func (s *shadow) detached(a *ask, x want) {
	if a.rcv.shared {
		x.joint = a.of
	}
	s.tell(a.rcv, x, s.m.Solid)
}
