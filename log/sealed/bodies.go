package sealed

import (
	"bytes"
	"hash/crc32"
	"io"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A file of bodies (log-format.md 3.2) is the rest of a file whose history was removed: the bodies
// that messages still have, and nothing else. It has a row for each body in place of the ids.

// Kept is a body in a file of bodies.
type Kept struct {
	Position event.Position
	Size     uint32
	Sum      uint32 // of its bytes
	// slice of a message with the body, or of the session whose state it is
	Slice  event.Slice
	Number event.SequenceNumber // number of that message; 0: it is the state of a session
}

// Blob returns the body as events refer to it.
func (k *Kept) Blob() event.Blob {
	return event.Blob{Position: k.Position, Size: k.Size, Sum: k.Sum}
}

func (k *Kept) end() event.LSN { return event.LSN(k.Position) + event.LSN(k.Size) }

// KeptRow is the size of each body besides its bytes.
const KeptRow = 32

// keptAt is the part with the rows of bodies.
const keptAt = IDs

func encodeKept(rows []Kept) []byte {
	p := make([]byte, 0, KeptRow*len(rows))
	for i := range rows {
		k := &rows[i]
		p = le.AppendUint64(p, uint64(k.Position))
		p = le.AppendUint32(p, k.Size)
		p = le.AppendUint32(p, k.Sum)
		p = le.AppendUint32(p, uint32(k.Slice.Entity))
		p = append(p, k.Slice.Partition, 0, 0, 0)
		p = le.AppendUint64(p, uint64(k.Number))
	}
	return p
}

// DecodeKept reads the rows of a file of bodies whose addresses are from first up to end. The error
// wraps [format.ErrDamaged].
func DecodeKept(p []byte, first, end event.LSN) ([]Kept, error) {
	list := make([]Kept, 0, len(p)/KeptRow)
	for after := first; len(p) >= KeptRow; p = p[KeptRow:] {
		k := Kept{
			Position: event.Position(le.Uint64(p)), Size: le.Uint32(p[8:]), Sum: le.Uint32(p[12:]),
			Slice: event.Slice{Entity: event.EntityID(le.Uint32(p[16:])), Partition: p[20]}, Number: event.SequenceNumber(le.Uint64(p[24:])),
		}
		if at := event.LSN(k.Position); at < after || at >= end || k.Size == 0 || event.LSN(k.Size) > end-at || !zeroes(p[21:24]) {
			return nil, damaged("rows of bodies: row %d does not fit", len(list))
		}
		after = k.end()
		list = append(list, k)
	}
	if len(p) > 0 {
		return nil, damaged("rows of bodies: half a row")
	}
	return list, nil
}

// contentsOf returns the contents of a file of bodies.
func contentsOf(rows []Kept) []byte {
	of := map[event.Slice]*SliceCount{}
	for i := range rows {
		s := of[rows[i].Slice]
		if s == nil {
			s = &SliceCount{Slice: rows[i].Slice}
			of[s.Slice] = s
		}
		s.Bodies, s.BodyBytes = s.Bodies+1, s.BodyBytes+uint64(rows[i].Size)
	}
	c := Contents{Unlisted: true}
	for _, s := range of {
		c.Slices = append(c.Slices, *s)
	}
	slices.SortFunc(c.Slices, func(a, b SliceCount) int { return compareSlices(a.Slice, b.Slice) })
	return c.append(nil)
}

// WriteBodies writes a file of bodies, which are in order and do not overlap, and returns its
// footer. Of the footer from, only Before, Epoch, Last and Boot count. read returns the bytes of a
// body, valid until it is called again. Errors are those of w and of read.
func WriteBodies(w io.Writer, h Header, from Footer, rows []Kept, read func(*Kept) ([]byte, error)) (Footer, error) {
	h.Alone = true
	f := Footer{
		Alone: true, Chapter: h.Chapter, Revision: h.Revision, First: h.First, End: h.End, Chain: h.Chain, Last: from.Last,
		Before: from.Before, Epoch: from.Epoch, Durable: h.End, Boot: from.Boot,
	}
	out := output{w: w}
	if err := out.write(h.Encode()); err != nil {
		return f, err
	}
	f.Parts[Records] = out.end(out.begin())
	at, blocks := out.begin(), builder{out: &out}
	for i := range rows {
		p, err := read(&rows[i])
		if err == nil {
			_, err = blocks.add(event.LSN(rows[i].Position), p)
		}
		if err != nil {
			return f, err
		}
		f.BodyBytes += uint64(len(p))
	}
	if err := blocks.flush(); err != nil {
		return f, err
	}
	f.Parts[Bodies] = out.end(at)
	var index []byte
	for i := range blocks.blocks {
		index = blocks.blocks[i].append(index, BodyIndex)
	}
	contents := contentsOf(rows)
	f.ContentsSize = uint64(len(contents))
	for i, p := range [][]byte{nil, index, encodeKept(rows), compress(nil, contents)} {
		at := out.begin()
		if err := out.write(p); err != nil {
			return f, err
		}
		f.Parts[RecordIndex+Part(i)] = out.end(at)
	}
	return f, out.write(f.Encode())
}

// Kept returns the rows of a file of bodies.
func (f *File) Kept() ([]Kept, error) {
	p, err := f.part(keptAt)
	if err != nil {
		return nil, err
	}
	return DecodeKept(p, f.Footer.First, f.Footer.End)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckBodies compares each body of a file of bodies with the checksum in its row, and checks that
// there is nothing else. [File.Verify] has compared the digests before. With an error, at is its
// place in the file.
func (f *File) CheckBodies() (at int64, err error) {
	rows, err := f.Kept()
	if err != nil {
		return f.Footer.Parts[keptAt].Offset, err
	}
	blocks, err := f.Index(Bodies)
	if err != nil {
		return f.Footer.Parts[BodyIndex].Offset, err
	}
	c := keptCheck{rows: rows}
	for i := range blocks {
		d, err := f.Read(blocks, i)
		for k := 0; err == nil && k < len(d.stretches); k++ {
			s := d.stretches[k]
			err = c.bytes(s.from, d.bytes[s.at:s.at+s.n])
		}
		if err != nil {
			return blocks[i].Offset, err
		}
	}
	bodies := uint64(0)
	for i := range rows {
		bodies += uint64(rows[i].Size)
	}
	contents, err := f.contents()
	switch {
	case len(c.rows) > 0:
		return f.Footer.Parts[keptAt].Offset, damaged("rows of bodies: %d rows have no bytes", len(c.rows))
	case err != nil || !bytes.Equal(contents, contentsOf(rows)):
		return f.Footer.Parts[Summary].Offset, cmpOr(err, "contents differ from the bodies")
	case bodies != f.Footer.BodyBytes:
		return f.Footer.Parts[Summary].end(), damaged("footer: counts differ from the bodies")
	}
	return 0, nil
}

// keptCheck compares rows with the bytes of their bodies.
type keptCheck struct {
	rows []Kept // rows that are not finished
	n    uint32 // bytes of the first one so far
	sum  uint32 // their checksum
}

// bytes takes the bytes at an address. Calls are in order.
func (c *keptCheck) bytes(at event.LSN, p []byte) error {
	for len(p) > 0 {
		if len(c.rows) == 0 || event.LSN(c.rows[0].Position)+event.LSN(c.n) != at {
			return damaged("bodies: no row covers address %d", at)
		}
		k := &c.rows[0]
		n := min(k.Size-c.n, uint32(len(p)))
		c.sum = crc32.Update(c.sum, castagnoli, p[:n])
		c.n, at, p = c.n+n, at+event.LSN(n), p[n:]
		if c.n < k.Size {
			continue
		}
		if c.sum != k.Sum {
			return damaged("bodies: checksum of the body at position %d does not match", k.Position)
		}
		c.rows, c.n, c.sum = c.rows[1:], 0, 0
	}
	return nil
}
