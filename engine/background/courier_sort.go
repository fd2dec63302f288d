package background

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
)

// Messages for an entity with several partitions are sorted before they leave. The messages for one
// partition stay in order and wait together; they do not wait for another partition that is absent
// or full. Only the message itself has the key that decides, so it is read for that. It is not
// kept, because a partition may have to wait for long.

// sort moves the messages that a stream has read to the streams of their partitions. If all are for
// one partition whose stream is idle, it returns that stream, which takes over the batch. Otherwise
// it returns nil, and each stream reads its messages again.
func (c *Courier) sort(l *stream, f *batch) *stream {
	to, items := engine.Target{Entity: f.import_.Entity}, f.import_.Items
	partitions, one := make([]uint8, len(items)), true
	for i := range items {
		number := items[i].Number
		partitions[i] = to.OfMoved(&items[i].Message, l.source, number)
		one = one && partitions[i] == partitions[0]
	}
	if part := l.part(partitions[0], len(to.Entity.Hosts)); one && part.idle() {
		f.stream = part
		c.wake(l)
		return part
	}
	for i, p := range partitions {
		part := l.part(p, len(to.Entity.Hosts))
		part.queue.Push(f.transfers[i])
		c.wake(part)
	}
	c.recycle(f)
	c.wake(l)
	return nil
}

// part returns the stream of a partition, behind the one that sorts for it. of is the number of
// partitions.
func (l *stream) part(partition uint8, of int) *stream {
	if l.parts == nil {
		l.parts = make([]*stream, of)
	}
	if l.parts[partition] == nil {
		l.parts[partition] = &stream{streamKey: l.streamKey, of: l, partition: partition}
	}
	return l.parts[partition]
}

// head returns the stream that sorts for a stream, or the stream itself if none does. The head has
// the floor, which all partitions share.
func (l *stream) head() *stream {
	if l.of != nil {
		return l.of
	}
	return l
}

// idle reports whether a stream, and the streams that it sorts for, have nothing to do.
func (l *stream) idle() bool {
	for _, part := range l.parts {
		if part != nil && !part.idle() {
			return false
		}
	}
	return l.queue.Len() == 0 && l.batch == nil && !l.queued && l.until == 0
}

// end makes a stream, and the streams that it sorts for, drop their messages and stop.
func (l *stream) end() {
	l.gone, l.queue = true, fifo.Queue[engine.Transfer]{}
	for _, part := range l.parts {
		if part != nil {
			part.end()
		}
	}
}
