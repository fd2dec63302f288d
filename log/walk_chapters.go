package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// How a walk goes from chapter to chapter, and in them from file to file.

// chapters goes through those of the manifest, or if it is not good through those of the directory.
func (w *walk) chapters(ctx context.Context, good bool) error {
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), "wal"))
	if err != nil {
		return w.damaged("wal", 0, 0, err)
	}
	list := w.out.manifest.chapters
	if !good {
		list = chaptersIn(entries)
	}
	there, err := w.compare(list, entries, good)
	if err != nil {
		return err
	}
	for i, c := range list {
		if !there[chapterName(c.id)] {
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
func chaptersIn(entries []Entry) (list []chapterEntry) {
	for _, e := range entries {
		if id, ok := chapterID(e); ok {
			list = append(list, chapterEntry{id: id})
		}
	}
	return list
}

func chapterID(e Entry) (uint32, bool) {
	var id uint32
	_, err := fmt.Sscanf(e.Name, "%010d", &id)
	return id, err == nil && e.Dir && chapterName(id) == e.Name
}

// compare compares the list of chapters with the directory, whose names it returns.
func (w *walk) compare(list []chapterEntry, entries []Entry, good bool) (there map[string]bool, err error) {
	there = make(map[string]bool)
	for _, e := range entries {
		there[e.Name] = true
	}
	listed, last := make(map[string]bool), uint32(0)
	for _, c := range list {
		name := chapterName(c.id)
		listed[name], last = true, c.id
		if there[name] {
			continue
		}
		name = filepath.Join("wal", name)
		if err := w.damaged(name, 0, 0, w.corrupt(name, 0, c.first, "chapter is missing")); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		if listed[e.Name] {
			continue
		}
		name := filepath.Join("wal", e.Name)
		if id, ok := chapterID(e); !good || !ok || id <= last {
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
		if !f.Dir && (f.Name == segmentName(1) || f.Name == segmentName(1)+tempSuffix) && f.Size == 0 {
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
func (w *walk) chapter(ctx context.Context, c chapterEntry, listed, last bool) error {
	s := &w.scan
	name := filepath.Join("wal", chapterName(c.id))
	if err := w.enter(c, listed); err != nil {
		return err
	}
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), name))
	if err != nil {
		w.leave()
		return w.damaged(name, 0, s.lsn, err)
	}
	var files []Entry
	for _, e := range entries {
		if isTemp(e.Name) && !e.Dir {
			w.out.temps = append(w.out.temps, filepath.Join(name, e.Name))
			continue
		}
		files = append(files, e)
	}
	if len(files) == 0 {
		w.leave()
		first := filepath.Join(name, segmentName(1))
		return w.damaged(first, 0, s.lsn, w.corrupt(first, 0, s.lsn, "segment is missing"))
	}
	for k, e := range files {
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
func (w *walk) enter(c chapterEntry, listed bool) error {
	s := &w.scan
	var err error
	switch {
	case !listed:
		w.leave()
	case w.sure && (c.first != s.lsn || w.chained && c.chain != s.chain):
		file, off := w.endPlace()
		err = w.damaged(file, off, s.lsn, w.corrupt(file, off, s.lsn,
			"chapter %d begins at LSN %d, the one before it ends at %d, or the chain is broken", c.id, c.first, s.lsn))
		w.leave()
	}
	if listed {
		s.lsn, s.chain, w.sure, w.chained = c.first, c.chain, true, true
	}
	s.chapter, s.fresh, s.index, w.counted = c.id, true, 1, true
	return err
}

// isSegment compares a file's name, the index of its first frame, with the frames counted so far, and reports whether it is a segment's.
func (w *walk) isSegment(chapter string, e Entry) (ok bool, err error) {
	s := &w.scan
	var index uint64
	_, err = fmt.Sscanf(e.Name, "%020d", &index)
	ok = err == nil && !e.Dir && index > 0 && segmentName(index) == e.Name
	counted := w.counted
	w.counted = ok
	if ok && (index == s.index || !counted) {
		s.index = index
		return true, nil
	}
	reason := "does not belong to this log"
	if counted {
		reason = fmt.Sprintf("segment %s is expected here", segmentName(s.index))
	}
	fresh := s.fresh
	w.leave()
	if w.counted, s.fresh = ok, fresh; ok {
		s.index = index
	}
	file := filepath.Join(chapter, e.Name)
	return ok, w.damaged(file, 0, s.lsn, w.corrupt(file, 0, s.lsn, "%s", reason))
}

// file reads the segment file that begins at the walk's place, or where its first header says if nobody knows that.
func (w *walk) file(ctx context.Context, last bool) error {
	s := &w.scan
	seg := &segment{chapter: s.chapter, index: s.index, base: s.lsn, end: s.lsn}
	w.out.segments = append(w.out.segments, seg)
	name := seg.relative()
	f, size, err := w.open(name)
	if err != nil {
		w.leave()
		return w.damaged(name, 0, s.lsn, err)
	}
	defer f.Close()
	s.win.reset(f, size)
	if err = w.anchor(ctx, name, last); err == nil {
		seg.base = s.lsn
		err = w.frames(ctx, name, seg.base, last)
	}
	seg.end = s.lsn
	if errors.Is(err, errTail) {
		return nil
	}
	return err
}

func (w *walk) open(name string) (File, int64, error) {
	f, err := w.fs.Open(filepath.Join(w.dir(), name))
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}
