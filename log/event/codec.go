package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"
)

// Limits of a record, checked before anything is allocated.
const (
	maxEvents = 1 << 20
	maxText   = 1 << 16
	maxList   = 1 << 20
)

// ErrUnknown is wrapped by errors about event kinds or versions that this program does not know.
var ErrUnknown = errors.New("unknown event")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of stored bytes, which is CRC-32C.
func Sum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Frame receives the bodies and records of the frame being filled.
type Frame interface {
	// AppendBlob copies the two parts of a blob after the frame's other bodies and returns its
	// position and its checksum.
	AppendBlob(head, tail []byte) (Position, uint32)
	// Base returns the position of the frame's first byte.
	Base() Position
}

// AppendRecord appends the binary form of a record to dst, copies its blobs into the frame and sets
// their positions. The events may be applied after it returns.
func AppendRecord(dst []byte, frame Frame, at Time, events []Event) []byte {
	e := encoders.Get().(*encoder)
	defer func() {
		*e = encoder{}
		encoders.Put(e)
	}()
	e.dst, e.frame = dst, frame
	e.uvarint(uint64(at))
	e.uvarint(uint64(len(events)))
	for _, ev := range events {
		c := ev.Common()
		e.dst = append(e.dst, byte(ev.Kind()), versionOf(ev))
		e.uvarint(uint64(c.Slice.Entity))
		e.dst = append(e.dst, c.Slice.Partition)
		e.uvarint(uint64(c.Origin))
		ev.encode(e)
	}
	return e.dst
}

// Decoder reads records. The events it returns, and the bytes they hold, are valid until its next
// call.
type Decoder struct {
	pool   Pool
	events []Event
	sizes  []Size
	in     decoder
}

// Size is the number of bytes of an event.
type Size struct {
	Record int    // in its record
	Blobs  int    // number of blobs that are not empty
	Bodies uint64 // bytes of these blobs
}

// Sizes returns the sizes of the events that the last call of Record returned, in their order. They
// are valid until the next call of Record.
func (d *Decoder) Sizes() []Size { return d.sizes }

// Blobs returns the non-empty blobs of the events that the last call of Record returned: those of
// the first event first, [Size.Blobs] of each. They are valid until the next call of Record.
func (d *Decoder) Blobs() []Blob { return d.in.blobs }

// Sums returns the places of the checksums of [Decoder.Blobs], four bytes each, as offsets from the
// first byte of the record passed to the last call of Record. They are valid until the next call.
func (d *Decoder) Sums() []int { return d.in.sums }

// Record decodes the record at the start of data. data is a part of the records of a frame whose
// first byte is at base and whose blobs are between base+bodies[0] and base+bodies[1]. It returns
// the rest of data.
func (d *Decoder) Record(base Position, bodies [2]uint32, data []byte) (Record, []byte, error) {
	d.pool.Reset()
	d.events, d.sizes = d.events[:0], d.sizes[:0]
	in := &d.in
	*in = decoder{src: data, base: base, bodies: bodies, blobs: in.blobs[:0], sums: in.sums[:0], all: len(data)}
	at := in.uvarint()
	n := in.uvarint()
	if in.err == nil && (n > maxEvents || n > uint64(len(in.src))) {
		in.fail("event count %d is out of bounds", n)
	}
	for i := uint64(0); i < n && in.err == nil; i++ {
		left := len(in.src)
		in.size = Size{}
		kind, version := Kind(in.byte()), in.byte()
		if in.err != nil {
			break
		}
		ev := d.pool.New(kind)
		if ev == nil || version == 0 || version > kinds[kind].version {
			return Record{}, nil, fmt.Errorf("event: %w: kind %d version %d", ErrUnknown, kind, version)
		}
		c := ev.Common()
		c.Slice.Entity = EntityID(in.uint32())
		c.Slice.Partition = in.byte()
		c.Origin = OriginID(in.uint32())
		in.version = version
		ev.decode(in)
		d.events = append(d.events, ev)
		in.size.Record = left - len(in.src)
		d.sizes = append(d.sizes, in.size)
	}
	if in.err != nil {
		return Record{}, nil, fmt.Errorf("event: record at byte %d: %w", len(data)-len(in.src), in.err)
	}
	return Record{At: Time(at), Events: d.events}, in.src, nil
}

