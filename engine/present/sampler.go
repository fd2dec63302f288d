package present

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// sampleEvery is the interval at which a broker is asked what happened.
	sampleEvery = 5 * time.Second
	// sampleWindow bounds the time that rates are of: three samples that are a little late. It also
	// bounds the time between two samples: after a longer one, nobody knows when in it something
	// happened.
	sampleWindow = 3*sampleEvery + time.Second
	// shortestWindow is the time that rates are of at least, so that they do not jump.
	shortestWindow = sampleEvery - time.Second
)

// counts are received, delivered, completed, failed and died messages, and last the received ones
// that are copies of a topic's messages.
type counts [6]uint64

// countsOf returns what happened in a slice.
func countsOf(s *SliceActivity) counts {
	return counts{s.Received, s.Delivered, s.Completed, s.Failed, s.Died, s.Copies}
}

// once returns the counts without copies, so that the namespace receives a published message once.
func (c counts) once() counts {
	c[0] -= c[5]
	return c
}

// span is the time between two samples of a partition.
type span struct{ from, to event.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// sample is what happened in a partition until some moment.
type sample struct {
	at     event.Time
	slices []SliceActivity // by slice
}

// of returns what happened in a slice.
func (s *sample) of(id event.Slice) counts {
	i, found := slices.BinarySearchFunc(s.slices, id, func(a SliceActivity, id event.Slice) int { return compareSlices(a.Slice, id) })
	if !found {
		return counts{}
	}
	return countsOf(&s.slices[i])
}

func compareSlices(a, b event.Slice) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Partition, b.Partition))
}

// partitionSamples is what is known of the activity of a partition.
type partitionSamples struct {
	began   event.Time                 // nothing is known of earlier times
	since   event.Time                 // when the counts of this start were 0
	samples []sample                   // of the last [sampleWindow], the oldest first; never empty
	rated   bool                       // rates are known
	rates   map[event.Slice]rows.Rates // of the slices that were not idle
	total   rows.Rates                 // of all slices together
	gaps    []span                     // between samples that were far apart, the oldest first
}

// newest returns the newest sample.
func (p *partitionSamples) newest() *sample { return &p.samples[len(p.samples)-1] }

// isAway reports whether a partition has not answered for a time.
func (p *partitionSamples) isAway(now event.Time) bool {
	return now.Sub(p.newest().at) > sampleWindow
}

// sampler keeps what happened in the last day. Counts of entities are in [rings].
type sampler struct {
	mu         sync.Mutex // guards the fields below
	partitions map[int]*partitionSamples
	total      ring // of all entities
	entities   rings
}

func newSampler() sampler {
	return sampler{partitions: map[int]*partitionSamples{}, entities: newRings(mostRings)}
}

// Watch records what happens to messages until the context ends, for rates and [Namespace.Series].
// A broker runs it once.
func (n *Namespace) Watch(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.sample(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sample takes one sample. One that fails is a gap.
func (n *Namespace) sample(ctx context.Context) {
	list, err := n.src.Activity(ctx)
	if err != nil {
		return
	}
	now, s := n.src.Now(), &n.sampler
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		s.add(now, &list[i])
	}
}

// add takes a sample of a partition.
func (s *sampler) add(now event.Time, a *Activity) {
	p := s.partitions[a.Partition]
	if p == nil {
		p = &partitionSamples{began: a.Since}
		s.partitions[a.Partition] = p
	}
	if p.since != a.Since {
		if len(p.samples) > 0 {
			p.noteGap(span{p.newest().at, a.Since})
		}
		p.since, p.samples = a.Since, []sample{{at: a.Since}}
	}
	last := p.newest()
	took := span{last.at, now}
	if took.length() <= 0 {
		return
	}
	slices.SortFunc(a.Slices, func(x, y SliceActivity) int { return compareSlices(x.Slice, y.Slice) })
	p.noteGap(took)
	for i := range a.Slices {
		is := &a.Slices[i]
		if new, ok := since(countsOf(is), last.of(is.Slice)); ok {
			s.total.add(took, new.once())
			if r := s.entities.of(is.Slice.Entity, now); r != nil {
				r.add(took, new)
			}
		}
	}
	p.keep(sample{now, a.Slices})
}

// since returns what was counted after an earlier count, and whether that is anything.
func since(now, before counts) (new counts, any bool) {
	for i := range now {
		new[i] = now[i] - before[i]
	}
	return new, new != counts{}
}

// noteGap notes a time of which nothing is known, unless it is short.
func (p *partitionSamples) noteGap(s span) {
	if s.length() > sampleWindow {
		p.gaps = append(p.gaps, s)
	}
	p.gaps = slices.DeleteFunc(p.gaps, func(g span) bool { return s.to.Sub(g.to) > longestSeries })
}

// keep adds a sample, drops those that are too old, and computes the rates between the oldest and
// the newest one.
func (p *partitionSamples) keep(newest sample) {
	p.samples = append(slices.DeleteFunc(p.samples, func(s sample) bool { return newest.at.Sub(s.at) > sampleWindow }), newest)
	oldest := &p.samples[0]
	elapsed := newest.at.Sub(oldest.at)
	p.rated, p.rates, p.total = elapsed >= shortestWindow, map[event.Slice]rows.Rates{}, rows.Rates{}
	for i := range newest.slices {
		is := &newest.slices[i]
		if new, ok := since(countsOf(is), oldest.of(is.Slice)); ok && p.rated {
			p.rates[is.Slice] = ratesOf(new, elapsed.Seconds())
			addRates(&p.total, ratesOf(new.once(), elapsed.Seconds()))
		}
	}
}

func ratesOf(c counts, seconds float64) rows.Rates {
	per := func(n uint64) float64 { return float64(n) / seconds }
	return rows.Rates{Received: per(c[0]), Delivered: per(c[1]), Completed: per(c[2]), Failed: per(c[3]), Died: per(c[4])}
}

// addRates fills in the rates of entities, where they are known.
func (s *sampler) addRates(now event.Time, all []entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		e := &all[i]
		for number, host := range e.Hosts {
			p := s.partitions[int(host)]
			if !p.hasRates(now) {
				continue
			}
			if e.rates == nil {
				e.rates = new(rows.Rates)
			}
			addRates(e.rates, p.rates[event.Slice{Entity: e.ID, Partition: uint8(number)}])
		}
	}
}

// totalRates returns the rates of all entities together; nil: none are known.
func (s *sampler) totalRates(now event.Time) (total *rows.Rates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.partitions {
		if p.hasRates(now) {
			if total == nil {
				total = new(rows.Rates)
			}
			addRates(total, p.total)
		}
	}
	return total
}

// hasRates reports whether the rates of a partition are known, and not old.
func (p *partitionSamples) hasRates(now event.Time) bool {
	return p != nil && p.rated && !p.isAway(now)
}

// addRates adds rates to others.
func addRates(to *rows.Rates, r rows.Rates) {
	to.Received += r.Received
	to.Delivered += r.Delivered
	to.Completed += r.Completed
	to.Failed += r.Failed
	to.Died += r.Died
}
