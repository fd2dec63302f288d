package host

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How frames go into the log (docs/decisions/0017). There is one frame being filled, and one sync at a time: what is decided while the disk
// syncs one group is the next one. That is the batching; a pacer keeps the groups of about one size. Only a frame that a delivery
// waits for is written while a sync goes on, by the loop itself: that takes less than the way to another goroutine.

// maxOpen bounds what is written for the next sync and not synced, in bytes. Beyond it the loop takes no more requests.
const maxOpen = 4 << 20

// frames is what a loop knows of those that are under way.
type frames struct {
	end     event.LSN // of the last
	asked   event.LSN // end of the group that is being synced; 0: none is
	records int       // in frames that are behind it
	bytes   int       // … and how large they are
	state   []byte    // encoded index as of asked, when a checkpoint is to be made of it
}

// syncing reports whether a sync was asked for and its end has not been seen.
func (l *Loop) syncing() bool { return l.frames.asked != 0 }

// unsynced reports whether there is something that has to be durable and is not.
func (l *Loop) unsynced() bool { return l.solid >= l.writer.Durable() }

// Busy reports whether something is on its way into the log, or waits for that.
func (l *Loop) Busy() bool {
	return l.syncing() || l.acks.len() > 0 || len(l.grants) > 0 || l.writer.Batch().Count() > 0 || l.writer.Written() < l.frames.end || l.unsynced()
}

// full reports whether the next group is large enough for now.
func (l *Loop) full() bool { return l.syncing() && l.group() > maxOpen }

// group is the size of what waits for the next sync.
func (l *Loop) group() int { return l.frames.bytes + l.writer.Batch().Len() }

// handOn lets a large group go, if the disk is free.
func (l *Loop) handOn() {
	if l.group() > maxOpen {
		l.commit()
	}
}

// patience is how long the next group still waits for company.
func (l *Loop) patience() time.Duration {
	n := l.writer.Batch().Count()
	if l.syncing() || n == 0 && !l.unsynced() {
		return asleep
	}
	return l.pace.wait(l.frames.records+n, l.awaited())
}

// awaited reports whether anybody waits for more of the log.
func (l *Loop) awaited() bool { return l.acks.len() > 0 || len(l.grants) > 0 || l.unwritten }

// seal lets replies go that may leave, writes the frame being filled if one of them waits for nothing else, and begins to sync what
// there is when the sync before is over.
func (l *Loop) seal() {
	for {
		l.letGo()
		switch {
		case l.urgent && l.writer.Batch().Count() > 0:
			l.put(l.writer.Write)
		case !l.commit():
			return
		}
	}
}

// commit hands the next group on, unless the one before is being synced or it should wait for company. It reports whether that was all
// because nothing has to be synced.
func (l *Loop) commit() (written bool) {
	b := l.writer.Batch()
	if l.syncing() || b.Count() == 0 && !l.unsynced() {
		return false
	}
	if l.group() <= maxOpen && l.chores < maxChores && l.patience() > 0 {
		return false // Run comes back in time
	}
	n := l.frames.records + b.Count()
	if b.Count() > 0 {
		how := l.writer.Write
		if b.Level() == log.Durable { // who syncs it writes it, too, and the loop goes on
			how = l.writer.Append
		}
		l.put(how)
	}
	if !l.unsynced() {
		return true
	}
	l.pace.seal(n)
	l.writer.Sync()
	l.frames = frames{end: l.frames.end, asked: l.frames.end}
	l.chores = 0
	if l.saver.due(l.frames.end) {
		l.frames.state = l.part.Index().Encode(nil)
	}
	return false
}

// put hands the frame being filled to the writer.
func (l *Loop) put(how func(*log.Batch) log.Ticket) {
	b := l.writer.Batch()
	l.frames.records += b.Count()
	l.frames.bytes += b.Len()
	l.frames.end = how(b).End()
	l.urgent = false
	if !l.unsynced() { // nobody waits for a sync of it
		l.frames.records, l.frames.bytes = 0, 0
	}
}

// Landed is called when more of the log is written or durable: replies leave, and the next group goes on its way.
func (l *Loop) Landed() {
	if err := l.writer.Err(); err != nil {
		l.fail(err)
		return
	}
	if f := &l.frames; f.asked != 0 && f.asked <= l.writer.Durable() {
		l.pace.land()
		if f.state != nil { // only what is synced may be in a checkpoint
			l.saver.save(f.asked, f.state)
		}
		f.asked, f.state = 0, nil
	}
	if !l.unsynced() { // the sync has had more than was asked for
		l.frames.records, l.frames.bytes = 0, 0
	}
	l.seal()
}

// work does the work of a writer that starts no goroutine.
func work(w log.Writer) {
	m, ok := w.(log.ManualWriter)
	for ok && m.Work() {
	}
}

// await waits until more of the log is written or durable, and hears of it.
func (l *Loop) await() {
	if l.inline {
		work(l.writer)
	}
	select {
	case <-l.writer.Moved():
	case <-l.writer.Lost():
	}
	l.Landed()
}
