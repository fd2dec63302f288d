package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

type partition struct {
	// set once in Open
	store *store
	id    PartitionID
	dir   string
	err   error // why it is refused
	// owed is how far this process knew the log to be durable when it recovered the log again; LSN
	// 0: this is the first recovery.
	owed format.Mark

	files fileCache // has a mutex of its own

	lead   sync.Mutex // held by Lead
	found  *findings  // set once in Open; Lead removes what it has repaired
	saving sync.Mutex // held by SaveCheckpoint
	// copying is held for reading by Copy, and from Hold on: meanwhile no file of the log is
	// replaced by another kind, or removed.
	copying sync.RWMutex

	sealing chapterSealer
	sealHurry
	baseManager
	scrubState

	listing  sync.Mutex      // held while the manifest is replaced; guards the fields below
	manifest format.Manifest // as on the disk

	// belongs to Lead, and while there is a writer to the writer:
	noted event.LSN // LSN of the progress note; guarded by the writer's noting

	mu sync.RWMutex // guards the fields below
	// segments are ordered by base; only the last one's end moves.
	segments []*segment
	first    event.LSN
	base     format.Base // LSN 0: there is none
	end      format.Mark // of the recovered log, or of the log as a closed writer left it
	// everything up to end is synced: after a clean stop, a repair, or a writer's close
	clean  bool
	writer *writer
	poison error
	ckpts  []format.Checkpoint // usable ones, oldest first
}

// take adopts the findings of a recovery.
func (p *partition) take(f *findings) {
	p.found, p.segments, p.manifest, p.first, p.end = f, f.segments, f.manifest, f.first, f.end
	p.sealing.p, p.sealing.tip = p, f.tip
	p.baseManager.p, p.scrubState.p, p.base = p, p, f.base
	useBlocks(f.segments, p.store.blocks)
	p.clean, p.ckpts, p.noted = f.clean || len(f.segments) == 0, f.ckpts, f.noted
}

// ID implements [Reader].
func (p *partition) ID() PartitionID { return p.id }

// Recovery implements [Partition].
func (p *partition) Recovery() Recovery { return p.found.report }

// LastStop implements [Partition].
func (p *partition) LastStop() event.Stop { return p.found.stop }

// Bounds implements [Reader].
func (p *partition) Bounds() (first, committed event.LSN) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.writer != nil {
		return p.first, p.writer.Durable()
	}
	return p.first, p.end.LSN
}

// Segments implements [Partition].
func (p *partition) Segments() []SegmentInfo {
	p.listing.Lock()
	began := make(map[uint32]int64, len(p.manifest.Chapters))
	for i, c := range p.manifest.Chapters[min(1, len(p.manifest.Chapters)):] {
		began[p.manifest.Chapters[i].ID] = c.Created
	}
	p.listing.Unlock()
	p.mu.RLock()
	defer p.mu.RUnlock()
	list := make([]SegmentInfo, len(p.segments))
	for i, s := range p.segments {
		list[i] = s.info(p.id, s.end)
		if list[i].Sealed == 0 {
			list[i].Until = event.Time(began[s.chapter])
		}
	}
	return list
}

// settledEnd returns the end of the log, and whether a clean marker may confirm it.
func (p *partition) settledEnd() (format.Mark, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.end, p.err == nil && p.clean && p.writer == nil && p.poison == nil
}

// fail stops all writing of this partition in this process.
func (p *partition) fail(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.poison == nil {
		p.poison = fmt.Errorf("%w: partition %d: %w", ErrPoisoned, p.id, err)
		p.store.opts.Logger.Error("partition stopped; it accepts no more writes", "partition", p.id, "error", err)
	}
	return p.poison
}

