package sim

import (
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// A partition is fenced, because its log has failed or in order, while the others go on, and is
// recovered by itself some time later, maybe in vain (docs/decisions/0044). What it had in memory
// is gone, what its clients waited for is unknown, and what its log keeps must be a prefix of what
// was decided, as after the death of the process. What moves to it or from it waits.

// fences has a partition fenced in order, or one that is fenced restarted, now and then; it reports
// whether it did.
func (w *world) fences(p *part) bool {
	away := slices.ContainsFunc(w.parts, func(p *part) bool { return p.away && p.corruption == nil })
	switch n := w.rng.IntN(50); {
	case n < 5 && away:
		w.revive()
	case n == 49 && w.mayFence(p):
		w.fenceInOrder(p)
	default:
		return false
	}
	w.ifStopped()
	return true
}

// mayFence reports whether a partition that has failed is fenced. If somebody waits for it whom a
// start would have to forget, the process ends instead.
func (w *world) mayFence(p *part) bool {
	busy := w.collector != nil && w.collector.asked > 0 || w.admin != nil && slices.ContainsFunc(w.admin.q.whole.parts, func(q *queue) bool { return q.host == p || q.host == nil })
	return w.o.fences && p.id != 0 && !busy && !w.draining && w.chance(80)
}

// fence takes a partition that has failed out of service.
func (w *world) fence(p *part) {
	w.note("fenced", int64(p.id))
	w.stats.Fenced++
	for p.crank != nil {
		p.work()
	}
	w.endLoop(p)
	_ = p.writer.Close() // it has failed
	if p.how = stopKill; p.dropped {
		p.needKill = p.needPower
		w.hist.powerLostIn(p)
	}
	w.abandon(p)
}

// fenceInOrder does what an operator's fence does: what was asked for before is done.
func (w *world) fenceInOrder(p *part) {
	w.note("fenced in order", int64(p.id))
	p.writer.hangs = false // at last
	w.turn(p, p.inbox)
	p.inbox = nil
	if !w.gone() && !p.failed() {
		w.finishRun(p)
	}
	if !w.gone() && !p.failed() {
		w.settle(p)
	}
	if w.gone() || p.failed() || p.loop.Err() != nil {
		return // ifStopped sees to it
	}
	end := p.writer.Batch().LSN()
	w.endLoop(p)
	err := p.writer.Close()
	if w.gone() {
		return
	}
	if p.how = stopKill; err == nil {
		w.stats.FencedInOrder++
		p.how = stopClean
		p.needKill, p.needPower, p.noted = p.model.Records, p.model.Records, p.model.Records
		// as Loop.Close does
		if w.o.checkpointBytes >= 0 && w.chance(80) && w.o.checkpointBytes < never {
			p.plog.SaveCheckpoint(end, encoded(p.state.Index()))
			w.stats.Checkpoints++
		}
	}
	if p.dropped {
		p.needKill = min(p.needKill, p.needPower)
		w.hist.powerLostIn(p)
	}
	w.abandon(p)
}

// endLoop ends a loop, and checks that each message that a courier has offered it gets one answer
// and no other: that nobody knows what came of it. Where the loop has failed, it is not known which
// had their answers before.
func (w *world) endLoop(p *part) {
	w.turnedAwayIn(p)
	failed := p.failed() || p.loop.Err() != nil
	under := slices.DeleteFunc(p.given, func(o *offered) bool { return o.answered })
	for _, o := range p.offers {
		req := o.req
		if !o.ends {
			req.Sink, req.Tag = p, o.tag
			under = append(under, o)
		}
		p.loop.Offer(req)
	}
	p.posted = nil
	w.do(p, func() { p.loop.End(engine.ErrUnknown) }, func() {})
	w.finishTurn(p)
	p.looks = nil
	answers := map[uint64]int{}
	for i := range p.posted {
		if r := &p.posted[i]; !errors.Is(r.Err, engine.ErrUnknown) {
			w.broken("P17", "partition %d ends, and answers %+v", p.id, *r)
		}
		answers[p.posted[i].Tag]++
	}
	for _, o := range under {
		if n := answers[o.tag]; n > 1 || n == 0 && !failed {
			w.broken("I26", "partition %d ends, and a courier gets %d answers to what it offered", p.id, n)
		}
		o.req.Sink.Post([]engine.Reply{{Tag: o.req.Tag, Err: engine.ErrUnknown}})
	}
}

// abandon forgets what was only in memory.
func (w *world) abandon(p *part) {
	w.forgetPart(p)
	p.away = true
	for _, q := range w.queues {
		if q.host == p {
			q.lines = [model.TransferDeadQueue + 1]*line{}
		}
	}
	for _, t := range w.transactions {
		if t.top.host == p {
			t.ended, t.staged, t.seen = true, nil, nil
		}
	}
	w.portsGone(p)
	w.receivers = slices.DeleteFunc(w.receivers, func(r *receiver) bool { return len(r.ports) == 0 && r.q.host == p })
	w.hist.restartedIn(p)
	w.parts[0].state.Avoid(w.avoided())
}

// inVain reports whether a restart may have failed, and takes it back: the partition stays fenced.
func (w *world) inVain(p *part, err error) bool {
	var c *log.CorruptError
	if errors.As(err, &c) && w.documented(c) {
		w.note("refused as documented")
		w.stats.RefusedByRule++
		w.ended = true
		return true
	}
	if !p.faulted || p.corruption != nil {
		return false
	}
	w.stats.RestartsInVain++
	if p.how = stopKill; p.dropped {
		p.needKill = min(p.needKill, p.needPower)
		w.hist.powerLostIn(p)
	}
	p.away = true
	w.abandon(p)
	return true
}

// restartedIn is restarted for what lives in one partition.
func (h *history) restartedIn(p *part) {
	for k, reg := range h.states {
		if reg.asked > 0 && h.w.queues[k.q].host == p {
			h.states[k] = register{}
		}
	}
	for _, g := range h.grants {
		if g.q.host == p {
			g.loose = true
			h.loosenAll(g)
		}
	}
}

// forgetPart forgets those parts of a partition that lived only in memory.
func (w *world) forgetPart(p *part) {
	p.frames, p.put, p.reached, p.heard, p.asked = nil, nil, marks{}, marks{}, 0
	if !p.away {
		w.unanswered(p)
	}
	p.inbox, p.posted, p.issued, p.taken = nil, nil, nil, nil
	p.loop, p.state, p.writer, p.plog, p.faulted = nil, nil, nil, nil, false
	p.looks = nil
	if p.courier != nil {
		p.courier.Close()
	}
	p.courier, p.offers, p.given, p.shut, p.rest = nil, nil, nil, 0, 0
}
