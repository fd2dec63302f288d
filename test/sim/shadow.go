package sim

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// ask is something a client asked for, in a form that both the engine and the shadow are given.
type ask struct {
	op     operation
	tag    uint64
	q      *queue
	dead   bool
	cmd    engine.Command
	rcv    *receiver
	tokens []model.Token // to settle or renew, or never sent (opDetach)
	how    model.Outcome
	change []byte
	sent   []*sent
	limit  uint32
	drain  bool
	from   uint64
	count  int
	limitB int
	props  event.Properties

	asked int64 // broker time
}

// receiver is a receiver link, in the engine and as the shadow sees it.
type receiver struct {
	tag      uint64
	q        *queue
	dead     bool
	delete   bool
	real     *engine.Receiver
	got      uint32 // deliveries that reached the client
	recent   []model.Token
	detached bool // the loop has taken the detach

	assigned, limit uint32
	line            *line
}

// want is a reply that must come.
type want struct {
	tag     uint64
	kind    engine.ReplyKind
	refusal model.Refusal
	ask     *ask
	rcv     *receiver
	at      int64           // time of the decision
	show    []model.Message // what it shows: a delivery, or what was peeked
	until   int64           // of renewed locks
	solid   int             // records that must not be lost to anything once this is seen
	upto    int             // … to the death of the process
}

type line struct {
	q        *queue
	dead     bool
	attached int
	marked   bool
	grants   []grant
}

type grant struct {
	rcv    *receiver
	credit int32
}

// shadow is what the broker's documents say about one loop: which commands are answered when, and whose turn it is
// (wire-protocol.md 4.3: credit is served in the order it arrived).
type shadow struct {
	m      *model.Partition
	w      *world
	p      *part
	marked []*line
	open   []*want
	flying bool
	flight []*want
	sealed int     // records handed to the writer
	back   []*want // deliveries that found their receiver gone
	due    []*want // replies that must have been posted by now
}

func (s *shadow) hold(x want) {
	x.solid, x.upto = s.m.Solid, s.m.Records
	s.open = append(s.open, &x)
}

// turn is what one turn of the loop must do.
func (s *shadow) turn(now int64, asks []*ask) {
	for _, a := range asks {
		s.step(now, a)
	}
	before := s.returned()
	s.m.EndLocks(now)
	s.ready(before)
	s.serveMarked(now)
	s.seal(now)
}

// landed is what hearing of a commit must do.
func (s *shadow) landed(now int64) {
	f := s.flight
	s.flight, s.flying = nil, false
	s.release(f)
	s.takeBack(now)
	s.seal(now)
}

func (s *shadow) returned() (n []int) {
	for _, q := range s.m.Queues {
		n = append(n, q.Returned)
	}
	return n
}

// ready marks the lines of queues to which something came back.
func (s *shadow) ready(before []int) {
	for i, q := range s.m.Queues {
		if q.Returned != before[i] {
			s.mark(s.w.queues[q.ID])
		}
	}
}

func (s *shadow) mark(q *queue) {
	for _, ln := range q.lines {
		if ln != nil {
			s.markLine(ln)
		}
	}
}

func (s *shadow) markLine(ln *line) {
	if !ln.marked && len(ln.grants) > 0 {
		ln.marked = true
		s.marked = append(s.marked, ln)
	}
}

func (s *shadow) step(now int64, a *ask) {
	x := want{tag: a.tag, ask: a, at: now}
	before := s.returned()
	switch a.op {
	case opSend, opBatch:
		var drafts []model.Draft
		for _, m := range a.sent {
			drafts = append(drafts, model.Draft{Body: m.body, TTL: m.ttl})
		}
		x.refusal = s.m.Send(now, a.q.model, drafts)
	case opAttach:
		n := bit(a.dead)
		ln := a.q.lines[n]
		if ln == nil {
			ln = &line{q: a.q, dead: a.dead}
			a.q.lines[n] = ln
		}
		ln.attached++
		a.rcv.line = ln
	case opFlow:
		s.flow(now, a)
	case opDetach:
		s.detach(now, a)
	case opSettle, opSettleMany, opStale:
		x.refusal = s.m.Settle(now, a.q.model, a.dead, a.tokens, a.how, a.change)
	case opRenew:
		x.until, x.refusal = s.m.Renew(now, a.q.model, a.dead, a.tokens)
	case opPeek:
		for _, m := range a.q.model.Peek(a.dead, a.from, a.count, a.limitB) {
			x.show = append(x.show, *m)
		}
	case opUpdate:
		if s.w.decided(a.q) != a.props {
			s.m.Catalogued(now)
			s.w.catalogue = append(s.w.catalogue, setting{s.m.Records, a.q, a.props})
		}
	}
	s.ready(before)
	s.hold(x)
}

