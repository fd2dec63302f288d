package log

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// maxUnsynced is how much is written before a sync that a ticket waits for, bytes.
const maxUnsynced = 8 << 20

type ticket struct {
	lsn, end event.LSN
	err      error // set before done closes
	done     chan struct{}
}

func (t *ticket) Done() <-chan struct{} { return t.done }
func (t *ticket) Err() error            { return t.err }
func (t *ticket) LSN() event.LSN        { return t.lsn }
func (t *ticket) End() event.LSN        { return t.end }

func (t *ticket) complete(err error) {
	t.err = err
	close(t.done)
}

// writer appends to a partition. The appending goroutine fills batches. The queue is written by it
// (Write) or by the I/O goroutine (or the caller of [ManualWriter.Work]). Only the latter syncs,
// and closes and creates files. They share state under mu, which is never held during I/O, and take
// turns to write, under io; a sync holds neither.
type writer struct {
	// set once
	p     *partition
	epoch Epoch
	lost  chan struct{}
	wake  chan struct{} // one slot
	moved chan struct{} // one slot
	stop  chan struct{}
	done  sync.WaitGroup
	where func() event.LSN // returns the place of the next batch

	durable atomic.Uint64 // LSN; the same as synced.LSN
	written atomic.Uint64 // LSN; the same as writ.LSN

	calls    [waits]call               // running calls to the disk
	released atomic.Bool               // it has failed, and has nothing open any more
	hangs    atomic.Pointer[time.Time] // start of the call that takes too long; nil: none does

	mu   sync.Mutex // guards the fields below
	open *Batch
	// the open batch knows its place, which nothing else may take any more
	placed  bool
	next    event.LSN // of the next frame
	from    event.LSN // of the first frame of the chapter that the last batch is in
	since   time.Time // when that chapter was begun
	queue   []queuedBatch
	pending []*ticket // written tickets, in order, that wait for a sync
	synced  format.Mark
	writ    format.Mark // written
	wanted  event.LSN   // everything below needs a sync
	syncing bool
	appends uint64
	seen    uint64    // appends at the last tick
	dirty   bool      // events came since the last Skip
	room    roomState // whether the disk has room for the first batch of the queue
	closed  bool
	err     error // why it is poisoned

	io   sync.Mutex // held while something is written; guards the fields below
	tail *tail
	// the writer's descriptor of the last segment; only the goroutine that syncs changes it
	file    disk.File
	seg     *segment
	stage   stage
	index   uint64 // of the next frame in its chapter
	chapter format.Chapter
	coming  format.Chapter // the next one, after its directory was made; ID 0: it was not
	sealed  sealedFrame    // the frame that found no room, if there is one
	short   shortage

	noting   sync.Mutex // held while the progress note is written; guards the fields below
	progress *disk.Replacer
}

// queuedBatch is a sealed batch on its way to the disk.
type queuedBatch struct {
	*Batch
	ticket  *ticket // nil of Skip and EpochStart
	awaited bool    // a caller of Write waits until it is written
}

func newWriter(p *partition) *writer {
	w := &writer{
		p: p, lost: make(chan struct{}), wake: make(chan struct{}, 1), moved: make(chan struct{}, 1), stop: make(chan struct{}),
		epoch: p.end.Epoch + 1, synced: p.end, writ: p.end, next: p.end.LSN,
		progress: disk.NewReplacer(p.store.opts.FS, p.dir, progressName),
	}
	w.where, w.short.w = w.place, w
	w.durable.Store(uint64(p.end.LSN))
	w.written.Store(uint64(p.end.LSN))
	w.open = NewBatch(w.where)
	return w
}

// manualWriter is a writer whose caller does the work.
type manualWriter struct{ *writer }

// Work implements [ManualWriter].
func (m manualWriter) Work() bool { return m.work() }

// Tick implements [ManualWriter].
func (m manualWriter) Tick() { m.tick() }

