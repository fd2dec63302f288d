package print

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxOrigins is the most origins that are remembered. Of older ones only the number is known.
const maxOrigins = 1 << 16

// Origins knows the origins of one log, by number. The zero value knows none.
type Origins struct {
	known map[event.OriginID]event.Origin
	order []event.OriginID               // of the origins, oldest first
	names map[event.OriginID]*quotedText // names that were asked for
}

// Define notes an origin.
func (l *Origins) Define(o *event.OriginDefined) {
	if l.known == nil {
		l.known = make(map[event.OriginID]event.Origin)
	}
	delete(l.names, o.ID)
	if _, ok := l.known[o.ID]; !ok {
		if l.order = append(l.order, o.ID); len(l.order) > maxOrigins {
			delete(l.known, l.order[0])
			delete(l.names, l.order[0])
			l.order = slices.Delete(l.order, 0, 1)
		}
	}
	l.known[o.ID] = o.Origin
}

// Get returns the origin of a number; the zero Origin if it is unknown.
func (l *Origins) Get(id event.OriginID) event.Origin { return l.known[id] }

// name returns a name for the origin of an event, other than the broker itself.
func (l *Origins) name(id event.OriginID) *quotedText {
	if name := l.names[id]; name != nil {
		return name
	}
	o := l.known[id]
	var words []string
	for _, s := range []string{o.Principal, o.RemoteAddress, o.ContainerID, o.Product, o.Link} {
		if s != "" {
			words = append(words, Text([]byte(s)))
		}
	}
	if len(words) == 0 {
		return newQuotedText(fmt.Sprintf("origin %d", id))
	}
	name := newQuotedText(fmt.Sprintf("origin %d: %s", id, strings.Join(words, " ")))
	if l.names == nil {
		l.names = make(map[event.OriginID]*quotedText)
	}
	l.names[id] = name
	return name
}
