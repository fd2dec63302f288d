package sim

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Messages that are sent through one entity to another, and are in transfer from the beginning
// (docs/decisions/0037): by a client that says so of each, and by one that has a transaction group,
// for which everything that it sends to others goes through the entity that it began with. Either
// may be part of a transaction about the entity in the middle, or stand by itself.

// mayHandOver has a client send through an entity, in worlds where messages move, now and then.
func (w *world) mayHandOver(a *ask) {
	if !w.o.moves || a.q.kind == event.Subscription || !w.chance(30) {
		return
	}
	// its first link decides: one to a queue, a topic or a subscription
	if w.group == nil || w.group.ended || w.chance(5) {
		all := w.living()
		w.group = all[w.rng.IntN(len(all))].top()
	}
	if w.chance(50) {
		if through := w.group; through != a.q && !through.ended {
			a.to, a.q = a.q, through
		}
		return
	}
	targets := slices.DeleteFunc(slices.Clone(w.queues), func(q *queue) bool {
		// whose end it has not heard of
		return q.kind == event.Subscription || q.entity == nil || q.ended && !w.chance(10)
	})
	if to := targets[w.rng.IntN(len(targets))]; to != a.q { // else it is not handed over
		a.to = to
	}
}

// commit is what a commit comes to. Those that carry something to another entity are counted.
func (s *shadow) commit(now int64, t *transaction) (r model.Refusal) {
	if r = s.m.Commit(now, t.id); r == model.Accepted && slices.ContainsFunc(t.staged, func(a *ask) bool { return a.to != nil }) {
		s.w.stats.CrossCommits++
	}
	return r
}

// largest is the size up to which the entity that messages are for takes them, as the client's link
// knows it.
func (a *ask) largest() int64 {
	return int64(a.plain().(*engine.Send).Destination.Properties.MaxMessageSizeKilobytes) << 10
}
