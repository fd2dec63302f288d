package log

import (
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// How a writer goes from file to file: segments, and chapters of them (log-format.md 5.2). The caller holds io.

// nextSegment follows the tail into the file it has just created. The file before it was synced by that.
func (w *writer) nextSegment() error {
	s := newSegment(w.chapter.ID, w.index, w.seg.end)
	if err := w.follow(s); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	if err := w.p.store.fs.SyncDir(filepath.Dir(filepath.Join(w.p.dir, s.kind.path()))); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	w.reached(w.head())
	return nil
}

// follow opens the file that the tail writes to next, and checks that it is the one we think.
func (w *writer) follow(s *segment) error {
	f, err := w.p.store.fs.Open(filepath.Join(w.p.dir, s.kind.path()))
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size != 0 {
		err = fmt.Errorf("new segment has %d bytes", size)
	}
	if err != nil {
		f.Close()
		return err
	}
	old := w.file
	w.file, w.seg = f, s
	w.p.grow(s)
	if old != nil {
		return old.Close()
	}
	return nil
}

// over reports whether the chapter is long or old enough.
func (w *writer) over() bool {
	opts := &w.p.store.opts
	return int64(w.seg.end-w.chapter.First) >= int64(opts.ChapterBytes) ||
		w.seg.end > w.chapter.First && opts.Now().Sub(w.opened) >= opts.ChapterAge
}

// rotate ends a chapter that is over.
func (w *writer) rotate() error {
	if !w.over() {
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
	c := format.Chapter{ID: 1, First: end.LSN, Chain: end.Chain, Created: opts.Now().UnixMilli(), SegmentBytes: uint32(opts.SegmentBytes)}
	if n := len(m.Chapters); n > 0 {
		c.ID = m.Chapters[n-1].ID + 1
	}
	if err := w.firstSegment(c); err != nil {
		return fmt.Errorf("new chapter: %w", err)
	}
	m.Generation++
	m.Chapters = append(m.Chapters, c)
	if err := disk.Replace(fsys, filepath.Join(w.p.dir, "manifest"), m.Encode(w.p.id, w.p.store.tag)); err != nil {
		return fmt.Errorf("new chapter: %w", err)
	}
	w.p.manifest = m
	w.chapter, w.index, w.opened = c, 1, opts.Now()
	return nil
}

// firstSegment makes a chapter's directory with an empty first file in it, durably.
func (w *writer) firstSegment(c format.Chapter) (err error) {
	fsys, opts := w.p.store.fs, &w.p.store.opts
	wal := filepath.Join(w.p.dir, "wal")
	dir := filepath.Join(wal, format.ChapterName(c.ID))
	if err := fsys.Mkdir(dir); err != nil {
		return err
	}
	if w.tail, err = newTail(fsys, dir, opts.SegmentBytes, opts.RoomBytes); err != nil {
		return err
	}
	if err := w.follow(newSegment(c.ID, 1, c.First)); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	return fsys.SyncDir(wal)
}
