package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Runtimes counts the contents of slices, without the parts that belong to their topics.
func (p *Partition) Runtimes(ids []event.Slice) []Runtime {
	all := make([]Runtime, len(ids))
	for i, id := range ids {
		var t index.Tally
		t.Add(p.index, id)
		all[i] = Runtime{Active: t.Active, DeadLetter: t.DeadLetter, TransferDeadLetter: t.TransferDeadLetter, Transfer: t.Transfer, Scheduled: t.Scheduled, SizeBytes: t.Bytes}
	}
	return all
}

// Belongings counts the subscriptions and rules of topics, and fills in only those fields of a
// [Runtime]. The partition is that of the catalogue.
func (p *Partition) Belongings(entities []*Entity) []Runtime {
	p.onlyCatalogue()
	all := make([]Runtime, len(entities))
	for i, e := range entities {
		all[i].Subscriptions = p.index.Catalogue.SubscriptionCount(e.ID)
		all[i].SQLFilters, all[i].CorrelationFilters = p.index.Catalogue.Filters(e.ID)
	}
	return all
}
