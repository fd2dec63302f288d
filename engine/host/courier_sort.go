package host

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Messages for an entity with several partitions are sorted before they leave: what goes to one partition stays in order and waits together, and does
// not wait for another that is away or has no room. The key that decides stands in the message alone, so it has to be read for that. It is not kept:
// where a partition has to wait, that may be for long.

// sort gives the messages that a lane has read to the lanes of their partitions. Where all are of one that has nothing else, that lane is returned:
// the flight is its own. Otherwise nil: they will be read again, each lane its own.
func (c *Courier) sort(l *lane, f *flight) *lane {
	to, items := engine.Target{Entity: f.import_.Entity}, f.import_.Items
	partitions, one := make([]uint8, len(items)), true
	for i := range items {
		number := items[i].Number
		if mutant.On(mutant.MovedInTurn) {
			number = event.TransferNumber(c.flights)
		}
		partitions[i] = to.OfMoved(&items[i].Message, l.source, number)
		one = one && partitions[i] == partitions[0]
	}
	if part := l.part(partitions[0], len(to.Entity.Hosts)); one && part.idle() {
		f.lane = part
		c.wake(l)
		return part
	}
	for i, p := range partitions {
		part := l.part(p, len(to.Entity.Hosts))
		part.queue.push(f.transfers[i])
		c.wake(part)
	}
	c.recycle(f)
	c.wake(l)
	return nil
}

// part is the lane of a partition of as many, behind the one that sorts for it.
func (l *lane) part(partition uint8, of int) *lane {
	if l.parts == nil {
		l.parts = make([]*lane, of)
	}
	if l.parts[partition] == nil {
		l.parts[partition] = &lane{laneKey: l.laneKey, of: l, partition: partition}
	}
	return l.parts[partition]
}

// head is the lane that sorts for another, or else that itself. It has the floor, which is one for all partitions.
func (l *lane) head() *lane {
	if l.of != nil {
		return l.of
	}
	return l
}

// idle tells whether a lane has nothing to do, and neither have those that it sorts for.
func (l *lane) idle() bool {
	for _, part := range l.parts {
		if part != nil && !part.idle() {
			return false
		}
	}
	return l.queue.len() == 0 && l.flight == nil && !l.queued && l.until == 0
}

// end has a lane, and those that it sorts for, carry nothing any more.
func (l *lane) end() {
	l.gone, l.queue = true, fifo[engine.Transfer]{}
	for _, part := range l.parts {
		if part != nil {
			part.end()
		}
	}
}
