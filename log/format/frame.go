// Package format defines the bytes of a data directory: entries of segment files, the small files
// around them, and names. It encodes and decodes them, and judges the bytes where a frame is
// expected (docs/log-format.md). It opens and writes no file.
package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

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
	Version    = 1 // of all files except events, which have their own versions
	PrefixSize = 8
	headerSize = 88
	BodiesAt   = PrefixSize + headerSize // where bodies begin, from the first byte of the entry
	FirstLSN   = event.LSN(8)            // of the first entry of a log: 0 is never an LSN

	// largest frame of the format, bytes: a setting must not make old logs unreadable
	MaxFrame = 1 << 30
)

// Blank fills the room after the last entry of a file (log-format.md 3.1). No entry begins or ends
// with eight of these bytes.
const Blank = 0xff

var frameMagic = [4]byte{'L', 'B', 'F', 'R'}

var le = binary.LittleEndian

// Header is a frame header. Field order and widths are those of log-format.md 3.
type Header struct {
	Kind      Kind
	Level     Durability
	Length    uint32 // header, bodies, records and padding
	Bodies    uint32
	Records   uint32
	Count     uint32
	Partition PartitionID
	Chapter   uint32
	Epoch     Epoch
	LSN       event.LSN
	First     event.Time
	Durable   event.LSN
	Chain     uint32
	Tag       uint32
	BodiesSum uint32
	RecordSum uint32
	Span      uint32 // ms from the first record to the last
	Sum       uint32 // checksum of this header; set by Seal and Decode
}

// Entry returns the size of the entry on disk, bytes.
func (h *Header) Entry() int64 { return PrefixSize + int64(h.Length) }

// Next returns the LSN of the next frame.
func (h *Header) Next() event.LSN { return h.LSN + event.LSN(h.Entry()) }

// Newest returns the time of the last record.
func (h *Header) Newest() event.Time { return h.First + event.Time(h.Span) }

// RecordsAt returns where the records begin, from the first byte of the entry.
func (h *Header) RecordsAt() int64 { return BodiesAt + int64(h.Bodies) }

// FrameLength returns the length of a frame with that many bytes of bodies and records. The setting
// for the longest frame limits this length.
func FrameLength(bodies, records int) int { return (headerSize + bodies + records + 7) &^ 7 }

// put writes the header into p and remembers its checksum.
func (h *Header) put(p []byte) {
	p = p[:headerSize]
	clear(p)
	copy(p, frameMagic[:])
	p[4], p[5], p[6] = Version, byte(h.Kind), byte(h.Level)
	le.PutUint32(p[8:], h.Length)
	le.PutUint32(p[12:], h.Bodies)
	le.PutUint32(p[16:], h.Records)
	le.PutUint32(p[20:], h.Count)
	le.PutUint16(p[24:], uint16(h.Partition))
	le.PutUint32(p[28:], h.Chapter)
	le.PutUint64(p[32:], uint64(h.Epoch))
	le.PutUint64(p[40:], uint64(h.LSN))
	le.PutUint64(p[48:], uint64(h.First))
	le.PutUint64(p[56:], uint64(h.Durable))
	le.PutUint32(p[64:], h.Chain)
	le.PutUint32(p[68:], h.Tag)
	le.PutUint32(p[72:], h.BodiesSum)
	le.PutUint32(p[76:], h.RecordSum)
	le.PutUint32(p[80:], h.Span)
	h.Sum = event.Sum(p[:84])
	le.PutUint32(p[84:], h.Sum)
}

// Decode reads the header of the entry that begins with p, which has at least BodiesAt bytes. It
// reports whether the header is intact, as get does.
func (h *Header) Decode(p []byte) (intact bool, err error) { return h.get(p[PrefixSize:]) }

