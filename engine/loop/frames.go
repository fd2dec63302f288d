package loop

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How frames get into the log (docs/decisions/0017). One frame is being filled, and one sync runs
// at a time: everything decided while the disk syncs one group belongs to the next group. That is
// the batching; a pacer keeps the groups at about one size. During a sync, only a frame that a
// delivery waits for is written. The loop writes it itself, which is faster than passing it to
// another goroutine.

// maxOpen bounds, in bytes, what is written for the next sync and not synced. Beyond it the loop
// takes no more requests.
const maxOpen = 4 << 20

// maxAlone is how long facts in the frame being filled wait for a record that does not wait itself.
// So facts cost a busy loop no frame, an idle loop a frame a second at most, and no loop a sync.
const maxAlone = time.Second

// maxBackground bounds the unrequested events in one frame, in bytes: ends of locks, and messages
// that expire or become active. Replies wait for their frame and the one before, so frames must
// stay small when there are many such events.
const maxBackground = 256 << 10

// frames holds everything on its way into the log: the frame being filled, which is the writer's
// batch, and the frames handed to the writer.
type frames struct {
	// set once in New
	writer log.Writer
	part   *engine.Partition
	inline bool // the writer works in the caller's goroutine

	// owned by the loop
	wrote      event.LSN // address of the frame with the newest record that is no fact; 0: none yet
	solid      event.LSN // address of the frame with the newest record that has to be durable
	end        event.LSN // end of the last frame handed to the writer
	asked      event.LSN // end of the group that is being synced; 0: none is
	records    int       // records of the next group that are already written
	bytes      int       // size of these
	background int       // bytes of unrequested events in the next group
	arrived    int       // bytes in the next group that came from other entities
	// bound of background, before the rest is left to the group after it
	budget       int
	alone        int        // records of the frame being filled that wait for others
	aloneBy      event.Time // when they stop waiting; 0: there are none
	hasty        bool       // no record waits for others any more: the loop ends
	pace         pacer
	checkpointer checkpointer
}

// append adds a decision's events to the frame being filled, and returns an address in it.
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

// countFact notes that a record waits to be written with others, and that no reply waits for it.
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

// ripen releases facts that have waited long enough.
func (f *frames) ripen(now event.Time) {
	if now >= f.aloneBy {
		f.alone, f.aloneBy = 0, 0
	}
}

// filled reports whether the frame being filled has a record that does not wait for others.
func (f *frames) filled() bool { return f.writer.Batch().Count() > f.alone }

// filling reports whether an address is in the frame being filled; 0 is in none.
func (f *frames) filling(at event.LSN) bool {
	return at != 0 && at >= f.end && f.writer.Batch().Count() > 0
}

// syncing reports whether a sync was requested and its end has not been seen.
func (f *frames) syncing() bool { return f.asked != 0 }

// unsynced reports whether a record has to be durable and is not.
func (f *frames) unsynced() bool { return f.solid >= f.writer.Durable() }

// idle reports whether there is nothing for the next group.
func (f *frames) idle() bool { return !f.filled() && !f.unsynced() }

// busy reports whether something is on its way into the log.
func (f *frames) busy() bool {
	return f.syncing() || f.filled() || f.writer.Written() < f.end || f.unsynced()
}

// full reports whether the next group is large enough for now.
func (f *frames) full() bool { return f.syncing() && f.group() > maxOpen }

// spent reports whether the next group has as many unrequested events as it may, or no room.
func (f *frames) spent() bool { return f.background >= f.budget || f.full() }

// backgroundFull reports whether the next group has as much from other entities as it may, or no
// room.
func (f *frames) backgroundFull() bool { return f.arrived >= maxBackground || f.full() }

// group returns the size of everything that waits for the next sync.
func (f *frames) group() int { return f.bytes + f.writer.Batch().Len() }

// patience returns how long the next group still waits for more records. awaited: a reply waits for
// the log.
func (f *frames) patience(awaited bool) time.Duration {
	if f.syncing() || f.idle() {
		return asleep
	}
	return f.pace.wait(f.recordCount(), awaited)
}

// recordCount returns how many records wait for the next sync.
func (f *frames) recordCount() int { return f.records + f.writer.Batch().Count() }

// missingRecords returns how many more records the next group waits for while other logs are busy
// as well; 0: it waits for something else, or does not wait.
func (f *frames) missingRecords() int {
	if f.syncing() || f.idle() {
		return 0
	}
	return f.pace.missingRecords(f.recordCount())
}

// commit hands the next group on, unless a sync is in progress or the group should wait for more
// records. It returns true if it has only written the group, because nothing in it has to be
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
		// the goroutine that syncs it writes it as well, and the loop continues
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

// forgetSynced stops counting frames that no longer need a sync, and what is in them: they belong
// to no group. Everything counted after that is in the frame being filled.
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
	f.forgetSynced() // the sync may have covered more than was requested
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

// work does the writer's work if no other goroutine does it.
func (f *frames) work() {
	if !f.inline {
		return
	}
	for m, ok := f.writer.(log.ManualWriter); ok && m.Work(); {
	}
}
