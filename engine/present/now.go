package present

import (
	"context"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// addCounts adds what an entity has. SizeBytes is counted once: a topic's has its subscriptions'.
func addCounts(now *rows.Now, e *entity) {
	now.Messages += e.Messages
	now.Active += e.Active
	now.Locked += e.Locked
	now.Deferred += e.Deferred
	now.Scheduled += e.Scheduled
	now.DeadLetter += e.DeadLetter
	now.Transfer += e.Transfer
	now.TransferDeadLetter += e.TransferDeadLetter
	if e.Kind != event.Subscription {
		now.SizeBytes += e.SizeBytes
	}
}

// Now returns the sums over all entities.
func (n *Namespace) Now(ctx context.Context) (rows.Now, error) {
	t, err := n.counts(ctx)
	if err != nil {
		return rows.Now{}, err
	}
	now := t.sum
	now.NotRecorded = n.unrecorded("rates", "running")
	now.Rates = n.sampler.totalRates(t.at)
	return now, nil
}

// add returns the sums over all entities.
func (t *table) add() rows.Now {
	now := rows.Now{At: t.at.Std().UTC(), Entities: len(t.all)}
	var oldest *entity
	for i := range t.all {
		e := &t.all[i]
		addCounts(&now, e)
		for _, id := range e.missing {
			if !slices.Contains(now.Missing, id) {
				now.Missing = append(now.Missing, id)
			}
		}
		if e.oldest != 0 && (oldest == nil || e.oldest < oldest.oldest) {
			oldest = e
		}
	}
	slices.Sort(now.Missing)
	if oldest != nil {
		now.Oldest = &rows.Oldest{Entity: oldest.Path, At: oldest.oldest.Std().UTC()}
	}
	return now
}
