package ledger

import (
	"context"
	"iter"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxNarrow is the most slices by which a part of a log is looked up; with more of them the whole
// log is read.
const maxNarrow = 16

// narrow is the part of a log that determines the counts and messages of some entities: the events
// that name them, their topic or its subscriptions, and those of the namespace as a whole. nil: all
// of the log.
type narrow struct {
	slices   map[event.Slice]bool
	searches []log.Search
}

// narrow returns that part for some entities; nil if none are given, which means all, or too many.
func (n *names) narrow(in log.PartitionID, entities ...*life) *narrow {
	p := &narrow{slices: map[event.Slice]bool{{}: true}}
	for _, e := range entities {
		if e == nil {
			return nil
		}
		top := e
		if t := n.byID[e.topic]; t != nil {
			top = t
		}
		for _, s := range n.slices(top, in) {
			p.slices[s] = true
		}
		if top.kind == event.Queue {
			continue
		}
		for _, sub := range n.byID {
			if sub.topic == top.id {
				for _, s := range n.slices(sub, in) {
					p.slices[s] = true
				}
			}
		}
	}
	if len(p.slices) > maxNarrow {
		return nil
	}
	for s := range p.slices {
		p.searches = append(p.searches, log.Search{Named: true, Slice: s})
	}
	return p
}

// records yields the records of the part that come after a state.
func (p *narrow) records(ctx context.Context, s *replay.State) iter.Seq2[*replay.Record, error] {
	if p == nil {
		return s.Records(ctx)
	}
	return s.Found(ctx, p.searches)
}

// apply applies the events of a record that belong to the part.
func (p *narrow) apply(s *replay.State, rec *replay.Record) error {
	if p == nil {
		return s.Apply(rec)
	}
	return s.ApplyOnly(rec, p.has)
}

func (p *narrow) has(ev event.Event) bool { return p.slices[ev.Common().Slice] }
