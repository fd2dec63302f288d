package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// EncodingVersion is the first byte of an encoded index. See docs/log-format.md, "Checkpoint payload". A state of another
// version is of no use: replay begins earlier instead.
const EncodingVersion = 5

// errEncoding is wrapped by every error of [Decode].
var errEncoding = errors.New("index: bad encoding")

// Encode appends the canonical encoding of the whole state: equal states have equal encodings, however they came about.
func (x *Index) Encode(dst []byte) []byte {
	dst = append(dst, EncodingVersion)
	dst = binary.AppendUvarint(dst, uint64(x.lastAt))
	dst = binary.AppendUvarint(dst, uint64(x.nextOrigin))
	dst = x.Catalogue.encode(dst)
	ids := slices.SortedFunc(maps.Keys(x.slices.byID), compareSlices)
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = x.slices.byID[id].encode(dst)
	}
	if x.clock.Number != 0 { // what was written before there was such a thing is read as it was
		dst = binary.AppendUvarint(dst, x.clock.Number)
		dst = binary.AppendVarint(dst, x.clock.Shift)
	}
	return dst
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
	rowFlags    = flagWaited<<1 - 1
)

func (s *slice) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.id.Entity))
	dst = append(dst, s.id.Partition)
	dst = binary.AppendUvarint(dst, uint64(s.last))
	var owner event.EntityID
	if s.owner != nil {
		owner = s.owner.id.Entity
	}
	dst = binary.AppendUvarint(dst, uint64(owner))
	dst, ordinals := s.sessions.encode(dst, &s.shared.locks)
	dst = encodeHistory(dst, s.history)
	live := 0
	for _, c := range s.chunks {
		live += c.live
	}
	dst = binary.AppendUvarint(dst, uint64(live))
	dst = slices.Grow(dst, live*rowSize)
	var seq event.SequenceNumber
	var last row
	for _, n := range slices.Sorted(maps.Keys(s.chunks)) {
		c := s.chunks[n]
		for i := range c.rows {
			if c.rows[i].state == Gone {
				continue
			}
			before := seq
			seq = event.SequenceNumber(n<<chunkBits + uint64(i))
			dst = binary.AppendUvarint(dst, uint64(seq-before))
			dst = s.encodeRow(dst, seq, c, &last, ordinals)
			last = c.rows[i]
		}
	}
	return dst
}

// rowSize is what most rows are encoded in, bytes: numbers that grow from row to row are stored as distances.
const rowSize = 20

// encodeRow appends what is known of one message. last is the row before.
func (s *slice) encodeRow(dst []byte, seq event.SequenceNumber, c *chunk, last *row, ordinals []uint64) []byte {
	at := uint64(seq) & (chunkRows - 1)
	r, origin := &c.rows[at], event.SequenceNumber(0)
	if c.origins != nil {
		origin = c.origins[at]
	}
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
	dst = append(dst, byte(r.state), byte(r.subQueue), flags)
	dst = binary.AppendVarint(dst, int64(r.position-last.position))
	dst = binary.AppendUvarint(dst, uint64(r.size))
	dst = binary.LittleEndian.AppendUint32(dst, r.sum)
	dst = binary.AppendVarint(dst, int64(r.enqueuedAt-last.enqueuedAt))
	dst = binary.AppendVarint(dst, int64(r.expiresAt-last.expiresAt))
	dst = binary.AppendUvarint(dst, uint64(r.count))
	if origin != 0 {
		dst = binary.AppendUvarint(dst, uint64(origin))
	}
	if r.session != 0 {
		dst = binary.AppendUvarint(dst, ordinals[r.session])
	}
	switch r.state {
	case Locked, DeferredLocked:
		l := s.shared.locks.at(r.lock)
		dst = append(dst, l.token[:]...)
		dst = binary.AppendUvarint(dst, uint64(l.until))
	case Scheduled:
		t := &s.shared.schedule.table[r.lock]
		dst = binary.AppendUvarint(dst, uint64(t.at))
		dst = binary.AppendUvarint(dst, uint64(t.ttl))
	}
	if r.marks.has(changed) {
		blobs := s.changes[seq]
		dst = binary.AppendUvarint(dst, uint64(len(blobs)))
		for _, b := range blobs {
			dst = appendBlob(dst, b)
		}
	}
	return dst
}

