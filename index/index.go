package index

import (
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Index is the state of one partition. It belongs to one goroutine. Only Apply and [Index.Step]
// change it; others may have a [Snapshot].
type Index struct {
	Catalogue Catalogue // entities; filled on partition 0 only
	moves
	lockHolds

	slices     sliceTable
	shared     *sharedTables
	nextOrigin event.OriginID
	lastAt     event.Time
	clock      Clock
	open       snapshots
	removals   Removals
}

// sharedTables are the tables that the slices of a partition share. Locks are found by token, and
// the ends of locks and scheduled messages by time, in whichever slice they are.
type sharedTables struct {
	versions versions
	kept     slots[*keptSlice] // one of each slice
	locks    lockTable
	schedule schedule
	// transfers are the open transfers of all slices.
	transfers slots[transfer]
	texts     map[string]string // texts that messages have in common
}

// New returns the state before the first event.
func New() *Index {
	sh := &sharedTables{versions: versions{now: 1}, texts: map[string]string{}}
	sh.locks, sh.schedule = newLockTable(&sh.versions), newSchedule(&sh.versions)
	x := &Index{Catalogue: newCatalogue(&sh.versions), slices: newSliceTable(sh), shared: sh, nextOrigin: 1, removals: Removals{of: new(int64)}}
	x.moves, x.lockHolds = moves{&x.slices}, lockHolds{sh}
	return x
}

// Apply applies one event, decided at the given broker time. Blobs of the event must have their
// positions in the log.
func (x *Index) Apply(at event.Time, ev event.Event) {
	if len(x.open.list) > 0 {
		x.open.release(&x.shared.versions)
	}
	x.lastAt = max(x.lastAt, at)
	switch ev := ev.(type) {
	case *event.OriginDefined:
		x.nextOrigin = max(x.nextOrigin, ev.ID+1)
	case *event.ClockSet:
		x.setClock(ev)
	case *event.EntityCreated, *event.EntityUpdated, *event.EntityDeleted, *event.EntityTouched,
		*event.RuleAdded, *event.RuleUpdated, *event.RuleRemoved, *event.HistoryPolicySet:
		x.Catalogue.apply(at, ev)

	case *event.MessageEnqueued:
		x.slices.of(ev.Slice).enqueue(ev)
	case *event.MessagePublished:
		x.slices.publish(ev)
	case *event.DuplicateDropped:
		if ev.Arrival != nil {
			arrivalsOf{x.slices.of(ev.Slice)}.arrive(ev.Arrival, ev)
		}
	case *event.MessageScheduled:
		x.slices.of(ev.Slice).schedule(at, ev)
	case *event.ScheduledActivated:
		x.slices.of(ev.Slice).activate(ev)
	case *event.ScheduledPublished:
		x.slices.publishScheduled(ev)
	case *event.ScheduleCancelled:
		x.slices.of(ev.Slice).cancel(ev)

	case *event.MessageLocked:
		x.slices.of(ev.Slice).lock(ev)
	case *event.LockRenewed:
		x.slices.of(ev.Slice).renew(ev)
	case *event.LockExpired:
		x.slices.of(ev.Slice).endLock(ev)
	case *event.MessageReleased:
		x.slices.of(ev.Slice).release(ev)
	case *event.MessageAbandoned:
		x.slices.of(ev.Slice).abandon(ev)
	case *event.MessageDeferred:
		x.slices.of(ev.Slice).deferMessage(ev)
	case *event.MessageDeadLettered:
		x.slices.of(ev.Slice).deadLetter(ev)
	case *event.MessageCompleted:
		x.slices.of(ev.Slice).complete(ev)
	case *event.MessageReceivedAndDeleted:
		x.slices.of(ev.Slice).removeAll(ev, ev.Sequence)
	case *event.MessageExpired:
		x.slices.of(ev.Slice).removeAll(ev, ev.Sequence)
	case *event.MessagesBatchDeleted:
		x.removals.many(&x.slices, ev)

	case *event.SessionAccepted:
		x.slices.of(ev.Slice).acceptSession(ev)
	case *event.SessionLockRenewed:
		x.slices.of(ev.Slice).renewSession(ev)
	case *event.SessionReleased:
		x.slices.of(ev.Slice).releaseSession(ev)
	case *event.SessionStateSet:
		x.slices.setSessionState(at, ev)
	case *event.SliceDropped:
		x.removals.slice(&x.slices, ev)
	default:
		if !ev.Kind().IsFact() {
			x.slices.applyMove(ev)
		}
	}
}
