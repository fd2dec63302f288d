package sealed

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Largest growth of a block's table, bytes: the count, and a stretch whose length is not known yet.
const (
	countSize   = 3
	stretchSize = binary.MaxVarintLen64 + 3
)

// output is the file being written, and the data for its footer.
type output struct {
	w   io.Writer
	at  int64
	sum hash.Hash // of the part being written
}

func (o *output) write(p []byte) error {
	n, err := o.w.Write(p)
	o.at += int64(n)
	if o.sum != nil {
		o.sum.Write(p[:n])
	}
	return err
}

// begin begins a part; end returns its span.
func (o *output) begin() Span {
	o.sum = sha256.New()
	return Span{Offset: o.at}
}

func (o *output) end(s Span) Span {
	s.Length = o.at - s.Offset
	o.sum.Sum(s.Sum[:0])
	return s
}

// builder makes blocks of the bytes of one part. Their ends depend only on the bytes, not on how
// the bytes are passed.
type builder struct {
	out    *output
	blocks []Block
	open   Block // its row, as far as it is known

	count int
	table []byte    // of the stretches that have ended
	from  event.LSN // address of the open stretch
	gap   event.LSN // before it
	n     int       // bytes of it
	data  []byte    // of all stretches
	raw   []byte
	store []byte
}

// room returns how many more bytes the open block takes.
func (b *builder) room() int {
	return MaxBlock - countSize - len(b.table) - stretchSize - len(b.data)
}

// add adds the bytes at an address, which is not below the end of the previous ones. It returns the
// number of the block with the first byte.
func (b *builder) add(at event.LSN, p []byte) (block int, err error) {
	block = -1
	for len(p) > 0 {
		if err := b.reach(at); err != nil {
			return 0, err
		}
		if block < 0 {
			block = len(b.blocks)
		}
		n := min(len(p), b.room())
		b.data = append(b.data, p[:n]...)
		b.n += n
		at, p = at+event.LSN(n), p[n:]
	}
	return block, nil
}

// reach makes place for a byte at an address.
func (b *builder) reach(at event.LSN) error {
	if b.count > 0 && at != b.from+event.LSN(b.n) {
		b.endStretch()
	}
	if b.room() <= 0 {
		if err := b.flush(); err != nil {
			return err
		}
	}
	switch {
	case b.count == 0:
		b.open.First = at
		b.count, b.from, b.gap, b.n = 1, at, 0, 0
	case b.n == 0: // ended
		b.count, b.gap, b.from = b.count+1, at-b.from, at
	}
	return nil
}

// endStretch writes the row of the open stretch; from is its end afterwards.
func (b *builder) endStretch() {
	if b.n == 0 {
		return
	}
	b.table = binary.AppendUvarint(b.table, uint64(b.gap))
	b.table = binary.AppendUvarint(b.table, uint64(b.n))
	b.from, b.n = b.from+event.LSN(b.n), 0
}

// flush writes the open block.
func (b *builder) flush() error {
	if b.count == 0 {
		return nil
	}
	b.endStretch()
	b.raw = binary.AppendUvarint(b.raw[:0], uint64(b.count))
	b.raw = append(append(b.raw, b.table...), b.data...)
	b.store = compress(b.store[:0], b.raw)
	b.open.Offset, b.open.Raw, b.open.Stored, b.open.Sum = b.out.at, uint32(len(b.raw)), uint32(len(b.store)), event.Sum(b.store)
	b.blocks = append(b.blocks, b.open)
	b.open, b.count, b.table, b.data = Block{}, 0, b.table[:0], b.data[:0]
	return b.out.write(b.store)
}

// times records the times of the records of a frame that begins in the open block.
func (b *builder) times(number int, frame event.LSN, lowest, highest event.Time) {
	row := &b.open
	if number < len(b.blocks) {
		row = &b.blocks[number]
	}
	row.begins(frame, lowest, highest)
}

// begins records that a frame begins in the block, and the range of its records' times; 0: it has
// none.
func (b *Block) begins(frame event.LSN, lowest, highest event.Time) {
	if b.Frame == 0 {
		b.Frame = frame
	}
	if highest == 0 {
		return
	}
	if b.Lowest == 0 || lowest < b.Lowest {
		b.Lowest = lowest
	}
	b.Highest = max(b.Highest, highest)
}
