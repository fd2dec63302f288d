package log

import (
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// keepBytes is the size up to which a batch's buffers are kept for reuse.
const keepBytes = 4 << 20

// Batch is the frame being filled: bodies stand where they will stand on disk, records are collected beside them and
// put behind them by Append. It belongs to the goroutine that appends.
type Batch struct {
	at  placer
	lsn event.LSN // 0: not handed out yet, a Skip frame may still come before

	buf     []byte // prefix, header, bodies
	records []byte
	count   uint32
	level   Durability
	first   event.Time
	last    event.Time

	kind Kind
}

// placer gives a batch its place: where the next frame of a log begins. It is asked once per batch, and sets it in one step with
// looking: else something else could get the same place in between.
type placer interface {
	place(b *Batch)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

func newBatch(at placer, kind Kind) *Batch {
	b := batches.Get().(*Batch)
	buf, records := b.buf, b.records
	if cap(buf) < bodiesAt {
		buf = make([]byte, bodiesAt, 64<<10)
	}
	*b = Batch{at: at, kind: kind, buf: buf[:bodiesAt], records: records[:0]}
	return b
}

func (b *Batch) free() {
	b.at = nil
	if cap(b.buf)+cap(b.records) <= keepBytes {
		batches.Put(b)
	}
}

// LSN is the frame's place in the log. It is final: from this call on nothing comes before.
func (b *Batch) LSN() event.LSN {
	if b.lsn == 0 {
		b.at.place(b)
	}
	return b.lsn
}

// Base is the position of the entry's first byte: the LSN as a position. It implements [event.Frame].
func (b *Batch) Base() event.Position { return event.Position(b.LSN()) }

// AppendBlob copies a blob behind the other bodies and returns where it will stand and its checksum. It implements [event.Frame].
func (b *Batch) AppendBlob(head, tail []byte) (event.Position, uint32) {
	from := len(b.buf)
	b.buf = append(append(b.buf, head...), tail...)
	return b.Base() + event.Position(from), event.Sum(b.buf[from:])
}

// AppendRecord adds one decision. The frame's level is the highest of its records'. Times must not decrease.
func (b *Batch) AppendRecord(at event.Time, events []event.Event, level Durability) {
	b.LSN()
	b.records = event.AppendRecord(b.records, b, at, events)
	if b.count == 0 {
		b.first = at
	}
	if at < b.last {
		panic(fmt.Sprintf("log: record time %d after %d", at, b.last))
	}
	b.last = at
	b.count++
	b.level = max(b.level, level)
}

// Len is the size the entry has on disk now, in bytes. The caller keeps it under MaxFrameBytes.
func (b *Batch) Len() int { return prefixSize + frameLength(len(b.buf)-bodiesAt, len(b.records)) }

// Count is the number of records.
func (b *Batch) Count() int { return int(b.count) }

// Level is what its ticket will wait for.
func (b *Batch) Level() Durability { return b.level }

// empty tells that there is nothing to write.
func (b *Batch) empty() bool { return b.kind == Events && b.count == 0 && len(b.buf) == bodiesAt }

// close puts the records behind the bodies and pads. It returns the whole entry, the header still blank.
func (b *Batch) close() header {
	h := header{
		kind: b.kind, level: b.level, lsn: b.lsn, count: b.count,
		bodies: uint32(len(b.buf) - bodiesAt), records: uint32(len(b.records)),
		first: b.first, span: spanOf(b.first, b.last),
	}
	h.length = uint32(frameLength(int(h.bodies), int(h.records)))
	b.buf = append(b.buf, b.records...)
	for int64(len(b.buf)) < h.entry() {
		b.buf = append(b.buf, 0)
	}
	return h
}