func appendBlob(dst []byte, b event.Blob) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.Position))
	dst = binary.AppendUvarint(dst, uint64(b.Size))
	return binary.LittleEndian.AppendUint32(dst, b.Sum)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Decode rebuilds an index from its encoding. The bytes have been checked against a checksum before; what does not fit
// all the same is an error, never a panic, and nothing is allocated on the word of a count alone.
func Decode(src []byte) (*Index, error) {
	d := &decoding{src: src}
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
		x.clock.Number = d.atLeastOne(math.MaxUint64)
		x.clock.Shift = int64(d.distance(0, math.MaxUint64))
	}
	if d.err == nil && len(d.src) > 0 {
		d.fail("%d bytes too many", len(d.src))
	}
	if d.err != nil {
		return nil, d.err
	}
	return x, nil
}

type decoding struct {
	src []byte
	err error
}

func (d *decoding) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %d bytes before the end: %s", errEncoding, len(d.src), fmt.Sprintf(format, args...))
	}
}

func (d *decoding) number(limit uint64) uint64 {
	v, n := binary.Uvarint(d.src)
	if n <= 0 || v > limit {
		d.fail("bad number")
		d.src = nil
		return 0
	}
	d.src = d.src[n:]
	return v
}

// distance reads how far a number is from another one.
func (d *decoding) distance(from, limit uint64) uint64 {
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
func (d *decoding) atLeastOne(limit uint64) uint64 {
	v := d.number(limit)
	if v == 0 {
		d.fail("bad number")
	}
	return v
}

func (d *decoding) take(n uint64) []byte {
	if n > uint64(len(d.src)) {
		d.fail("needs %d bytes", n)
		d.src = nil
		return nil
	}
	p := d.src[:n]
	d.src = d.src[n:]
	return p
}

func (d *decoding) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoding) text() string { return string(d.take(d.number(1 << 20))) }

func (d *decoding) blob() (b event.Blob) {
	b.Position = event.Position(d.number(math.MaxUint64))
	b.Size = uint32(d.number(math.MaxUint32))
	b.Sum = d.sum()
	return b
}

