package sim

import (
	"cmp"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// sessionWaiters is the shadow of the receivers of a session queue: who holds which session, and
// who waits for one (8.3).
type sessionWaiters struct {
	q        *queue
	held     map[sessionOf]*line
	waits    []*wait
	attached int
	marked   bool
	look     []*queue // partitions in which a session may have become available
}

// sessionOf is a session of a partition.
type sessionOf struct {
	q  *queue
	id string
}

// wait is a receiver that waits for the next available session.
type wait struct {
	a     *ask
	until int64
	over  bool
}

func (s *shadow) attachSession(now int64, a *ask) {
	h := s.sessionWaiters[a.q]
	if h == nil {
		h = &sessionWaiters{q: a.q, held: map[sessionOf]*line{}}
		s.sessionWaiters[a.q] = h
	}
	h.attached++
	w := &wait{a: a, until: now + a.wait}
	a.rcv.there = true
	if len(a.rcv.from()) == 0 {
		return // it is only counted here
	}
	a.rcv.wait = w
	var answered, again bool
	if a.session != nil || len(h.waits) == 0 {
		answered, again = s.acceptFor(now, h, w, a.rcv.from())
	}
	if !answered {
		h.waits = append(h.waits, w)
		if !a.rcv.shared || s.looks(a.rcv).Looking == 1 { // all others have looked
			s.waits = append(s.waits, w)
		}
	}
	if again {
		for _, q := range a.rcv.from() {
			s.markWaiters(h, q)
		}
	}
}

// acceptFor tries to give a session of some partitions, and reports whether there was an answer,
// here or in another log, or so much has expired that others have their turn first.
func (s *shadow) acceptFor(now int64, h *sessionWaiters, w *wait, in []*queue) (answered, again bool) {
	r := w.a.rcv
	if s.halted {
		return false, true
	}
	for _, q := range in {
		if r.shared && s.looks(r).Spoken {
			break
		}
		if answered, again = s.acceptIn(now, h, w, q); answered || again {
			return answered, again
		}
	}
	if r.shared && s.looks(r).Spoken {
		w.over, r.wait = true, nil
		return true, false
	}
	return false, false
}

// acceptIn is acceptFor for one partition.
func (s *shadow) acceptIn(now int64, h *sessionWaiters, w *wait, q *queue) (answered, again bool) {
	a := w.a
	x := want{tag: a.tag, ask: a, q: q, at: now, lock: s.p.tokens(q, 1)[0]}
	var id string
	got, shows := false, s.m.Solid
	may := func() bool { return !a.rcv.shared || !s.looks(a.rcv).Spoken }
	if q.model.Dropped {
		if x.refusal = model.NoEntity; !may() {
			return false, false
		}
	} else {
		s.skip()
		var mine bool
		id, x.until, got, again, x.refusal, mine = s.m.AcceptIf(now, q.model, a.session, x.lock, may)
		s.heard()
		if !mine {
			return false, false
		}
		if shows = s.m.Solid; got {
			shows = q.model.Shows(id, a.session != nil)
		}
	}
	switch {
	case x.refusal != model.Accepted:
		s.leaveWaiters(h, a.rcv)
	case !got:
		return false, again
	default:
		ln := &line{q: q, holder: a.rcv, here: []*queue{q}}
		h.held[sessionOf{q, id}] = ln
		a.rcv.line, a.rcv.wait, a.rcv.session, a.rcv.lock = ln, nil, id, x.lock
		x.session = &id
	}
	w.over = true
	s.tell(a.rcv, x, shows)
	return true, false
}

func (s *shadow) leaveWaiters(h *sessionWaiters, r *receiver) {
	r.wait, r.there = nil, false
	h.attached--
	s.mayForget(h.q)
}

// mayForget forgets who waits for sessions when nobody at all is attached to the entity. While
// somebody is, perhaps at its dead letters, the entity stays marked even if those for whom
// something came have left: whoever waits next is looked at once more.
func (s *shadow) mayForget(q *queue) {
	if h := s.sessionWaiters[q]; h != nil && h.attached == 0 && !q.attended() {
		delete(s.sessionWaiters, q)
	}
}

func (s *shadow) giveUp(now int64, w *wait) {
	w.over = true
	if r := w.a.rcv; r.shared && s.looks(r).Spoken { // another has one for it
		h := s.sessionWaiters[w.a.q]
		h.waits = slices.DeleteFunc(h.waits, func(o *wait) bool { return o == w })
		r.wait = nil
		return
	}
	h := s.sessionWaiters[w.a.q]
	h.waits = slices.DeleteFunc(h.waits, func(o *wait) bool { return o == w })
	s.leaveWaiters(h, w.a.rcv)
	s.tell(w.a.rcv, want{tag: w.a.tag, ask: w.a, at: now, refusal: model.TimedOut}, s.m.Solid)
}

func (s *shadow) endWaits(now int64) {
	slices.SortStableFunc(s.waits, func(a, b *wait) int { return cmp.Compare(a.until, b.until) })
	for i, w := range s.waits {
		// of those that end together any may be the first
		for k := i; k < len(s.waits) && s.waits[k].until == w.until && len(s.p.looks) > 0; k++ {
			if o := s.waits[k]; !o.over && o.a.rcv.client() == s.p.looks[0].r {
				s.waits[i], s.waits[k], w = o, w, o
				break
			}
		}
		// there may be a session for it yet
		if !w.over && w.until <= now && (s.halted || !s.sessionWaiters[w.a.q].marked) {
			s.giveUp(now, w)
		}
	}
	s.waits = slices.DeleteFunc(s.waits, func(w *wait) bool { return w.over })
}

func (s *shadow) markWaiters(h *sessionWaiters, q *queue) {
	if len(h.waits) == 0 {
		return
	}
	if !slices.Contains(h.look, q) {
		h.look = append(h.look, q)
		slices.SortFunc(h.look, byPartition)
	}
	if !h.marked {
		h.marked = true
		s.openWaiters = append(s.openWaiters, h)
	}
}

// acceptWaiting gives sessions to those that wait. It reports whether it came to an end.
func (s *shadow) acceptWaiting(now int64) bool {
	for len(s.openWaiters) > 0 {
		h := s.openWaiters[0]
		for len(h.waits) > 0 {
			first := h.waits[0]
			answered, again := s.acceptFor(now, h, first, first.a.rcv.among(h.look))
			if again {
				return false
			}
			if !answered {
				break
			}
			h.waits = h.waits[1:]
		}
		h.marked, h.look = false, nil
		s.openWaiters = s.openWaiters[1:]
	}
	return true
}

// arrived marks who may get a message of a session.
func (s *shadow) arrived(h *sessionWaiters, q *queue, session string) {
	if ln := h.held[sessionOf{q, session}]; ln != nil {
		ln.wakes(q)
		s.markLine(ln)
	} else {
		s.markWaiters(h, q)
	}
}

func (s *shadow) sessionEnded(h *sessionWaiters, q *queue, id string) {
	if ln := h.held[sessionOf{q, id}]; ln != nil {
		r := ln.holder
		s.leaveSession(h, r)
		s.tell(r, want{tag: r.tag, kind: engine.ReplyEnded, refusal: model.SessionLost, ask: &ask{op: opEnded, q: r.q, rcv: r}}, s.m.Solid)
	}
	if s.sessionWaiters[h.q] != nil {
		s.markWaiters(h, q)
	}
}

func (s *shadow) leaveSession(h *sessionWaiters, r *receiver) {
	r.line.revoke(r, r.line.queued(r))
	delete(h.held, sessionOf{r.line.q, r.session})
	s.deactivate(r)
	r.line = nil
	s.leaveWaiters(h, r)
}

// deactivate stops counting a receiver that has asked for messages.
func (s *shadow) deactivate(r *receiver) {
	if r.hasPulled {
		r.hasPulled = false
		for _, q := range r.from() {
			s.sweepers.detached(q)
		}
	}
}

func (s *shadow) detachSession(now int64, r *receiver) {
	if r.wait != nil {
		s.giveUp(now, r.wait)
	}
	if !r.there {
		return
	}
	if r.line == nil { // another has its session, or it is only counted here
		s.leaveWaiters(s.sessionWaiters[r.q], r)
		return
	}
	q := r.line.q
	s.leaveSession(s.sessionWaiters[r.q], r)
	if !q.model.Dropped {
		s.m.Close(now, q.model, r.lock)
		s.heard()
	}
}

// sweepers is the shadow of what looks for expired messages in queues that have receivers: a pass
// begins when something has expired, and a second after the one before at the earliest (7.4).
type sweepers struct {
	list    []*sweeper
	running []*sweeper
	next    int64
}

type sweeper struct {
	q         *queue
	receivers int
	after     int64
	runs      bool
	begun     bool // a step was taken
	pass      model.Sweep
}

const sweepEvery = 1000 // ms

func (s *sweepers) find(q *queue) *sweeper {
	for _, w := range s.list {
		if w.q == q {
			return w
		}
	}
	return nil
}

func (s *sweepers) attached(q *queue) {
	w := s.find(q)
	if w == nil {
		w = &sweeper{q: q}
		s.list, s.next = append(s.list, w), 1
	}
	w.receivers++
}

func (s *sweepers) detached(q *queue) {
	w := s.find(q)
	if w.receivers--; w.receivers == 0 {
		same := func(o *sweeper) bool { return o == w }
		s.list, s.running = slices.DeleteFunc(s.list, same), slices.DeleteFunc(s.running, same)
	}
}

func (s *sweepers) stored(q *queue) {
	if w := s.find(q); w != nil && !w.runs && q.soonest != 0 {
		s.soon(w)
	}
}

func (s *sweepers) soon(w *sweeper) {
	if at := max(w.q.soonest, w.after); s.next == 0 || at < s.next {
		s.next = at
	}
}

// sweep begins the passes that are due, and makes one.
func (s *shadow) sweep(now int64) {
	sw := &s.sweepers
	if sw.next != 0 && sw.next <= now {
		sw.next = 0
		for _, w := range sw.list {
			switch {
			case w.runs || w.q.soonest == 0:
			case w.q.soonest <= now && w.after <= now:
				w.runs, w.pass = true, model.Sweep{}
				sw.running = append(sw.running, w)
			default:
				sw.soon(w)
			}
		}
	}
	if len(sw.running) == 0 || s.spent() {
		return
	}
	s.skip()
	w := sw.running[0]
	if !w.begun {
		w.begun, w.q.soonest = true, 0 // what comes from now on makes it earlier
	}
	if !w.q.model.Dropped {
		before := len(w.q.model.Live)
		done := s.m.Sweep(now, w.q.model, &w.pass)
		s.unasked()
		s.w.stats.Swept += int64(before - len(w.q.model.Live))
		if s.heard(); !done {
			return
		}
		if at := w.pass.Soonest; at != 0 && (w.q.soonest == 0 || at < w.q.soonest) {
			w.q.soonest = at
		}
	}
	w.runs, w.begun, w.after = false, false, now+sweepEvery
	sw.running = sw.running[1:]
	if w.q.soonest != 0 {
		sw.soon(w)
	}
}

// deadline is when the loop next has something to do without being asked; 0 is never.
func (s *shadow) deadline() (next int64) {
	soon := func(at int64) {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	soon(s.m.Deadline())
	for _, w := range s.waits {
		if !w.over {
			soon(w.until)
		}
	}
	soon(s.sweepers.next)
	soon(s.facts.by)
	if len(s.facts.windows) > 0 {
		soon(s.facts.windows[0].since + window)
	}
	return next
}

// late finds a message that has expired although its queue has receivers and the last pass is a
// second ago.
func (s *shadow) late(now int64) (*queue, *model.Message) {
	if next := s.sweepers.next; next != 0 && next <= now {
		return nil, nil // one has just come: the loop comes back at once
	}
	for _, w := range s.sweepers.list {
		if w.q.model.Dropped || w.runs || w.after > now {
			continue
		}
		for _, m := range w.q.model.Live {
			if m.State == model.Active && !m.Dead && m.ExpiresAt != 0 && m.ExpiresAt <= now {
				return w.q, m
			}
		}
	}
	return nil, nil
}
