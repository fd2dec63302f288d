package log

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxUnsynced is how much is written before a sync that somebody waits for, bytes.
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

// writer appends to a partition. The appending goroutine fills batches, the I/O goroutine (or the caller of Work) writes
// them: they meet under mu, which is never held during I/O.
type writer struct {
	// set once
	p     *partition
	epoch Epoch
	lost  chan struct{}
	wake  chan struct{} // one slot
	stop  chan struct{}
	done  sync.WaitGroup

	durable atomic.Uint64 // LSN; the same as synced.lsn

	mu      sync.Mutex // guards what follows
	open    *Batch
	next    event.LSN // of the next frame
	queue   []*Batch
	pending []*ticket // written or not, in order, from the first that waits for a sync on
	synced  mark
	writ    mark // written
	sync    bool // a sync is wanted although no ticket waits
	appends uint64
	seen    uint64 // appends at the last tick
	dirty   bool   // events came since the last Skip
	closed  bool
	err     error // poisoned

	io      sync.Mutex // held during I/O; guards what follows
	tail    *tail
	file    File // our descriptor of the last segment
	seg     *segment
	index   uint64 // of the next frame in its chapter
	chapter chapterEntry
	opened  time.Time // of the chapter

	noting   sync.Mutex // held while the progress note is written; guards what follows
	progress progress
}

func newWriter(p *partition) *writer {
	w := &writer{
		p: p, lost: make(chan struct{}), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		epoch: p.end.epoch + 1, synced: p.end, writ: p.end, next: p.end.lsn,
		progress: progress{fs: p.store.opts.FS, dir: p.dir},
	}
	w.durable.Store(uint64(p.end.lsn))
	w.open = newBatch(w, Events)
	return w
}

// begin starts a chapter and commits the EpochStart.
func (w *writer) begin() error {
	w.io.Lock()
	defer w.io.Unlock()
	if err := w.newChapter(); err != nil {
		return err
	}
	b := newBatch(w, EpochStart)
	b.records, b.level = append(b.records, w.p.store.opts.BootID...), Durable
	w.pin(b)
	w.next += event.LSN(b.Len())
	if err := w.write(b); err != nil {
		return err
	}
	return w.flush()
}

// run starts the goroutines of a writer that is not driven by hand.
func (w *writer) run() {
	if w.p.store.opts.Manual {
		return
	}
	w.done.Go(func() { // writes and syncs
		defer w.rescue()
		for {
			for w.Work() {
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
				w.Tick()
			case <-w.stop:
				return
			}
		}
	})
}

// rescue makes a panic of the goroutine that defers it the failure of the writer.
func (w *writer) rescue() {
	if v := recover(); v != nil {
		w.p.store.opts.Logger.Error("writer panicked", "partition", w.p.id, "panic", v, "stack", string(debug.Stack()))
		w.fail(fmt.Errorf("%w: panic: %v", ErrInternal, v))
	}
}

// Epoch implements [Writer].
func (w *writer) Epoch() Epoch { return w.epoch }

// Durable implements [Writer].
func (w *writer) Durable() event.LSN { return event.LSN(w.durable.Load()) }

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

// head is the end of what is written.
func (w *writer) head() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writ
}

