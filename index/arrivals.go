package index

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// arrivals are what has come to a slice from others. The highest number alone would not do: say 7
// is refused and 8 is stored, and the source dies before it has noted the refusal. When it offers 7
// again it must not be told that 7 is here.
type arrivals struct {
	made    version
	sources []source // in order
}

// source is what has come from one slice.
type source struct {
	slice event.Slice
	made  version
	// all below are over at the source, which asks for none of them again
	floor   event.TransferNumber
	numbers *roaring64.Bitmap // those that are here, from floor on; nil: none yet
}

func (a *arrivals) place(from event.Slice) (int, bool) {
	if a == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(a.sources, from, func(s source, id event.Slice) int { return compareSlices(s.slice, id) })
}

// has reports whether a transfer has arrived.
func (a *arrivals) has(from event.Slice, n event.TransferNumber) bool {
	i, ok := a.place(from)
	if !ok {
		return false
	}
	src := &a.sources[i]
	return n < src.floor || src.numbers != nil && src.numbers.Contains(uint64(n))
}

// arrivalsOf applies what comes to a slice from others.
type arrivalsOf struct{ *slice }

// edit is what has come to the slice, to be changed, except for the numbers of a source: see from.
func (s arrivalsOf) edit() *arrivals {
	v := &s.shared.versions
	switch a := s.arrived; {
	case a == nil:
		s.arrived = &arrivals{made: v.now}
	case !v.isOwned(a.made):
		s.arrived = &arrivals{made: v.now, sources: slices.Clone(a.sources)}
	}
	return s.arrived
}

// from is what has come from a slice, to be changed.
func (s arrivalsOf) from(id event.Slice) *source {
	a, v := s.edit(), &s.shared.versions
	i, ok := a.place(id)
	if !ok {
		a.sources = slices.Insert(a.sources, i, source{slice: id, made: v.now})
	}
	src := &a.sources[i]
	if !v.isOwned(src.made) {
		src.made = v.now
		if src.numbers != nil {
			src.numbers = src.numbers.Clone()
		}
	}
	return src
}

// arrive notes that a transfer is here. An event without an arrival changes nothing.
func (s arrivalsOf) arrive(a *event.Arrival, ev event.Event) {
	if a == nil {
		return
	}
	if s.arrived.has(a.Source, a.Number) || a.Number < a.Floor {
		panic(fmt.Sprintf("index: %T of transfer %d of slice %v with floor %d in slice %v, which has it already", ev, a.Number, a.Source, a.Floor, s.id))
	}
	src := s.from(a.Source)
	src.raise(a.Floor)
	if src.numbers == nil {
		src.numbers = roaring64.New()
	}
	src.numbers.Add(uint64(a.Number))
}

// raise forgets the numbers below a floor.
func (src *source) raise(floor event.TransferNumber) {
	if floor <= src.floor {
		return
	}
	src.floor = floor
	if src.numbers != nil {
		src.numbers.RemoveRange(0, uint64(floor))
	}
}

func (s arrivalsOf) forget(ev *event.SourceForgotten) {
	a := s.edit()
	i, ok := a.place(ev.Source)
	if !ok {
		panic(fmt.Sprintf("index: %T %v in slice %v, which has no arrivals from it", ev, ev.Source, s.id))
	}
	a.sources = slices.Delete(a.sources, i, i+1)
	if len(a.sources) == 0 {
		s.arrived = nil
	}
}

// moveDetails is what a message keeps on its way, beside its row.
type moveDetails struct {
	// its number in the entity that it was sent to; 0: it was sent here
	origin event.SequenceNumber
	// path of the entity out of whose dead-letter queue it came; "": of none
	source  string
	changes []event.Blob
}

// arrivalDetails is what a message brings from the entities that it was in before.
func arrivalDetails(a *event.Arrival) (c moveDetails) {
	if a == nil {
		return c
	}
	c.origin, c.source = a.First, a.DeadLetterSource
	if a.Changes.Size > 0 {
		c.changes = []event.Blob{a.Changes}
	}
	return c
}

// moveDetails is what a message has beside its row.
func (p place) moveDetails() moveDetails {
	return moveDetails{p.origin(), p.source(), p.changes()}
}

// give gives a message that was just stored what it has beside its row.
func (c *moveDetails) give(s *slice, seq event.SequenceNumber) {
	if c.origin == 0 && c.source == "" && len(c.changes) == 0 {
		return
	}
	p := s.rows.find(seq)
	if c.origin != 0 {
		p.setOrigin(c.origin)
	}
	if c.source != "" {
		p.setSource(s.shared.text(c.source))
	}
	for _, b := range c.changes {
		s.change(seq, s.rows.edit(&s.shared.versions, seq), b)
	}
}

// maxTexts is how many texts that messages have in common are known at a time.
const maxTexts = 1024

// text is a text that messages have in common: they share its bytes.
func (sh *sharedTables) text(s string) string {
	if known, ok := sh.texts[s]; ok {
		return known
	}
	if len(sh.texts) >= maxTexts {
		clear(sh.texts)
	}
	sh.texts[s] = s
	return s
}
