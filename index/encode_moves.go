package index

import (
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// moves appends the transfer numbers that slices have given out, and their arrivals. Open transfers
// are encoded with the rows of their messages.
func (e *stateEncoder) moves(moved []*keptSlice) {
	e.number(uint64(len(moved)))
	for _, k := range moved {
		e.id(k.id)
		e.number(uint64(k.given))
		if k.arrived == nil {
			e.number(0)
			continue
		}
		e.number(uint64(len(k.arrived.sources)))
		for i := range k.arrived.sources {
			e.source(&k.arrived.sources[i])
		}
	}
}

func (e *stateEncoder) id(id event.Slice) {
	e.number(uint64(id.Entity))
	e.dst = append(e.dst, id.Partition)
}

func (e *stateEncoder) source(src *source) {
	e.id(src.slice)
	e.number(uint64(src.floor))
	if src.numbers == nil {
		e.number(0)
		return
	}
	e.number(src.numbers.GetCardinality())
	before := uint64(src.floor)
	for it := src.numbers.Iterator(); it.HasNext(); {
		n := it.Next()
		e.number(n - before)
		before = n
		e.piece()
	}
}

func (t *transfer) append(e *stateEncoder, dst []byte) []byte {
	e.dst = dst
	e.number(uint64(t.number))
	e.number(uint64(t.destination))
	return append(e.dst, byte(t.trigger))
}

// moves reads the moves of slices, of which only those with some are written. It returns the number
// of these slices.
func (d *stateDecoder) moves(x *Index) (count uint64) {
	var before event.Slice
	count = d.number(uint64(len(d.src)))
	for i := uint64(0); i < count && d.err == nil; i++ {
		id := d.id()
		s := x.slices.byID[id]
		if s == nil || i > 0 && compareSlices(before, id) >= 0 {
			d.fail("moves of slice %v after %v", id, before)
			return count
		}
		before = id
		s.given = event.TransferNumber(d.number(math.MaxUint64))
		d.sources(s)
		if s.given == 0 && s.arrived == nil {
			d.fail("empty moves of slice %v", id)
		}
	}
	return count
}

func (d *stateDecoder) id() event.Slice {
	return event.Slice{Entity: event.EntityID(d.number(math.MaxUint32)), Partition: d.byte()}
}

func (d *stateDecoder) sources(s *slice) {
	n := d.number(uint64(len(d.src)))
	if n == 0 {
		return
	}
	s.arrived = &arrivals{made: s.made}
	for ; n > 0 && d.err == nil; n-- {
		src := source{slice: d.id(), made: s.made}
		if all := s.arrived.sources; len(all) > 0 && compareSlices(all[len(all)-1].slice, src.slice) >= 0 {
			d.fail("arrivals from slice %v after %v", src.slice, all[len(all)-1].slice)
			return
		}
		src.floor = event.TransferNumber(d.number(math.MaxUint64))
		src.numbers = d.readNumbers(uint64(src.floor))
		s.arrived.sources = append(s.arrived.sources, src)
	}
}

// readNumbers reads the numbers of one source, from its floor on.
func (d *stateDecoder) readNumbers(before uint64) *roaring64.Bitmap {
	count := d.number(uint64(len(d.src)))
	if count == 0 {
		return nil
	}
	numbers := roaring64.New()
	for i := uint64(0); i < count && d.err == nil; i++ {
		distance := d.number(math.MaxUint64)
		if n := before + distance; n < before || i > 0 && distance == 0 {
			d.fail("arrival after transfer %d", before)
		} else {
			numbers.Add(n)
			before = n
		}
	}
	return numbers
}

// readWay reads the data of a message from the entities that it was in before.
func (d *stateDecoder) readWay(w *event.RestoredWay, flags byte) {
	if flags&flagHops != 0 {
		if w.Hops = d.byte(); w.Hops == 0 {
			d.fail("message that moved 0 times")
		}
	}
	if flags&flagSource != 0 {
		if w.DeadLetterSource = d.text(); w.DeadLetterSource == "" {
			d.fail("message from the dead-letter queue of no entity")
		}
	}
}
