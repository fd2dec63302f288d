package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// How a walk goes from chapter to chapter, and in them from file to file.

// chapters goes through those of the manifest, or if it is not good through those of the directory.
func (w *walk) chapters(ctx context.Context, good bool) error {
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), "wal"))
	if err != nil {
		return w.damaged("wal", 0, 0, err)
	}
	list := w.out.manifest.Chapters
	if !good {
		list = chaptersIn(entries, w.scan.Chapter)
	}
	there, err := w.compare(list, entries, good)
	if err != nil {
		return err
	}
	if good {
		(baseWalk{w}).jumpUnsealed()
	}
	for i, c := range list {
		if w.bound.passed(c.First, good) {
			break
		}
		if !there[format.ChapterName(c.ID)] {
			w.leave()
			continue
		}
		if err := w.chapter(ctx, c, good, i == len(list)-1); err != nil {
			return err
		}
	}
	return nil
}

// chaptersIn is what stands in for the list of a manifest.
func chaptersIn(entries []disk.Entry, after uint32) (list []format.Chapter) {
	for _, e := range entries {
		if id, ok := chapterID(e); ok && id > after { // for others there are sealed files
			list = append(list, format.Chapter{ID: id})
		}
	}
	return list
}

func chapterID(e disk.Entry) (uint32, bool) {
	id, ok := format.ChapterID(e.Name)
	return id, ok && e.Dir
}

// compare compares the list of chapters with the directory, whose names it returns.
func (w *walk) compare(list []format.Chapter, entries []disk.Entry, good bool) (there map[string]bool, err error) {
	there = make(map[string]bool)
	for _, e := range entries {
		there[e.Name] = true
	}
	in := sealedWalk{w}
	listed, last := make(map[string]bool), uint32(0)
	for _, c := range list {
		name := format.ChapterName(c.ID)
		listed[name], last = true, c.ID
		if there[name] {
			continue
		}
		name = filepath.Join("wal", name)
		if err := w.damaged(name, 0, 0, w.corrupt(name, 0, c.First, "chapter is missing")); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		if listed[e.Name] {
			continue
		}
		name := filepath.Join("wal", e.Name)
		if id, ok := chapterID(e); ok && w.bound != nil && id > last {
			continue // begun since
		} else if ok && (in.stands(id) || good && baseWalk(in).removed(id)) {
			err = in.remainder(name)
		} else if good && ok && id <= last {
			err = in.leftOut(name)
		} else if !good || !ok {
			err = w.damaged(name, 0, 0, w.corrupt(name, 0, 0, "does not belong to this log"))
		} else {
			err = w.stray(name)
		}
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// stray judges a chapter that the manifest does not name yet: an interrupted creation, or a repair after it, can leave an empty file, and
// nothing else.
func (w *walk) stray(name string) error {
	files, err := w.fs.ReadDir(filepath.Join(w.dir(), name))
	if err != nil {
		return w.damaged(name, 0, 0, err)
	}
	for _, f := range files {
		if !f.Dir && (f.Name == format.SegmentName(1) || f.Name == format.SegmentName(1)+disk.TempSuffix) && f.Size == 0 {
			continue
		}
		file := filepath.Join(name, f.Name)
		if err := w.damaged(file, 0, 0, w.corrupt(file, 0, 0, "chapter is not in the manifest, but holds data")); err != nil {
			return err
		}
	}
	w.out.stray = append(w.out.stray, name)
	return nil
}

// chapter reads the files of a chapter. listed says that the manifest names its beginning.
func (w *walk) chapter(ctx context.Context, c format.Chapter, listed, last bool) error {
	s := &w.scan
	name := filepath.Join("wal", format.ChapterName(c.ID))
	if err := w.enter(c, listed); err != nil {
		return err
	}
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), name))
	if err != nil {
		w.leave()
		return w.damaged(name, 0, s.LSN, err)
	}
	var files []disk.Entry
	for _, e := range entries {
		if disk.IsTemp(e.Name) && !e.Dir {
			w.out.temps = append(w.out.temps, filepath.Join(name, e.Name))
			continue
		}
		files = append(files, e)
	}
	if len(files) == 0 {
		w.leave()
		first := filepath.Join(name, format.SegmentName(1))
		return w.damaged(first, 0, s.LSN, w.corrupt(first, 0, s.LSN, "segment is missing"))
	}
	for k, e := range files {
		if w.bound.passed(s.LSN, w.sure) {
			break
		}
		ok, err := w.isSegment(name, e)
		if err == nil && ok {
			err = w.file(ctx, last && k == len(files)-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter compares where a chapter begins with where the one before it ended, and goes there.
func (w *walk) enter(c format.Chapter, listed bool) error {
	s := &w.scan
	var err error
	switch {
	case !listed:
		w.leave()
	case w.sure && (c.First != s.LSN || w.chained && c.Chain != s.Chain):
		file, off := w.endPlace()
		err = w.damaged(file, off, s.LSN, w.corrupt(file, off, s.LSN,
			"chapter %d begins at LSN %d, the one before it ends at %d, or the chain is broken", c.ID, c.First, s.LSN))
		w.leave()
	}
	if listed {
		s.LSN, s.Chain, w.sure, w.chained = c.First, c.Chain, true, true
	}
	s.Chapter, s.Fresh, s.Index, w.counted = c.ID, true, 1, true
	return err
}

// isSegment compares a file's name, the index of its first frame, with the frames counted so far, and reports whether it is a segment's.
func (w *walk) isSegment(chapter string, e disk.Entry) (bool, error) {
	s := &w.scan
	index, ok := format.SegmentIndex(e.Name)
	ok = ok && !e.Dir
	counted := w.counted
	w.counted = ok
	if ok && (index == s.Index || !counted) {
		s.Index = index
		return true, nil
	}
	reason := "does not belong to this log"
	if counted {
		reason = fmt.Sprintf("segment %s is expected here", format.SegmentName(s.Index))
	}
	fresh := s.Fresh
	w.leave()
	if w.counted, s.Fresh = ok, fresh; ok {
		s.Index = index
	}
	file := filepath.Join(chapter, e.Name)
	return ok, w.damaged(file, 0, s.LSN, w.corrupt(file, 0, s.LSN, "%s", reason))
}

// file reads the segment file that begins at the walk's place, or where its first header says if nobody knows that.
func (w *walk) file(ctx context.Context, last bool) error {
	s := &w.scan
	seg := newSegment(s.Chapter, s.Index, s.LSN)
	return w.segment(ctx, seg, last)
}

// segment reads the frames of a segment, of whatever kind.
func (w *walk) segment(ctx context.Context, seg *segment, last bool) error {
	s := &w.scan
	w.out.segments = append(w.out.segments, seg)
	name := seg.kind.path()
	f, size, err := w.open(seg)
	if err != nil {
		w.leave()
		return w.damaged(name, 0, s.LSN, err)
	}
	defer f.Close()
	s.Win.Reset(f, size)
	erased := s.Erased
	if err = w.anchor(ctx, name, last); err == nil {
		seg.base = s.LSN
		s.Win.Size = w.bound.within(seg.base, size)
		err = w.frames(ctx, name, seg.base, last)
	}
	seg.end, seg.erased = s.LSN, s.Erased-erased
	if errors.Is(err, errTail) {
		return nil
	}
	return err
}

func (w *walk) open(seg *segment) (content, int64, error) {
	f, err := seg.kind.open(opens(w.fs, w.dir()))
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}
