package sim

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Facts (docs/decisions/0030): each refusal of a settlement that a client is given has a record,
// refused sends have one for each second of them, and each run has one. No reply waits for a fact,
// and a fact waits for company in the frame being filled for a second at most.
const (
	alone  = 1000 // ms that a fact waits for company
	window = 1000 // ms of refused sends that one event counts
)

// facts is the shadow of what a loop notes.
type facts struct {
	by      int64 // when facts in the frame being filled go without company; 0: there are none
	ripe    bool  // … they go now
	hasty   bool  // it is the end
	windows []refusedSends
}

// refusedSends are those of an entity, for one reason.
type refusedSends struct {
	q     *queue
	why   event.Refusal
	n     int
	since int64
}

// noted is a fact as the log must have it, without its origin.
type noted struct {
	slice event.Slice
	kind  event.Kind
	why   event.Refusal

	seq    uint64 // SettlementRefused
	sub    model.Sub
	token  model.Token
	wanted event.Wanted

	n     int // SendsRefused
	since int64

	transaction model.TransactionID // TransactionAborted
	cause       event.AbortCause
	more        bool // messages come back in the same record
}

// reasons are refusals in the log's words.
var reasons = map[model.Refusal]event.Refusal{model.LockLost: event.RefusedLockLost, model.SessionLost: event.RefusedSessionLost,
	model.Disabled: event.RefusedDisabled, model.NotAllowed: event.RefusedNotAllowed, model.Invalid: event.RefusedInvalid,
	model.TooLarge: event.RefusedTooLarge, model.QuotaExceeded: event.RefusedFull, model.NoMatch: event.RefusedNoMatch,
	model.NoEntity: event.RefusedGone, model.Busy: event.RefusedBusy}

func reason(r model.Refusal) event.Refusal {
	if why := reasons[r]; why != 0 {
		return why
	}
	return event.RefusedOther
}

// fact is a record that nobody waits for.
func (s *shadow) fact(now int64, n noted) {
	s.m.Fact(now)
	s.p.facts[s.m.Records] = n
	s.lazy(now)
}

// lazy: nobody waits for the newest record.
func (s *shadow) lazy(now int64) {
	if s.facts.hasty {
		s.facts.ripe = true
	} else if s.facts.by == 0 {
		s.facts.by = now + alone
	}
}

// refused is what is noted of a refusal.
func (s *shadow) refused(now int64, a *ask, x *want) {
	if s.scarce() {
		return
	}
	n := noted{slice: a.q.slice, kind: event.KindSettlementRefused, why: reason(x.refusal), sub: a.sub, wanted: event.WantedRenew}
	switch a.op {
	case opSend, opBatch:
		s.refusedSend(now, a, n.why)
		return
	case opSettle, opSettleMany, opStale:
		if x.refusal == model.UnknownTransaction || x.refusal == model.TooMany {
			return // the loop has not come that far
		}
		n.wanted = map[model.Outcome]event.Wanted{model.Complete: event.WantedComplete, model.Abandon: event.WantedAbandon,
			model.Release: event.WantedRelease, model.Defer: event.WantedDefer, model.DeadLetter: event.WantedDeadLetter}[a.how]
		n.token, n.seq = s.about(a)
	case opRenew:
		n.token, n.seq = s.about(a)
	case opRenewSession:
		n.token, n.sub = a.token, model.Main
	default:
		return
	}
	s.fact(now, n)
}

// about is the token that the refusal of a settlement is about, and the message that it had locked
// until then.
func (s *shadow) about(a *ask) (model.Token, uint64) {
	if a.q.model.Dropped {
		return a.tokens[0], 0
	}
	return s.m.About.Token, s.m.About.Seq
}

func (s *shadow) refusedSend(now int64, a *ask, why event.Refusal) {
	for i := range s.facts.windows {
		if w := &s.facts.windows[i]; w.q == a.q && w.why == why {
			w.n += len(a.sent)
			return
		}
	}
	s.facts.windows = append(s.facts.windows, refusedSends{a.q, why, len(a.sent), now})
}

