package loop

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How frames go into the log (docs/decisions/0017). There is one frame being filled, and one sync
// at a time: what is decided while the disk syncs one group is the next one. That is the batching;
// a pacer keeps the groups of about one size. Only a frame that a delivery waits for is written
// while a sync goes on, by the loop itself: that takes less than the way to another goroutine.

// maxOpen bounds what is written for the next sync and not synced, in bytes. Beyond it the loop
// takes no more requests.
const maxOpen = 4 << 20

// maxAlone is how long facts wait in the frame being filled for a record that does not wait itself.
// So they cost a busy loop no frame, an idle one a frame a second at most, and nobody a sync.
const maxAlone = time.Second

// maxBackground bounds what nobody asked for in one frame: ends of locks, messages that expire or
// become active. Replies wait for their frame and the one before, so these must stay small when
// there is a lot of it.
const maxBackground = 256 << 10

// frames is what is on its way into the log: the frame being filled, which is the writer's batch,
// and those that are under way.
type frames struct {
	// set once in New
	writer log.Writer
	part   *engine.Partition
	inline bool // the writer's work is done in the caller's goroutine

	// owned by the loop
	wrote      event.LSN // of the frame with the newest record that is no fact; 0: none yet
	solid      event.LSN // of the one with the newest record that has to be durable
	end        event.LSN // of the last that the writer has
	asked      event.LSN // end of the group that is being synced; 0: none is
	records    int       // in frames that are behind it
	bytes      int       // and how large they are
	background int       // bytes of the next group that nobody asked for
	arrived    int       // bytes of the next group that came from other entities
	// and how many of these there may be before the rest is for the group behind it
	budget       int
	alone        int        // records of the frame being filled that wait for company
	aloneBy      event.Time // when they go without; 0: there are none
	hasty        bool       // no more of them: it is the end
	pace         pacer
	checkpointer checkpointer
}

// append puts a decision's events into the frame being filled, and returns an address in it.
func (f *frames) append(now event.Time, out engine.Outcome) event.LSN {
	b := f.writer.Batch()
	b.AppendRecord(now, out.Events, out.Level)
	f.checkpointer.events += len(out.Events)
	if out.Lazy {
		f.countFact(now)
		return b.LSN()
	}
	if f.wrote = b.LSN(); out.Level == log.Durable {
		f.solid = f.wrote
	}
	return f.wrote
}

// countFact notes that a record waits for others to go with, and that nobody waits for the
// record.
func (f *frames) countFact(now event.Time) {
	if f.hasty {
		return
	}
	if f.alone++; f.aloneBy == 0 {
		f.aloneBy = now.Add(maxAlone)
	}
	if f.writer.Batch().Len() > maxBackground { // the origins of a thousand links
		f.alone = 0
	}
}

// ripen lets facts go that have waited for company for long enough.
func (f *frames) ripen(now event.Time) {
	if now >= f.aloneBy {
		f.alone, f.aloneBy = 0, 0
	}
}

// filled reports whether the frame being filled has anything that goes on its way by itself.
func (f *frames) filled() bool { return f.writer.Batch().Count() > f.alone }

// filling reports whether an address is in the frame being filled; 0 is in none.
func (f *frames) filling(at event.LSN) bool {
	return at != 0 && at >= f.end && f.writer.Batch().Count() > 0
}

// syncing reports whether a sync was asked for and its end has not been seen.
func (f *frames) syncing() bool { return f.asked != 0 }

// unsynced reports whether there is something that has to be durable and is not.
func (f *frames) unsynced() bool { return f.solid >= f.writer.Durable() }

// idle reports whether there is nothing for the next group.
func (f *frames) idle() bool { return !f.filled() && !f.unsynced() }

// busy reports whether something is on its way into the log.
func (f *frames) busy() bool {
	return f.syncing() || f.filled() || f.writer.Written() < f.end || f.unsynced()
}

