package sim

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// The end of a run: a client asks for everything that it can get, and completes it.

// drainAll drains for as long as that may take, given the longest lock.
func (w *world) drainAll(longest time.Duration) {
	began, slept := w.mono, 0
	bound := 3*longest + 10*time.Second // what a courier has put off goes on within 5 s
	for left := w.left(); left > 0; left = w.left() {
		if w.mono-began > bound {
			w.broken("I26", "%d messages are still there after %v of draining", left, bound)
		}
		before := w.stats.Deliveries
		// rings of topics make thousands: what is left of those is merely a lot
		if w.drain(); w.o.moves && w.stats.Deliveries-before >= share {
			began += longest / 20
		}
		// what is scheduled may lie years ahead, by the wall clock, anew at each hop
		if w.mono += longest / 20; slept <= model.MaxHops && w.mono-began > bound/2 {
			slept++
			if d := time.Duration(w.latest()-w.newest) * time.Millisecond; d > 0 {
				w.mono, began = w.mono+d, w.mono+d
			}
		}
	}
}

// drain asks for everything a client can get, and completes what it got.
func (w *world) drain() {
	for _, q := range w.living() {
		if q.entity.Properties.RequiresSession {
			a := &ask{op: opAccept, q: q, tag: w.tag()}
			w.attachNext(a)
			w.submit(a)
		}
		for _, part := range q.whole.parts {
			w.recallAll(part)
		}
	}
	w.pump()
	for _, r := range w.receivers {
		if len(r.ports) > 0 && r.real.Session != nil && !r.granted {
			continue // it has none yet
		}
		a := &ask{op: opFlow, q: r.q, sub: r.sub, tag: w.tag(), rcv: r, limit: r.got + share}
		if len(r.ports) > 0 {
			w.sharedLimit(a)
		}
		a.cmd = &engine.Flow{Receiver: r.real, Limit: a.limit}
		w.submit(a)
	}
	w.pump()
	w.starving()
	if w.o.steady {
		w.hist.inOrder()
	}
	tokens := w.hist.tokens
	w.hist.tokens = nil
	for _, k := range tokens {
		if k.q.ended {
			continue
		}
		a := &ask{op: opSettle, q: k.q, sub: k.sub, tag: w.tag(), tokens: []model.Token{k.token}, how: model.Complete, asked: w.broker()}
		w.command(a)
		w.submit(a)
	}
	w.pump()
	for _, r := range slices.Clone(w.receivers) {
		if r.real.Session != nil && !r.leaving {
			w.receivers = slices.DeleteFunc(w.receivers, func(o *receiver) bool { return o == r })
			w.submit(&ask{op: opDetach, q: r.q, tag: w.tag(), rcv: r, cmd: &engine.Detach{Receiver: r.real}})
		}
	}
	w.pump()
}

// recallAll asks for the deferred messages of a queue, each by itself; the holder of a session asks
// for those of the session.
func (w *world) recallAll(q *queue) {
	for _, m := range q.model.Live {
		if m.State != model.Deferred {
			continue
		}
		a := &ask{op: opRecall, q: q, sub: m.Sub(), tag: w.tag(), seqs: []uint64{m.Seq}, asked: w.broker()}
		if q.model.Settings.Sessions && !m.Dead {
			at := &ask{op: opAccept, q: q, tag: w.tag(), session: &m.Session}
			w.attachNext(at)
			w.submit(at)
			w.pump()
			if s := q.model.Sessions[m.Session]; s != nil {
				a.token = s.Holder
			}
		}
		a.cmd = &engine.ReceiveDeferred{Entity: q.entity, Slice: q.slice, SubQueue: in(m.Sub()), Origin: w.origin(),
			Sequences: []event.SequenceNumber{event.SequenceNumber(m.Seq)}, Session: event.LockToken(a.token)}
		w.submit(a)
		w.pump()
		break // anything may come of it
	}
}

// attachNext makes a receiver for the session named, or for the next available one.
func (w *world) attachNext(a *ask) {
	r := &receiver{tag: a.tag, q: a.q}
	r.real = &engine.Receiver{Entity: a.q.entity, Slice: a.q.slice, Origin: w.origin(), Sink: a.q.host, Tag: r.tag,
		Session: &engine.SessionRequest{Any: a.session == nil}}
	if a.q.several() {
		r.real.Slice, r.real.Sink, r.real.Away = event.Slice{}, w, w.sitesAway(a.q)
		a.wait, r.real.Session.Wait = 1, time.Millisecond // each log has to look
	}
	if a.session != nil {
		if r.real.Session.ID = []byte(*a.session); a.q.several() {
			r.real.Slice = a.q.ofSession(*a.session).slice
		}
	}
	a.rcv, a.cmd = r, &engine.Attach{Receiver: r.real}
	w.receivers = append(w.receivers, r)
}

// latest is when the last scheduled message becomes active.
func (w *world) latest() (at int64) {
	for _, q := range w.living() {
		for _, part := range q.whole.parts {
			for _, m := range part.model.Live {
				at = max(at, m.For)
			}
		}
	}
	return at
}
