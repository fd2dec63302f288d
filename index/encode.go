package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// EncodingVersion is the first byte of an encoded index. See docs/log-format.md, "Checkpoint
// payload". A state of another version is unusable: replay begins earlier instead.
const EncodingVersion = 5

// errEncoding is wrapped by every error of [Decode].
var errEncoding = errors.New("index: bad encoding")

// Encode appends the canonical encoding of the whole state: equal states have equal encodings,
// whatever their history.
func (x *Index) Encode(dst []byte) []byte {
	v := viewOf(x)
	e := &stateEncoder{view: &v, dst: dst}
	e.state()
	return e.dst
}

// stateEncoder makes an encoding.
type stateEncoder struct {
	*view
	dst []byte    // the part that is not written yet
	w   io.Writer // nil: everything stays in dst
	err error     // of w

	written int64 // bytes
}

// pieceSize is how many bytes are written at once; a row or an entity may exceed it.
const pieceSize = 64 << 10

// piece writes the encoded part if it is large enough.
func (e *stateEncoder) piece() {
	if e.w != nil && len(e.dst) >= pieceSize {
		e.flush()
	}
}

func (e *stateEncoder) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.dst)
		e.written += int64(len(e.dst))
	}
	e.dst = e.dst[:0]
}

func (e *stateEncoder) number(n uint64) { e.dst = binary.AppendUvarint(e.dst, n) }

func (e *stateEncoder) state() {
	e.dst = append(e.dst, EncodingVersion)
	e.number(uint64(e.lastAt))
	e.number(uint64(e.nextOrigin))
	e.catalogue()
	all := e.sortedSlices()
	e.number(uint64(len(all)))
	for _, k := range all {
		if e.err != nil {
			return
		}
		e.slice(k)
	}
	moved := slices.DeleteFunc(all, func(k *keptSlice) bool { return k.given == 0 && k.arrived == nil })
	// a state without any of these is encoded as before they existed
	if e.clock.Number != 0 || len(moved) > 0 || e.policies != nil {
		e.number(e.clock.Number)
		e.dst = binary.AppendVarint(e.dst, e.clock.Shift)
	}
	if len(moved) > 0 || e.policies != nil {
		e.moves(moved)
	}
	if e.policies != nil {
		e.policiesOf(e.policies)
	}
}

func compareSlices(a, b event.Slice) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Partition, b.Partition))
}

const (
	flagOwnTTL  = 1 << 0
	flagChanged = 1 << 1
	flagSession = 1 << 2
	flagOrigin  = 1 << 3
	flagWaited  = 1 << 4 // it was scheduled
	flagHops    = 1 << 5 // it has moved
	flagSource  = 1 << 6 // it was in a dead-letter queue before it came here
	flagStays   = 1 << 7
)

func (e *stateEncoder) slice(k *keptSlice) {
	e.number(uint64(k.id.Entity))
	e.dst = append(e.dst, k.id.Partition)
	e.number(uint64(k.last))
	e.number(uint64(k.topic))
	ordinals := e.sessions(k.names)
	e.history(k.seen)
	e.number(uint64(k.live()))
	if e.w == nil {
		e.dst = slices.Grow(e.dst, k.live()*rowSize)
	}
	var seq event.SequenceNumber
	var last row
	k.rows.root.each(0, func(p place) bool {
		before := seq
		seq = p.sequence()
		e.number(uint64(seq - before))
		r := p.row()
		e.row(p, r, &last, ordinals)
		last = *r
		e.piece()
		return e.err == nil
	})
}

// rowSize is the usual size of an encoded row, bytes: numbers that grow from row to row are stored
// as differences.
const rowSize = 20