// run starts the goroutines that do the work.
func (w *writer) run() {
	w.done.Go(func() { // syncs, and writes batches left to it
		defer w.rescue()
		for {
			for w.work() {
			}
			select {
			case <-w.wake:
			case <-w.stop:
				return
			}
		}
	})
	w.done.Go(func() { // once a second
		defer w.rescue()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.tick()
			case <-w.stop:
				return
			}
		}
	})
}

// rescue turns a panic of the goroutine that defers it into the failure of the writer.
func (w *writer) rescue() {
	if v := recover(); v != nil {
		w.p.store.opts.Logger.Error("writer panicked", "partition", w.p.id, "panic", v, "stack", string(debug.Stack()))
		w.fail(fmt.Errorf("%w: panic: %v", ErrInternal, v))
	}
}

// Epoch implements [Writer].
func (w *writer) Epoch() Epoch { return w.epoch }

// DiskState implements [Writer].
func (w *writer) DiskState() DiskState {
	r := w.p.store.reserve.is()
	s := DiskState{Room: r.room, Since: r.since}
	if at := w.hangs.Load(); at != nil {
		s.Hangs = *at
	}
	return s
}

// Durable implements [Writer].
func (w *writer) Durable() event.LSN { return event.LSN(w.durable.Load()) }

// Written implements [Writer].
func (w *writer) Written() event.LSN { return event.LSN(w.written.Load()) }

// Moved implements [Writer].
func (w *writer) Moved() <-chan struct{} { return w.moved }

// Lost implements [Writer].
func (w *writer) Lost() <-chan struct{} { return w.lost }

// Err implements [Writer].
func (w *writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Batch implements [Writer].
func (w *writer) Batch() *Batch { return w.open }

// head returns the end of the written log.
func (w *writer) head() format.Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writ
}

// place returns where the next frame begins. After it was called, the place is taken: no Skip comes
// in between.
func (w *writer) place() event.LSN {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.placed = true
	return w.next
}

