package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// sent is a message a client sent.
type sent struct {
	id           uint64
	q            *queue
	body         []byte
	ttl          int64  // ms; 0: none
	name         string // its message-id
	idType       event.IDType
	key          string // message-id and its type in one
	partitionKey string
	session      string
	hasSession   bool
	due          int64  // scheduled for; 0: at once
	color        string // application properties of a message for a topic; "", nil: not there
	n            *int64
	header       int // bytes beside the body
}

// noise is what bodies are made of.
var noise = func() []byte {
	p := make([]byte, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}()

// request makes a client ask for something.
func (w *world) request() {
	total := 0
	for _, n := range w.o.operation {
		total += n
	}
	n := w.rng.IntN(total)
	op := operation(0)
	for i, weight := range w.o.operation {
		if n -= weight; n < 0 {
			op = operation(i)
			break
		}
	}
	if op == opUpdate || op == opDelete || op == opPutRule || op == opDropRule {
		w.administer(op)
		return
	}
	living := slices.DeleteFunc(w.living(), func(q *queue) bool { return !w.takes(q, op) })
	if len(living) == 0 {
		return
	}
	q := living[w.rng.IntN(len(living))]
	if q.several() {
		q = q.whole.parts[w.rng.IntN(len(q.whole.parts))]
	}
	if old := w.queues[w.rng.IntN(len(w.queues))]; w.chance(10) && old.ended && old.entity != nil && w.takes(old, op) {
		q = old // whose end this client has not heard of
	}
	a := &ask{op: op, q: q, sub: w.subQueue(q), tag: w.tag(), asked: w.broker()}
	switch {
	case !w.fill(a):
	case a.q.away() && w.elsewhere(a, a.sending()):
		w.submit(a)
	case a.q.away() && !(a.byReceiver() && a.q.several()):
		w.turnedAway(a)
	default:
		w.mayStage(a)
		w.submit(a)
	}
}

// takes reports whether clients ask an entity for something: they send to topics and receive from
// subscriptions, but some have not understood that.
func (w *world) takes(q *queue, op operation) bool {
	switch {
	case op == opSend || op == opBatch || op == opCancel:
		return q.kind != event.Subscription || w.chance(3)
	case op == opFlow || op == opDetach:
		return true // the receiver decides
	case q.kind == event.Topic:
		// what could not be moved from there
		return w.o.moves && (op == opAttach || op == opPeek || op == opPurge || op == opRecall)
	}
	return true
}

// subQueue picks the sub-queue of an entity that a client's request is about.
func (w *world) subQueue(q *queue) model.Sub {
	dead := w.chance(25)
	switch {
	case q.kind == event.Topic && w.o.moves, dead && w.o.moves && w.chance(40):
		return model.TransferDeadQueue
	case dead:
		return model.DeadQueue
	}
	return model.Main
}

// fill fills in what is asked. It reports false when there is nothing to ask about.
func (w *world) fill(a *ask) bool {
	q := a.q
	switch a.op {
	case opSend:
		w.mayHandOver(a)
		return w.sendAsk(a, 1)
	case opBatch:
		w.mayHandOver(a)
		return w.sendAsk(a, 2+w.rng.IntN(4))
	case opAttach, opAccept:
		if a.op = opAttach; q.entity.Properties.RequiresSession && a.sub == model.Main {
			a.op = opAccept
		}
		w.attach(a, w.chance(25))
	case opFlow, opDetach:
		return w.flowOrDetach(a)
	case opSettle, opSettleMany, opStale, opRenew:
		return w.useTokens(a)
	case opPeek:
		a.from, a.count, a.limitB = q.anyNumber(w), 1+w.rng.IntN(20), pick(w.rng, 1, 2000, 1<<20)
		w.maySession(a)
		cmd := &engine.Peek{Slice: q.slice, SubQueue: in(a.sub), From: event.SequenceNumber(a.from), Count: a.count, MaxBytes: a.limitB}
		cmd.SessionID, cmd.HasSession = named(a.session)
		a.cmd = cmd
	case opPurge:
		if q.several() {
			return false // the protocol refuses that
		}
		a.count = 1 + w.rng.IntN(10)
		if w.chance(50) {
			a.before = a.asked + w.rng.Int64N(2000) - 1500
		}
		w.maySession(a)
		cmd := &engine.BatchDelete{Entity: q.entity, Slice: q.slice, SubQueue: in(a.sub), Origin: w.origin(), Count: a.count, Before: event.Time(a.before)}
		cmd.SessionID, cmd.HasSession = named(a.session)
		a.cmd = cmd
	case opRecall, opCancel:
		return w.byNumber(a)
	case opCommit, opRollback:
		return w.discharge(a)
	case opRenewSession, opSetState, opGetState:
		return w.ofSession(a)
	case opList:
		a.all, a.since, a.skip, a.count = w.chance(50), a.asked-w.rng.Int64N(2000), w.rng.IntN(3), 1+w.rng.IntN(5)
		a.cmd = &engine.ListSessions{Slice: q.slice, Since: event.Time(a.since), All: a.all, Skip: a.skip, Top: a.count}
	}
	return true
}

// maySession narrows what is asked to a session.
func (w *world) maySession(a *ask) {
	if a.q.entity.Properties.RequiresSession && w.chance(40) {
		id := pick(w.rng, w.o.sessions...)
		a.session = &id
	}
}

func named(session *string) ([]byte, bool) {
	if session == nil {
		return nil, false
	}
	return []byte(*session), true
}

// byNumber asks for deferred messages, or cancels scheduled ones: mostly ones that exist.
func (w *world) byNumber(a *ask) bool {
	pool := &w.hist.aside
	if a.op == opCancel {
		pool = &w.hist.planned
	}
	for n := 1 + w.rng.IntN(3)*w.rng.IntN(2); n > 0; n-- {
		if len(*pool) == 0 || w.chance(8) {
			a.seqs = append(a.seqs, a.q.anyNumber(w))
			continue
		}
		i := w.rng.IntN(len(*pool))
		m := (*pool)[i]
		if len(a.seqs) > 0 && (m.q != a.q || m.sub != a.sub) {
			continue
		}
		a.q, a.sub = m.q, m.sub
		a.seqs = append(a.seqs, m.seq)
		if w.chance(40) {
			*pool = slices.Delete(*pool, i, i+1)
		}
	}
	var seqs []event.SequenceNumber
	for _, seq := range a.seqs {
		seqs = append(seqs, event.SequenceNumber(seq))
	}
	if a.op == opCancel {
		a.sub = model.Main
		a.cmd = &engine.CancelScheduled{Entity: a.q.entity, Slice: a.q.slice, Origin: w.origin(), Sequences: seqs}
		return true
	}
	a.deletes = w.chance(25)
	cmd := &engine.ReceiveDeferred{Entity: a.q.entity, Slice: a.q.slice, SubQueue: in(a.sub), Origin: w.origin(), Sequences: seqs}
	if a.deletes {
		cmd.Mode = engine.ReceiveAndDelete
	}
	if a.q.entity.Properties.RequiresSession && a.sub == model.Main {
		var id *string
		if l := w.hist.bySeq[seqKey{a.q.n, a.seqs[0]}]; l != nil {
			id = &l.session
		}
		if g := w.grant(a.q, id); g != nil {
			a.token = g.token
		}
	}
	cmd.Session = event.LockToken(a.token)
	a.cmd = cmd
	return true
}

// grant picks a session lock that somebody has or had: mostly a live one, and if possible that of
// the session named.
func (w *world) grant(q *queue, id *string) *held {
	var all []*held
	for _, g := range w.hist.grants {
		if g.q == q && (!g.over || w.chance(10)) && (id == nil || g.id == *id || w.chance(5)) {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if w.chance(60) {
		return all[len(all)-1]
	}
	return all[w.rng.IntN(len(all))]
}

// ofSession asks for something about a session.
func (w *world) ofSession(a *ask) bool {
	id := pick(w.rng, w.o.sessions...)
	a.session, a.sub = &id, model.Main
	q := a.q
	if q.several() {
		q = q.ofSession(id)
		a.q = q
	}
	if a.op == opGetState {
		a.cmd = &engine.GetSessionState{Entity: q.entity, Slice: q.slice, SessionID: []byte(id)}
		return true
	}
	if len(w.hist.grants) > 0 && w.chance(95) {
		q = w.hist.grants[w.rng.IntN(len(w.hist.grants))].q
		a.q = q
	}
	if g := w.grant(q, nil); g != nil {
		a.token = g.token
		if !w.chance(4) {
			id = g.id
		}
	}
	if a.op == opRenewSession {
		a.cmd = &engine.RenewSession{Entity: q.entity, Slice: q.slice, Origin: w.origin(), SessionID: []byte(id), Session: event.LockToken(a.token)}
		return true
	}
	switch n := w.rng.IntN(20); {
	case n < 5:
	case n < 7:
		a.state = []byte{}
	default:
		a.state = noise[w.rng.IntN(1000):][:1+w.rng.IntN(pick(w.rng, 40, 40, 4000))]
	}
	a.cmd = &engine.SetSessionState{Entity: q.entity, Slice: q.slice, Origin: w.origin(), SessionID: []byte(id), Session: event.LockToken(a.token),
		State: a.state}
	return true
}

// submit puts a request into the inbox of the partition it is for.
func (w *world) submit(a *ask) {
	p := a.q.host
	switch a.op {
	case opUpdate, opDelete, opPutRule, opDropRule, opTouch:
		p = w.parts[0]
	}
	if a.byReceiver() && a.q.several() {
		w.submitJoint(a)
		return
	}
	w.note("ask", int64(a.op), int64(a.q.n), int64(a.tag), int64(a.sub))
	w.hist.asked(a)
	if !w.kept(p, a) {
		return
	}
	p.inbox = append(p.inbox, a)
}

// in is a sub-queue as the engine names it.
func in(sub model.Sub) event.SubQueue { return event.SubQueue(sub) }

func (w *world) sendAsk(a *ask, n int) bool {
	a.q = a.q.whole.parts[0]
	cmd := &engine.Send{Entity: a.q.entity, Slice: a.q.slice, Origin: w.origin(), Numbers: w.chance(60)}
	if a.to != nil {
		cmd.Destination = a.to.entity
	}
	for range n {
		m := w.hist.message(a.q, a.to)
		a.sent = append(a.sent, m)
		at := len(m.body)
		if w.chance(20) { // the body in two pieces
			at = w.rng.IntN(at + 1)
		}
		out := engine.Message{Body: m.body[:at], Tail: m.body[at:], ID: []byte(m.name), IDType: m.idType, SessionID: []byte(m.session),
			HasSession: m.hasSession, PartitionKey: []byte(m.partitionKey), Header: m.header, TimeToLive: time.Duration(m.ttl) * time.Millisecond, ScheduledFor: event.Time(m.due)}
		if a.q.kind == event.Topic && a.to == nil {
			out.Properties = new(filter.Message)
			w.see(m.body, out.Properties)
		}
		cmd.Messages = append(cmd.Messages, out)
	}
	a.cmd = cmd
	return !a.q.several() || w.route(a)
}

func (w *world) attach(a *ask, deletes bool) *receiver {
	r := &receiver{tag: a.tag, q: a.q, sub: a.sub, delete: deletes}
	r.real = &engine.Receiver{Entity: a.q.entity, Slice: a.q.slice, SubQueue: in(a.sub), Origin: w.origin(), Sink: a.q.host, Tag: r.tag}
	if a.q.several() {
		r.real.Slice, r.real.Sink, r.real.Away = event.Slice{}, w, w.sitesAway(a.q)
	}
	if deletes {
		r.real.Mode = engine.ReceiveAndDelete
	}
	if a.op == opAccept {
		r.real.Session = &engine.SessionRequest{Any: w.chance(60)}
		if r.real.Session.Any {
			a.wait = w.rng.Int64N(w.o.patience.Milliseconds()) * int64(bit(!w.chance(30)))
			r.real.Session.Wait = time.Duration(a.wait) * time.Millisecond
		} else {
			id := pick(w.rng, w.o.sessions...)
			a.session, r.real.Session.ID = &id, []byte(id)
			if a.q.several() {
				r.real.Slice = a.q.ofSession(id).slice
			}
		}
	}
	a.rcv, a.cmd = r, &engine.Attach{Receiver: r.real}
	w.receivers = append(w.receivers, r)
	return r
}

func (w *world) flowOrDetach(a *ask) bool {
	if len(w.receivers) == 0 {
		return false
	}
	i := w.rng.IntN(len(w.receivers))
	r := w.receivers[i]
	a.rcv, a.q, a.sub = r, r.q, r.sub
	if a.op == opFlow {
		a.limit, a.drain = r.got+uint32(w.rng.IntN(8)), w.chance(20)
		if r.real.Session != nil && len(r.ports) > 0 && !r.granted {
			return false // not before it is attached
		}
		if len(r.ports) > 0 {
			w.sharedLimit(a)
		}
		a.cmd = &engine.Flow{Receiver: r.real, Limit: a.limit, Drain: a.drain}
		return true
	}
	w.receivers = slices.Delete(w.receivers, i, i+1)
	cmd := &engine.Detach{Receiver: r.real}
	if w.chance(50) {
		cmd.Cause = event.ReleaseLinkLost
	}
	for _, t := range r.recent { // what lies in the connection and never reached the wire
		if w.chance(50) {
			a.tokens = append(a.tokens, t)
			cmd.Unsent = append(cmd.Unsent, event.LockToken(t))
		}
	}
	a.cmd = cmd
	return true
}

// useTokens makes a settlement or renewal with tokens the clients know, now and then dead ones or
// those of others.
func (w *world) useTokens(a *ask) bool {
	pool := &w.hist.tokens
	if a.op == opStale {
		pool = &w.hist.old
	}
	if len(*pool) == 0 {
		return false
	}
	n := 1
	if a.op == opSettleMany || a.op == opRenew {
		n = 1 + w.rng.IntN(3)
	}
	for range n {
		i := w.rng.IntN(len(*pool))
		switch n := w.rng.IntN(10); {
		case n < 2:
			i = 0 // the oldest: it may be about to end
		case n < 7:
			i = len(*pool) - 1
		}
		t := (*pool)[i]
		if len(a.tokens) > 0 && t.q != a.q && !w.chance(10) {
			continue
		}
		if len(a.tokens) == 0 {
			a.q, a.sub = t.q, t.sub
		}
		a.tokens = append(a.tokens, t.token)
		if a.op != opRenew && a.op != opStale && w.chance(80) {
			w.hist.tokens = slices.Delete(w.hist.tokens, i, i+1)
			w.hist.old = append(w.hist.old, t)
			if len(w.hist.tokens) == 0 {
				break
			}
		}
	}
	if w.chance(2) {
		if a.sub = model.DeadQueue - min(a.sub, model.DeadQueue); w.o.moves && w.chance(50) {
			a.sub = model.TransferDeadQueue
		}
	}
	w.command(a)
	return true
}

// command makes the command for what is asked, with the tokens.
func (w *world) command(a *ask) {
	var tokens []event.LockToken
	for _, t := range a.tokens {
		tokens = append(tokens, event.LockToken(t))
	}
	if a.op == opRenew {
		a.cmd = &engine.Renew{Entity: a.q.entity, Slice: a.q.slice, SubQueue: in(a.sub), Origin: w.origin(), Tokens: tokens}
		return
	}
	if a.how == 0 {
		a.how = pick(w.rng, model.Complete, model.Complete, model.Complete, model.Abandon, model.Abandon, model.Release, model.Defer, model.DeadLetter)
	}
	if a.how == model.DeadLetter || (a.how == model.Abandon || a.how == model.Defer) && w.chance(40) {
		a.change = w.change(a.how, w.headerOf(a.tokens[0]))
	}
	cmd := &engine.Settle{Entity: a.q.entity, Slice: a.q.slice, SubQueue: in(a.sub), Origin: w.origin(),
		Token: tokens[0], More: tokens[1:], Changes: changes(a.change)}
	w.header(a, cmd)
	cmd.Outcome = map[model.Outcome]engine.SettleOutcome{model.Complete: engine.Complete, model.Abandon: engine.Abandon,
		model.Release: engine.Release, model.Defer: engine.Defer, model.DeadLetter: engine.MoveToDeadLetter}[a.how]
	a.cmd = cmd
}
