package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file goes through the sealed files during recovery (log-format.md 5.3). A start trusts their
// ends. A survey, and a thorough start, read all of them as they read chapters.

// sealedFiles goes through the sealed files of the manifest. If the manifest is bad, it goes
// through those of the directory.
func (r *recovery) sealedFiles(ctx context.Context) error {
	list, err := r.dirs.sealedFiles()
	if err != nil {
		return err
	}
	for _, named := range list {
		if r.walk.atEnd(named.First, r.dirs.listed) {
			break
		}
		k := &sealedKind{r.files.id, r.files.tag, named, r.blocks}
		seg := &segment{chapter: named.Chapter, base: named.First, end: named.First, kind: k}
		if r.readsWhole() {
			err = r.readSealed(ctx, seg, k)
		} else {
			err = r.believe(seg, k)
		}
		if err != nil {
			return err
		}
	}
	r.out.tip = format.Run{Epoch: r.walk.scan.Epoch, Boot: r.walk.scan.Boot}
	return nil
}

// believe accepts a sealed file as its manifest entry and its footer describe it.
func (r *recovery) believe(seg *segment, k *sealedKind) error {
	s := &r.walk.scan
	file, f, err := k.file(r.files.open)
	if err == nil {
		defer file.Close() // read only: nothing can be lost
		if r.jumpTo(&k.named) {
			s.Epoch = f.Footer.Before
		}
		err = r.checkPlace(&f.Footer)
	}
	if err != nil {
		return r.files.verdict(k.path(), k.named.First, err)
	}
	r.out.segments = append(r.out.segments, seg)
	seg.end, seg.erased = k.named.End, f.Footer.ErasedFrames
	if err := r.passIn(seg, &sealedContent{kind: k, file: file, sealed: f}); err != nil {
		return err
	}
	r.take(&f.Footer)
	if b := r.bound; b != nil && seg.end > b.at.LSN { // sealed after the bound was read
		seg.end = b.at.LSN
		s.LSN, s.Chain, s.Epoch = b.at.LSN, b.at.Chain, b.at.Epoch
	}
	return nil
}

// jumpTo goes to the start of a sealed file if files before it were removed, and reports whether
// that is so.
func (r *recovery) jumpTo(named *format.SealedFile) bool {
	m := &r.out.manifest
	if m.Removed == 0 || named.First > m.Removed || len(r.out.segments) > 0 && named.First == r.walk.scan.LSN {
		return false
	}
	r.walk.jump(named.First, named.Chain)
	r.walk.scan.Boot = ""
	r.walk.answerWatch()
	return true
}

// checkPlace checks that a file continues the walk, as far as the state of the walk is known, and
// that no frames are needed from a file of bodies.
func (r *recovery) checkPlace(f *sealed.Footer) error {
	w, m := r.walk, &r.out.manifest
	s := &w.scan
	if w.sure && w.chained && w.reigned && (f.First != s.LSN || f.Chain != s.Chain || f.Before != s.Epoch) {
		return fmt.Errorf("%w: does not follow the preceding file, which ends at LSN %d", format.ErrDamaged, s.LSN)
	}
	// otherwise that is unknown, or only one file is read
	if f.Alone && f.End > m.Removed && len(m.Sealed) > 0 {
		return fmt.Errorf("%w: has only bodies, but the log begins at LSN %d", format.ErrDamaged, m.Begin())
	}
	return nil
}

// passIn records which frames of a trusted file are at the LSNs that notes and checkpoints name.
func (r *recovery) passIn(seg *segment, c *sealedContent) error {
	var asked []event.LSN
	for lsn := range r.walk.scan.Watch {
		if lsn > seg.base && lsn < seg.end {
			asked = append(asked, lsn)
		}
	}
	if len(asked) == 0 || c.sealed.Footer.Alone { // such a file has no frames
		return nil
	}
	slices.Sort(asked)
	k := c.kind
	if _, err := c.part(sealed.Records); err != nil {
		return r.files.verdict(k.path(), seg.base, err)
	}
	for _, lsn := range asked {
		var p [format.BodiesAt]byte
		var h format.Header
		if n, err := c.ReadAt(p[:], int64(lsn-seg.base)); n < len(p) {
			if errors.Is(err, errPartEnds) || errors.Is(err, event.ErrErased) {
				continue // no frame begins there
			}
			return r.files.readVerdict(k.path(), int64(lsn-seg.base), lsn, err)
		}
		intact, err := h.Decode(p[:])
		if err != nil {
			return err
		}
		if intact && h.LSN == lsn && h.Tag == r.files.tag && h.Partition == r.files.id && h.Chapter == seg.chapter {
			r.walk.scan.Watch[lsn] = format.Passed{There: true, Chain: h.Chain}
		}
	}
	return nil
}