// An encoder has a method for each type of field that is not stored as its underlying type. A
// decoder has a method that reads the same form. The generated code calls the method whose
// parameter, or result, has the type of the field.
type encoder struct {
	dst   []byte
	frame Frame
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

func (e *encoder) uvarint(v uint64)     { e.dst = binary.AppendUvarint(e.dst, v) }
func (e *encoder) uint32(v uint32)      { e.uvarint(uint64(v)) }
func (e *encoder) byte(v byte)          { e.dst = append(e.dst, v) }
func (e *encoder) time(t Time)          { e.uvarint(uint64(t)) }
func (e *encoder) fixed(p []byte)       { e.dst = append(e.dst, p...) }
func (e *encoder) seq(s SequenceNumber) { e.uvarint(uint64(s)) }
func (e *encoder) text(s string)        { e.length(len(s)); e.dst = append(e.dst, s...) }
func (e *encoder) bytes(p []byte)       { e.length(len(p)); e.dst = append(e.dst, p...) }
func (e *encoder) span(d time.Duration) { e.uvarint(uint64(d)) }
func (e *encoder) bool(v bool) {
	if v {
		e.dst = append(e.dst, 1)
	} else {
		e.dst = append(e.dst, 0)
	}
}

// length asserts the decoder's limit, because a record that cannot be read back must not be
// written.
func (e *encoder) length(n int) {
	if n > maxText {
		panic(fmt.Sprintf("event: text of %d bytes exceeds the limit of %d", n, maxText))
	}
	e.uvarint(uint64(n))
}

// count asserts the decoder's limit for the length of a list.
func (e *encoder) count(n int) {
	if n > maxList {
		panic(fmt.Sprintf("event: list of %d entries exceeds the limit of %d", n, maxList))
	}
	e.uvarint(uint64(n))
}

func (e *encoder) blob(b *Blob) {
	b.Size = uint32(len(b.Data) + len(b.Tail))
	e.uvarint(uint64(b.Size))
	if b.Size == 0 {
		b.Position, b.Sum = 0, 0
		return
	}
	b.Position, b.Sum = e.frame.AppendBlob(b.Data, b.Tail)
	e.uvarint(uint64(b.Position - e.frame.Base()))
	e.dst = binary.LittleEndian.AppendUint32(e.dst, b.Sum)
}

// decoder reads fields. The first error sticks, and everything after it reads as zero.
type decoder struct {
	src     []byte
	base    Position
	bodies  [2]uint32
	version byte   // of the event being read
	size    Size   // of that event, as far as it is known
	blobs   []Blob // of the record
	sums    []int  // places of their checksums
	all     int    // bytes of src at the start
	err     error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	if len(d.src) > 0 && d.src[0] < 0x80 { // most are
		v := d.src[0]
		d.src = d.src[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.src)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.src = d.src[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.fail("number %d exceeds 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.src)) {
		d.fail("needs %d bytes, %d left", n, len(d.src))
		return nil
	}
	p := d.src[:n:n]
	d.src = d.src[n:]
	return p
}

func (d *decoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) bool() bool {
	switch v := d.byte(); v {
	case 0:
		return false
	case 1:
		return true
	default:
		d.fail("%d is not a boolean", v)
		return false
	}
}

func (d *decoder) time() Time {
	v := d.uvarint()
	if v > uint64(EndOfTime) {
		d.fail("time %d is after year 9999", v)
		return 0
	}
	return Time(v)
}

func (d *decoder) span() time.Duration {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail("duration %d is out of bounds", v)
		return 0
	}
	return time.Duration(v)
}

func (d *decoder) fixed(p []byte)      { copy(p, d.take(uint64(len(p)))) }
func (d *decoder) seq() SequenceNumber { return SequenceNumber(d.uvarint()) }

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > maxText {
		d.fail("text of %d bytes exceeds the limit of %d", n, maxText)
		return nil
	}
	return d.take(n)
}

// count reads the length of a list whose entries take at least size bytes each.
func (d *decoder) count(size uint64) uint64 {
	n := d.uvarint()
	if n > maxList || n*size > uint64(len(d.src)) {
		d.fail("list of %d entries is out of bounds", n)
		return 0
	}
	return n
}

// among reads a byte that is one of a closed set of values, first to last. The program refuses
// values that it does not know (semantics.md 4.3 R11).
func (d *decoder) among(what string, first, last byte) byte {
	v := d.byte()
	if d.err == nil && (v < first || v > last) {
		d.fail("%d is not a valid %s", v, what)
	}
	return v
}

// wordOf returns the word for a value of a set, by its number.
func wordOf(words []string, n byte) string {
	if int(n) < len(words) && words[n] != "" {
		return words[n]
	}
	return "unknown"
}

func (d *decoder) text() string { return string(d.bytes()) }

func (d *decoder) blob(b *Blob) {
	*b = Blob{Size: d.uint32()}
	if b.Size == 0 {
		return
	}
	d.size.Blobs++
	d.size.Bodies += uint64(b.Size)
	off := uint64(d.uint32())
	at := d.all - len(d.src)
	sum := d.take(4)
	if d.err != nil {
		return
	}
	if off < uint64(d.bodies[0]) || off+uint64(b.Size) > uint64(d.bodies[1]) {
		d.fail("blob of %d bytes at %d lies outside the frame's bodies", b.Size, off)
		return
	}
	b.Position, b.Sum = d.base+Position(off), binary.LittleEndian.Uint32(sum)
	d.blobs, d.sums = append(d.blobs, *b), append(d.sums, at)
}

func (e *encoder) slice(s Slice) {
	e.uvarint(uint64(s.Entity))
	e.byte(s.Partition)
}

func (d *decoder) slice() Slice {
	return Slice{Entity: EntityID(d.uint32()), Partition: d.byte()}
}

// encodeAscending stores each number as its difference from the previous one.
func encodeAscending[N ~uint64](e *encoder, numbers []N) {
	e.count(len(numbers))
	var before N
	for _, n := range numbers {
		e.uvarint(uint64(n - before))
		before = n
	}
}

func decodeAscending[N ~uint64](d *decoder) (numbers []N) {
	var n N
	for range d.count(1) {
		n += N(d.uvarint())
		numbers = append(numbers, n)
	}
	return numbers
}

// returned stores returned messages, each as its difference from the previous one.
func (e *encoder) returned(list []Returned) {
	e.count(len(list))
	var before SequenceNumber
	for _, r := range list {
		e.seq(r.Sequence - before)
		e.uint32(r.DeliveryCount)
		before = r.Sequence
	}
}

func (d *decoder) returned() (list []Returned) {
	var seq SequenceNumber
	for range d.count(2) {
		seq += d.seq()
		list = append(list, Returned{seq, d.uint32()})
	}
	return list
}
