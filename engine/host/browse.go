package host

import (
	"slices"

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
