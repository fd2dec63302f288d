package log

import (
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// keepBytes is the size up to which a batch's buffers are kept for reuse.
const keepBytes = 4 << 20

// Batch is the frame being filled. Bodies are placed as on the disk. Records are collected
// separately, and Append puts them after the bodies. A batch belongs to the goroutine that appends.
// It knows nothing of its log except where the frame will begin.
type Batch struct {
	next func() event.LSN // see NewBatch
	lsn  event.LSN        // 0: not handed out yet, a Skip frame may still come before

	buf     []byte // prefix, header, bodies
	records []byte
	count   uint32
	level   Durability
	first   event.Time
	last    event.Time

	kind   Kind
	begins bool // its frame is the first of a chapter
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch makes an empty batch, such as the one that a [Writer] has open. next returns where the
// next frame of the log begins. It is called once, when an address in the batch is first needed.
func NewBatch(next func() event.LSN) *Batch { return newBatch(next, Events) }

func newBatch(next func() event.LSN, kind Kind) *Batch {
	b := batches.Get().(*Batch)
	buf, records := b.buf, b.records
	if cap(buf) < format.BodiesAt {
		buf = make([]byte, format.BodiesAt, 64<<10)
	}
	*b = Batch{next: next, kind: kind, buf: buf[:format.BodiesAt], records: records[:0]}
	return b
}

func (b *Batch) free() {
	b.next = nil
	if cap(b.buf)+cap(b.records) <= keepBytes {
		batches.Put(b)
	}
}

// LSN returns the frame's place in the log. The place is final: after LSN has returned it, no other
// frame takes it.
func (b *Batch) LSN() event.LSN {
	if b.lsn == 0 {
		b.lsn = b.next()
	}
	return b.lsn
}

// Base returns the position of the entry's first byte, which is the LSN as a position. It
// implements [event.Frame].
func (b *Batch) Base() event.Position { return event.Position(b.LSN()) }

// AppendBlob copies a blob after the other bodies and returns its position and its checksum. It
// implements [event.Frame].
func (b *Batch) AppendBlob(head, tail []byte) (event.Position, uint32) {
	from := len(b.buf)
	b.buf = append(append(b.buf, head...), tail...)
	return b.Base() + event.Position(from), event.Sum(b.buf[from:])
}

// AppendRecord adds one decision. The frame's level is the highest of its records'. Times must not
// decrease.
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

// Len returns the current size of the entry on disk, in bytes. The caller keeps it under
// MaxFrameBytes.
func (b *Batch) Len() int {
	return format.PrefixSize + format.FrameLength(len(b.buf)-format.BodiesAt, len(b.records))
}

// Count returns the number of records.
func (b *Batch) Count() int { return int(b.count) }

// BeginsChapter reports whether the frame is the first of a chapter that begins in the middle of a
// run. Everything that its events and the following ones name must be defined again, because a
// chapter can be read alone (log-format.md 10).
func (b *Batch) BeginsChapter() bool { return b.begins }

// Level returns the durability that the batch's ticket waits for.
func (b *Batch) Level() Durability { return b.level }

// empty reports whether there is nothing to write.
func (b *Batch) empty() bool {
	return b.kind == Events && b.count == 0 && len(b.buf) == format.BodiesAt
}

// Seal ends the batch and returns the entry as a log has it. A [Writer] calls it, and fills in the
// parts of the header that a batch cannot know: partition, namespace tag, chapter, epoch, how far
// the log is durable, and the chain. Seal fills in the rest.
func (b *Batch) Seal(h *format.Header) (entry []byte) {
	h.Kind, h.Level, h.LSN, h.Count = b.kind, b.level, b.LSN(), b.count
	h.Bodies, h.Records = uint32(len(b.buf)-format.BodiesAt), uint32(len(b.records))
	h.First, h.Span = b.first, format.SpanOf(b.first, b.last)
	h.Length = uint32(format.FrameLength(int(h.Bodies), int(h.Records)))
	b.buf = append(b.buf, b.records...)
	for int64(len(b.buf)) < h.Entry() {
		b.buf = append(b.buf, 0)
	}
	h.Seal(b.buf)
	return b.buf
}
