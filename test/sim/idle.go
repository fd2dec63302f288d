package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Entities that nobody uses delete themselves (semantics.md 7.7). The broker asks all partitions
// which entities are in use without being asked for anything, then goes from entity to entity. Here
// it does so one step at a time, with anything in between.

// collector is one such round.
type collector struct {
	asked int              // partitions that have not answered
	busy  []event.EntityID // in use, as partitions answered
	held  map[*queue]bool  // in use, as they must answer
	todo  []*queue
	waits bool // for a note to be in the log
}

// collect goes on with the round, or begins one, mostly after a time in which nobody came.
func (w *world) collect() {
	c := w.collector
	switch {
	case c == nil:
		if w.chance(80) {
			w.mono += pick(w.rng, time.Second, 20*time.Second, 61*time.Second, 61*time.Second, 6*time.Minute, 25*time.Minute)
		}
		c = &collector{asked: len(w.running()), held: map[*queue]bool{}}
		w.collector = c
		for _, p := range w.running() {
			p.inbox = append(p.inbox, &ask{op: opUsage, tag: w.tag(), cmd: &loop.Usage{}})
		}
	case c.asked > 0 || c.waits:
	default:
		for len(c.todo) > 0 && !c.waits {
			if !w.visit(c, c.todo[0]) {
				return // somebody is changing the catalogue
			}
			c.todo = c.todo[1:]
		}
		if len(c.todo) == 0 && !c.waits {
			w.collector = nil
		}
	}
}

// answered notes what a partition says is in use by itself.
func (c *collector) answered(w *world, held []*queue, busy []event.EntityID) {
	got, must := slices.Clone(busy), []event.EntityID{}
	for _, q := range held {
		must = append(must, q.slice.Entity)
		c.held[q.whole.parts[0]] = true
	}
	slices.Sort(got)
	slices.Sort(must)
	got, must = slices.Compact(got), slices.Compact(must)
	if !slices.Equal(got, must) {
		w.broken("P20", "entities %v are in use by themselves, it must be %v", got, must)
	}
	c.busy = append(c.busy, busy...)
	if c.asked--; c.asked == 0 {
		c.todo = w.living()
		slices.SortFunc(c.todo, func(a, b *queue) int { return cmp.Compare(strings.ToLower(a.path), strings.ToLower(b.path)) })
	}
}

// visit deletes an entity that nobody has used for too long, or notes when it was used. It reports
// false when that has to wait.
func (w *world) visit(c *collector, q *queue) bool {
	if q.ended || q.refused() { // not all of it can be asked
		return true
	}
	changing := w.admin != nil
	entities := []*engine.Entity{q.entity}
	for _, sub := range w.living() {
		if sub.topic == q {
			entities = append(entities, sub.entity)
		}
	}
	now, look := w.broker(), engine.NewIdleness(event.Time(w.started), entities, c.busy)
	must := w.use(c, q)
	over := look.Over(event.Time(now), q.entity)
	switch {
	case over && changing:
		return false
	case over && !must.Over(now, w.started):
		w.broken("I1", "%s deletes itself at %d, it may not: %+v, the broker is up since %d", q.path, now, *must, w.started)
	case !over && !changing && must.Over(now, w.started):
		w.broken("I26", "%s does not delete itself at %d, it must: %+v, the broker is up since %d", q.path, now, *must, w.started)
	case over:
		w.note("idle", int64(q.n), must.Quiet(now))
		w.hist.idle(q, now)
		w.stats.IdleDeleted++
		w.delete(q, "idle")
		return true
	}
	note, notes := look.Note(event.Time(now), q.entity), must.Note(now)
	if q.used = must.Asked; (note != nil) != notes {
		w.broken("I24", "%s: its last use is noted at %d: %v, it must: %v, %+v", q.path, now, note != nil, notes, *must)
	}
	if notes {
		c.waits = true
		w.submit(&ask{op: opTouch, q: q, tag: w.tag(), asked: now, cmd: note, from: uint64(q.used)})
	}
	return true
}

// use is what the model has to know of how an entity is used.
func (w *world) use(c *collector, q *queue) *model.Use {
	s, _ := w.newestSetting(q)
	u := &model.Use{Asked: q.used, Noted: s.noted, Put: max(s.changed, q.ruled), Busy: c.held[q]}
	u.Forwards = q.entity.Properties.ForwardTo != "" || q.entity.Properties.ForwardDeadLetteredMessagesTo != ""
	if idle := q.entity.Properties.AutoDeleteOnIdle; idle != event.Forever {
		u.Idle = idle.Milliseconds()
	}
	for _, sub := range w.living() {
		if sub.topic == q {
			u.Subscriptions = append(u.Subscriptions, w.use(c, sub))
		}
	}
	return u
}

// inUse are the entities of a partition that have receivers or scheduled messages.
func (s *shadow) inUse() (all []*queue) {
	for _, q := range s.w.queues {
		if q.host != s.p || q.model == nil || !q.model.InForce {
			continue
		}
		if q.site().attended() || s.sessionWaiters[q.site()] != nil ||
			slices.ContainsFunc(q.model.Live, func(m *model.Message) bool {
				return m.State == model.Scheduled || m.State == model.Transferring && !m.Dead
			}) {
			all = append(all, q)
		}
	}
	return all
}

// touched decides about the note of a last use.
func (s *shadow) touched(now int64, a *ask) {
	if a.op == opCut {
		s.m.Catalogued(now, true)
		s.p.facts[s.m.Records] = noted{kind: event.KindHistoryCut}
		return
	}
	next, exists := s.w.newestSetting(a.q)
	if !exists {
		return
	}
	s.m.Catalogued(now, false)
	next.noted, next.record = int64(a.from), s.m.Records
	s.w.catalogue = append(s.w.catalogue, next)
}

// uses reports whether asking an entity for this counts as using it.
func (op operation) uses() bool { return op < opUpdate }
