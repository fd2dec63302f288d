package sealed

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// MaxContents is the largest size of a file's contents after decompression, bytes.
const MaxContents = 1 << 24

// Contents summarizes the events of a file.
type Contents struct {
	Kinds   []KindCount
	Origins []OriginAt
	// Unlisted means that the blocks of slices were left out, because there were too many. Any
	// block may name any slice.
	Unlisted bool
	Slices   []SliceCount
}

// KindCount is the number of events of a kind, and their size in the records.
type KindCount struct {
	Kind          event.Kind
	Events, Bytes uint64
}

// OriginAt is the record block in which an origin is first defined.
type OriginAt struct {
	Origin event.OriginID
	Block  int
}

// SliceCount is the number and size of a slice's events, and the blocks that name the slice.
type SliceCount struct {
	Slice             event.Slice
	Events, Bytes     uint64 // in the records
	Bodies, BodyBytes uint64
	Blocks            []SliceAt
}

// SliceAt is a record block that names a slice, with the lowest and the highest sequence number
// that it names; 0: the slice itself.
type SliceAt struct {
	Block           int
	Lowest, Highest event.SequenceNumber
}

func zigzag(d int64) uint64   { return uint64(d)<<1 ^ uint64(d>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// encode returns the contents, without the blocks of slices if it would be too long with them.
func (c *Contents) encode() []byte {
	p := c.append(nil)
	if len(p) > MaxContents {
		short := *c
		short.Unlisted = true
		p = short.append(nil)
	}
	return p
}

func (c *Contents) append(p []byte) []byte {
	add := func(values ...uint64) {
		for _, v := range values {
			p = binary.AppendUvarint(p, v)
		}
	}
	add(uint64(len(c.Kinds)))
	for _, k := range c.Kinds {
		add(uint64(k.Kind), k.Events, k.Bytes)
	}
	add(uint64(len(c.Origins)))
	last := event.OriginID(0)
	for _, o := range c.Origins {
		add(uint64(o.Origin-last), uint64(o.Block))
		last = o.Origin
	}
	listed := uint64(1)
	if c.Unlisted {
		listed = 0
	}
	add(listed, uint64(len(c.Slices)))
	entity := event.EntityID(0)
	for _, s := range c.Slices {
		add(uint64(s.Slice.Entity-entity), uint64(s.Slice.Partition), s.Events, s.Bytes, s.Bodies, s.BodyBytes)
		entity = s.Slice.Entity
		if c.Unlisted {
			add(0)
			continue
		}
		add(uint64(len(s.Blocks)))
		block, low := 0, event.SequenceNumber(0)
		for _, b := range s.Blocks {
			add(uint64(b.Block-block), zigzag(int64(b.Lowest-low)), uint64(b.Highest-b.Lowest))
			block, low = b.Block, b.Lowest
		}
	}
	return p
}

// reader reads uvarints. The first error sticks.
type reader struct {
	p      []byte
	bad    bool
	wanted func(event.Slice) bool
}

func (r *reader) next() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[n:]
	return v
}

// nextBelow does the same as next for a value that must be below limit.
func (r *reader) nextBelow(limit uint64) uint64 {
	v := r.next()
	if v >= limit {
		r.bad, r.p = true, nil
		return 0
	}
	return v
}

// count does the same as next for the length of a list whose entries take at least size bytes each.
func (r *reader) count(size int) int { return int(r.nextBelow(uint64(len(r.p)/size) + 1)) }

// DecodeContents reads the contents of a file with that many record blocks. The error wraps
// [format.ErrDamaged].
func DecodeContents(p []byte, blocks int) (Contents, error) {
	return decodeContents(p, blocks, func(event.Slice) bool { return true })
}

// decodeContents does the same as DecodeContents, but keeps the blocks of wanted slices only,
// because they are most of the contents.
func decodeContents(p []byte, blocks int, wanted func(event.Slice) bool) (Contents, error) {
	r := reader{p: p, wanted: wanted}
	var c Contents
	r.kinds(&c)
	last := uint64(0)
	for i := range r.count(2) {
		d := r.nextBelow(1<<32 - last)
		last += d
		if d == 0 && i > 0 {
			r.bad = true
		}
		c.Origins = append(c.Origins, OriginAt{event.OriginID(last), int(r.nextBelow(uint64(blocks)))})
	}
	c.Unlisted = r.nextBelow(2) == 0
	for range r.count(7) {
		r.slice(&c, blocks)
		if r.bad {
			break
		}
	}
	if r.bad || len(r.p) > 0 {
		return Contents{}, damaged("contents do not fit")
	}
	return c, nil
}

// kinds reads the counts of kinds.
func (r *reader) kinds(c *Contents) {
	for range r.count(3) {
		k := KindCount{event.Kind(r.nextBelow(256)), r.next(), r.next()}
		if n := len(c.Kinds); n > 0 && k.Kind <= c.Kinds[n-1].Kind {
			r.bad = true
		}
		c.Kinds = append(c.Kinds, k)
	}
}

// slice reads the next slice.
func (r *reader) slice(c *Contents, blocks int) {
	var s SliceCount
	last := event.Slice{}
	if n := len(c.Slices); n > 0 {
		last = c.Slices[n-1].Slice
	}
	s.Slice.Entity = last.Entity + event.EntityID(r.nextBelow(1<<32-uint64(last.Entity)))
	s.Slice.Partition = uint8(r.nextBelow(256))
	if len(c.Slices) > 0 && compareSlices(last, s.Slice) >= 0 {
		r.bad = true
	}
	s.Events, s.Bytes, s.Bodies, s.BodyBytes = r.next(), r.next(), r.next(), r.next()
	n := r.count(3)
	if c.Unlisted && n > 0 {
		r.bad = true
	}
	keep := r.wanted(s.Slice)
	if keep {
		s.Blocks = make([]SliceAt, 0, n)
	}
	block, low := 0, event.SequenceNumber(0)
	for i := range n {
		d := int(r.nextBelow(uint64(blocks - block)))
		block += d
		low += event.SequenceNumber(unzigzag(r.next()))
		high := low + event.SequenceNumber(r.next())
		if d == 0 && i > 0 || high < low {
			r.bad = true
		}
		if keep {
			s.Blocks = append(s.Blocks, SliceAt{block, low, high})
		}
	}
	c.Slices = append(c.Slices, s)
}

func compareSlices(a, b event.Slice) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Partition, b.Partition))
}

// Of returns the entry of a slice.
func (c *Contents) Of(s event.Slice) (SliceCount, bool) {
	i, ok := slices.BinarySearchFunc(c.Slices, s, func(have SliceCount, want event.Slice) int { return compareSlices(have.Slice, want) })
	if !ok {
		return SliceCount{Slice: s}, false
	}
	return c.Slices[i], true
}