// get reads a header and reports whether it is intact: its checksum matches and its lengths are
// consistent. It does not check whether the header belongs at this place. The error is ErrNewer for
// an intact header of a newer version.
func (h *Header) get(p []byte) (intact bool, err error) {
	if len(p) < headerSize || [4]byte(p) != frameMagic {
		return false, nil
	}
	p = p[:headerSize]
	h.Sum = event.Sum(p[:84])
	if le.Uint32(p[84:]) != h.Sum {
		return false, nil
	}
	if p[4] > Version {
		return false, fmt.Errorf("%w: frame version %d", ErrNewer, p[4])
	}
	h.Kind, h.Level = Kind(p[5]), Durability(p[6])
	h.Length, h.Bodies, h.Records, h.Count = le.Uint32(p[8:]), le.Uint32(p[12:]), le.Uint32(p[16:]), le.Uint32(p[20:])
	h.Partition, h.Chapter = PartitionID(le.Uint16(p[24:])), le.Uint32(p[28:])
	h.Epoch, h.LSN = Epoch(le.Uint64(p[32:])), event.LSN(le.Uint64(p[40:]))
	h.First, h.Durable = event.Time(le.Uint64(p[48:])), event.LSN(le.Uint64(p[56:]))
	h.Chain, h.Tag = le.Uint32(p[64:]), le.Uint32(p[68:])
	h.BodiesSum, h.RecordSum, h.Span = le.Uint32(p[72:]), le.Uint32(p[76:]), le.Uint32(p[80:])
	sum := (headerSize + uint64(h.Bodies) + uint64(h.Records) + 7) &^ 7
	ok := p[4] == Version && p[7] == 0 && le.Uint16(p[26:]) == 0 &&
		h.Kind >= Events && h.Kind <= Skip && h.Level <= Durable && uint64(h.Length) == sum &&
		h.LSN%8 == 0 && h.Durable <= h.LSN && h.First >= 0 && h.First <= event.EndOfTime
	return ok, nil
}

// prefixLen returns the number of bytes of the uvarint that tidwall/wal puts before a frame of the
// given length, where the uvarint counts the frame and the 8-u zero bytes between. Exactly one u
// fits a length that is a multiple of 8.
func prefixLen(length uint32) int {
	for u := 1; u < PrefixSize; u++ {
		n := uint64(length) + uint64(PrefixSize-u)
		if n >= 1<<(7*(u-1)) && n < 1<<(7*u) || u == 1 && n < 1<<7 {
			return u
		}
	}
	panic(fmt.Sprintf("log: frame of %d bytes has no prefix", length))
}

// putPrefix writes the eight bytes before a frame and returns how many of them tidwall/wal writes
// itself.
func putPrefix(p []byte, length uint32) int {
	clear(p[:PrefixSize])
	u := prefixLen(length)
	if binary.PutUvarint(p[:PrefixSize], uint64(length)+uint64(PrefixSize-u)) != u {
		panic("log: prefix length")
	}
	return u
}

func prefixOK(p []byte, length uint32) bool {
	var want [PrefixSize]byte
	putPrefix(want[:], length)
	return bytes.Equal(p[:PrefixSize], want[:])
}

// Seal sets the prefix, the header and the checksums of an entry whose bodies and records are in
// place.
func (h *Header) Seal(entry []byte) {
	b := entry[BodiesAt : BodiesAt+int(h.Bodies)]
	r := entry[BodiesAt+int(h.Bodies) : BodiesAt+int(h.Bodies)+int(h.Records)]
	h.BodiesSum, h.RecordSum = event.Sum(b), event.Sum(r)
	putPrefix(entry, h.Length)
	h.put(entry[PrefixSize:])
}

// Head returns the prefix and the header of an entry whose checksums are known, and sets the
// header's own checksum.
func (h *Header) Head() []byte {
	p := make([]byte, BodiesAt)
	putPrefix(p, h.Length)
	h.put(p[PrefixSize:])
	return p
}

// RecordsMatch reports whether bytes have the checksum of the records.
func (h *Header) RecordsMatch(p []byte) bool { return sumOK(event.Sum(p), h.RecordSum) }

// sumOK compares checksums, unless the planted bug M4 is on.
func sumOK(got, want uint32) bool { return got == want }

// SpanOf returns the time from the first record of a frame to the last, in the form of its header.
func SpanOf(first, last event.Time) uint32 {
	if last < first {
		return 0
	}
	return uint32(min(uint64(last-first), math.MaxUint32))
}
