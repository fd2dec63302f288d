package present

import (
	"context"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Series returns what happened to the messages of an entity, by its path in any letter case; "": of
// all entities together. The step is "20s", for the last hour, or "10m", for the last day; "": 20s.
// The newest point is not over yet. Points before the start of the broker, and others of which
// nothing is known, are missing. An error wraps [ErrQuestion] for another step, and
// [ErrNotRecorded] for a directory.
func (n *Namespace) Series(ctx context.Context, path, stepName string) (rows.Series, error) {
	of := slices.IndexFunc(steps[:], func(s step) bool { return s.name == stepName || stepName == "" })
	if of < 0 {
		return rows.Series{}, fmt.Errorf("%w: unknown step %.40q; the steps are %s, for the last hour, and %s, for the last day", ErrQuestion, stepName, steps[0].name, steps[1].name)
	}
	var e *Entry
	if path != "" {
		found, err := n.find(ctx, path)
		if err != nil {
			return rows.Series{}, err
		}
		e = &found
	}
	answer, sampled := n.sampler.series(n.src.Now(), e, of)
	if !sampled {
		if _, err := n.src.Activity(ctx); err != nil {
			return rows.Series{}, err
		}
	}
	return answer, nil
}

// series returns the points of an entity; nil: of all together. It reports whether there was a
// sample yet.
func (s *sampler) series(now event.Time, e *Entry, of int) (answer rows.Series, sampled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &steps[of]
	answer = rows.Series{At: now.Std().UTC(), Step: int(st.length.Seconds()), Points: []rows.Point{}}
	// known is when counts of the entity begin: earlier points, and the one that it is in, are not
	// whole. made is when the entity was made, at 0 of everything.
	r, hosts, known, made := &s.total, s.hosts(e), event.Time(0), event.Time(0)
	if e != nil {
		answer.Entity, made = e.Path, e.CreatedAt
		if r = s.entities.find(e.ID); r == nil {
			r = &ring{from: s.entities.lost}
		}
		known = r.from
	}
	last := st.number(now)
	for n := max(0, last-int64(len(r.points(of)))+1); n <= last; n++ {
		begins, ends := st.at(n), st.at(n+1)
		if begins < known || ends <= made {
			continue
		}
		var missing []int
		for _, id := range hosts {
			if p := s.partitions[id]; p == nil || !p.knows(now, begins, ends) {
				missing = append(missing, id)
			}
		}
		if len(missing) < len(hosts) {
			c := r.at(of, n)
			answer.Points = append(answer.Points, rows.Point{At: begins.Std().UTC(), Received: c[0], Delivered: c[1], Completed: c[2], Failed: c[3], Died: c[4], Missing: missing})
		}
	}
	return answer, len(s.partitions) > 0
}

// hosts returns the partitions that an entity is in; nil: all that have ever answered.
func (s *sampler) hosts(e *Entry) (hosts []int) {
	if e == nil {
		for id := range s.partitions {
			hosts = append(hosts, id)
		}
	} else {
		for _, id := range e.Hosts {
			hosts = append(hosts, int(id))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// knows reports whether all that happened in a partition between two instants, as far as it is
// over, is counted.
func (p *partitionSamples) knows(now, begins, ends event.Time) bool {
	newest := p.newest().at
	if ends <= p.began || begins >= newest {
		return false
	}
	isOpen := func(g span) bool { // neither before nor after it, nor within
		return g.from < ends && g.to > begins && (g.from < begins || g.to > ends)
	}
	if p.isAway(now) && isOpen(span{newest, now}) {
		return false
	}
	return !slices.ContainsFunc(p.gaps, isOpen)
}