// pin gives the batch its place.
func (w *writer) pin(b *Batch) {
	w.mu.Lock()
	b.lsn = w.next
	w.mu.Unlock()
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Append implements [Writer].
func (w *writer) Append(b *Batch) Ticket {
	t := w.append(b)
	w.poke()
	return t
}

// Commit implements [Writer].
func (w *writer) Commit(b *Batch) Ticket {
	t := w.append(b)
	for {
		select {
		case <-t.done:
			return t
		default:
			if !w.Work() {
				w.poke() // whoever has the rest does it
				return t
			}
		}
	}
}

func (w *writer) append(b *Batch) *ticket {
	if b != w.open {
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
	w.open = newBatch(w, Events)
	w.mu.Unlock()
	if err != nil {
		t.complete(err)
		b.free()
	} else if size-prefixSize > w.p.store.opts.MaxFrameBytes {
		w.fail(fmt.Errorf("frame of %d bytes is over the limit of %d", size-prefixSize, w.p.store.opts.MaxFrameBytes))
	}
	return t
}

// Work implements [Writer].
func (w *writer) Work() bool {
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return false
	}
	unsynced := w.writ.lsn - w.synced.lsn
	waited := w.sync || len(w.pending) > 0
	var b *Batch
	if len(w.queue) > 0 && !(waited && unsynced > maxUnsynced) && !(w.queue[0].kind == Skip && unsynced > 0) {
		b = w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
	}
	more := b != nil || waited || len(w.queue) > 0
	w.mu.Unlock()
	if !more {
		return false
	}
	var err error
	if b != nil {
		err = w.write(b)
	} else {
		err = w.flush()
	}
	if err != nil {
		w.fail(err)
	}
	return err == nil
}

// write appends a batch to the log. It completes its ticket if that waits for no sync. It takes the batch.
func (w *writer) write(b *Batch) error {
	t := b.ticket
	if b.empty() {
		b.free()
		w.written(t, Ordered)
		return nil
	}
	if err := w.rotate(); err != nil {
		w.keep(t)
		return err
	}
	w.mu.Lock()
	h := b.close()
	h.partition, h.tag, h.epoch = w.p.id, w.p.store.tag, w.epoch
	h.chapter, h.durable, h.chain = w.chapter.id, w.synced.lsn, w.writ.chain
	end := w.writ.lsn
	w.mu.Unlock()
	if h.lsn != end {
		panic(fmt.Sprintf("log: frame of LSN %d written at %d", h.lsn, end))
	}
	h.seal(b.buf)
	err := w.tail.write(w.index, b.buf)
	level := b.level
	b.free()
	if err != nil {
		w.keep(t)
		return fmt.Errorf("write of frame %d: %w", h.lsn, err)
	}
	w.index++
	w.p.written(w.seg, h.next())
	w.mu.Lock()
	w.writ = mark{h.next(), h.epoch, h.sum}
	if t == nil { // Skip and EpochStart
		w.sync = true
	}
	w.mu.Unlock()
	if t != nil {
		w.written(t, level)
	}
	if int64(h.next()-w.seg.base) >= int64(w.chapter.segmentBytes) {
		return w.nextSegment()
	}
	return nil
}

// keep puts a ticket where a failure finds it.
func (w *writer) keep(t *ticket) {
	if t != nil {
		w.written(t, Durable)
	}
}

// written completes a ticket, or lets it wait for a sync, its own or that of one before it.
func (w *writer) written(t *ticket, level Durability) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil { // failed by Tick while we were writing
		t.complete(fmt.Errorf("%w: %w", ErrUnknown, w.err))
		return
	}
	if (level == Durable || len(w.pending) > 0) && !mutant.On(mutant.AckBeforeSync) {
		w.pending = append(w.pending, t)
		return
	}
	t.complete(nil)
}

// flush syncs what is written and completes the tickets that wait for it.
func (w *writer) flush() error {
	if err := w.file.Datasync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	w.reached()
	return nil
}

// reached notes that all that is written is synced.
func (w *writer) reached() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.synced, w.sync = w.writ, false
	w.durable.Store(uint64(w.synced.lsn))
	for _, t := range w.pending {
		t.complete(nil)
	}
	clear(w.pending)
	w.pending = w.pending[:0]
}

// fail stops the writer for good. Tickets that may have reached the log fail with ErrUnknown. What was durable is
// noted, once, for the next start (log-format.md 5.2).
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
	if synced.lsn > firstLSN {
		w.p.noteFault(synced)
	}
	return err
}

// nextSegment follows the tail into the file it has just created. The file before it was synced by that.
func (w *writer) nextSegment() error {
	s := &segment{chapter: w.chapter.id, index: w.index, base: w.seg.end, end: w.seg.end}
	if err := w.follow(s); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	if err := w.p.store.fs.SyncDir(filepath.Dir(filepath.Join(w.p.dir, s.relative()))); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	w.reached()
	return nil
}

// follow opens the file that the tail writes to next, and checks that it is the one we think.
func (w *writer) follow(s *segment) error {
	f, err := w.p.store.fs.Open(filepath.Join(w.p.dir, s.relative()))
	if err != nil {
		return err
	}
	if size, err := f.Size(); err != nil || size != 0 {
		f.Close()
		return fmt.Errorf("new segment has %d bytes: %w", size, err)
	}
	old := w.file
	w.file, w.seg = f, s
	w.p.grow(s)
	if old != nil {
		return old.Close()
	}
	return nil
}

