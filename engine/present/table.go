package present

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// lookAtOnce is the number of slices that are counted in one turn of a partition. Each takes
	// some microseconds.
	lookAtOnce = 256
	// lookTime bounds the time that a partition has to answer. One that does not is missing from
	// the answer.
	lookTime = time.Second
)

// An entity is a row of the table.
type entity struct {
	*Entry
	rows.Counts
	lower string // the path in lower case
	// when the oldest messages were enqueued; 0: there is none
	oldest, oldestDead event.Time
	rates              *rows.Rates // nil: unknown
	missing            []int       // partitions that were not counted
}

// row returns the entity as answers show it.
func (e *entity) row() rows.Entity {
	return rows.Entity{
		Path: e.Path, Kind: kindOf(e.Entry), Status: e.Status.String(), Counts: e.Counts, Oldest: timeOf(e.oldest), OldestDeadLetter: timeOf(e.oldestDead), Rates: e.rates,
		CreatedAt: e.CreatedAt.Std().UTC(), UpdatedAt: e.UpdatedAt.Std().UTC(), AccessedAt: timeOf(e.AccessedAt), Missing: e.missing,
	}
}

// kindOf returns the kind of an entity in answers.
func kindOf(e *Entry) string { return kinds[e.Kind] }

// kinds are the kinds of entities in answers.
var kinds = map[event.EntityKind]string{event.Queue: "queue", event.Topic: "topic", event.Subscription: "subscription"}

// A table has all entities at about one moment.
type table struct {
	at  event.Time
	all []entity
	sum rows.Now // without rates

	orders map[string][]*entity // made when they are asked for
}

// tally is what one slice has.
type tally struct {
	index.Tally
	locked, deferred   int
	oldest, oldestDead event.Time
}

// count counts what a slice has.
func count(x *index.Index, id event.Slice) (t tally) {
	t.Add(x, id)
	of := func(st index.State) int { return x.Count(id, event.Main, st) }
	t.locked, t.deferred = of(index.Locked)+of(index.DeferredLocked), of(index.Deferred)+of(index.DeferredLocked)
	if m, ok := x.First(id, event.Main); ok {
		t.oldest = m.EnqueuedAt
	}
	if m, ok := x.First(id, event.DeadLetter); ok {
		t.oldestDead = m.EnqueuedAt
	}
	return t
}

// add adds what a slice has.
func (e *entity) add(t *tally) {
	e.Active += t.Active
	e.Locked += t.locked
	e.Deferred += t.deferred
	e.Scheduled += t.Scheduled
	e.DeadLetter += t.DeadLetter
	e.Transfer += t.Transfer
	e.TransferDeadLetter += t.TransferDeadLetter
	e.SizeBytes += t.Bytes
	e.Messages = e.Active + e.Scheduled + e.DeadLetter + e.Transfer + e.TransferDeadLetter
	e.oldest, e.oldestDead = older(e.oldest, t.oldest), older(e.oldestDead, t.oldestDead)
}

func older(a, b event.Time) event.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// timeOf returns a time for an answer; nil: never.
func timeOf(t event.Time) *time.Time {
	if t == 0 {
		return nil
	}
	at := t.Std().UTC()
	return &at
}

// newEntity returns an entity without counts.
func newEntity(e *Entry) entity { return entity{Entry: e, lower: strings.ToLower(e.Path)} }

// place is a slice and the index of its entity.
type place struct {
	of int
	id event.Slice
}

// countAll counts what entities have. The counts of a partition are of about one moment.
func countAll(ctx context.Context, src Source, all []entity) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, ErrAway)
	defer cancel()
	hosted := map[byte][]place{}
	for i := range all {
		for number, host := range all[i].Hosts {
			hosted[host] = append(hosted[host], place{i, event.Slice{Entity: all[i].ID, Partition: uint8(number)}})
		}
	}
	answers := make(chan partitionCounts, len(hosted))
	for partition, places := range hosted {
		go func() { answers <- countPartition(ctx, src, partition, places) }()
	}
	var failed error
	for range hosted {
		answer := <-answers
		places := hosted[answer.partition]
		for i := range answer.counts {
			all[places[i].of].add(&answer.counts[i])
		}
		switch {
		case errors.Is(answer.err, ErrAway):
			for _, p := range places[len(answer.counts):] {
				if e := &all[p.of]; !slices.Contains(e.missing, int(answer.partition)) {
					e.missing = append(e.missing, int(answer.partition))
				}
			}
		case answer.err != nil:
			failed = answer.err
		}
	}
	return failed
}

// partitionCounts is what the slices of one partition have, in the order of their places; after an
// error only the first of them.
type partitionCounts struct {
	partition byte
	counts    []tally
	err       error
}

// countPartition counts what the slices of one partition have.
func countPartition(ctx context.Context, src Source, partition byte, places []place) partitionCounts {
	c := partitionCounts{partition: partition}
	for some := range slices.Chunk(places, lookAtOnce) {
		counts := make([]tally, len(some))
		err := src.Look(ctx, int(partition), func(x *index.Index) {
			for i := range some {
				counts[i] = count(x, some[i].id)
			}
		})
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			c.err = err
			return c
		}
		c.counts = append(c.counts, counts...)
	}
	return c
}
