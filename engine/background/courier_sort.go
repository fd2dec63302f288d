package background

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
)

// Messages for an entity with several partitions are sorted before they leave: what goes to one
// partition stays in order and waits together, and does not wait for another that is away or has no
// room. The key that decides stands in the message alone, so it has to be read for that. It is not
// kept: where a partition has to wait, that may be for long.

// sort gives the messages that a stream has read to the streams of their partitions. Where all are
// for one partition whose stream has nothing else, that stream is returned, and the batch is its
// own. Otherwise the result is nil, and each stream reads its messages again.
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

// part is the stream of a partition behind the one that sorts for it. The parameter of is how many
// partitions there are.
func (l *stream) part(partition uint8, of int) *stream {
	if l.parts == nil {
		l.parts = make([]*stream, of)
	}
	if l.parts[partition] == nil {
		l.parts[partition] = &stream{streamKey: l.streamKey, of: l, partition: partition}
	}
	return l.parts[partition]
}

// head is the stream that sorts for a stream, or the stream itself where none does. It has the
// floor, which all partitions share.
func (l *stream) head() *stream {
	if l.of != nil {
		return l.of
	}
	return l
}

// idle reports whether a stream has nothing to do, and neither have those that it sorts for.
func (l *stream) idle() bool {
	for _, part := range l.parts {
		if part != nil && !part.idle() {
			return false
		}
	}
	return l.queue.Len() == 0 && l.batch == nil && !l.queued && l.until == 0
}

// end has a stream, and those that it sorts for, carry nothing any more.
func (l *stream) end() {
	l.gone, l.queue = true, fifo.Queue[engine.Transfer]{}
	for _, part := range l.parts {
		if part != nil {
			part.end()
		}
	}
}