// counted: a second of refused sends is over.
func (s *shadow) counted(now int64) {
	for len(s.facts.windows) > 0 && (s.facts.hasty || s.facts.windows[0].since+window <= now) {
		w := s.facts.windows[0]
		s.facts.windows = s.facts.windows[1:]
		s.fact(now, noted{slice: w.q.slice, kind: event.KindSendsRefused, why: w.why, n: w.n, since: w.since})
	}
}

// ripen: facts have waited for long enough.
func (s *shadow) ripen(now int64) {
	if s.facts.by != 0 && now >= s.facts.by {
		s.facts.by, s.facts.ripe = 0, true
	}
}

// filled: the frame being filled goes on its way by itself.
func (s *shadow) filled() bool {
	return s.m.Needed > s.handed || s.facts.ripe && s.m.Records > s.handed
}

// begin notes the start of a run, and which stops before it the log may name.
func (p *part) begin(now int64) {
	p.shadow.handed = p.appended
	p.loop.Begin("sim", "", p.plog)
	p.shadow.fact(now, noted{kind: event.KindRunStarted})
	if got := p.plog.LastStop(); len(p.stops) > 0 && !slices.Contains(p.stops, got) {
		p.w.broken("facts", "partition %d: the last run is said to have ended %v, it must be one of %v", p.id, got, p.stops)
	}
}

// stopped is how the last run may be said to have ended; nil: anything, since something was
// damaged.
func (w *world) stopped(p *part, how stop, damaged bool) []event.Stop {
	rec := p.plog.Recovery()
	switch {
	case damaged || w.o.damage || p.missed:
		return nil
	case rec.Frames == 0:
		return []event.Stop{event.StopNone}
	case how == stopClean || rec.Clean: // a start may die before it writes anything
		return []event.Stop{event.StopClean}
	case w.hasFault(p.id):
		return []event.Stop{event.StopFailed}
	case !w.o.bootKnown:
		return []event.Stop{event.StopCrash}
	case p.ledIn == w.boot:
		return []event.Stop{event.StopKilled}
	}
	// … or when it has just written where it is
	return []event.Stop{event.StopCrash, event.StopKilled}
}

// finishRun is the end of a run that ends in order.
func (w *world) finishRun(p *part) {
	now, before := w.now(p), p.marks()
	must := func() {
		s := p.shadow
		s.marks, s.facts.hasty, s.facts.ripe, s.facts.by = before, true, true, 0
		s.counted(now)
		s.seal(now)
	}
	w.do(p, p.loop.Finish, func() {})
	if w.finishTurn(p); w.gone() || p.failed() || p.loop.Err() != nil {
		p.lastly(must)
		return
	}
	must()
	p.agree("the end of a run")
}

// factsOf compares the facts of a record with those that it must have.
func (p *part) factsOf(record int, events []event.Event) {
	var got noted
	for _, ev := range events {
		n := noted{slice: ev.Common().Slice, kind: ev.Kind()}
		switch ev := ev.(type) {
		case *event.SettlementRefused:
			n.why, n.seq, n.sub, n.token, n.wanted = ev.Why, uint64(ev.Sequence), model.Sub(ev.SubQueue), model.Token(ev.Token), ev.Wanted
		case *event.SendsRefused:
			n.why, n.n, n.since = ev.Why, int(ev.Count), int64(ev.Since)
		case *event.TransactionAborted:
			n.transaction, n.cause, n.slice = model.TransactionID(ev.ID), ev.Cause, event.Slice{}
		case *event.RunStarted, *event.HistoryCut:
		default:
			continue
		}
		if n.kind == event.KindTransactionAborted {
			n.more = slices.ContainsFunc(events, func(ev event.Event) bool { return ev.Kind() == event.KindMessageAbandoned })
		}
		got = n
		if !n.more && (len(events) > 2 || len(events) == 2 && events[0].Kind() != event.KindOriginDefined) {
			p.w.broken("facts", "partition %d: record %d has a fact, and %d other events", p.id, record, len(events)-1)
		}
		if n.kind != event.KindRunStarted && n.kind != event.KindHistoryCut && n.cause != event.AbortTimedOut && ev.Common().Origin == 0 {
			p.w.broken("facts", "partition %d: record %d does not say who was refused", p.id, record)
		}
	}
	if must := p.facts[record]; got != must {
		p.w.broken("facts", "partition %d: record %d says %+v, it must %+v: what a client was refused", p.id, record, got, must)
	}
}
