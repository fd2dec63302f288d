package log

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file goes through the chapters of a log, and through the files of each, during recovery.

// chapters goes through the chapters of the manifest. If the manifest is bad, it goes through those
// of the directory.
func (r *recovery) chapters(ctx context.Context) error {
	list, there, err := r.dirs.chapters(r.walk.scan.Chapter)
	if there == nil {
		return err
	}
	if r.dirs.listed {
		r.jumpUnsealed()
	}
	for i, c := range list {
		if r.walk.atEnd(c.First, r.dirs.listed) {
			break
		}
		if !there[format.ChapterName(c.ID)] {
			r.walk.leave()
			continue
		}
		if err := r.chapter(ctx, c, i == len(list)-1); err != nil {
			return err
		}
	}
	return nil
}

// jumpUnsealed goes to the start of the first chapter if the chapters before it were removed
// unsealed.
func (r *recovery) jumpUnsealed() {
	m := &r.out.manifest
	if m.Before.Epoch == 0 {
		return
	}
	r.walk.jump(m.Chapters[0].First, m.Chapters[0].Chain)
	r.walk.scan.Epoch, r.walk.scan.Boot, r.walk.reigned = m.Before.Epoch, m.Before.Boot, true
	r.walk.answerWatch()
	r.out.tip = m.Before
}

// chapter reads the files of a chapter.
func (r *recovery) chapter(ctx context.Context, c format.Chapter, last bool) error {
	s := &r.walk.scan
	name := filepath.Join("wal", format.ChapterName(c.ID))
	if err := r.enter(c, r.dirs.listed); err != nil {
		return err
	}
	files, err := r.dirs.read(name)
	if err != nil {
		r.walk.leave()
		return r.damaged(name, 0, s.LSN, err)
	}
	if len(files) == 0 {
		r.walk.leave()
		first := filepath.Join(name, format.SegmentName(1))
		return r.damaged(first, 0, s.LSN, r.files.corrupt(first, 0, s.LSN, "segment is missing"))
	}
	for k, e := range files {
		if r.walk.atEnd(s.LSN, r.walk.sure) {
			break
		}
		ok, err := r.isSegment(name, e)
		if err == nil && ok {
			seg := newSegment(s.Chapter, s.Index, s.LSN)
			r.out.segments = append(r.out.segments, seg)
			err = r.walk.segment(ctx, seg, last && k == len(files)-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter compares the start of a chapter with the end of the one before it, and goes there. listed
// means that the manifest says where it begins.
func (r *recovery) enter(c format.Chapter, listed bool) error {
	s := &r.walk.scan
	var err error
	switch {
	case !listed:
		r.walk.leave()
	case r.walk.sure && (c.First != s.LSN || r.walk.chained && c.Chain != s.Chain):
		file, off := r.endPlace()
		err = r.damaged(file, off, s.LSN, r.files.corrupt(file, off, s.LSN,
			"chapter %d begins at LSN %d, the one before it ends at %d, or the chain is broken", c.ID, c.First, s.LSN))
		r.walk.leave()
	}
	if listed {
		r.walk.jump(c.First, c.Chain)
	}
	s.Chapter, s.Fresh, s.Index, r.walk.counted = c.ID, true, 1, true
	return err
}

// isSegment compares a file's name, which is the index of its first frame, with the number of
// frames so far. It reports whether the file is a segment.
func (r *recovery) isSegment(chapter string, e disk.Entry) (bool, error) {
	s := &r.walk.scan
	index, ok := format.SegmentIndex(e.Name)
	ok = ok && !e.Dir
	counted := r.walk.counted
	r.walk.counted = ok
	if ok && (index == s.Index || !counted) {
		s.Index = index
		return true, nil
	}
	reason := notOurs
	if counted {
		reason = fmt.Sprintf("segment %s is expected here", format.SegmentName(s.Index))
	}
	fresh := s.Fresh
	r.walk.leave()
	if r.walk.counted, s.Fresh = ok, fresh; ok {
		s.Index = index
	}
	file := filepath.Join(chapter, e.Name)
	return ok, r.damaged(file, 0, s.LSN, r.files.corrupt(file, 0, s.LSN, "%s", reason))
}
