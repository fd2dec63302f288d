package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Runtimes counts what is in slices: what belongs to their topics is not in it.
func (p *Partition) Runtimes(ids []event.Slice) []Runtime {
	all := make([]Runtime, len(ids))
	for i, id := range ids {
		r := &all[i]
		count := func(q event.SubQueue) int {
			return p.index.Count(id, q, index.Active) + p.index.Count(id, q, index.Locked) +
				p.index.Count(id, q, index.Deferred) + p.index.Count(id, q, index.DeferredLocked)
		}
		r.Active, r.DeadLetter, r.TransferDeadLetter = count(event.Main), count(event.DeadLetter), count(event.TransferDeadLetter)
		r.Transfer = p.index.Count(id, event.Main, index.Transferring)
		r.DeadLetter += p.index.Count(id, event.DeadLetter, index.Transferring) // that is where they wait
		r.Scheduled, r.SizeBytes = p.index.Scheduled(id), p.index.Bytes(id)
	}
	return all
}

// Belongings counts what belongs to topics: of the counts in a [Runtime] only those. The partition is that of the catalogue.
func (p *Partition) Belongings(entities []*Entity) []Runtime {
	p.onlyCatalogue()
	all := make([]Runtime, len(entities))
	for i, e := range entities {
		all[i].Subscriptions = p.index.Catalogue.SubscriptionCount(e.ID)
		all[i].SQLFilters, all[i].CorrelationFilters = p.index.Catalogue.Filters(e.ID)
	}
	return all
}
