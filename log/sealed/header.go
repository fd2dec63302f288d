package sealed

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// The versions of header and footer.
const (
	wholeVersion  = 1
	bodiesVersion = 2 // of a file of bodies
)

// Sizes of the fixed structures, bytes.
const (
	HeaderSize = 64
	FooterSize = 640
	partSize   = 48
	partsAt    = 224
	bootAt     = 152
	maxBoot    = format.MaxBoot
)

var le = binary.LittleEndian

// Part is one of the parts of a file between header and footer, in their order.
type Part int

const (
	Records     Part = iota // blocks of all bytes except bodies
	Bodies                  // blocks of bodies
	RecordIndex             // rows for the blocks of records
	BodyIndex               // rows for the blocks of bodies
	IDs                     // message-ids
	Summary                 // contents
	parts
)

func (p Part) String() string {
	return [...]string{"records", "bodies", "index of records", "index of bodies", "ids", "contents"}[p]
}

// Header is the beginning of a file: the log, and the range of its addresses.
type Header struct {
	Partition  format.PartitionID
	Tag        uint32 // of the namespace
	Chapter    uint32
	Revision   uint32 // from 1; each is a separate file
	First, End event.LSN
	Chain      uint32 // before the first frame
	Alone      bool   // it is a file of bodies, without records
}

func versionOf(alone bool) uint16 {
	if alone {
		return bodiesVersion
	}
	return wholeVersion
}

// Encode returns the bytes of the header.
func (h *Header) Encode() []byte {
	p := make([]byte, HeaderSize)
	copy(p, "LBSL")
	le.PutUint16(p[4:], versionOf(h.Alone))
	le.PutUint16(p[6:], uint16(h.Partition))
	le.PutUint32(p[8:], h.Tag)
	le.PutUint32(p[12:], h.Chapter)
	le.PutUint64(p[16:], uint64(h.First))
	le.PutUint64(p[24:], uint64(h.End))
	le.PutUint32(p[32:], h.Chain)
	le.PutUint32(p[36:], h.Revision)
	le.PutUint32(p[60:], event.Sum(p[:60]))
	return p
}

// DecodeHeader reads a header. The error wraps [format.ErrDamaged] or [format.ErrNewer].
func DecodeHeader(p []byte) (Header, error) {
	if err := enclosed(p, "LBSL", HeaderSize, "header"); err != nil {
		return Header{}, err
	}
	h := Header{
		Partition: format.PartitionID(le.Uint16(p[6:])), Tag: le.Uint32(p[8:]), Chapter: le.Uint32(p[12:]), Revision: le.Uint32(p[36:]),
		First: event.LSN(le.Uint64(p[16:])), End: event.LSN(le.Uint64(p[24:])), Chain: le.Uint32(p[32:]), Alone: le.Uint16(p[4:]) == bodiesVersion,
	}
	if h.First < format.FirstLSN || h.First%8 != 0 || h.End%8 != 0 || h.End <= h.First || h.End > maxAddress || h.Revision == 0 || h.Chapter == 0 || !zeroes(p[40:60]) {
		return Header{}, damaged("header: contents are inconsistent")
	}
	return h, nil
}

// maxAddress exceeds every address. The sum of two addresses below it does not overflow.
const maxAddress = event.LSN(1) << 62

// enclosed checks magic, checksum and version of a header or footer.
func enclosed(p []byte, magic string, size int, what string) error {
	switch {
	case len(p) != size || string(p[:4]) != magic:
		return damaged("%s: is none", what)
	case le.Uint32(p[size-4:]) != event.Sum(p[:size-4]):
		return damaged("%s: checksum", what)
	case le.Uint16(p[4:]) > bodiesVersion:
		return fmt.Errorf("%w: sealed file version %d", format.ErrNewer, le.Uint16(p[4:]))
	case le.Uint16(p[4:]) == 0:
		return damaged("%s: version %d", what, le.Uint16(p[4:]))
	}
	return nil
}

func damaged(reason string, args ...any) error {
	return fmt.Errorf("%w: %s", format.ErrDamaged, fmt.Sprintf(reason, args...))
}

