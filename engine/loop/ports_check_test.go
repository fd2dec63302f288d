package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// check checks what must hold when no loop has anything to do.
func (w *ports) check() {
	for _, l := range w.gone {
		if l.farewells != 1 || l.answers != 1 {
			w.broken("%d is gone: its attach has %d answers and its detach %d", l.r.Tag, l.answers, l.farewells)
		}
	}
	holders := 0
	for _, l := range w.links {
		if l.grant != nil {
			holders++
		}
		if l.answers == 0 && (!l.any || w.available()) {
			w.broken("%d waits for a session, and there is one", l.r.Tag)
		}
		if l.answers > 0 {
			w.checkCredit(l)
		}
	}
	if n := w.members[w.entity.Hosts[0]].loop.receivers.counts[w.entity.ID]; n != len(w.links) || w.limit > 0 && n > w.limit {
		w.broken("%d receivers are counted, there are %d, and may be %d", n, len(w.links), w.limit)
	}
	held := 0
	for _, m := range w.members {
		held += len(m.loop.part.Index().HeldSessions())
	}
	if held != holders {
		w.broken("%d sessions are locked for %d links", held, holders)
	}
}

// available reports whether a session can be granted.
func (w *ports) available() bool {
	for i, h := range w.entity.Hosts {
		if _, ok := w.members[h].loop.part.Index().NextSession(event.Slice{Entity: w.entity.ID, Partition: uint8(i)}); ok {
			return true
		}
	}
	return false
}

// checkCredit compares the remaining credit with what the client knows, and restarts the count.
func (w *ports) checkCredit(l *portLink) {
	s := attachedLink(l.r).credit.state()
	left := int32(l.limit - l.base - l.got)
	switch {
	case s.owing > 0:
		w.broken("the drain of %d is not over: %+v", l.r.Tag, s)
	case l.drains == 0 && s.left != left:
		w.broken("%d has %d left and must have %d", l.r.Tag, s.left, left)
	case l.last && len(l.limits) > 0 && (s.left != 0 || l.drained == 0):
		w.broken("%d is drained, told so %d times, and has %d left", l.r.Tag, l.drained, s.left)
	case l.drains == 0 && l.drained > 0, len(l.limits) == 1 && l.drained != l.drains:
		w.broken("%d has asked for %d drains and heard of %d", l.r.Tag, l.drains, l.drained)
	case s.left > 0 && w.forIt(l):
		w.broken("%d has %d left, and there is a message for it", l.r.Tag, s.left)
	}
	w.stats.superseded += l.drains - l.drained
	l.base = l.limit - uint32(s.left)
	l.limits, l.drains, l.drained, l.got = append(l.limits[:0], l.limit), 0, 0, 0
	if l.last { // the drain leaves no credit
		l.limits = l.limits[:0]
	}
	l.last, l.there = false, -1
	if s.left <= 0 {
		l.limits = l.limits[:0]
	}
}

// forIt reports whether a message can be delivered to a link.
func (w *ports) forIt(l *portLink) bool {
	for i, h := range w.entity.Hosts {
		x, slice := w.members[h].loop.part.Index(), event.Slice{Entity: w.entity.ID, Partition: uint8(i)}
		_, ok := x.First(slice, event.Main)
		if l.grant != nil {
			_, ok = x.FirstOf(slice, []byte(l.grant.ID))
			ok = ok && i == int(l.grant.Token.Partition())
		}
		if ok {
			return true
		}
	}
	return false
}

// finish detaches all links and takes the remaining messages, which must be all that were not
// completed.
func (w *ports) finish() {
	for len(w.links) > 0 {
		w.detach(w.links[0])
	}
	w.rest()
	w.check()
	for _, l := range w.gone {
		for _, d := range l.hand {
			w.end(d, engine.Complete)
		}
	}
	w.rest()
	for i, h := range w.entity.Hosts {
		x := w.members[h].loop.part.Index()
		if n := x.Locks(); n != 0 {
			w.broken("nobody is there, and %d are locked in log partition %d", n, h)
		}
		w.done += x.Count(event.Slice{Entity: w.entity.ID, Partition: uint8(i)}, event.Main, index.Active)
	}
	if w.done != w.sent {
		w.broken("%d messages were sent, and %d are there or completed", w.sent, w.done)
	}
	for _, m := range w.members {
		if n := len(m.loop.receivers.entities) + len(m.loop.receivers.counts) + len(m.loop.receivers.deadlines) + m.loop.receivers.sweeps.list.Len(); n != 0 {
			w.broken("%d things are left behind", n)
		}
	}
}
