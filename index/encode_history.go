package index

import (
	"math"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// policiesOf appends the history policies, each in the form of the event that set it.
func (e *stateEncoder) policiesOf(h *History) {
	e.number(uint64(h.Since))
	if n := h.Namespace; n != nil {
		e.number(1)
		e.dst = event.AppendHistoryPolicy(e.dst, &event.HistoryPolicySet{Policy: n.Policy, Share: n.Share, BeforeSends: n.BeforeSends})
	} else {
		e.number(0)
	}
	e.number(uint64(len(h.Patterns)))
	for _, p := range h.Patterns {
		e.dst = event.AppendHistoryPolicy(e.dst, &event.HistoryPolicySet{Pattern: p.Pattern, Policy: p.Policy})
		e.piece()
	}
}

func (d *stateDecoder) policies() *History {
	h := &History{Since: event.Time(d.number(uint64(event.EndOfTime)))}
	if d.number(1) == 1 {
		set := readValue(d, event.ReadHistoryPolicy)
		h.Namespace = &NamespaceHistory{set.Policy, set.Share, set.BeforeSends}
		if set.Pattern != "" || set.Removed {
			d.fail("the policy of the namespace has the pattern %q", set.Pattern)
		}
	}
	last := ""
	for n := d.number(math.MaxUint32); n > 0 && d.err == nil; n-- {
		set := readValue(d, event.ReadHistoryPolicy)
		p := PatternPolicy{set.Pattern, set.Policy, strings.ToLower(set.Pattern)}
		if p.lower == "" || set.Removed || set.Share != 0 || set.BeforeSends || last != "" && comparePatterns(last, p.lower) >= 0 {
			d.fail("policy of %q after that of %q", p.lower, last)
		}
		last = p.lower
		h.Patterns = append(h.Patterns, p)
	}
	return h
}