// poke fills the slot of a channel.
func poke(slot chan struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

// Append implements [Writer].
func (w *writer) Append(b *Batch) Ticket {
	durable := b.level == Durable
	t := w.append(queuedBatch{Batch: b})
	if durable {
		w.requestSync(t.end)
	}
	poke(w.wake)
	return t
}

// Write implements [Writer].
func (w *writer) Write(b *Batch) Ticket {
	t := w.append(queuedBatch{Batch: b, awaited: true})
	if !w.writeQueued() {
		poke(w.wake)
	}
	return t
}

// Sync implements [Writer].
func (w *writer) Sync() {
	w.mu.Lock()
	end := w.next
	w.mu.Unlock()
	w.requestSync(end)
	poke(w.wake)
}

// requestSync asks for a sync of everything below an LSN.
func (w *writer) requestSync(end event.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = max(w.wanted, end)
}

func (w *writer) append(b queuedBatch) *ticket {
	if b.Batch != w.open {
		panic("log: appended batch is not the open one")
	}
	size, empty := b.Len(), b.empty()
	w.mu.Lock()
	if b.lsn == 0 {
		b.lsn = w.next
	}
	t := &ticket{lsn: b.lsn, end: b.lsn, done: make(chan struct{})}
	if !empty {
		t.end += event.LSN(size)
	}
	err := w.err
	if err == nil && w.closed {
		err = fmt.Errorf("%w: partition %d", ErrClosed, w.p.id)
	}
	b.ticket = t
	if err == nil {
		w.next = t.end
		w.queue = append(w.queue, b)
		if !empty {
			w.appends++
			w.dirty = true
		}
	}
	w.open, w.placed = NewBatch(w.where), false
	if b.begins && !empty {
		w.from, w.since = b.lsn, w.p.store.opts.Now()
	}
	w.open.begins = b.begins && empty || w.endsChapter(t.end)
	w.mu.Unlock()
	if err != nil {
		t.complete(err)
		b.free()
	} else if size-format.PrefixSize > w.p.store.opts.MaxFrameBytes {
		w.fail(fmt.Errorf("frame of %d bytes exceeds the limit of %d", size-format.PrefixSize, w.p.store.opts.MaxFrameBytes))
	}
	return t
}

// work does the next piece of I/O, see [ManualWriter.Work].
func (w *writer) work() bool {
	w.io.Lock()
	w.calls[writes].begin()
	err := w.short.find()
	var b queuedBatch
	sync, news := false, true
	if err == nil {
		b, sync = w.take()
	}
	if b.Batch != nil {
		awaited, durable := b.awaited, w.Durable()
		if err = w.write(b); errors.Is(err, disk.ErrNoRoom) {
			w.short.putBack(b)
			err = nil
		}
		news = awaited || w.Durable() > durable // other frames are announced with their sync
	}
	w.calls[writes].end()
	w.io.Unlock() // awaited batches are written while a sync runs
	switch {
	case err != nil:
	case b.Batch == nil && !sync:
		return false
	case b.Batch == nil:
		err = w.flush()
	}
	if err != nil {
		w.fail(err)
	}
	if news {
		poke(w.moved)
	}
	return err == nil
}

// take takes the next batch from the queue. If there is none, sync reports whether it is time for a
// sync.
func (w *writer) take() (b queuedBatch, sync bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.syncing {
		return b, false
	}
	unsynced := w.writ.LSN - w.synced.LSN
	wanted := w.wanted > w.synced.LSN
	if len(w.queue) == 0 || w.room != roomFound {
		w.syncing = wanted && unsynced > 0
		return b, w.syncing
	}
	if wanted && unsynced > maxUnsynced || w.queue[0].kind == Skip && unsynced > 0 {
		w.syncing = true
		return b, true
	}
	return w.pop(), false
}

// pop takes the first batch of the queue. The caller holds mu.
func (w *writer) pop() queuedBatch {
	b := w.queue[0]
	w.queue[0] = queuedBatch{}
	w.queue = w.queue[1:]
	return b
}

// writeQueued writes the queue, and reports whether it wrote all of it. It waits neither for
// another writer nor for the syncs at the end of a file.
func (w *writer) writeQueued() (all bool) {
	if !w.io.TryLock() {
		return false
	}
	defer w.io.Unlock()
	for {
		w.mu.Lock()
		if w.err != nil || len(w.queue) == 0 {
			w.mu.Unlock()
			return true
		}
		if b := w.queue[0]; b.kind != Events || w.room != roomFound || w.stage != writing || w.endsFile(b.Batch) {
			w.mu.Unlock()
			return false
		}
		b := w.pop()
		w.mu.Unlock()
		w.calls[writes].begin()
		err := w.write(b)
		w.calls[writes].end()
		if errors.Is(err, disk.ErrNoRoom) {
			w.short.putBack(b)
			return false
		}
		if err != nil {
			w.fail(err)
			return true
		}
	}
}

// write appends a batch to the log, and completes its ticket if that needs no sync. It takes the
// batch, unless the error wraps [disk.ErrNoRoom]: then the batch must be written again. The caller
// holds io.
func (w *writer) write(b queuedBatch) error {
	t := b.ticket
	if b.empty() {
		b.free()
		w.complete(t, Ordered)
		return nil
	}
	if err := w.toFile(b.Batch); errors.Is(err, disk.ErrNoRoom) {
		return err
	} else if err != nil {
		w.complete(t, Durable) // so that the failure completes it
		return err
	}
	f := &w.sealed
	if f.entry == nil {
		f.seal(w, b.Batch)
	}
	h, level := &f.head, b.level
	err := w.tail.write(f.entry, w.p.store.reserve.room() < RoomCritical)
	if errors.Is(err, disk.ErrNoRoom) {
		return err
	}
	f.entry = nil
	b.free()
	if err != nil {
		w.complete(t, Durable)
		return fmt.Errorf("write of frame %d: %w", h.LSN, err)
	}
	w.index++
	w.p.setEnd(w.seg, h.Next())
	w.mu.Lock()
	w.writ = format.Mark{LSN: h.Next(), Epoch: h.Epoch, Chain: h.Sum}
	w.written.Store(uint64(w.writ.LSN))
	w.settle(t, level) // before a sync that has this frame can end
	w.mu.Unlock()
	w.short.noteWritten()
	if int64(h.Next()-w.seg.base) < int64(w.chapter.SegmentBytes) {
		return nil
	}
	w.stage = segmentFull
	if err := w.nextSegment(); !errors.Is(err, disk.ErrNoRoom) { // the next write makes the file
		return err
	}
	return nil
}

// complete completes the ticket of a batch, or makes it wait for a sync.
func (w *writer) complete(t *ticket, level Durability) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(t, level)
}

