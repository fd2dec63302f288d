package sealed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A block is one zstd frame of
//
//	uvarint count of stretches · per stretch: uvarint gap, uvarint length · the bytes of the stretches
//
// and never longer than MaxBlock when it is decompressed.
const (
	MaxBlock  = 1 << 16 // bytes
	maxStored = 1 << 17 // bytes: incompressible data grows a little
	bodyRow   = 32      // bytes of a row of an index
	recordRow = 56
)

// Block is a row of an index.
type Block struct {
	First       event.LSN // address of its first byte
	Offset      int64     // in the file
	Stored, Raw uint32    // bytes
	Sum         uint32    // checksum of the stored bytes
	// first frame that begins in it; 0: none. Only for records, as the times are
	Frame           event.LSN
	Lowest, Highest event.Time
}

// append writes the row of a block.
func (b *Block) append(dst []byte, part Part) []byte {
	dst = le.AppendUint64(dst, uint64(b.First))
	dst = le.AppendUint64(dst, uint64(b.Offset))
	dst = le.AppendUint32(dst, b.Stored)
	dst = le.AppendUint32(dst, b.Raw)
	dst = le.AppendUint32(dst, b.Sum)
	dst = le.AppendUint32(dst, 0)
	if part == RecordIndex {
		dst = le.AppendUint64(dst, uint64(b.Frame))
		dst = le.AppendUint64(dst, uint64(b.Lowest))
		dst = le.AppendUint64(dst, uint64(b.Highest))
	}
	return dst
}

// DecodeIndex reads the rows for the blocks of a part at a span of the file with addresses from
// first up to end. The blocks fill the part without a gap.
func DecodeIndex(p []byte, part Part, blocks Span, first, end event.LSN) ([]Block, error) {
	row := bodyRow
	if part == RecordIndex {
		row = recordRow
	}
	list := make([]Block, 0, len(p)/row)
	at, after := blocks.Offset, first
	for ; len(p) >= row; p = p[row:] {
		b := Block{
			First: event.LSN(le.Uint64(p)), Offset: int64(le.Uint64(p[8:])), Stored: le.Uint32(p[16:]), Raw: le.Uint32(p[20:]), Sum: le.Uint32(p[24:]),
		}
		if part == RecordIndex {
			b.Frame, b.Lowest, b.Highest = event.LSN(le.Uint64(p[32:])), event.Time(le.Uint64(p[40:])), event.Time(le.Uint64(p[48:]))
		}
		if b.First < after || b.First >= end || b.Offset != at || b.Stored == 0 || b.Stored > maxStored || b.Raw == 0 || b.Raw > MaxBlock || le.Uint32(p[28:]) != 0 ||
			b.Frame != 0 && (b.Frame < b.First || b.Frame >= end || b.Frame%8 != 0) || b.Lowest < 0 || b.Lowest > b.Highest {
			return nil, damaged("%s: row %d does not fit", part, len(list))
		}
		at, after = at+int64(b.Stored), b.First+1
		list = append(list, b)
	}
	if len(p) > 0 || at != blocks.end() {
		return nil, damaged("%s: the blocks do not fill their part", part)
	}
	return list, nil
}

// Holding returns the number of the block that has an address, if any; -1: no block can have it.
func Holding(blocks []Block, at event.LSN) int {
	return sort.Search(len(blocks), func(i int) bool { return blocks[i].First > at }) - 1
}

// stretch is a range of contiguous addresses.
type stretch struct {
	from event.LSN
	at   int // place of the first byte in the data
	n    int
}

// Data is a decompressed block. It may be read concurrently.
type Data struct {
	stretches []stretch
	bytes     []byte
}

// At returns the bytes of the block from an address on, as far as addresses are contiguous; nil: it
// has none there.
func (d *Data) At(at event.LSN) []byte {
	i := sort.Search(len(d.stretches), func(i int) bool { return d.stretches[i].from > at }) - 1
	if i < 0 {
		return nil
	}
	s := d.stretches[i]
	off := at - s.from
	if off >= event.LSN(s.n) {
		return nil
	}
	return d.bytes[s.at+int(off) : s.at+s.n]
}

// Size returns about how much memory it takes, bytes.
func (d *Data) Size() int { return cap(d.bytes) + 32*len(d.stretches) }

// ErrBlock is wrapped by the error of a block whose stored bytes do not match their checksum.
var ErrBlock = errors.New("sealed block: checksum does not match")

// Decode decompresses a block. limit is the start of the next block of its part, or the end of the
// file's addresses.
func (b *Block) Decode(stored []byte, limit event.LSN) (*Data, error) {
	if len(stored) != int(b.Stored) || event.Sum(stored) != b.Sum {
		return nil, ErrBlock
	}
	raw, err := decompress(stored, int(b.Raw))
	if err != nil {
		return nil, err
	}
	return decodeBlock(raw, b.First, limit)
}

// decodeBlock reads the table of a block, whose addresses begin at first and stay below limit.
func decodeBlock(raw []byte, first, limit event.LSN) (*Data, error) {
	next := func() uint64 {
		v, n := binary.Uvarint(raw)
		if n <= 0 {
			raw = nil
			return 0
		}
		raw = raw[n:]
		return v
	}
	count := next()
	if count == 0 || count > uint64(len(raw))/2 {
		return nil, damaged("block: %d stretches", count)
	}
	d := &Data{stretches: make([]stretch, count)}
	from, at := first, 0
	for i := range d.stretches {
		gap, n := next(), next()
		if (gap == 0) != (i == 0) || gap > uint64(limit-from) || n == 0 || n > MaxBlock || n > uint64(limit-from)-gap {
			return nil, damaged("block: stretch %d does not fit", i)
		}
		from += event.LSN(gap)
		d.stretches[i] = stretch{from, at, int(n)}
		from, at = from+event.LSN(n), at+int(n)
	}
	if at != len(raw) {
		return nil, damaged("block: %d bytes, the table says %d", len(raw), at)
	}
	d.bytes = raw
	return d, nil
}

var (
	decoder = sync.OnceValue(func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxContents),
			zstd.WithDecoderMaxWindow(MaxContents), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return z
	})
	encoder = sync.OnceValue(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err)
		}
		return z
	})
)

// decompress returns the bytes of a zstd frame, which must be exactly size. The caller has limited
// size.
func decompress(stored []byte, size int) ([]byte, error) {
	raw, err := decoder().DecodeAll(stored, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", damaged("zstd"), err)
	}
	if len(raw) != size {
		return nil, damaged("%d bytes after decompression, expected %d", len(raw), size)
	}
	return raw, nil
}

func compress(dst, raw []byte) []byte { return encoder().EncodeAll(raw, dst) }
