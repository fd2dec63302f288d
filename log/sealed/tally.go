package sealed

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Tally counts the events of frames.
type Tally struct {
	Records    uint64
	Events     uint64
	FirstTime  event.Time // of the first record; this and the next three are 0 without one
	Lowest     event.Time
	Highest    event.Time
	Newest     event.Time // of the last record
	kinds      [256]KindCount
	origins    map[event.OriginID]int
	slices     map[event.Slice]*SliceCount
	ids        [][idRow]byte
	withoutIDs bool
	decoder    event.Decoder
}

// NewTally returns an empty tally. With ids it keeps message-ids, which take 12 bytes each.
func NewTally(ids bool) *Tally {
	return &Tally{origins: make(map[event.OriginID]int), slices: make(map[event.Slice]*SliceCount), withoutIDs: !ids}
}

// Frame counts the records of a frame, in the form of [event.Decoder.Record], that begin in a
// block. It returns the range of their times.
func (t *Tally) Frame(base event.Position, bodies [2]uint32, count uint32, records []byte, block int) (lowest, highest event.Time, err error) {
	t.Records += uint64(count)
	for range count {
		var rec event.Record
		if rec, records, err = t.decoder.Record(base, bodies, records); err != nil {
			return 0, 0, err
		}
		if lowest == 0 || rec.At < lowest {
			lowest = rec.At
		}
		highest = max(highest, rec.At)
		if t.FirstTime == 0 {
			t.FirstTime = rec.At
		}
		t.Newest = rec.At
		sizes := t.decoder.Sizes()
		for i, ev := range rec.Events {
			t.event(ev, sizes[i], block)
		}
	}
	if len(records) > 0 {
		return 0, 0, fmt.Errorf("%d bytes follow the last record", len(records))
	}
	if t.Lowest == 0 || lowest > 0 && lowest < t.Lowest {
		t.Lowest = lowest
	}
	t.Highest = max(t.Highest, highest)
	return lowest, highest, nil
}

func (t *Tally) of(s event.Slice) *SliceCount {
	have := t.slices[s]
	if have == nil {
		have = &SliceCount{Slice: s}
		t.slices[s] = have
	}
	return have
}

// event counts an event that begins in a block.
func (t *Tally) event(ev event.Event, size event.Size, block int) {
	t.Events++
	k := &t.kinds[ev.Kind()]
	k.Kind, k.Events, k.Bytes = ev.Kind(), k.Events+1, k.Bytes+uint64(size.Record)
	if o, ok := ev.(*event.OriginDefined); ok {
		if _, defined := t.origins[o.ID]; !defined {
			t.origins[o.ID] = block
		}
	}
	if id := event.MessageIDOf(ev); id != nil && !t.withoutIDs {
		t.ids = append(t.ids, idOf(id, block))
	}
	own := t.of(ev.Common().Slice)
	own.Events, own.Bytes = own.Events+1, own.Bytes+uint64(size.Record)
	own.Bodies, own.BodyBytes = own.Bodies+uint64(size.Blobs), own.BodyBytes+size.Bodies
	event.Named(ev, func(s event.Slice, n event.SequenceNumber) { t.of(s).name(n, block) })
}

// name records that a block names a number.
func (s *SliceCount) name(n event.SequenceNumber, block int) {
	if i := len(s.Blocks) - 1; i >= 0 && s.Blocks[i].Block == block {
		at := &s.Blocks[i]
		switch {
		case n == 0:
		case at.Highest == 0:
			at.Lowest, at.Highest = n, n
		default:
			at.Lowest, at.Highest = min(at.Lowest, n), max(at.Highest, n)
		}
		return
	}
	s.Blocks = append(s.Blocks, SliceAt{block, n, n})
}

// idRows returns the ids in the form of a file.
func (t *Tally) idRows() (p []byte) {
	for _, row := range sortIDs(t.ids) {
		p = append(p, row[:]...)
	}
	return p
}

// Contents returns the counts, in order.
func (t *Tally) Contents() Contents {
	var out Contents
	for _, k := range t.kinds {
		if k.Events > 0 {
			out.Kinds = append(out.Kinds, k)
		}
	}
	for o, block := range t.origins {
		out.Origins = append(out.Origins, OriginAt{o, block})
	}
	slices.SortFunc(out.Origins, func(a, b OriginAt) int { return cmp.Compare(a.Origin, b.Origin) })
	for _, s := range t.slices {
		out.Slices = append(out.Slices, *s)
	}
	slices.SortFunc(out.Slices, func(a, b SliceCount) int { return compareSlices(a.Slice, b.Slice) })
	return out
}
