package host

import (
	"context"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What was given to a receiver without a lock has no row any more, and its body is read when there is room for it on the wire, which may be much later. Until then
// history keeps it (docs/decisions/0050).

// given is a body that a port has given to a receiver that takes no locks, or only looks.
type given struct {
	partition uint8  // of the entity
	number    uint64 // of the delivery, from 1 on, among those from that partition
	body      event.Blob
}

// gives notes a delivery without a lock.
func (r *receiver) gives(partition uint8, d *engine.Delivery) {
	if r.Mode == engine.PeekLock || mutant.On(mutant.ReadingForgotten) {
		return
	}
	if r.numbers == nil {
		r.numbers = new([event.MaxEntityPartitions]uint64)
	}
	r.numbers[partition]++
	n := r.numbers[partition]
	for r.unread.len() > 0 && r.isRead(r.unread.front()) {
		r.unread.pop()
	}
	if d.Body.Size > 0 {
		r.unread.push(given{partition, n, d.Body})
	}
	for _, b := range d.Changes {
		r.unread.push(given{partition, n, b})
	}
}

func (r *receiver) isRead(g *given) bool { return g.number <= r.Read[g.partition].Load() }

// reading are the bodies that receivers have been given and not read yet.
func (w *waiting) reading() (list []event.Blob) {
	for _, r := range w.attached {
		unread := r.unread.all()
		for i := range unread {
			if g := &unread[i]; !r.isRead(g) {
				list = append(list, g.body)
			}
		}
	}
	return list
}

// readingNow asks a loop for the bodies that are still to be read.
type readingNow struct{ engine.Internal }

type stillRead struct {
	engine.Internal
	list []event.Blob
}

// reading are the bodies of a partition that receivers have been given and not read yet.
func (ps *partitions) reading(ctx context.Context, id engine.PartitionID) ([]event.Blob, error) {
	reply, err := ps.ask(ctx, id, &readingNow{})
	if err != nil {
		return nil, err
	}
	if is, ok := reply.Answer.(stillRead); ok {
		return is.list, nil
	}
	return nil, notServing()
}