func (s *shadow) flow(now int64, a *ask) {
	r := a.rcv
	if r.line == nil {
		return
	}
	r.line.set(r, max(0, int32(a.limit-r.assigned)))
	if !a.drain {
		s.markLine(r.line)
		return
	}
	s.serve(now, r.line)
	r.line.set(r, 0)
	r.assigned, r.limit = a.limit, a.limit
	s.hold(want{tag: r.tag, kind: engine.ReplyDrained, ask: a, rcv: nil, at: now})
}

func (s *shadow) detach(now int64, a *ask) {
	r := a.rcv
	if r.line == nil {
		return
	}
	r.line.set(r, 0)
	ln := r.line
	r.line, r.detached = nil, true
	if ln.attached--; ln.attached == 0 {
		a.q.lines[bit(a.dead)] = nil
	}
	for _, t := range a.tokens {
		s.m.Settle(now, a.q.model, a.dead, []model.Token{t}, model.Release, nil)
	}
}

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

func (s *shadow) serveMarked(now int64) {
	for len(s.marked) > 0 {
		ln := s.marked[0]
		s.serve(now, ln)
		ln.marked = false
		s.marked = s.marked[1:]
	}
}

func (s *shadow) serve(now int64, ln *line) {
	defer ln.trim()
	for i := 0; i < len(ln.grants); {
		g := &ln.grants[i]
		if g.credit == 0 {
			i++
			continue
		}
		before := s.returned()
		m := s.m.Next(now, ln.q.model, ln.dead)
		s.ready(before)
		if m == nil {
			return
		}
		x := want{tag: g.rcv.tag, kind: engine.ReplyDelivery, rcv: g.rcv, at: now, show: []model.Message{*m}}
		if g.rcv.delete {
			s.m.Take(now, ln.q.model, m.Seq)
		} else {
			token := s.p.granted(ln.q, m.Seq)
			s.m.Lock(now, ln.q.model, m.Seq, token)
			x.show[0] = *m
		}
		g.credit--
		g.rcv.assigned++
		x.solid, x.upto = s.m.Solid, s.m.Records
		s.open = append(s.open, &x)
	}
}

// seal hands on what is open, or answers at once when there is nothing to commit before.
func (s *shadow) seal(now int64) {
	if s.flying {
		return
	}
	if s.m.Records == s.sealed {
		open := s.open
		s.open = nil
		s.release(open)
		s.takeBack(now)
		if s.m.Records > s.sealed {
			s.seal(now)
		}
		return
	}
	s.flying, s.flight, s.open, s.sealed = true, s.open, nil, s.m.Records
}

func (s *shadow) release(list []*want) {
	for _, x := range list {
		if x.rcv != nil && x.rcv.detached {
			s.back = append(s.back, x)
			continue
		}
		s.due = append(s.due, x)
	}
}

// takeBack gives up what could not leave: locks are released, what was deleted on receipt is lost (5.2).
func (s *shadow) takeBack(now int64) {
	if len(s.back) == 0 {
		return
	}
	before := s.returned()
	for _, x := range s.back {
		if !x.rcv.delete {
			s.m.Settle(now, x.rcv.q.model, x.rcv.dead, []model.Token{x.show[0].Token}, model.Release, nil)
		}
	}
	s.back = nil
	s.ready(before)
	s.serveMarked(now)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