// row appends the fields of one message. last is the previous row.
func (e *stateEncoder) row(p place, r, last *row, ordinals []uint32) {
	origin, source, state, hops := p.origin(), p.source(), r.marks.state(), r.marks.hops()
	var flags byte
	if r.marks.has(ownTTL) {
		flags |= flagOwnTTL
	}
	if r.marks.has(changed) {
		flags |= flagChanged
	}
	if r.marks.has(wasScheduled) {
		flags |= flagWaited
	}
	if r.session != 0 {
		flags |= flagSession
	}
	if origin != 0 {
		flags |= flagOrigin
	}
	if hops != 0 {
		flags |= flagHops
	}
	if source != "" {
		flags |= flagSource
	}
	if r.marks.has(stays) {
		flags |= flagStays
	}
	dst := append(e.dst, byte(state), byte(r.marks.subQueue()), flags)
	dst = binary.AppendVarint(dst, int64(r.position-last.position))
	dst = binary.AppendUvarint(dst, uint64(r.size))
	dst = binary.LittleEndian.AppendUint32(dst, r.sum)
	dst = binary.AppendVarint(dst, int64(r.enqueuedAt-last.enqueuedAt))
	dst = binary.AppendVarint(dst, int64(r.expiresAt-last.expiresAt))
	dst = binary.AppendUvarint(dst, uint64(r.count))
	if origin != 0 {
		dst = binary.AppendUvarint(dst, uint64(origin))
	}
	if hops != 0 {
		dst = append(dst, hops)
	}
	if source != "" {
		dst = appendText(dst, source)
	}
	if r.session != 0 {
		dst = binary.AppendUvarint(dst, uint64(ordinals[r.session]))
	}
	switch state {
	case Locked, DeferredLocked:
		dst = e.locks.at(r.lock).append(dst)
	case Scheduled:
		t := e.schedule.at(r.lock)
		dst = binary.AppendUvarint(dst, uint64(t.at))
		dst = binary.AppendUvarint(dst, uint64(t.ttl))
	case Transferring:
		dst = e.transfers.at(r.lock).append(e, dst)
	}
	if r.marks.has(changed) {
		blobs := p.changes()
		dst = binary.AppendUvarint(dst, uint64(len(blobs)))
		for _, b := range blobs {
			dst = appendBody(dst, bodyOf(b))
		}
	}
	e.dst = dst
}

func (l *lock) append(dst []byte) []byte {
	return binary.AppendUvarint(append(dst, l.token[:]...), uint64(l.until))
}

func appendBody(dst []byte, b body) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.position))
	dst = binary.AppendUvarint(dst, uint64(b.size))
	return binary.LittleEndian.AppendUint32(dst, b.sum)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Decode rebuilds an index from its encoding. The bytes have been checked against a checksum
// before. Inconsistent bytes are an error, never a panic, and no count alone makes it allocate
// memory.
func Decode(src []byte) (*Index, error) {
	d := &stateDecoder{src: src}
	x := New()
	if v := d.byte(); d.err == nil && v != EncodingVersion {
		d.fail("version %d", v)
	}
	x.lastAt = event.Time(d.number(uint64(event.EndOfTime)))
	x.nextOrigin = event.OriginID(d.number(math.MaxUint32))
	d.catalogue(&x.Catalogue)
	var before event.Slice
	for n := d.number(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
		before = d.slice(x, before)
	}
	if d.err == nil && len(d.src) > 0 {
		d.clock(&x.clock)
	}
	moved := uint64(1)
	if d.err == nil && len(d.src) > 0 {
		moved = d.moves(x)
	}
	// the part may be missing, but must not be empty
	if d.err == nil && (len(d.src) > 0 || moved == 0) {
		x.Catalogue.history = d.policies()
	}
	d.check(indexAssembly{x}.complete())
	if d.err == nil && len(d.src) > 0 {
		d.fail("%d bytes too many", len(d.src))
	}
	if d.err != nil {
		return nil, d.err
	}
	return x, nil
}

func (d *stateDecoder) clock(c *Clock) {
	c.Number = d.number(math.MaxUint64)
	c.Shift = int64(d.distance(0, math.MaxUint64))
	if c.Number == 0 && (c.Shift != 0 || len(d.src) == 0) {
		d.fail("clock without a number")
	}
}

type stateDecoder struct {
	src []byte
	err error
	row event.RestoredRow // being read
}

// check fails with an error about the data read, unless it is nil or there was an earlier error.
func (d *stateDecoder) check(err error) {
	if err != nil {
		d.fail("%v", err)
	}
}

func (d *stateDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %d bytes before the end: %s", errEncoding, len(d.src), fmt.Sprintf(format, args...))
	}
}

func (d *stateDecoder) number(limit uint64) uint64 {
	v, n := binary.Uvarint(d.src)
	if n <= 0 || v > limit {
		d.fail("bad number")
		d.src = nil
		return 0
	}
	d.src = d.src[n:]
	return v
}

// distance reads a number as its difference from another one.
func (d *stateDecoder) distance(from, limit uint64) uint64 {
	v, n := binary.Varint(d.src)
	at := from + uint64(v)
	if n <= 0 || at > limit {
		d.fail("bad number")
		d.src = nil
		return 0
	}
	d.src = d.src[n:]
	return at
}

// atLeastOne reads a number that is not 0.
func (d *stateDecoder) atLeastOne(limit uint64) uint64 {
	v := d.number(limit)
	if v == 0 {
		d.fail("bad number")
	}
	return v
}