// settle does the same as complete for a caller that holds mu. Skip and EpochStart have no ticket.
func (w *writer) settle(t *ticket, level Durability) {
	switch {
	case t == nil:
	case w.err != nil: // it failed during the write
		t.complete(fmt.Errorf("%w: %w", ErrUnknown, w.err))
	case level == Durable:
		w.pending = append(w.pending, t)
	default:
		t.complete(nil)
	}
}

// flush syncs what is written by now. Bytes written meanwhile may be on the disk afterwards or not.
func (w *writer) flush() error {
	w.mu.Lock()
	m := w.writ
	w.mu.Unlock()
	w.calls[syncs].begin()
	err := w.file.Datasync()
	w.calls[syncs].end()
	w.mu.Lock()
	w.syncing = false
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	w.markSynced(m)
	return nil
}

// markSynced records that everything before a mark is synced.
func (w *writer) markSynced(m format.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.synced = m
	w.durable.Store(max(w.durable.Load(), uint64(m.LSN)))
	n := 0
	for ; n < len(w.pending) && w.pending[n].end <= m.LSN; n++ {
		w.pending[n].complete(nil)
	}
	rest := copy(w.pending, w.pending[n:])
	clear(w.pending[rest:])
	w.pending = w.pending[:rest]
}

// fail stops the writer permanently. Tickets that may have reached the log fail with ErrUnknown.
// The durable end is recorded once, for the next start (log-format.md 5.2).
func (w *writer) fail(cause error) error {
	err := w.p.fail(cause)
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return err
	}
	w.err = err
	unknown := fmt.Errorf("%w: %w", ErrUnknown, err)
	for _, t := range w.pending {
		t.complete(unknown)
	}
	for _, b := range w.queue {
		if b.ticket != nil {
			b.ticket.complete(err) // never written
		}
	}
	w.pending, w.queue = nil, nil
	synced := w.synced
	close(w.lost)
	w.mu.Unlock()
	if synced.LSN > format.FirstLSN {
		w.p.noteFault(synced)
	}
	return err
}

// release closes the descriptors of a writer that has failed. Nothing is synced. From here on the
// partition can be reopened.
func (w *writer) release() {
	_ = w.progress.Close()
	if w.file != nil {
		w.file.Close()
	}
	if w.tail != nil && w.tail.file != nil {
		w.tail.file.Close()
	}
	w.released.Store(true)
}

// Close implements [Writer]. It also closes files that were open for reading, because a caller may
// remove the log or its disk afterwards.
func (w *writer) Close() error {
	defer w.p.files.closeAll()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.closed = true
	w.mu.Unlock()
	close(w.stop)
	w.done.Wait()
	w.short.finish()
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	err, unsynced := w.err, w.writ.LSN > w.synced.LSN
	w.mu.Unlock()
	if err != nil {
		w.release()
		return err
	}
	err = func() error {
		if unsynced {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if w.stage == writing || w.stage == segmentFull {
			if err := w.tail.close(); err != nil {
				return err
			}
		}
		if err := w.file.Close(); err != nil {
			return err
		}
		if err := w.note(); err != nil {
			return err
		}
		return w.progress.End()
	}()
	if err != nil {
		err = w.fail(fmt.Errorf("close: %w", err))
		w.release()
		return err
	}
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.end, w.p.clean, w.p.writer = w.writ, true, nil
	return nil
}
