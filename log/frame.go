package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// An entry of a segment file (log-format.md 3):
//
//	0        8                96                                                             multiple of 8
//	+--------+----------------+-----------------------+---------------------------+---------+
//	| prefix | frame header   | bodies                | records                   | 0 to 7  |
//	|   8    |      88        | blobs as they came    | event.AppendRecord output | zeroes  |
//	+--------+----------------+-----------------------+---------------------------+---------+
//	LSN      LSN+8            LSN+96
const (
	formatVersion = 1 // of frames, notes and checkpoints; that of the directory is directoryFormat
	prefixSize    = 8
	headerSize    = 88
	bodiesAt      = prefixSize + headerSize
	firstLSN      = event.LSN(8)

	defaultMaxFrame = 128 << 20
	maxFrame        = 1 << 30 // of the format, bytes: a setting must not make old logs unreadable
)

var frameMagic = [4]byte{'L', 'B', 'F', 'R'}

var le = binary.LittleEndian

// header is a frame header. Field order and widths are those of log-format.md 3.
type header struct {
	kind      Kind
	level     Durability
	length    uint32 // header, bodies, records and padding
	bodies    uint32
	records   uint32
	count     uint32
	partition PartitionID
	chapter   uint32
	epoch     Epoch
	lsn       event.LSN
	first     event.Time
	durable   event.LSN
	chain     uint32
	tag       uint32
	bodiesSum uint32
	recordSum uint32
	span      uint32 // ms from the first record to the last
	sum       uint32 // of this header; filled in by put and get
}

// entry is the size on disk.
func (h *header) entry() int64 { return prefixSize + int64(h.length) }

func (h *header) next() event.LSN { return h.lsn + event.LSN(h.entry()) }

func (h *header) newest() event.Time { return h.first + event.Time(h.span) }

func (h *header) recordsAt() int64 { return bodiesAt + int64(h.bodies) }

// frameLength is the length of a frame with so many bytes of bodies and records.
func frameLength(bodies, records int) int { return (headerSize + bodies + records + 7) &^ 7 }

// put writes the header into p and remembers its checksum.
func (h *header) put(p []byte) {
	p = p[:headerSize]
	clear(p)
	copy(p, frameMagic[:])
	p[4], p[5], p[6] = formatVersion, byte(h.kind), byte(h.level)
	le.PutUint32(p[8:], h.length)
	le.PutUint32(p[12:], h.bodies)
	le.PutUint32(p[16:], h.records)
	le.PutUint32(p[20:], h.count)
	le.PutUint16(p[24:], uint16(h.partition))
	le.PutUint32(p[28:], h.chapter)
	le.PutUint64(p[32:], uint64(h.epoch))
	le.PutUint64(p[40:], uint64(h.lsn))
	le.PutUint64(p[48:], uint64(h.first))
	le.PutUint64(p[56:], uint64(h.durable))
	le.PutUint32(p[64:], h.chain)
	le.PutUint32(p[68:], h.tag)
	le.PutUint32(p[72:], h.bodiesSum)
	le.PutUint32(p[76:], h.recordSum)
	le.PutUint32(p[80:], h.span)
	h.sum = event.Sum(p[:84])
	le.PutUint32(p[84:], h.sum)
}

// get reads a header and tells whether it is intact: its checksum matches and its lengths agree with each other. It
// says nothing about whether the header belongs here. The error is ErrFormat for an intact header of a newer version.
func (h *header) get(p []byte) (intact bool, err error) {
	if len(p) < headerSize || [4]byte(p) != frameMagic {
		return false, nil
	}
	p = p[:headerSize]
	h.sum = event.Sum(p[:84])
	if le.Uint32(p[84:]) != h.sum {
		return false, nil
	}
	if p[4] > formatVersion {
		return false, fmt.Errorf("%w: frame version %d", ErrFormat, p[4])
	}
	h.kind, h.level = Kind(p[5]), Durability(p[6])
	h.length, h.bodies, h.records, h.count = le.Uint32(p[8:]), le.Uint32(p[12:]), le.Uint32(p[16:]), le.Uint32(p[20:])
	h.partition, h.chapter = PartitionID(le.Uint16(p[24:])), le.Uint32(p[28:])
	h.epoch, h.lsn = Epoch(le.Uint64(p[32:])), event.LSN(le.Uint64(p[40:]))
	h.first, h.durable = event.Time(le.Uint64(p[48:])), event.LSN(le.Uint64(p[56:]))
	h.chain, h.tag = le.Uint32(p[64:]), le.Uint32(p[68:])
	h.bodiesSum, h.recordSum, h.span = le.Uint32(p[72:]), le.Uint32(p[76:]), le.Uint32(p[80:])
	sum := (headerSize + uint64(h.bodies) + uint64(h.records) + 7) &^ 7
	ok := p[4] == formatVersion && p[7] == 0 && le.Uint16(p[26:]) == 0 &&
		h.kind >= Events && h.kind <= Skip && h.level <= Durable && uint64(h.length) == sum &&
		h.lsn%8 == 0 && h.durable <= h.lsn && h.first >= 0 && h.first <= event.EndOfTime
	return ok, nil
}

// prefixLen is the number of bytes of the uvarint that tidwall/wal puts before a frame of the given length, where the
// uvarint counts the frame and the 8-u zero bytes between. Exactly one u fits a length that is a multiple of 8.
func prefixLen(length uint32) int {
	for u := 1; u < prefixSize; u++ {
		n := uint64(length) + uint64(prefixSize-u)
		if n >= 1<<(7*(u-1)) && n < 1<<(7*u) || u == 1 && n < 1<<7 {
			return u
		}
	}
	panic(fmt.Sprintf("log: frame of %d bytes has no prefix", length))
}

// putPrefix writes the eight bytes before a frame and returns how many of them tidwall/wal writes itself.
func putPrefix(p []byte, length uint32) int {
	clear(p[:prefixSize])
	u := prefixLen(length)
	if binary.PutUvarint(p[:prefixSize], uint64(length)+uint64(prefixSize-u)) != u {
		panic("log: prefix length")
	}
	return u
}

func prefixOK(p []byte, length uint32) bool {
	var want [prefixSize]byte
	putPrefix(want[:], length)
	return bytes.Equal(p[:prefixSize], want[:])
}

// seal fills in prefix, header and checksums of an entry whose bodies and records are in place.
func (h *header) seal(entry []byte) {
	b := entry[bodiesAt : bodiesAt+int(h.bodies)]
	r := entry[bodiesAt+int(h.bodies) : bodiesAt+int(h.bodies)+int(h.records)]
	h.bodiesSum, h.recordSum = event.Sum(b), event.Sum(r)
	putPrefix(entry, h.length)
	h.put(entry[prefixSize:])
}

// sumOK compares checksums, unless the planted bug M4 is on.
func sumOK(got, want uint32) bool { return got == want || mutant.On(mutant.NoPayloadChecksum) }

func spanOf(first, last event.Time) uint32 {
	if last < first {
		return 0
	}
	return uint32(min(uint64(last-first), math.MaxUint32))
}
