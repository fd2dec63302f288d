package engine

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxShown bounds what receivers that browse are shown in one turn: it writes nothing, so no full frame ends it.
const maxShown = 1024

// markBrowsers notes that a message was added to a slice, for those who look at it without taking.
func (l *Loop) markBrowsers(id event.Slice) {
	if len(l.browsers) == 0 {
		return
	}
	for _, ln := range l.browsers[id] {
		l.markLine(ln)
	}
}

// leaveBrowsers forgets the line of a receiver that browsed.
func (l *Loop) leaveBrowsers(ln *line) {
	id := ln.key.slice
	left := slices.DeleteFunc(l.browsers[id], func(other *line) bool { return other == ln })
	if l.browsers[id] = left; len(left) == 0 {
		delete(l.browsers, id)
	}
}

// browse shows a receiver the next message behind the last one it was shown, whatever its state, and changes nothing. What comes to
// a sub-queue with a lower number, as a dead letter does, is not shown: it is a [Peek] that goes on.
func (p *Partition) browse(r *Receiver) Outcome {
	out := p.done(log.Ordered)
	for m := range p.index.Browse(r.Slice, r.SubQueue, r.volatile.next) {
		out.Reply = Reply{Kind: ReplyDelivery, Tag: r.Tag, Answer: p.deliver(&m)}
		break
	}
	return out
}
