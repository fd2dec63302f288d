package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// sweepStep is how many messages one step of a sweep looks at, and sweepEnds how many it ends, so that other commands get
// their turn in between.
const (
	sweepStep = 8192
	sweepEnds = 1024
)

// sweep ends messages whose time to live has passed, wherever in the main queue they stand. It asks to be
// decided again until the pass is over.
func (p *Partition) sweep(now event.Time, cmd *sweep) Outcome {
	found, done := p.index.Step(cmd.pass, now, sweepStep, sweepEnds)
	if e := p.entities[cmd.pass.Slice.Entity]; e != nil {
		for i := range found {
			p.expire(e, cmd.pass.Slice, &found[i], changed(&found[i]))
		}
	}
	out := p.done(level(p.out))
	out.Again = !done
	return out
}

// maxFront is how many expired messages at the head of a queue one decision ends.
const maxFront = 256

// expireFront ends the expired messages that stand in the way of a receiver.
func (p *Partition) expireFront(now event.Time, e *Entity, id event.Slice) {
	for _, m := range p.index.Front(id, now, maxFront) {
		p.expire(e, id, &m, changed(&m))
	}
}

// expireFrontOf ends the expired messages in front of the deliverable ones of a session, and reports whether there were any.
func (p *Partition) expireFrontOf(now event.Time, e *Entity, id event.Slice, session []byte) bool {
	found := p.index.FrontOf(id, session, now, maxFront)
	for i := range found {
		p.expire(e, id, &found[i], changed(&found[i]))
	}
	return len(found) > 0
}