func zeroes(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// Span is the place of a part in the file, and its digest.
type Span struct {
	Offset, Length int64
	Sum            [sha256.Size]byte
}

func (s Span) end() int64 { return s.Offset + s.Length }

// Footer is the end of a file: the data about its frames that a start needs, and the place of every
// part.
type Footer struct {
	// it is of a file of bodies: no number except those of bodies is known, and Durable is End
	Alone             bool
	Chapter, Revision uint32
	First, End        event.LSN
	Chain             uint32       // before the first frame
	Last              uint32       // chain at the end
	Before            format.Epoch // before the file
	Epoch             format.Epoch // at the end
	Durable           event.LSN    // the newest durable-up-to of a frame
	Frames            uint64
	Records           uint64
	Events            uint64
	FirstTime         event.Time // of the first record; this and the next three are 0 without one
	Lowest, Highest   event.Time
	Newest            event.Time // of the last record
	BodyBytes         uint64
	ErasedBytes       uint64 // bytes of BodyBytes that are no longer kept
	ErasedFrames      uint64 // frames without all of their bodies
	ContentsSize      uint64 // when decompressed
	Boot              string // id of the boot in which the last run up to the end began
	Parts             [parts]Span
}

// Encode returns the bytes of the footer.
func (f *Footer) Encode() []byte {
	p := make([]byte, FooterSize)
	copy(p, "LBSF")
	le.PutUint16(p[4:], versionOf(f.Alone))
	for at, v := range map[int]uint64{
		8: uint64(f.First), 16: uint64(f.End), 32: uint64(f.Before), 40: uint64(f.Epoch), 48: uint64(f.Durable), 56: f.Frames, 64: f.Records,
		72: f.Events, 88: uint64(f.FirstTime), 96: uint64(f.Lowest), 104: uint64(f.Highest), 112: uint64(f.Newest), 120: f.BodyBytes,
		128: f.ErasedBytes, 136: f.ErasedFrames, 144: f.ContentsSize,
	} {
		le.PutUint64(p[at:], v)
	}
	le.PutUint32(p[24:], f.Chain)
	le.PutUint32(p[28:], f.Last)
	le.PutUint32(p[80:], f.Chapter)
	le.PutUint32(p[84:], f.Revision)
	le.PutUint32(p[bootAt:], uint32(len(f.Boot)))
	copy(p[bootAt+8:bootAt+8+maxBoot], f.Boot)
	for i, s := range f.Parts {
		row := p[partsAt+i*partSize:]
		le.PutUint64(row, uint64(s.Offset))
		le.PutUint64(row[8:], uint64(s.Length))
		copy(row[16:], s.Sum[:])
	}
	le.PutUint32(p[FooterSize-4:], event.Sum(p[:FooterSize-4]))
	return p
}

// DecodeFooter reads the footer of a file of the given size. The error wraps [format.ErrDamaged] or
// [format.ErrNewer].
func DecodeFooter(p []byte, size int64) (Footer, error) {
	if err := enclosed(p, "LBSF", FooterSize, "footer"); err != nil {
		return Footer{}, err
	}
	u := func(at int) uint64 { return le.Uint64(p[at:]) }
	f := Footer{
		Chapter: le.Uint32(p[80:]), Revision: le.Uint32(p[84:]), First: event.LSN(u(8)), End: event.LSN(u(16)), Chain: le.Uint32(p[24:]),
		Last: le.Uint32(p[28:]), Before: format.Epoch(u(32)), Epoch: format.Epoch(u(40)), Durable: event.LSN(u(48)), Frames: u(56), Records: u(64),
		Events: u(72), FirstTime: event.Time(u(88)), Lowest: event.Time(u(96)), Highest: event.Time(u(104)), Newest: event.Time(u(112)),
		BodyBytes: u(120), ErasedBytes: u(128), ErasedFrames: u(136), ContentsSize: u(144), Alone: le.Uint16(p[4:]) == bodiesVersion,
	}
	n := le.Uint32(p[bootAt:])
	boot := p[bootAt+8 : bootAt+8+maxBoot]
	times := f.FirstTime >= 0 && f.Lowest >= 0 && f.Newest >= 0 && f.Lowest <= f.Highest && f.Highest <= event.EndOfTime && f.Newest <= f.Highest && f.FirstTime <= f.Highest
	if n > maxBoot || !zeroes(boot[n:]) || !times || le.Uint16(p[6:]) != 0 || !zeroes(p[bootAt+4:bootAt+8]) || !zeroes(p[partsAt+int(parts)*partSize:FooterSize-4]) ||
		(f.Frames == 0) != f.Alone || f.ErasedFrames > f.Frames || f.ErasedBytes > f.BodyBytes || f.BodyBytes > uint64(maxAddress) || f.ContentsSize > MaxContents || f.Epoch < f.Before || f.Durable > f.End {
		return Footer{}, damaged("footer: contents are inconsistent")
	}
	if f.Alone && (f.Records != 0 || f.Events != 0 || f.Highest != 0 || f.ErasedBytes != 0 || f.Durable != f.End) {
		return Footer{}, damaged("footer: a file of bodies has no records")
	}
	f.Boot = string(boot[:n])
	at := int64(HeaderSize)
	for i := range f.Parts {
		row := p[partsAt+i*partSize:]
		s := Span{Offset: int64(le.Uint64(row)), Length: int64(le.Uint64(row[8:])), Sum: [sha256.Size]byte(row[16:])}
		if s.Offset != at || s.Length < 0 || s.Length > size || s.Length%f.rowOf(Part(i)) != 0 || f.Alone && s.Length > 0 && (Part(i) == Records || Part(i) == RecordIndex) {
			return Footer{}, damaged("footer: %s do not fit", Part(i))
		}
		f.Parts[i], at = s, s.end()
	}
	if at+FooterSize != size {
		return Footer{}, damaged("footer: the parts do not fill the file")
	}
	return f, nil
}

// rowOf returns the length of each row of a part, bytes.
func (f *Footer) rowOf(p Part) int64 {
	switch {
	case p == RecordIndex:
		return recordRow
	case p == BodyIndex:
		return bodyRow
	case p == keptAt && f.Alone:
		return KeptRow
	case p == IDs:
		return idRow
	}
	return 1
}

// Check compares a footer with the header of its file.
func (f *Footer) Check(h *Header) error {
	if f.First != h.First || f.End != h.End || f.Chain != h.Chain || f.Chapter != h.Chapter || f.Revision != h.Revision || f.Alone != h.Alone {
		return damaged("header and footer are inconsistent")
	}
	return nil
}
