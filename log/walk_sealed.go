package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// How a walk goes through the sealed files (log-format.md 5.3). A start believes them by their ends; a survey, and a walk that is to be
// thorough, reads all of them as it reads chapters.

// sealedWalk is the part of a walk that does that.
type sealedWalk struct{ *walk }

// files goes through those of the manifest, or if it is not good through those of the directory.
func (w sealedWalk) files(ctx context.Context, good bool) error {
	w.blocks = walkCache()
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), "sealed"))
	if errors.Is(err, fs.ErrNotExist) {
		entries, err = nil, nil
	}
	if err != nil {
		return w.damaged("sealed", 0, 0, err)
	}
	list := w.out.manifest.Sealed
	if !good {
		list = w.listed(entries)
	}
	if err := w.compareFiles(list, entries, good); err != nil {
		return err
	}
	for _, named := range list {
		if w.bound.passed(named.First, good) {
			break
		}
		k := &sealedKind{w.id, w.tag, named, w.blocks}
		seg := &segment{chapter: named.Chapter, base: named.First, end: named.First, kind: k}
		if w.report != nil || w.thorough {
			err = w.read(ctx, seg, k)
		} else {
			err = w.believe(seg, k)
		}
		if err != nil {
			return err
		}
	}
	w.out.tip = format.Run{Epoch: w.scan.Epoch, Boot: w.scan.Boot}
	return nil
}

