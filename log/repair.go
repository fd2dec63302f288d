package log

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

const (
	// repairBytes is how much of a segment is rewritten at a time.
	repairBytes = 1 << 20
	// maxHeldTail is how much of a tail is held in memory if there is no room on the disk for a
	// copy of it.
	maxHeldTail = 16 << 20
)

// cutTails repairs the partitions whose logs end in a tail, one after the other, before any
// partition of this run is led. A copy of a tail that does not fit fills the disk until it is
// removed again. Other partitions that had begun their chapters meanwhile would find no room for
// their manifests, and fail although there is enough for all.
func (s *store) cutTails() {
	s.cutting.Lock()
	defer s.cutting.Unlock()
	if s.cut {
		return
	}
	s.cut = true
	for p := range s.all() {
		if p.err != nil || p.found.cut == 0 {
			continue
		}
		if err := p.repair(); err != nil {
			_ = p.failRepair(err) // its Lead returns the error
		}
	}
}

// repair makes the last segment file durable and ends it after its good frames (log-format.md 5.4).
// It needs room only for a tail, and frees as much right after.
func (p *partition) repair() error {
	p.mu.RLock()
	n := len(p.segments)
	p.mu.RUnlock()
	if n == 0 {
		return nil
	}
	last := p.segments[n-1]
	f, err := p.store.fs.Edit(filepath.Join(p.dir, last.kind.path()))
	if err != nil {
		return err
	}
	good := int64(last.end - last.base)
	if p.found.cached {
		err = rewrite(f, int64(max(p.found.solid, last.base)-last.base), good)
	}
	if err == nil {
		err = p.cutTail(f, good)
	}
	if err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := p.store.fs.SyncDir(filepath.Dir(filepath.Join(p.dir, last.kind.path()))); err != nil {
		return err
	}
	p.mu.Lock()
	p.clean = true
	p.mu.Unlock()
	return nil
}

// rewrite writes the bytes between two places of a file again. After a failed sync the page cache
// may show bytes that the disk lacks, and count them as written (F9). A sync alone would not write
// them.
func rewrite(f disk.File, from, to int64) error {
	buf := make([]byte, min(repairBytes, max(to-from, 0)))
	for from < to {
		part := buf[:min(int64(len(buf)), to-from)]
		if n, err := f.ReadAt(part, from); n < len(part) {
			return fmt.Errorf("read again at byte %d: %w", from, errors.Join(io.ErrUnexpectedEOF, err))
		}
		if _, err := f.WriteAt(part, from); err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}

// cutTail ends the file after its good frames and syncs it. Before that it copies a tail to a side
// file. If the disk has no room for both, the tail is held in memory meanwhile. It is lost if the
// process dies at that moment, which is allowed because the tail was never acknowledged.
func (p *partition) cutTail(f disk.File, good int64) error {
	cut := p.found.cut
	if cut == 0 {
		return end(f, good)
	}
	side, err := p.sideFile()
	if err == nil {
		err = copyTo(p.store.fs, io.NewSectionReader(f, good, cut), cut, side)
	}
	if !disk.Full(err) || cut > maxHeldTail {
		if err != nil {
			return err
		}
		return end(f, good)
	}
	tail := make([]byte, cut)
	if n, err := f.ReadAt(tail, good); n < len(tail) {
		return fmt.Errorf("read of the tail: %w", errors.Join(io.ErrUnexpectedEOF, err))
	}
	if err := end(f, good); err != nil {
		return err
	}
	if side, err = p.sideFile(); err == nil {
		err = disk.Replace(p.store.fs, side, tail)
	}
	if disk.Full(err) {
		p.store.opts.Logger.Warn("unacknowledged tail not kept: disk full", "partition", p.id, "bytes", cut, "error", err)
		return nil
	}
	return err
}

// sideFile makes the directory for the tail and returns the path of its file.
func (p *partition) sideFile() (string, error) {
	if err := disk.MakeDir(p.store.fs, filepath.Join(p.dir, "cut")); err != nil {
		return "", err
	}
	// an interrupted repair may have made it
	return filepath.Join(p.store.root, p.found.report.CutFile), p.store.fs.SyncDir(p.dir)
}

// end truncates the file to size, durably.
func end(f disk.File, size int64) error {
	if now, err := f.Size(); err != nil {
		return err
	} else if now > size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	return f.Sync()
}

// copyTo writes n bytes to a durable file of that name.
func copyTo(fsys disk.FS, src io.Reader, n int64, name string) error {
	return disk.Write(fsys, name, func(dst disk.File) error {
		// without the files' own methods: all I/O is plain reads and writes
		copied, err := io.CopyBuffer(struct{ io.Writer }{dst}, src, make([]byte, min(repairBytes, max(n, 1))))
		if err == nil && copied != n {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// failRepair stops the partition. A failed sync may have dropped good frames, so the next start
// must judge the tail as one left by a failed sync, unless a note about an earlier failure already
// says so. Only the state at the start of the chapter is certainly durable.
func (p *partition) failRepair(cause error) error {
	err := p.fail(fmt.Errorf("repair: %w", cause))
	p.listing.Lock()
	defer p.listing.Unlock()
	if c := p.manifest.Chapters; !p.found.fault && len(c) > 0 {
		last := c[len(c)-1]
		p.noteFault(format.Mark{LSN: max(last.First, format.FirstLSN), Epoch: p.end.Epoch, Chain: last.Chain})
	}
	return err
}

// noteFault records once, for the next start, how far the log was durable (log-format.md 5.2).
func (p *partition) noteFault(durable format.Mark) {
	note := format.Fault.Encode(p.id, p.store.tag, durable)
	// without patience, because the writer is about to end
	if err := disk.Replace(p.store.opts.FS, filepath.Join(p.dir, faultName), note); err != nil {
		p.store.opts.Logger.Error("fault note not written", "partition", p.id, "error", err)
	}
}
