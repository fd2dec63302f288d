package log

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// inventory compares the files in the directories of a partition with those that its manifest names
// (log-format.md 5.3). It notes the remains of interrupted runs, which are removed later. A missing
// or foreign file is damage.
type inventory struct {
	files   partitionFiles
	out     *findings
	listed  bool // the manifest is good; else the existing files take the place of those it names
	live    bool // a broker may write meanwhile
	damaged func(file string, off int64, lsn event.LSN, err error) error
}

const notOurs = "does not belong to this log"

// reportForeign reports a file or directory that is not named anywhere.
func (v *inventory) reportForeign(name string) error {
	return v.damaged(name, 0, 0, v.files.corrupt(name, 0, 0, notOurs))
}

// read returns the entries of a directory except temporary files, which it notes.
func (v *inventory) read(dir string) (entries []disk.Entry, err error) {
	all, err := v.files.readDir(dir)
	for _, e := range all {
		if disk.IsTemp(e.Name) && !e.Dir {
			v.out.temps = append(v.out.temps, filepath.Join(dir, e.Name))
			continue
		}
		entries = append(entries, e)
	}
	return entries, err
}

// checkBases checks the existing bases.
func (v *inventory) checkBases() (ok bool, err error) {
	entries, err := v.read("base")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, v.damaged("base", 0, 0, err)
	}
	for _, e := range entries {
		name := filepath.Join("base", e.Name)
		switch at, ok := format.BaseLSN(e.Name); {
		case !ok || e.Dir:
			if err := v.reportForeign(name); err != nil {
				return false, err
			}
		case !v.listed || at != v.out.manifest.Base.LSN:
			v.out.remains = append(v.out.remains, name)
		}
	}
	return true, nil
}

