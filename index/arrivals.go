package index

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// arrivals are the transfers that have arrived in a slice from other slices. The highest number
// alone would not do. Say 7 is refused and 8 is stored, and the source dies before it has recorded
// the refusal. When it offers 7 again, it must not be told that 7 has arrived.
type arrivals struct {
	made    version
	sources []source // in order
}

// source has the arrivals from one slice.
type source struct {
	slice event.Slice
	made  version
	// all transfers below are settled at the source, which asks for none of them again
	floor   event.TransferNumber
	numbers *roaring64.Bitmap // arrived ones, from floor on; nil: none yet
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

// arrivalsOf applies arrivals to a slice.
type arrivalsOf struct{ *slice }

// edit returns the slice's arrivals for changing, except for the numbers of a source: see from.
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

// from returns the arrivals from a slice for changing.
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

// arrive records that a transfer has arrived. An event without an arrival changes nothing.
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

// moveDetails are the data of a moved message besides its row.
type moveDetails struct {
	// its number in the entity where it was sent; 0: it was sent here
	origin event.SequenceNumber
	// path of the entity from whose dead-letter queue it came; "": of none
	source  string
	changes []event.Blob
}

// arrivalDetails returns the data of a message from the entities that it was in before.
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

// moveDetails returns the data of a message besides its row.
func (p place) moveDetails() moveDetails {
	return moveDetails{p.origin(), p.source(), p.changes()}
}

// give sets the data besides its row of a message that was just stored.
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

// maxTexts is how many common texts of messages are remembered at a time.
const maxTexts = 1024

// text returns a text that messages have in common, so that they share its bytes.
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