// full reports whether the next group is large enough for now.
func (f *frames) full() bool { return f.syncing() && f.group() > maxOpen }

// spent reports whether the next group has as much as it may of what nobody asked for, or no room
// for more.
func (f *frames) spent() bool { return f.background >= f.budget || f.full() }

// backgroundFull reports whether the next group has as much as it may of what comes from other
// entities, or no room for more.
func (f *frames) backgroundFull() bool { return f.arrived >= maxBackground || f.full() }

// group is the size of what waits for the next sync.
func (f *frames) group() int { return f.bytes + f.writer.Batch().Len() }

// patience is how long the next group still waits for company. Awaited: somebody waits for more of
// the log.
func (f *frames) patience(awaited bool) time.Duration {
	if f.syncing() || f.idle() {
		return asleep
	}
	return f.pace.wait(f.recordCount(), awaited)
}

// recordCount is how many records wait for the next sync.
func (f *frames) recordCount() int { return f.records + f.writer.Batch().Count() }

// missingRecords is how many more records the next group waits for where other logs are busy, too;
// 0: it waits for something else, or goes.
func (f *frames) missingRecords() int {
	if f.syncing() || f.idle() {
		return 0
	}
	return f.pace.missingRecords(f.recordCount())
}

// commit hands the next group on, unless the one before is being synced or it should wait for
// company. It reports true where it has only written the group, because nothing of it has to be
// synced.
func (f *frames) commit(awaited bool) (written bool) {
	b := f.writer.Batch()
	if f.syncing() || f.idle() {
		return false
	}
	if f.group() <= maxOpen && f.background < maxBackground && f.arrived < maxBackground && f.patience(awaited) > 0 {
		return false // Run comes back in time
	}
	n := f.records + b.Count()
	if b.Count() > 0 {
		how := f.writer.Write
		// the goroutine that syncs it writes it, too, and the loop goes on
		if b.Level() == log.Durable {
			how = f.writer.Append
		}
		f.put(how)
	}
	if !f.unsynced() {
		f.pace.count(false)
		return true
	}
	f.pace.seal(n)
	f.writer.Sync()
	f.asked, f.records, f.bytes, f.background, f.arrived = f.end, 0, 0, 0, 0
	f.checkpointer.takeSnapshot(f.end)
	return false
}

// put hands the frame being filled to the writer.
func (f *frames) put(how func(*log.Batch) log.Ticket) {
	b := f.writer.Batch()
	f.records += b.Count()
	f.bytes += b.Len()
	f.end = how(b).End()
	if f.writer.Batch().BeginsChapter() {
		f.part.BeginChapter()
	}
	f.alone, f.aloneBy = 0, 0
	f.forgetSynced()
}

// forgetSynced stops counting frames whose sync nobody waits for, and what is in them: they belong
// to no group. What is still counted then is in the frame being filled, if anywhere.
func (f *frames) forgetSynced() {
	if f.unsynced() {
		return
	}
	n := 0
	if b := f.writer.Batch(); b.Count() > 0 {
		n = b.Len()
	}
	f.records, f.bytes, f.background, f.arrived = 0, 0, min(f.background, n), min(f.arrived, n)
}

// committed notes that more of the log is written or durable.
func (f *frames) committed() {
	synced := f.asked != 0 && f.asked <= f.writer.Durable()
	if synced {
		f.checkpointer.committed()
		f.asked = 0
	}
	f.forgetSynced() // the sync may have had more than was asked for
	if synced {
		f.pace.land(f.recordCount(), f.filled() || f.unsynced())
	}
}

// await waits until more of the log is written or durable, or the writer has failed.
func (f *frames) await() {
	f.work()
	select {
	case <-f.writer.Moved():
	case <-f.writer.Lost():
	}
}

// work does the writer's work where nobody else does.
func (f *frames) work() {
	if !f.inline {
		return
	}
	for m, ok := f.writer.(log.ManualWriter); ok && m.Work(); {
	}
}
