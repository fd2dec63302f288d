package background

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What could still be undone (docs/decisions/0054): the bodies of messages that were purged,
// deleted in a batch, or deleted with their entity in the undo window. Events say which messages
// those were. The few files with such events say so in their footers. For the unsealed part of the
// log, the state says whether there were any since it was last read.

// maxRemovalRuns bounds the runs of numbers that are kept for a partition. Beyond it neighbours are
// joined, and the messages between them are kept as well.
const maxRemovalRuns = 1 << 18

// removals holds the messages that were removed in a partition.
type removals struct {
	window event.Retention // the longest window
	seen   index.Removals  // the state's removals at the last look
	next   event.LSN       // the log before it was read; 0: nothing was
	of     map[event.EntityID]*entityRemovals
	runs   int
}

// entityRemovals holds the messages that were removed from an entity.
type entityRemovals struct {
	whole event.Time // when a slice of it was dropped; 0: never
	last  event.Time // time of the newest removal
	runs  []removalRun
	loose bool // the runs are not sorted
}

// removalRun is a run of messages with consecutive numbers.
type removalRun struct {
	from, to event.SequenceNumber // inclusive
	at       event.Time
}

// follow reads the removals since its last call, up to the newest one that a durable state has
// seen. The argument before is the LSN up to which the log was durable before that state was taken.
func (r *removals) follow(ctx context.Context, p log.Partition, since event.Time, shows index.Removals, before event.LSN) error {
	if r.next != 0 && r.seen == shows {
		r.next = max(r.next, before)
		return nil
	}
	_, end := p.Bounds()
	all := replay.Records(ctx, p, r.next)
	if r.next == 0 {
		r.of, r.runs = map[event.EntityID]*entityRemovals{}, 0
		all = replay.Found(ctx, p, log.Search{From: max(since, 1), Kinds: []event.Kind{event.KindMessagesBatchDeleted, event.KindSliceDropped}})
	}
	for rec, err := range all {
		if err != nil {
			r.next = 0
			return err
		}
		if rec.LSN >= end {
			break
		}
		for _, ev := range rec.Events {
			r.add(rec.At, ev)
		}
	}
	r.seen, r.next = shows, end
	return nil
}

func (r *removals) add(at event.Time, ev event.Event) {
	switch ev := ev.(type) {
	case *event.MessagesBatchDeleted:
		d := r.ofEntity(ev.Slice.Entity, at)
		for _, n := range ev.Sequences {
			if i := len(d.runs) - 1; i >= 0 && d.runs[i].to+1 == n && d.runs[i].at == at {
				d.runs[i].to = n
				continue
			}
			d.runs, d.loose = append(d.runs, removalRun{n, n, at}), true
			if r.runs++; r.runs > maxRemovalRuns {
				r.join()
			}
		}
	case *event.SliceDropped:
		r.ofEntity(ev.Slice.Entity, at).whole = at
	}
}

func (r *removals) ofEntity(id event.EntityID, at event.Time) *entityRemovals {
	d := r.of[id]
	if d == nil {
		d = &entityRemovals{}
		r.of[id] = d
	}
	d.last = max(d.last, at)
	return d
}

// join joins each run with its neighbour, in the entity that has the most runs.
func (r *removals) join() {
	var most *entityRemovals
	for _, d := range r.of {
		if most == nil || len(d.runs) > len(most.runs) {
			most = d
		}
	}
	most.order()
	half := most.runs[:0]
	for i := 0; i < len(most.runs); i += 2 {
		run := most.runs[i]
		if i+1 < len(most.runs) {
			run.to, run.at = most.runs[i+1].to, max(run.at, most.runs[i+1].at)
		}
		half = append(half, run)
	}
	r.runs -= len(most.runs) - len(half)
	most.runs = slices.Clip(half)
}

func (d *entityRemovals) order() {
	if d.loose {
		slices.SortFunc(d.runs, func(a, b removalRun) int { return cmp.Compare(a.from, b.from) })
		d.loose = false
	}
}

// forget drops removals that can no longer be undone.
func (r *removals) forget(over func(id event.EntityID, at event.Time) bool) {
	for id, d := range r.of {
		n := len(d.runs)
		d.runs = slices.DeleteFunc(d.runs, func(run removalRun) bool { return over(id, run.at) })
		r.runs -= n - len(d.runs)
		if over(id, d.last) {
			delete(r.of, id)
		}
	}
}

// any reports whether anything could be restored. The numbers of the messages in a file of bodies
// are unknown, so all its bodies are kept then.
func (r *removals) any() bool { return len(r.of) > 0 }

// keepsBody reports whether a body belongs to a message that could be restored. The number that a
// scheduled message gets when it becomes active is in another event. So bodies of such messages are
// kept as long as anything of the entity could be restored, and in a topic as long as anything of
// the partition could.
func (r *removals) keepsBody(b *log.Body, topic func(event.EntityID) bool) (found bool) {
	if len(r.of) == 0 {
		return false
	}
	if ev, ok := b.Event.(*event.MessageScheduled); ok && (r.of[ev.Slice.Entity] != nil || topic(ev.Slice.Entity)) {
		return true
	}
	event.Named(b.Event, func(s event.Slice, n event.SequenceNumber) {
		if d := r.of[s.Entity]; d != nil && !found {
			found = d.whole != 0 || d.has(n)
		}
	})
	return found
}

func (d *entityRemovals) has(n event.SequenceNumber) bool {
	d.order()
	i := sort.Search(len(d.runs), func(i int) bool { return d.runs[i].to >= n })
	return i < len(d.runs) && d.runs[i].from <= n
}