// sealedFiles returns the sealed files that the manifest names. If the manifest is bad, it returns
// the existing ones.
func (v *inventory) sealedFiles() (list []format.SealedFile, err error) {
	entries, err := v.read("sealed")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, v.damaged("sealed", 0, 0, err)
	}
	m := &v.out.manifest
	if list = m.Sealed; !v.listed {
		list = v.newest(entries)
	}
	there := make(map[string]bool)
	for _, e := range entries {
		name := filepath.Join("sealed", e.Name)
		there[e.Name] = true
		chapter, revision, ok := format.SealedID(e.Name)
		switch ok = ok && !e.Dir; {
		case ok && slices.ContainsFunc(list, func(s format.SealedFile) bool { return s.Chapter == chapter && s.Revision == revision }):
		case ok && v.live && v.listed && begunSince(m, chapter):
		case ok && (hasChapter(m, chapter) || !v.listed || v.wasRemoved(chapter)):
			v.out.remains = append(v.out.remains, name)
		default:
			if err := v.reportForeign(name); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range list {
		base := format.SealedName(s.Chapter, s.Revision)
		if name := filepath.Join("sealed", base); !there[base] {
			if err := v.damaged(name, 0, 0, v.files.corrupt(name, 0, s.First, "sealed file is missing")); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// newest returns the newest revision of each chapter whose header and footer are good.
func (v *inventory) newest(entries []disk.Entry) (list []format.SealedFile) {
	for _, e := range entries {
		chapter, revision, ok := format.SealedID(e.Name)
		if !ok || e.Dir {
			continue
		}
		f, err := v.files.open(filepath.Join("sealed", e.Name))
		if err != nil {
			continue
		}
		s, err := sealed.Open(f, e.Size)
		f.Close()
		if err != nil || s.Header.Chapter != chapter || s.Header.Revision != revision {
			continue
		}
		n := nameOf(s, e.Size)
		if i := len(list) - 1; i >= 0 && list[i].Chapter == chapter {
			list[i] = n
			continue
		}
		list = append(list, n)
	}
	return list
}

// nameOf returns the entry of a manifest for a file.
func nameOf(s *sealed.File, size int64) format.SealedFile {
	f := &s.Footer
	return format.SealedFile{
		Chapter: f.Chapter, Revision: f.Revision, First: f.First, End: f.End, Epoch: f.Epoch, Chain: f.Chain, Last: f.Last, Size: size, Footer: s.Digest,
	}
}

// begunSince reports whether a chapter was begun after a manifest was read.
func begunSince(m *format.Manifest, id uint32) bool {
	if n := len(m.Chapters); n > 0 {
		return id > m.Chapters[n-1].ID
	}
	n := len(m.Sealed)
	return n == 0 || id > m.Sealed[n-1].Chapter
}

// hasChapter reports whether a manifest names a chapter, sealed or not.
func hasChapter(m *format.Manifest, id uint32) bool {
	return slices.ContainsFunc(m.Chapters, func(c format.Chapter) bool { return c.ID == id }) ||
		slices.ContainsFunc(m.Sealed, func(s format.SealedFile) bool { return s.Chapter == id })
}

// wasRemoved reports whether a chapter, or its sealed file, has been removed or is about to be. In
// that case the manifest does not name it, but names later files that need no predecessor.
func (v *inventory) wasRemoved(chapter uint32) bool {
	m := &v.out.manifest
	for _, s := range m.Sealed {
		if s.First >= m.Removed {
			return m.Removed != 0 && chapter < s.Chapter
		}
	}
	return m.Removed != 0 && len(m.Chapters) > 0 && chapter < m.Chapters[0].ID
}

// chapters returns the chapters that the manifest names. If the manifest is bad, it returns the
// existing ones after a sealed one. there has the names of all existing chapters.
func (v *inventory) chapters(last uint32) (list []format.Chapter, there map[string]bool, err error) {
	entries, err := v.files.readDir("wal")
	if err != nil {
		return nil, nil, v.damaged("wal", 0, 0, err)
	}
	if list = v.out.manifest.Chapters; !v.listed {
		list = chaptersIn(entries, last)
	}
	there = make(map[string]bool)
	for _, e := range entries {
		there[e.Name] = true
	}
	named := make(map[string]bool)
	last = 0
	for _, c := range list {
		name := format.ChapterName(c.ID)
		if named[name], last = true, c.ID; there[name] {
			continue
		}
		name = filepath.Join("wal", name)
		if err := v.damaged(name, 0, 0, v.files.corrupt(name, 0, c.First, "chapter is missing")); err != nil {
			return nil, nil, err
		}
	}
	for _, e := range entries {
		if named[e.Name] {
			continue
		}
		if err := v.judgeUnnamed(e, last); err != nil {
			return nil, nil, err
		}
	}
	return list, there, nil
}

// chaptersIn returns a list in place of the one in a manifest.
func chaptersIn(entries []disk.Entry, after uint32) (list []format.Chapter) {
	for _, e := range entries {
		if id, ok := chapterID(e); ok && id > after { // there are sealed files for the others
			list = append(list, format.Chapter{ID: id})
		}
	}
	return list
}

func chapterID(e disk.Entry) (uint32, bool) {
	id, ok := format.ChapterID(e.Name)
	return id, ok && e.Dir
}

// judgeUnnamed judges an entry among the chapters that is none of them. last is the newest chapter.
func (v *inventory) judgeUnnamed(e disk.Entry, last uint32) error {
	name := filepath.Join("wal", e.Name)
	id, ok := chapterID(e)
	isSealed := slices.ContainsFunc(v.out.segments, func(s *segment) bool { return s.chapter == id })
	switch {
	case ok && v.live && id > last: // begun since
		return nil
	case ok && (isSealed || v.listed && v.wasRemoved(id)):
		return v.judgeLeftover(name, &v.out.remains, isOfChapter, notOurs)
	case ok && v.listed && id <= last:
		return v.judgeLeftOut(name)
	case ok && v.listed:
		return v.judgeLeftover(name, &v.out.stray, isFirst, "chapter is not in the manifest, but holds data")
	}
	return v.reportForeign(name)
}

// judgeLeftover judges a chapter that an interrupted run may have left: it has only files that such
// a run can leave. It is added to a list of chapters to remove.
func (v *inventory) judgeLeftover(name string, list *[]string, may func(disk.Entry) bool, reason string) error {
	files, err := v.files.readDir(name)
	if errors.Is(err, fs.ErrNotExist) { // a broker was about to remove it
		return nil
	}
	if err != nil {
		return v.damaged(name, 0, 0, err)
	}
	for _, f := range files {
		if !f.Dir && may(f) {
			continue
		}
		file := filepath.Join(name, f.Name)
		if err := v.damaged(file, 0, 0, v.files.corrupt(file, 0, 0, "%s", reason)); err != nil {
			return err
		}
	}
	*list = append(*list, name)
	return nil
}

// isFirst reports whether a file can be left by an interrupted creation of a chapter, or by a
// repair after it: an empty first one.
func isFirst(f disk.Entry) bool {
	return (f.Name == format.SegmentName(1) || f.Name == format.SegmentName(1)+disk.TempSuffix) && f.Size == 0
}

// isOfChapter reports whether an interrupted sealing can leave a file.
func isOfChapter(f disk.Entry) bool {
	_, ok := format.SegmentIndex(f.Name)
	return ok
}

// judgeLeftOut judges a chapter that the manifest no longer names and that no sealed file replaces.
// It must have one file without a byte and nothing else, or nothing at all. An interrupted start
// leaves such a chapter, and sealing leaves it out.
func (v *inventory) judgeLeftOut(name string) error {
	files, err := v.files.readDir(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a broker was about to remove it
		return nil
	case err != nil:
		return v.damaged(name, 0, 0, err)
	case len(files) == 0 || len(files) == 1 && files[0].Name == format.SegmentName(1) && !files[0].Dir && files[0].Size == 0:
		v.out.stray = append(v.out.stray, name)
		return nil
	}
	return v.reportForeign(name)
}
