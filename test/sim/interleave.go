package sim

import (
	"iter"
	"slices"
)

// Loops that stand still where ports share something (ports.go), while others go on.

// suspended is a loop that stands still in what it does.
type suspended struct {
	goesOn func() (struct{}, bool) // nil: it does nothing
	quit   func()
	pause  func(struct{}) bool
	then   func() // what must have come of it
}

// do has a loop do something, and then holds it against what must come of it. Where ports share
// something it may stand still on its way.
func (w *world) do(p *part, what, then func()) {
	if w.interleaver == nil || w.starting() {
		w.current = p
		what()
		w.current = nil
		then()
		return
	}
	p.goesOn, p.quit = iter.Pull(func(yield func(struct{}) bool) {
		p.pause = yield
		what()
	})
	p.then = then
	w.goOn(p)
}

// starting reports whether nothing is asked yet.
func (w *world) starting() bool {
	return slices.ContainsFunc(w.parts, func(p *part) bool { return p.starting })
}

// goOn lets a loop that stands still go on.
func (w *world) goOn(p *part) {
	w.current = p
	_, more := p.goesOn()
	if w.current = nil; more {
		return
	}
	p.quit()
	then := p.then
	p.suspended = suspended{}
	then()
}

// finishTurn lets a loop come to the end of what it does.
func (w *world) finishTurn(p *part) {
	for p.goesOn != nil {
		w.goOn(p)
	}
}

// finishTurns does so with all.
func (w *world) finishTurns() {
	for _, p := range w.parts {
		w.finishTurn(p)
	}
}

// stopTurns abandons the loops of a run that is over.
func (w *world) stopTurns() {
	for _, p := range w.parts {
		if p.goesOn != nil {
			func() {
				defer func() { _ = recover() }()
				w.current = p
				p.quit()
			}()
			p.suspended = suspended{}
		}
	}
}

// interleave does one thing while a loop stands still; false: none does.
func (w *world) interleave() bool {
	if w.interleaver == nil {
		return false
	}
	var still, other []*part
	for _, p := range w.running() {
		if p.goesOn != nil {
			still = append(still, p)
		} else {
			other = append(other, p)
		}
	}
	if len(still) == 0 {
		return false
	}
	w.stats.Woven++
	if len(other) == 0 || w.interleaver.IntN(100) < 45 {
		w.goOn(still[w.interleaver.IntN(len(still))])
	} else {
		p := other[w.interleaver.IntN(len(other))]
		switch n := w.interleaver.IntN(10); {
		case n < 1:
			w.request()
		case n < 6:
			w.beginTurn(p, p.mail(w.interleaver.IntN(len(p.inbox)+1)))
		case n < 8:
			w.beginLand(p)
		case !p.writer.hangs:
			p.work()
		}
	}
	if w.crashed {
		w.finishTurns()
	}
	if !slices.ContainsFunc(w.parts, func(p *part) bool { return p.goesOn != nil }) {
		w.ifStopped()
	}
	return true
}

// most is how many requests a loop takes in a turn.
func (w *world) most(p *part) int {
	n := len(p.inbox)
	if n > 0 && w.chance(30) {
		n = w.rng.IntN(n + 1)
	}
	return n
}

// mail takes at least that many requests from an inbox: an entity's partitions in one log are
// dropped together.
func (p *part) mail(n int) []*ask {
	for n > 0 && n < len(p.inbox) && p.inbox[n].op == opDrop && p.inbox[n-1].op == opDrop {
		n++
	}
	asks := p.inbox[:n:n]
	p.inbox = p.inbox[n:]
	return asks
}
