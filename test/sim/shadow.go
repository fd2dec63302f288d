package sim

import (
	"slices"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// ask is something a client asked for, in a form that both the engine and the shadow are given.
type ask struct {
	op     operation
	tag    uint64
	q      *queue
	sub    model.Sub
	cmd    engine.Command
	rcv    *receiver
	tokens []model.Token // to settle or renew, or never sent (opDetach)
	how    model.Outcome
	change model.Change
	read   []int        // bytes of the messages beside their bodies; nil: not looked at
	done   *atomic.Bool // its client has read what the answer points to
	sent   []*sent
	to     *queue // that what is sent is for, through q; nil: it stays
	limit  uint32
	drain  bool
	from   uint64
	count  int
	limitB int
	props  event.Properties

	rules         []model.Rule   // opUpdate: to be made with; opEnforce: in force from now on
	rule          model.Rule     // opPutRule, opDropRule
	subscriptions []*queue       // opDelete: subscriptions that end with their topic
	entity        *engine.Entity // opEnforce

	seqs    []uint64         // opRecall, opCancel
	deletes bool             // opRecall: taken for good
	session *string          // the named one; nil: none, or the next available
	wait    int64            // opAccept, ms
	token   model.Token      // of a session lock
	state   []byte           // nil: cleared
	txn     *transaction     // that it is part of, or ends; nil: none
	alone   engine.Command   // what would be asked for without one
	cause   event.AbortCause // opRollback
	before  int64            // opPurge; 0: now
	since   int64            // opList
	all     bool
	skip    int

	// opOrder: where its messages go, and its dead letters; nil: they stay
	orders [2]*event.EntityID
	offer  *offered // opImport

	of    *ask        // by a receiver that has several ports: what was asked of all of them
	joint jointAnswer // … and how far that is
	// opSend, opBatch: partitions that it was refused in before anybody looked at it
	tried []int
	left  *int // opEnforce: logs in which it is not in force

	asked int64 // broker time
}

// receiver is a receiver link, in the engine and as the shadow sees it.
type receiver struct {
	tag     uint64
	q       *queue
	sub     model.Sub
	delete  bool
	real    *engine.Receiver
	got     uint32 // deliveries that reached the client
	recent  []model.Token
	leaving bool // a detach was asked for

	assigned, limit uint32
	hasPulled       bool  // it has had credit: something may expire
	line            *line // nil: not attached any more, or not yet
	wait            *wait // for a session
	session         string
	lock            model.Token // of the session
	shown           int         // records that must be durable before it is told anything more

	port
	ports   []*receiver // of one of an entity with several partitions: what it is in each log
	granted bool        // … and it has a session
	largest uint32      // limit of its flows
	newest  *ask        // of its flows
	mail    mail        // to its client
}

// mail is what is on its way to the client of a receiver with several ports. What a loop that
// stands still has posted is looked at only when the loop is done; by then, what others have posted
// after it may have been looked at already.
type mail struct {
	posted, read int // deliveries
	// for each end of a drain that was posted and not read: deliveries posted before it
	drains []int
	// deliveries posted before the end of a drain that was read before them: the limit of that
	// counts them
	early int
}

// want is a reply that must come.
type want struct {
	tag       uint64
	kind      engine.ReplyKind
	refusal   model.Refusal
	ask       *ask
	q         *queue    // partition of an entity that it concerns; nil: that of the ask
	joint     *ask      // all ports answer this together; nil: it is answered by itself
	answers   *receiver // a port's answer to a drain, which counts when it leaves; nil: it is none
	rcv       *receiver
	at        int64           // time of the decision
	mono      int64           // … by the clock nobody can set, ms
	show      []model.Message // what it shows: a delivery, what was peeked, or taken by number
	numbers   []uint64        // of messages sent
	until     int64           // of renewed locks, or of a session
	session   *string         // that was accepted
	lock      model.Token     // … with this lock
	state     []byte          // of a session
	ids       []string        // of sessions
	n         int             // deleted
	committed []model.Landing // opImport
	busy      []*queue        // in use by themselves
	granted   bool            // it locks or renews
	unwritten bool            // it was staged, without numbers
	// record that is the newest of what it shows, locks and renewals apart
	shows int
	solid int // records that must not be lost to anything once this is seen
	upto  int // … to the death of the process
}

type line struct {
	q        *queue // the site of the entity, or the partition of the session
	sub      model.Sub
	here     []*queue  // partitions that it has messages of
	look     []*queue  // … in which there may be something
	last     int       // the one that had the last turn; -1: none
	holder   *receiver // of the session the line is for; nil for a sub-queue
	attached int
	marked   bool
	grants   []grant
	drains   []*ask // that are answered when there is nothing more
}

type grant struct {
	rcv    *receiver
	credit int32
}

// shadow is what the broker's documents say about one loop: which commands are answered when, and
// whose turn it is (wire-protocol.md 4.3: credit is served in the order it arrived).
type shadow struct {
	m              *model.Partition
	w              *world
	p              *part
	marked         []*line
	sessionWaiters map[*queue]*sessionWaiters
	openWaiters    []*sessionWaiters
	waits          []*wait
	sweepers       sweepers
	waiting        []*want
	handed         int     // records in frames that were given to the writer
	marks                  // how far they are in the log, as the loop saw it last
	asked          int     // records that are being synced; 0: none are
	back           []*want // deliveries that found their receiver gone
	due            []*want // replies that must have been posted by now
	facts          facts
	orders         map[orderKey]*order
	ready          []*order   // that have something to do, maybe
	arrivals       []*offered // that were taken and wait for room
	budget         budget
	halted         bool // the disk hangs: nobody is served
}

// marks are how many records are written, and durable.
type marks struct{ written, durable int }

func newShadow(w *world, p *part) *shadow {
	p.model.Written = p.model.Records
	p.model.NewID = func() model.Token {
		if len(p.issued) == 0 && p.loop.Err() != nil {
			return model.Token{} // the loop did not come that far
		}
		return p.ids()
	}
	n := p.model.Records
	p.model.Lost()
	p.reached = marks{n, n}
	s := &shadow{m: p.model, w: w, p: p, handed: n, marks: marks{n, n}, sessionWaiters: map[*queue]*sessionWaiters{}, orders: map[orderKey]*order{}}
	p.model.Aborted, p.model.Spent = s.aborted, nil // a start ends everything
	return s
}

// handedOn: a start hands frames on before anything is asked.
func (s *shadow) handedOn() {
	if s.p.appended > s.handed { // the start of the run with it
		s.facts.by = 0
	}
	s.handed, s.marks = s.p.appended, s.p.marks()
	s.p.put = nil
	if s.asked = 0; s.p.asked > s.durable { // nobody has heard of the end
		s.asked = s.p.asked
	}
	s.m.Written, s.m.Spent = s.written, s.unasked
}

// hold: a reply waits until everything decided before is in the log.
func (s *shadow) hold(x want) { s.wait(x, s.m.Solid) }

// tell: what a receiver is told waits for what it shows, and comes behind what it was told before.
func (s *shadow) tell(r *receiver, x want, shows int) {
	r.shown = max(r.shown, shows)
	s.wait(x, r.shown)
}

func (s *shadow) wait(x want, solid int) {
	x.solid, x.upto, x.mono = solid, s.m.Needed, s.w.mono.Milliseconds()
	s.waiting = append(s.waiting, &x)
}

// turn is what one turn of the loop must do, with the log as it stood before.
func (s *shadow) turn(now int64, asks []*ask, given []*offered, before marks) {
	s.marks, s.m.Written = before, before.written
	s.suffers()
	s.ripen(now)
	for _, a := range asks {
		s.step(now, a)
	}
	s.carried(now, given)
	s.skip()
	s.m.Due(now)
	s.heard()
	if !s.halted {
		s.acceptWaiting(now)
	}
	s.endWaits(now)
	if !s.halted {
		s.sweep(now)
	}
	s.serveAll(now)
	s.forward(now)
	s.counted(now)
	s.seal(now)
}

// committed is what hearing of the log must do.
func (s *shadow) committed(now int64, before marks) {
	if s.marks = before; s.durable >= s.asked {
		s.asked = 0
	}
	s.forgetSynced()
	s.seal(now)
}

// heard marks whomever what has just happened may concern.
func (s *shadow) heard() {
	for i := 0; i < len(s.m.News); i++ {
		n := s.m.News[i]
		q := s.w.queues[n.Queue.ID]
		if n.Expires != 0 && (q.soonest == 0 || n.Expires < q.soonest) {
			q.soonest = n.Expires
		}
		if n.Kind != model.Silent {
			s.movable(q)
		}
		switch n.Kind {
		case model.Returned:
			s.sweepers.stored(q)
			if h := s.sessionWaiters[q.site()]; h != nil && !n.Loose {
				s.arrived(h, q, n.Session)
			}
			for _, ln := range q.site().lines {
				if ln != nil {
					ln.wakes(q)
					s.markLine(ln)
				}
			}
		case model.Ended:
			s.sweepers.stored(q)
			if h := s.sessionWaiters[q.site()]; h != nil {
				s.sessionEnded(h, q, n.Session)
			}
		}
	}
	s.m.News = s.m.News[:0]
}

func (s *shadow) markLine(ln *line) {
	if !ln.marked && len(ln.grants) > 0 {
		ln.marked = true
		s.marked = append(s.marked, ln)
	}
}

// drop forgets an entity that was deleted.
func (s *shadow) drop(now int64, q *queue) {
	s.m.Drop(now, q.model)
	s.order(q, [2]*event.EntityID{})
	q.soonest = 0
	if h := s.sessionWaiters[q.site()]; h != nil {
		s.markWaiters(h, q)
	}
}

func (s *shadow) step(now int64, a *ask) {
	s.w.covered(a)
	x := want{tag: a.tag, ask: a, at: now}
	if a.op.uses() {
		a.q.use(now)
	}
	if s.withFaults(a, &x) {
		s.hold(x)
		return
	}
	switch a.op {
	case opUsage:
		x.busy = s.inUse()
	case opTouch, opCut:
		s.touched(now, a)
	case opAttach:
		if !a.q.model.Dropped {
			s.attach(a, x)
			return
		} else if a.rcv.shared && s.looks(a.rcv).Spoken {
			return // another has said so
		}
		x.refusal = model.NoEntity
		a.unsure()
	case opAccept:
		s.attachSession(now, a)
		return
	case opFlow:
		s.flow(now, a)
		return
	case opDetach:
		s.detach(now, a)
		s.detached(a, x)
		return
	case opUpdate, opDelete, opPutRule, opDropRule:
		x.refusal = s.admin(now, a)
	case opEnforce:
		s.enforced(a)
	case opOrder:
		s.order(a.q, a.orders)
	case opDrop:
		s.drop(now, a.q)
	case opCommit:
		x.refusal = s.commit(now, a.txn)
	case opRollback:
		x.refusal = s.m.Rollback(now, a.txn.id, aborts[a.cause])
	default:
		if a.txn != nil {
			s.stage(now, a, &x)
			break
		}
		if s.full(a, &x) {
			break
		}
		if a.q.model.Dropped {
			x.refusal = model.NoEntity
			if a.op == opRecall && !a.deletes {
				s.p.tokens(a.q, len(a.seqs))
			}
			break
		}
		s.ask(now, a, &x)
	}
	s.heard()
	if x.refusal != model.Accepted {
		s.refused(now, a, &x)
	}
	s.answer(x)
}

// answer has the reply to a command wait for what it stands for.
func (s *shadow) answer(x want) {
	switch {
	case x.granted:
		s.wait(x, x.shows)
	case x.unwritten:
		x.mono = s.w.mono.Milliseconds()
		s.waiting = append(s.waiting, &x)
	default:
		s.hold(x)
	}
}

// ask is what a command of a client comes to.
func (s *shadow) ask(now int64, a *ask, x *want) {
	q := a.q.model
	switch a.op {
	case opSend, opBatch:
		if a.to != nil {
			x.numbers, x.refusal = s.m.HandOver(now, q, a.drafts(), a.to.n+1, a.largest())
		} else if x.numbers, x.refusal = s.m.Send(now, q, a.drafts()); x.refusal == model.Accepted && a.q.kind == event.Topic {
			s.w.coveredCopies(a.op, s.m.Copies)
		}
	case opSettle, opSettleMany, opStale:
		var found []*model.Message
		found, x.refusal = s.m.Settle(now, q, a.sub, a.tokens, a.how, a.change, a.read)
		x.showing(q, found)
	case opRenew:
		x.until, x.refusal = s.m.Renew(now, q, a.sub, a.tokens)
		x.granted = x.refusal == model.Accepted
	case opPeek:
		var found []*model.Message
		found, x.refusal = q.Peek(a.sub, a.session, a.from, a.count, a.limitB)
		x.showing(q, found)
	case opRecall:
		var tokens []model.Token
		if !a.deletes {
			tokens = s.p.tokens(a.q, len(a.seqs))
		}
		var found []*model.Message
		found, x.refusal = s.m.Recall(now, q, a.sub, a.token, a.seqs, tokens)
		x.showing(q, found)
		x.granted = x.refusal == model.Accepted && !a.deletes
	case opCancel:
		x.refusal = s.m.Cancel(now, q, a.seqs)
	case opPurge:
		x.n, x.refusal = s.m.Purge(now, q, a.sub, a.session, a.count, a.before)
	case opRenewSession:
		x.until, x.refusal = s.m.RenewSession(now, q, *a.session, a.token)
		x.granted = x.refusal == model.Accepted
	case opSetState:
		x.refusal = s.m.SetState(now, q, *a.session, a.token, a.state)
	case opGetState:
		x.state, x.refusal = q.State(*a.session)
	case opList:
		x.ids = q.List(a.since, a.all, a.skip, a.count)
	}
}

// showing copies messages as they are now.
func (x *want) showing(q *model.Queue, found []*model.Message) {
	for _, m := range found {
		c := *m
		c.Until = q.Until(m)
		x.show = append(x.show, c)
		x.shows = max(x.shows, m.Solid)
	}
}

// seal lets replies go, has written what one of them waits for, and begins a sync if none goes on.
func (s *shadow) seal(now int64) {
	for {
		s.release()
		s.undoAccepted(now)
		if s.m.Records > s.handed && slices.ContainsFunc(s.waiting, s.urgent) {
			s.hand()
			continue
		}
		if s.asked > 0 || !s.filled() && s.m.Solid <= s.durable {
			break
		}
		if s.m.Records > s.handed {
			s.hand()
		}
		if s.m.Solid > s.durable {
			s.asked = s.handed
			s.budget.background, s.budget.arrived = 0, 0
			break
		}
	}
	for len(s.p.put) > 0 { // which only planted bugs leave
		s.hand()
	}
}

// urgent: a grant in the frame being filled that waits for nothing but being written.
func (s *shadow) urgent(x *want) bool {
	return x.told() && x.upto > s.handed && x.solid <= s.durable
}

// told: it is a lock or a renewal, or concerns a receiver. There is none where an attach is
// refused: that is an answer as others are.
func (x *want) told() bool {
	if x.granted || x.kind != engine.ReplyDone {
		return true
	}
	return x.ask != nil && (x.ask.op == opAttach && x.refusal == model.Accepted || x.ask.op == opAccept || x.ask.op == opDetach)
}

// hand gives the frame being filled to the writer.
func (s *shadow) hand() {
	if len(s.p.put) == 0 {
		s.w.broken("I26", "partition %d: %d records are decided, the log has been given %d, and somebody waits", s.p.id, s.m.Records, s.handed)
	}
	f := s.p.put[0]
	s.p.put = s.p.put[1:]
	if s.m.Solid > s.handed && s.m.Solid <= f.upto && f.level != log.Durable {
		s.w.broken("I1", "partition %d: a frame of %d records waits for no sync, and holds what may not be lost to a power loss", s.p.id, f.upto-s.handed)
	}
	s.handed, s.written = f.upto, max(s.written, f.written)
	s.facts.by, s.facts.ripe = 0, false
	s.forgetSynced()
}

// release lets replies go whose records are in the log.
func (s *shadow) release() {
	var left []*want
	for _, x := range s.waiting {
		switch {
		case x.upto > s.written || x.solid > s.durable:
			left = append(left, x)
		case x.answers != nil:
			if s.drainAnswered(x.answers) {
				s.due = append(s.due, x)
			}
		case x.rcv != nil && x.rcv.line == nil:
			s.back = append(s.back, x)
		default:
			s.due = append(s.due, x)
		}
	}
	s.waiting = left
}

// undoAccepted gives up what could not leave: locks are released, what was deleted on receipt is
// lost (5.2).
func (s *shadow) undoAccepted(now int64) {
	if len(s.back) == 0 {
		return
	}
	for _, x := range s.back {
		if !x.rcv.delete {
			s.putBack(now, x.rcv, x.q, x.show[0].Token)
		}
	}
	s.back = nil
	s.serveAll(now)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