// listed is what stands in for the list of a manifest: the newest revision of each chapter whose ends are good.
func (w sealedWalk) listed(entries []disk.Entry) (list []format.SealedFile) {
	for _, e := range entries {
		chapter, revision, ok := format.SealedID(e.Name)
		if !ok || e.Dir {
			continue
		}
		f, err := w.fs.Open(filepath.Join(w.dir(), "sealed", e.Name))
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

// nameOf is what a manifest says of a file.
func nameOf(s *sealed.File, size int64) format.SealedFile {
	f := &s.Footer
	return format.SealedFile{
		Chapter: f.Chapter, Revision: f.Revision, First: f.First, End: f.End, Epoch: f.Epoch, Chain: f.Chain, Last: f.Last, Size: size, Footer: s.Digest,
	}
}

// compareFiles compares the list of sealed files with the directory. What an interrupted sealing leaves there does not count.
func (w sealedWalk) compareFiles(list []format.SealedFile, entries []disk.Entry, good bool) error {
	there := make(map[string]bool)
	for _, e := range entries {
		name := filepath.Join("sealed", e.Name)
		if disk.IsTemp(e.Name) && !e.Dir {
			w.out.temps = append(w.out.temps, name)
			continue
		}
		there[e.Name] = true
		chapter, revision, ok := format.SealedID(e.Name)
		switch ok = ok && !e.Dir; {
		case ok && slices.ContainsFunc(list, func(s format.SealedFile) bool { return s.Chapter == chapter && s.Revision == revision }):
		case ok && w.bound != nil && good && since(&w.out.manifest, chapter):
		case ok && (hasChapter(&w.out.manifest, chapter) || !good || baseWalk(w).removed(chapter)):
			w.out.remains = append(w.out.remains, name)
		default:
			if err := w.damaged(name, 0, 0, w.corrupt(name, 0, 0, "does not belong to this log")); err != nil {
				return err
			}
		}
	}
	for _, s := range list {
		base := format.SealedName(s.Chapter, s.Revision)
		if name := filepath.Join("sealed", base); !there[base] {
			if err := w.damaged(name, 0, 0, w.corrupt(name, 0, s.First, "sealed file is missing")); err != nil {
				return err
			}
		}
	}
	return nil
}

// since reports whether a chapter was begun after a manifest was read.
func since(m *format.Manifest, id uint32) bool {
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

// believe takes a sealed file for what the manifest and its footer say.
func (w sealedWalk) believe(seg *segment, k *sealedKind) error {
	file, f, err := k.file(w.opener())
	if err == nil {
		defer file.Close() // read only: nothing can be lost
	}
	if err == nil && (baseWalk(w)).jump(&k.named) {
		w.scan.Epoch = f.Footer.Before
	}
	if err == nil {
		err = w.follows(&f.Footer)
	}
	if err == nil {
		err = w.mayBeAlone(&f.Footer)
	}
	if err != nil {
		return w.wrap(k.path(), 0, k.named.First, w.verdict(k, err))
	}
	w.out.segments = append(w.out.segments, seg)
	seg.end, seg.erased = k.named.End, f.Footer.ErasedFrames
	if err := w.passIn(seg, &sealedContent{kind: k, file: file, sealed: f}); err != nil {
		return err
	}
	w.take(&f.Footer)
	if b := w.bound; b != nil && seg.end > b.at.LSN { // sealed since
		seg.end = b.at.LSN
		w.scan.LSN, w.scan.Chain, w.scan.Epoch = b.at.LSN, b.at.Chain, b.at.Epoch
	}
	return nil
}

// verdict makes a verdict of an error about what is in a sealed file.
func (w sealedWalk) verdict(k *sealedKind, err error) error { return w.verdictAt(k, 0, err) }

// verdictAt is verdict for what stands at a byte of the file.
func (w sealedWalk) verdictAt(k *sealedKind, at int64, err error) error {
	if errors.Is(err, format.ErrDamaged) {
		return w.corrupt(k.path(), at, k.named.First, "%v", err)
	}
	return err
}

// follows checks that a file goes on from what was walked through before it.
func (w sealedWalk) follows(f *sealed.Footer) error {
	s := &w.scan
	if f.First != s.LSN || f.Chain != s.Chain || f.Before != s.Epoch {
		return fmt.Errorf("%w: does not follow what is in front of it, which ends at LSN %d", format.ErrDamaged, s.LSN)
	}
	return nil
}

// mayBeAlone checks that no frames are wanted of a file of bodies.
func (w sealedWalk) mayBeAlone(f *sealed.Footer) error {
	if m := &w.out.manifest; f.Alone && f.End > m.Removed && len(m.Sealed) > 0 { // else it is not known, or of one file alone
		return fmt.Errorf("%w: has bodies alone, and the log begins at LSN %d", format.ErrDamaged, m.Begin())
	}
	return nil
}

// passIn answers what stands at the LSNs that notes and checkpoints name in a file that is believed.
func (w sealedWalk) passIn(seg *segment, c *sealedContent) error {
	var asked []event.LSN
	for lsn := range w.scan.Watch {
		if lsn > seg.base && lsn < seg.end {
			asked = append(asked, lsn)
		}
	}
	if len(asked) == 0 || c.sealed.Footer.Alone { // of such a file nobody knows any more
		return nil
	}
	slices.Sort(asked)
	k := c.kind
	if _, err := c.part(sealed.Records); err != nil {
		return w.wrap(k.path(), 0, seg.base, w.verdict(k, err))
	}
	for _, lsn := range asked {
		var p [format.BodiesAt]byte
		var h format.Header
		if n, err := c.ReadAt(p[:], int64(lsn-seg.base)); n < len(p) {
			if errors.Is(err, errPartEnds) || errors.Is(err, event.ErrErased) {
				continue // no frame begins there
			}
			return w.wrap(k.path(), int64(lsn-seg.base), lsn, err)
		}
		intact, err := h.Decode(p[:])
		if err != nil {
			return err
		}
		if intact && h.LSN == lsn && h.Tag == w.tag && h.Partition == w.id && h.Chapter == seg.chapter {
			w.scan.Watch[lsn] = format.Passed{There: true, Chain: h.Chain}
		}
	}
	return nil
}

// take moves on behind a file.
func (w sealedWalk) take(f *sealed.Footer) {
	s := &w.scan
	s.LSN, s.Chain, s.Epoch, s.Boot = f.End, f.Last, f.Epoch, f.Boot
	s.Durable = max(s.Durable, f.Durable)
	s.Frames, s.Records, s.Bytes, s.Erased = s.Frames+f.Frames, s.Records+f.Records, s.Bytes+int64(f.End-f.First), s.Erased+f.ErasedFrames
	if f.Records > 0 {
		s.Newest = f.Newest
	}
	if _, ok := s.Watch[s.LSN]; ok {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
}

// read reads every frame of a sealed file, and every byte of the rest.
func (w sealedWalk) read(ctx context.Context, seg *segment, k *sealedKind) error {
	s := &w.scan
	name := k.path()
	jumped := baseWalk(w).jump(&k.named)
	if err := w.enter(format.Chapter{ID: k.named.Chapter, First: k.named.First, Chain: k.named.Chain}, true); err != nil {
		return err
	}
	file, f, err := k.file(w.opener())
	var check *sealed.Check
	at := int64(0)
	if err == nil {
		defer file.Close()
		at, err = f.Verify(w.scan.Win.Buf)
	}
	if err == nil && f.Footer.Alone {
		at, err = f.CheckBodies()
	} else if err == nil {
		check, err = sealed.NewCheck(f)
	}
	if err != nil {
		if err := w.damaged(name, at, k.named.First, w.verdictAt(k, at, err)); err != nil {
			return err
		}
	}
	if file == nil { // there are no frames to be read
		w.leave()
		s.LSN, s.Chain, s.Epoch = k.named.End, k.named.Last, k.named.Epoch
		return nil
	}
	if jumped {
		if w.reigned = f != nil; w.reigned {
			s.Epoch = f.Footer.Before
		}
	}
	if f.Footer.Alone {
		return w.passBodies(seg, f)
	}
	frames := s.Frames
	w.tell(check)
	err = w.segment(ctx, seg, false)
	s.Each = nil
	if err != nil {
		return err
	}
	if f := k.named; w.sure && (s.LSN != f.End || w.chained && s.Chain != f.Last || w.reigned && s.Epoch != f.Epoch) {
		return w.damaged(name, 0, s.LSN, w.corrupt(name, 0, s.LSN, "its frames do not end as the manifest says"))
	}
	if check == nil || !w.sure || s.LSN != k.named.End || s.Frames-frames != f.Footer.Frames {
		return nil // the frames that indexes would be made of are not all there
	}
	if at, err := check.Result(); err != nil {
		return w.damaged(name, at, k.named.First, w.corrupt(name, at, k.named.First, "%v", err))
	}
	return nil
}

// passBodies goes on behind a file of bodies, all of which was read.
func (w sealedWalk) passBodies(seg *segment, f *sealed.File) error {
	s := &w.scan
	var err error
	if w.sure && w.chained && w.reigned {
		err = w.follows(&f.Footer)
	}
	if err == nil {
		err = w.mayBeAlone(&f.Footer)
	}
	if err != nil {
		err = w.damaged(seg.kind.path(), 0, seg.base, w.verdict(seg.kind.(*sealedKind), err))
	}
	w.out.segments = append(w.out.segments, seg)
	seg.end = f.Footer.End
	w.take(&f.Footer)
	s.Fresh, w.sure, w.chained, w.reigned = false, true, true, true
	return err
}

// tell has the walk give every frame of a file to the check that makes its indexes again.
func (w sealedWalk) tell(c *sealed.Check) {
	if c == nil {
		return
	}
	s := &w.scan
	var big []byte
	s.Each = func(off int64, h *format.Header) (err error) {
		at, n := off+h.RecordsAt(), int(h.Records)
		var records []byte
		if n <= len(s.Win.Buf) {
			records, err = s.Win.Bytes(at, n)
		} else {
			big = slices.Grow(big[:0], n)[:n]
			records, err = big, s.Win.ReadAt(big, at)
		}
		if err == nil {
			c.Frame(h, records)
		}
		return err
	}
}

// opener opens files of the partition.
func (w sealedWalk) opener() opener { return opens(w.fs, w.dir()) }

// stands reports whether a sealed file stands for a chapter.
func (w sealedWalk) stands(id uint32) bool {
	return slices.ContainsFunc(w.out.segments, func(s *segment) bool { return s.chapter == id })
}

// leftOut judges a chapter that the manifest names no more and nothing stands for: it has one file without a byte and nothing else, or nothing at all. A start that was
// interrupted leaves such a chapter, and sealing leaves it out.
func (w sealedWalk) leftOut(name string) error {
	files, err := w.fs.ReadDir(filepath.Join(w.dir(), name))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a broker was about to remove it
		return nil
	case err != nil:
		return w.damaged(name, 0, 0, err)
	case len(files) == 0 || len(files) == 1 && files[0].Name == format.SegmentName(1) && !files[0].Dir && files[0].Size == 0:
		w.out.stray = append(w.out.stray, name)
		return nil
	}
	return w.damaged(name, 0, 0, w.corrupt(name, 0, 0, "does not belong to this log"))
}

// remainder judges a chapter that a sealed file stands for: an interrupted sealing leaves its files, or some of them, and nothing else.
func (w sealedWalk) remainder(name string) error {
	files, err := w.fs.ReadDir(filepath.Join(w.dir(), name))
	if errors.Is(err, fs.ErrNotExist) { // a broker was about to remove it
		return nil
	}
	if err != nil {
		return w.damaged(name, 0, 0, err)
	}
	for _, f := range files {
		if _, ok := format.SegmentIndex(f.Name); ok && !f.Dir {
			continue
		}
		file := filepath.Join(name, f.Name)
		if err := w.damaged(file, 0, 0, w.corrupt(file, 0, 0, "does not belong to this log")); err != nil {
			return err
		}
	}
	w.out.remains = append(w.out.remains, name)
	return nil
}