// take moves on to the end of a file.
func (r *recovery) take(f *sealed.Footer) {
	s := &r.walk.scan
	s.LSN, s.Chain, s.Epoch, s.Boot = f.End, f.Last, f.Epoch, f.Boot
	s.Durable = max(s.Durable, f.Durable)
	s.Frames, s.Records, s.Bytes, s.Erased = s.Frames+f.Frames, s.Records+f.Records, s.Bytes+int64(f.End-f.First), s.Erased+f.ErasedFrames
	if f.Records > 0 {
		s.Newest = f.Newest
	}
	r.walk.answerWatch()
}

// readSealed reads every frame of a sealed file, and all of its other bytes.
func (r *recovery) readSealed(ctx context.Context, seg *segment, k *sealedKind) error {
	s, name := &r.walk.scan, k.path()
	jumped := r.jumpTo(&k.named)
	if err := r.enter(format.Chapter{ID: k.named.Chapter, First: k.named.First, Chain: k.named.Chain}, true); err != nil {
		return err
	}
	file, f, err := k.file(r.files.open)
	var check *sealed.Check
	at := int64(0)
	if err == nil {
		defer file.Close()
		at, err = f.Verify(s.Win.Buf)
	}
	if err == nil && f.Footer.Alone {
		at, err = f.CheckBodies()
	} else if err == nil {
		check, err = sealed.NewCheck(f)
	}
	if err != nil {
		if err := r.damaged(name, at, k.named.First, r.files.decodeVerdict(name, at, k.named.First, err)); err != nil {
			return err
		}
	}
	if file == nil { // there are no frames to be read
		r.walk.leave()
		s.LSN, s.Chain, s.Epoch = k.named.End, k.named.Last, k.named.Epoch
		return nil
	}
	if jumped {
		r.walk.reigned, s.Epoch = true, f.Footer.Before
	}
	r.out.segments = append(r.out.segments, seg)
	if f.Footer.Alone {
		return r.passBodies(seg, f)
	}
	return r.checkFrames(ctx, seg, k, f, check)
}

// checkFrames reads the frames of a sealed file, and builds its indexes again from them. check is
// nil if the indexes are damaged.
func (r *recovery) checkFrames(ctx context.Context, seg *segment, k *sealedKind, f *sealed.File, check *sealed.Check) error {
	s, name := &r.walk.scan, k.path()
	frames := s.Frames
	s.Each = func(off int64, h *format.Header) error {
		if check == nil {
			return nil
		}
		records, err := s.Win.LongBytes(off+h.RecordsAt(), int(h.Records))
		if err != nil {
			check = nil
			return r.damaged(name, off, s.LSN, err)
		}
		check.Frame(h, records)
		return nil
	}
	err := r.walk.segment(ctx, seg, false)
	s.Each = nil
	if err != nil {
		return err
	}
	if f := k.named; r.walk.sure && (s.LSN != f.End || r.walk.chained && s.Chain != f.Last || r.walk.reigned && s.Epoch != f.Epoch) {
		return r.damaged(name, 0, s.LSN, r.files.corrupt(name, 0, s.LSN, "its frames do not end as the manifest says"))
	}
	if check == nil || !r.walk.sure || s.LSN != k.named.End || s.Frames-frames != f.Footer.Frames {
		return nil // some of the frames for the indexes are missing
	}
	if at, err := check.Result(); err != nil {
		return r.damaged(name, at, k.named.First, r.files.corrupt(name, at, k.named.First, "%v", err))
	}
	return nil
}

// passBodies moves on to the end of a file of bodies, which was read whole.
func (r *recovery) passBodies(seg *segment, f *sealed.File) error {
	err := r.checkPlace(&f.Footer)
	if err != nil {
		err = r.damaged(seg.kind.path(), 0, seg.base, r.files.decodeVerdict(seg.kind.path(), 0, seg.base, err))
	}
	seg.end = f.Footer.End
	r.take(&f.Footer)
	r.walk.scan.Fresh, r.walk.sure, r.walk.chained, r.walk.reigned = false, true, true, true
	return err
}