func (d *stateDecoder) take(n uint64) []byte {
	if n > uint64(len(d.src)) {
		d.fail("needs %d bytes", n)
		d.src = nil
		return nil
	}
	p := d.src[:n]
	d.src = d.src[n:]
	return p
}

func (d *stateDecoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *stateDecoder) text() string { return string(d.take(d.number(1 << 20))) }

func (d *stateDecoder) body() (b event.BodyRef) {
	b.Position = event.Position(d.number(math.MaxUint64))
	b.Size = uint32(d.number(math.MaxUint32))
	b.Sum = d.sum()
	return b
}

func (d *stateDecoder) sum() uint32 {
	if p := d.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// readValue reads a value in its form in events.
func readValue[T any](d *stateDecoder, from func([]byte) (T, []byte, error)) T {
	v, rest, err := from(d.src)
	if d.src = rest; err != nil {
		d.fail("%v", err)
		d.src = nil
	}
	return v
}

// slice reads the slice after another one.
func (d *stateDecoder) slice(x *Index, previous event.Slice) event.Slice {
	id := event.Slice{Entity: event.EntityID(d.number(math.MaxUint32)), Partition: d.byte()}
	if len(x.slices.byID) > 0 && compareSlices(previous, id) >= 0 {
		d.fail("slice %v after %v", id, previous)
		return id
	}
	before, end := id.Numbers()
	last := event.SequenceNumber(d.number(uint64(end)))
	topic := event.EntityID(d.number(math.MaxUint32))
	if d.err != nil {
		return id
	}
	s, err := indexAssembly{x}.restoreSlice(id, last, topic)
	if d.check(err); d.err != nil {
		return id
	}
	d.sessions(s)
	d.history(s)
	live := d.number(uint64(len(d.src)))
	seq := event.SequenceNumber(0)
	d.row = event.RestoredRow{}
	for ; live > 0 && d.err == nil; live-- {
		delta := event.SequenceNumber(d.number(math.MaxUint64))
		if delta == 0 || seq+delta < seq || seq+delta <= before || seq+delta > s.last {
			d.fail("row after sequence number %d", seq)
			break
		}
		seq += delta
		d.message(seq)
		if d.err == nil {
			d.check(s.restoreRow(&d.row))
		}
	}
	return id
}

// message reads the fields of one message, after the previous row.
func (d *stateDecoder) message(seq event.SequenceNumber) {
	last, r := d.row, &d.row
	*r = event.RestoredRow{Sequence: seq, State: event.RowState(d.byte()), SubQueue: event.SubQueue(d.byte())}
	flags := d.byte()
	r.OwnTTL, r.WasScheduled, r.Stays = flags&flagOwnTTL != 0, flags&flagWaited != 0, flags&flagStays != 0
	r.Body = event.BodyRef{
		Position: event.Position(d.distance(uint64(last.Body.Position), math.MaxUint64)), Size: uint32(d.number(math.MaxUint32)), Sum: d.sum(),
	}
	r.EnqueuedAt = event.Time(d.distance(uint64(last.EnqueuedAt), uint64(event.EndOfTime)))
	r.ExpiresAt = event.Time(d.distance(uint64(last.ExpiresAt), uint64(event.EndOfTime)))
	r.DeliveryCount = uint32(d.number(math.MaxUint32))
	if flags&flagOrigin != 0 {
		r.Way.First = event.SequenceNumber(d.atLeastOne(math.MaxUint64))
	}
	d.readWay(&r.Way, flags)
	if flags&flagSession != 0 {
		r.Session = uint32(d.atLeastOne(math.MaxUint32))
	}
	switch State(r.State) {
	case Locked, DeferredLocked:
		r.Lock = d.lock()
	case Transferring:
		r.Transfer = event.RestoredTransfer{Number: event.TransferNumber(d.atLeastOne(math.MaxUint64)),
			Destination: event.EntityID(d.number(math.MaxUint32)), Trigger: event.Trigger(d.byte())}
	case Scheduled:
		r.ScheduledFor, r.TimeToLive = event.Time(d.number(uint64(event.EndOfTime))), time.Duration(d.number(math.MaxInt64))
	}
	if flags&flagChanged != 0 {
		for n := d.atLeastOne(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
			r.Changes = append(r.Changes, d.body())
		}
	}
}

func (d *stateDecoder) lock() (l event.RestoredLock) {
	copy(l.Token[:], d.take(16))
	l.Until = event.Time(d.number(uint64(event.EndOfTime)))
	return l
}