// Lead implements [Partition]. The steps are those of log-format.md 5.4.
func (p *partition) Lead(ctx context.Context) (Writer, error) {
	if p.store.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	p.lead.Lock()
	defer p.lead.Unlock()
	_, err := p.ready()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	p.store.reserve.open(&p.store.opts, len(p.store.parts))
	if err := p.store.raise(); err != nil {
		return nil, err
	}
	if err := p.replaceNotes(); err != nil {
		return nil, p.fail(fmt.Errorf("notes: %w", err))
	}
	if err := p.store.unmark(); err != nil {
		return nil, err
	}
	p.store.cutTails()
	clean, err := p.ready()
	if err != nil {
		return nil, err
	}
	if !clean {
		if err := p.repair(); err != nil {
			return nil, p.failRepair(err)
		}
	}
	w, err := p.start()
	if err != nil {
		return nil, p.fail(fmt.Errorf("start: %w", err))
	}
	if err := p.tidy(); err != nil {
		err = w.fail(fmt.Errorf("start: %w", err))
		w.release()
		return nil, err
	}
	if p.store.opts.Manual {
		return manualWriter{w}, nil
	}
	p.store.watch.begin(p.store)
	p.store.sealer.begin(p.store)
	w.run()
	return w, nil
}

// ready refuses a partition that has a writer or failed, and reports whether everything up to its
// end is synced.
func (p *partition) ready() (clean bool, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.poison != nil:
		return false, p.poison
	case p.writer != nil:
		return false, fmt.Errorf("log: partition %d has a writer", p.id)
	}
	return p.clean, nil
}

// replaceNotes replaces damaged notes by good ones while the clean marker still confirms the end of
// the log. Without it the next start would have to refuse them.
func (p *partition) replaceNotes() error {
	for _, name := range p.found.badNotes {
		path := filepath.Join(p.dir, name)
		if name == progressName && p.end.LSN > format.FirstLSN {
			if err := disk.Replace(p.store.fs, path, format.Progress.Encode(p.id, p.store.tag, p.end)); err != nil {
				return err
			}
			p.noted = p.end.LSN
			continue
		}
		if err := p.remove(name); err != nil {
			return err
		}
		if err := p.store.fs.SyncDir(p.dir); err != nil {
			return err
		}
	}
	p.found.badNotes = nil
	return nil
}

// start removes the remains of an interrupted creation of a chapter, begins a chapter and commits
// the EpochStart.
func (p *partition) start() (*writer, error) {
	fsys := p.store.fs
	for _, stray := range p.found.stray {
		dir := filepath.Join(p.dir, stray)
		for _, name := range []string{filepath.Join(dir, format.SegmentName(1)), filepath.Join(dir, format.SegmentName(1)+disk.TempSuffix), dir} {
			if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	if len(p.found.stray) > 0 {
		if err := fsys.SyncDir(filepath.Join(p.dir, "wal")); err != nil {
			return nil, err
		}
		p.found.stray = nil
	}
	w := newWriter(p)
	if err := w.begin(); err != nil {
		err = w.fail(fmt.Errorf("start: %w", err))
		w.release()
		return nil, err
	}
	p.mu.Lock()
	p.writer = w
	p.mu.Unlock()
	return w, nil
}

// tidy removes, after a successful start, files that are no longer needed.
func (p *partition) tidy() error {
	for _, t := range p.found.temps {
		if err := p.remove(t); err != nil {
			return err
		}
	}
	p.found.temps = nil
	if err := p.sealing.removeRemains(); err != nil {
		return err
	}
	for _, t := range []string{"manifest", progressName, faultName} {
		if err := p.remove(t + disk.TempSuffix); err != nil {
			return err
		}
	}
	if !p.found.fault {
		return nil
	}
	p.found.fault = false
	if err := p.remove(faultName); err != nil {
		return err
	}
	return p.store.fs.SyncDir(p.dir)
}

func (p *partition) remove(name string) error {
	err := p.store.fs.Remove(filepath.Join(p.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// grow adds a segment that begins at base.
func (p *partition) grow(s *segment) {
	p.mu.Lock()
	p.segments = append(p.segments, s)
	p.mu.Unlock()
}

// setEnd moves the end of the last segment.
func (p *partition) setEnd(s *segment, end event.LSN) {
	p.mu.Lock()
	s.end = end
	p.mu.Unlock()
}
