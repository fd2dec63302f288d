package log

import (
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file moves a writer from file to file, through segments and chapters (log-format.md 5.2).
// The caller holds io, except in begin.

// stage is the step that a writer needs before it can write the next frame. Each step to a new file
// can fail for lack of room and be repeated.
type stage uint8

const (
	writing stage = iota
	// the file being written gets no more frames and must be closed; its chapter continues
	segmentFull
	segmentEnded // the file being written is closed, its chapter continues; next: the next file
	chapterEnded // next: a new chapter
	chapterBegun // next: the manifest of the chapter, whose first file exists
)

// begin starts a chapter and commits the EpochStart.
func (w *writer) begin() error {
	w.io.Lock()
	defer w.io.Unlock()
	w.stage = chapterEnded
	if err := w.short.insist(w.newChapter); err != nil {
		return err
	}
	b := newBatch(w.where, EpochStart)
	b.records, b.level = append(b.records, w.p.store.opts.BootID...), Durable
	w.mu.Lock()
	b.lsn = w.next
	w.from, w.since = w.next, w.p.store.opts.Now()
	w.next += event.LSN(b.Len())
	w.mu.Unlock()
	// Preallocation that does not fit fills the disk until it is undone. Partitions begin at the
	// same time, and the others need room for their manifests meanwhile.
	w.tail.noPreallocation = true
	if err := w.short.insist(func() error { return w.write(queuedBatch{Batch: b}) }); err != nil {
		return err
	}
	w.tail.noPreallocation = false
	return w.flush()
}

// toFile goes to the file that a batch belongs in.
func (w *writer) toFile(b *Batch) error {
	if w.stage == segmentFull || w.stage == segmentEnded {
		if err := w.nextSegment(); err != nil {
			return err
		}
	}
	if !b.begins {
		return nil
	}
	if err := w.rotate(); err != nil {
		return err
	}
	b.begins = false
	return nil
}

// nextSegment ends the file being written, which makes its contents durable, and goes on to the
// next file.
func (w *writer) nextSegment() error {
	if w.stage == segmentFull {
		if err := w.tail.close(); err != nil {
			return fmt.Errorf("end of segment: %w", err)
		}
		w.stage = segmentEnded
		w.markSynced(w.head())
	}
	if err := w.tail.create(w.index); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	s := newSegment(w.chapter.ID, w.index, w.seg.end)
	if err := w.follow(s); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	if err := w.p.store.fs.SyncDir(filepath.Dir(filepath.Join(w.p.dir, s.kind.path()))); err != nil {
		return fmt.Errorf("next segment: %w", err)
	}
	w.stage = writing
	return nil
}

// follow opens the file that the tail writes to next, and checks that it is the expected one.
func (w *writer) follow(s *segment) error {
	f, err := w.p.store.fs.Open(filepath.Join(w.p.dir, s.kind.path()))
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size != 0 {
		err = fmt.Errorf("new segment is not empty: %d bytes", size)
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

// endsFile reports whether a file is closed before or after the next batch.
func (w *writer) endsFile(b *Batch) bool {
	return w.seg.end+event.LSN(b.Len()) >= w.seg.base+event.LSN(w.chapter.SegmentBytes) || b.begins
}

// endsChapter reports whether the chapter of the open batch is long or old enough to end at an LSN.
// A batch that begins the next chapter knows it before it has any content, because a chapter must
// define everything that it names. The caller holds mu.
func (w *writer) endsChapter(end event.LSN) bool {
	opts := &w.p.store.opts
	return int64(end-w.from) >= int64(opts.ChapterBytes) || end > w.from && opts.Now().Sub(w.since) >= opts.ChapterAge
}

// rotate ends the chapter being written and begins the next.
func (w *writer) rotate() error {
	if w.stage == writing || w.stage == segmentFull {
		if err := w.flush(); err != nil { // before the manifest names the next chapter
			return err
		}
		if err := w.tail.close(); err != nil {
			return fmt.Errorf("end of chapter: %w", err)
		}
		w.stage = chapterEnded
	}
	return w.newChapter()
}

// newChapter makes the directory and the first file durable, and then the manifest that names them
// (3.5).
func (w *writer) newChapter() error {
	w.p.listing.Lock()
	defer w.p.listing.Unlock()
	m := w.p.manifest
	if w.stage == chapterEnded {
		c := w.coming
		if c.ID == 0 {
			c = w.p.nextChapter(w.head())
		}
		if err := w.firstSegment(c); err != nil {
			return fmt.Errorf("new chapter: %w", err)
		}
		w.stage = chapterBegun
	}
	m.Generation++
	m.Chapters = append(m.Chapters, w.coming)
	if err := disk.Replace(w.p.store.fs, filepath.Join(w.p.dir, "manifest"), m.Encode(w.p.id, w.p.store.tag)); err != nil {
		return fmt.Errorf("new chapter: %w", err)
	}
	w.p.manifest = m
	w.chapter, w.index, w.coming = w.coming, 1, format.Chapter{}
	w.stage = writing
	return nil
}

// nextChapter returns the chapter that begins where the log ends.
func (p *partition) nextChapter(end format.Mark) format.Chapter {
	opts := &p.store.opts
	c := format.Chapter{ID: 1, First: end.LSN, Chain: end.Chain, Created: opts.Now().UnixMilli(), SegmentBytes: uint32(opts.SegmentBytes)}
	if n := len(p.manifest.Chapters); n > 0 {
		c.ID = p.manifest.Chapters[n-1].ID + 1
	}
	return c
}

// firstSegment makes a chapter's directory with an empty first file, durably.
func (w *writer) firstSegment(c format.Chapter) (err error) {
	fsys, opts := w.p.store.fs, &w.p.store.opts
	wal := filepath.Join(w.p.dir, "wal")
	dir := filepath.Join(wal, format.ChapterName(c.ID))
	if c != w.coming { // otherwise an attempt that found no room has made it
		if err := fsys.Mkdir(dir); err != nil {
			return disk.Later(err)
		}
		w.coming = c
	}
	if w.tail, err = newTail(fsys, dir, opts.RoomBytes); err != nil {
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