func (d *decoding) sum() uint32 {
	if p := d.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// read takes a value in the form it has in events.
func read[T any](d *decoding, from func([]byte) (T, []byte, error)) T {
	v, rest, err := from(d.src)
	if d.src = rest; err != nil {
		d.fail("%v", err)
		d.src = nil
	}
	return v
}

// slice reads the slice behind another one.
func (d *decoding) slice(x *Index, previous event.Slice) event.Slice {
	id := event.Slice{Entity: event.EntityID(d.number(math.MaxUint32)), Partition: d.byte()}
	if len(x.slices.byID) > 0 && compareSlices(previous, id) >= 0 {
		d.fail("slice %v after %v", id, previous)
		return id
	}
	s := newSlice(id, x.shared)
	before, end := id.Numbers()
	if s.last = event.SequenceNumber(d.number(uint64(end))); s.last < before {
		d.fail("sequence number %d in slice %v", s.last, id)
		return id
	}
	d.owner(x, s)
	sessions := d.sessions(s)
	d.history(s)
	live := d.number(uint64(len(d.src)))
	var run [subQueues][states][]uint64 // sequence numbers of each set, added in bulk
	flush := func(q, st int) {
		if len(run[q][st]) > 0 {
			s.set(event.SubQueue(q), State(st)).AddMany(run[q][st])
			run[q][st] = run[q][st][:0]
		}
	}
	var seq event.SequenceNumber
	var last row
	for ; live > 0 && d.err == nil; live-- {
		delta := event.SequenceNumber(d.number(math.MaxUint64))
		if delta == 0 || seq+delta < seq || seq+delta <= before || seq+delta > s.last {
			d.fail("row after sequence number %d", seq)
			break
		}
		seq += delta
		r := d.row(s, seq, &last, sessions)
		if d.err != nil {
			break
		}
		last = *r
		q, st := int(r.subQueue), int(r.state)
		if run[q][st] = append(run[q][st], uint64(seq)); len(run[q][st]) == 4096 {
			flush(q, st)
		}
	}
	for q := range run {
		for st := range run[q] {
			flush(q, st)
		}
	}
	d.waiting(s)
	x.slices.byID[id] = s
	return id
}

// owner reads which topic's slice a subscription's belongs to. That one has a smaller number, so it is there already.
func (d *decoding) owner(x *Index, s *slice) {
	id := event.EntityID(d.number(math.MaxUint32))
	if id == 0 {
		return
	}
	t := x.slices.byID[event.Slice{Entity: id, Partition: s.id.Partition}]
	if t == nil || t.owner != nil {
		d.fail("slice %v belongs to %d, which is not the slice of a topic", s.id, id)
		return
	}
	s.setOwner(t)
}

// row reads what is known of one message, but for its membership in the bitmaps. last is the row before.
func (d *decoding) row(s *slice, seq event.SequenceNumber, last *row, sessions uint64) *row {
	state, sub, flags := State(d.byte()), event.SubQueue(d.byte()), d.byte()
	if state == Gone || int(state) >= states || int(sub) >= subQueues || flags > rowFlags ||
		state == Scheduled && (sub != event.Main || flags&(flagOrigin|flagWaited) != 0) {
		d.fail("message %d: state %d, sub-queue %d, flags %#x", seq, state, sub, flags)
		return nil
	}
	r := s.insert(seq)
	*r = row{
		position: event.Position(d.distance(uint64(last.position), math.MaxUint64)), size: uint32(d.number(math.MaxUint32)), sum: d.sum(),
		state: state, subQueue: sub,
		marks:      marks(0).with(ownTTL, flags&flagOwnTTL != 0).with(changed, flags&flagChanged != 0).with(wasScheduled, flags&flagWaited != 0),
		enqueuedAt: event.Time(d.distance(uint64(last.enqueuedAt), uint64(event.EndOfTime))),
		expiresAt:  event.Time(d.distance(uint64(last.expiresAt), uint64(event.EndOfTime))),
		count:      uint32(d.number(math.MaxUint32)),
	}
	s.addBytes(int64(r.size))
	if flags&flagOrigin != 0 {
		s.setOrigin(seq, event.SequenceNumber(d.atLeastOne(math.MaxUint64)))
	}
	if flags&flagSession != 0 {
		r.session = uint32(d.atLeastOne(sessions))
	}
	switch state {
	case Locked, DeferredLocked:
		d.lock(s, seq, r)
	case Scheduled:
		r.lock = s.shared.schedule.add(scheduled{s.id, seq, event.Time(d.number(uint64(event.EndOfTime))), time.Duration(d.number(math.MaxInt64))})
	}
	if d.err != nil {
		return nil
	}
	if r.session != 0 {
		s.sessions.addMessage(seq, r)
	}
	s.awaits(r)
	if r.marks.has(changed) {
		for n := d.atLeastOne(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
			b := d.blob()
			if b.Size == 0 {
				d.fail("message %d: an empty change", seq)
			}
			s.change(seq, r, b)
		}
	}
	return r
}

func (d *decoding) lock(s *slice, seq event.SequenceNumber, r *row) {
	l := lock{slice: s.id, sequence: seq}
	copy(l.token[:], d.take(16))
	l.until = event.Time(d.number(uint64(event.EndOfTime)))
	held := r.session != 0 && r.subQueue == event.Main && s.sessions.table[r.session].lock != 0
	if _, twice := s.shared.locks.byTok[l.token]; twice || d.err != nil || l.until == 0 != held {
		d.fail("lock of message %d", seq)
		return
	}
	r.lock = s.shared.locks.add(l)
}