// rotate ends a chapter that is long or old enough.
func (w *writer) rotate() error {
	opts := &w.p.store.opts
	long := int64(w.seg.end-w.chapter.first) >= int64(opts.ChapterBytes)
	old := w.seg.end > w.chapter.first && opts.Now().Sub(w.opened) >= opts.ChapterAge
	if !long && !old {
		return nil
	}
	if err := w.flush(); err != nil { // before the manifest names the next
		return err
	}
	if err := w.tail.close(); err != nil {
		return fmt.Errorf("end of chapter: %w", err)
	}
	return w.newChapter()
}

// newChapter makes directory and first file durable, then the manifest that names them (3.5).
func (w *writer) newChapter() error {
	fsys, opts := w.p.store.fs, &w.p.store.opts
	w.mu.Lock()
	end := w.writ
	w.mu.Unlock()
	m := w.p.manifest
	c := chapterEntry{id: 1, first: end.lsn, chain: end.chain, created: opts.Now().UnixMilli(), segmentBytes: uint32(opts.SegmentBytes)}
	if n := len(m.chapters); n > 0 {
		c.id = m.chapters[n-1].id + 1
	}
	wal := filepath.Join(w.p.dir, "wal")
	dir := filepath.Join(wal, chapterName(c.id))
	err := fsys.Mkdir(dir)
	if err == nil {
		w.tail, err = newTail(fsys, dir, opts.SegmentBytes, opts.RoomBytes)
	}
	s := &segment{chapter: c.id, index: 1, base: end.lsn, end: end.lsn}
	if err == nil {
		err = w.follow(s)
	}
	if err == nil {
		err = w.file.Sync()
	}
	for _, d := range []string{dir, wal} {
		if err == nil {
			err = fsys.SyncDir(d)
		}
	}
	if err == nil {
		m.generation++
		m.chapters = append(m.chapters, c)
		err = replaceFile(fsys, filepath.Join(w.p.dir, "manifest"), m.encode(w.p.id, w.p.store.tag))
	}
	if err != nil {
		return fmt.Errorf("new chapter: %w", err)
	}
	w.p.manifest = m
	w.chapter, w.index, w.opened = c, 1, opts.Now()
	return nil
}

// Tick implements [Writer].
func (w *writer) Tick() {
	w.mu.Lock()
	if w.err != nil || w.closed {
		w.mu.Unlock()
		return
	}
	if w.writ.lsn > w.synced.lsn {
		w.sync = true
	}
	if w.appends != w.seen {
		w.seen = w.appends
	} else if w.dirty && w.open.lsn == 0 {
		b := newBatch(w, Skip)
		b.lsn, b.level = w.next, Durable
		w.next += event.LSN(b.Len())
		w.queue = append(w.queue, b)
		w.dirty = false
	}
	w.mu.Unlock()
	w.poke()
	if err := w.note(); err != nil {
		w.fail(fmt.Errorf("progress note: %w", err))
	}
}

// note writes how far the log is durable, if that moved.
func (w *writer) note() error {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.mu.Lock()
	m, err := w.synced, w.err
	w.mu.Unlock()
	if err != nil || m.lsn <= w.p.noted {
		return nil
	}
	err = w.progress.put(sealNote("LBPR", w.p.id, w.p.store.tag, m.append(nil)))
	if outOfDescriptors(err) {
		return nil // the old note stands; the next one is a second away
	}
	if err != nil {
		return err
	}
	w.p.noted = m.lsn
	return nil
}

// Close implements [Writer].
func (w *writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.closed = true
	w.mu.Unlock()
	close(w.stop)
	w.done.Wait()
	for w.Work() {
	}
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	err, unsynced := w.err, w.writ.lsn > w.synced.lsn
	w.mu.Unlock()
	if err != nil {
		_ = w.progress.close()
		if w.file != nil {
			w.file.Close() // of a failed log nothing more is asked; the tail's descriptor stays, closing it would sync
		}
		return err
	}
	err = func() error {
		if unsynced {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if err := w.tail.close(); err != nil {
			return err
		}
		if err := w.file.Close(); err != nil {
			return err
		}
		if err := w.note(); err != nil {
			return err
		}
		return w.progress.end()
	}()
	if err != nil {
		return w.fail(fmt.Errorf("close: %w", err))
	}
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.end, w.p.clean, w.p.writer = w.writ, true, nil
	return nil
}
