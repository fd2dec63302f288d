package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file removes the files before a base from the log (log-format.md 3.3), whole or except for a
// few bodies.

// DropFiles implements [Bases].
func (v *baseManager) DropFiles(ctx context.Context, needed func(first, end event.LSN) (all bool, bodies []KeptBody)) (freed int64, err error) {
	p := v.p
	if p.store.opts.ReadOnly {
		return 0, ErrReadOnly
	}
	v.doing.Lock()
	defer v.doing.Unlock()
	p.sealing.mu.Lock() // so that no chapter is sealed that is about to be removed
	defer p.sealing.mu.Unlock()
	r, err := v.prepare(ctx, needed)
	if err != nil {
		return 0, err
	}
	freed, err = v.dropPrepared(ctx, r)
	if err != nil && !errors.Is(err, ErrPoisoned) && !r.listed { // else the manifest may name them
		for _, b := range r.bodies {
			b.remove(disk.TempSuffix)
			b.remove("")
		}
	}
	return freed, err
}

// prepare decides which files are removed, and writes files of bodies for those with needed bodies.
// A file for which it cannot write one stays whole.
func (v *baseManager) prepare(ctx context.Context, needed func(first, end event.LSN) (bool, []KeptBody)) (*removal, error) {
	p := v.p
	whole, made := map[event.LSN]bool{}, map[event.LSN]*bodyFile{}
	var r removal
	for again := true; again; {
		again = false
		if !p.copying.TryLock() {
			return nil, errors.Join(fmt.Errorf("%w: partition %d: a copy is in progress", ErrHeld, p.id), discard(made))
		}
		p.copying.Unlock()
		var err error
		if r, err = v.findUnwanted(func(first, end event.LSN) (bool, []KeptBody) {
			if whole[first] {
				return true, nil
			}
			return needed(first, end)
		}); err == nil {
			err = v.checkPossible(&r)
		}
		for i := 0; err == nil && i < len(r.bodies) && !again; i++ {
			b := r.bodies[i]
			if old := made[b.is.named.First]; old != nil {
				r.bodies[i] = old
				continue
			}
			err = b.write(ctx)
			switch {
			case err == nil:
				made[b.is.named.First] = b
			case errors.Is(err, errUnread), errors.Is(err, ErrNoRoom), disk.OutOfDescriptors(err):
				p.store.opts.Logger.Warn("file kept whole although few of its bodies are needed", "partition", p.id, "chapter", b.is.named.Chapter, "error", err)
				whole[b.is.named.First], again, err = true, true, nil
			}
		}
		if err != nil {
			return nil, errors.Join(err, discard(made))
		}
	}
	for _, b := range r.bodies {
		delete(made, b.is.named.First)
	}
	return &r, discard(made)
}

// discard removes files that are not used after all. It returns nil, because the next start removes
// the ones it cannot.
func discard(made map[event.LSN]*bodyFile) error {
	for _, b := range made {
		b.remove(disk.TempSuffix)
	}
	return nil
}

// checkPossible returns why no file can be removed now, else nil.
func (v *baseManager) checkPossible(r *removal) error {
	if len(r.sealed) == 0 && len(r.chapters) == 0 {
		return fmt.Errorf("%w: partition %d: no file before its base at LSN %d can be removed", ErrTooLittle, v.p.id, v.namedBase().LSN)
	}
	return v.checkLeases(r.removed)
}

// dropPrepared removes the prepared files.
func (v *baseManager) dropPrepared(ctx context.Context, r *removal) (freed int64, err error) {
	p := v.p
	if !p.copying.TryLock() {
		return 0, fmt.Errorf("%w: partition %d: a copy is in progress", ErrHeld, p.id)
	}
	defer p.copying.Unlock()
	if err := v.checkLeases(r.removed); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if r.gap {
		if err := p.store.Use(format.Unsealed); err != nil {
			return 0, err
		}
	}
	for _, b := range r.bodies {
		if err := p.sealing.nameFile(&b.is); err != nil {
			return 0, err
		}
	}
	if len(r.bodies) > 0 {
		if err := p.store.fs.SyncDir(filepath.Join(p.dir, "sealed")); err != nil {
			return 0, err
		}
	}
	return v.drop(r)
}

// checkLeases returns why the files before an LSN must stay for readers beside the broker, else
// nil. As with bodies, leases count only while there is enough room; otherwise sends would be
// refused because of a slow reader.
func (v *baseManager) checkLeases(before event.LSN) error {
	p := v.p
	if p.store.reserve.room() != RoomEnough {
		return nil
	}
	held, _ := p.store.leases()
	for _, l := range held {
		if l.Lowest[p.id] < before {
			return fmt.Errorf("%w: partition %d: process %d reads the log from LSN %d on", ErrHeld, p.id, l.PID, l.Lowest[p.id])
		}
	}
	return nil
}

// removal is the part of a log to remove.
type removal struct {
	sealed []format.SealedFile // also those that files of bodies replace
	// the first ones, unsealed; also those that files of bodies replace
	chapters []format.Chapter
	bodies   []*bodyFile // the new ones, by address
	bytes    int64       // size of the chapters
	removed  event.LSN   // the run at the start of the first remaining chapter
	before   format.Run  // the run at the begin of the first remaining chapter
	// chapters are removed, and no file remains directly before the first remaining chapter
	gap    bool
	listed bool // the manifest says so
}

func (r *removal) has(s *segment) bool {
	if k, ok := s.kind.(*sealedKind); ok {
		return r.hasSealed(k.named)
	}
	return slices.ContainsFunc(r.chapters, func(c format.Chapter) bool { return c.ID == s.chapter })
}

func (r *removal) hasSealed(s format.SealedFile) bool {
	return slices.ContainsFunc(r.sealed, func(g format.SealedFile) bool { return g.Chapter == s.Chapter })
}

// remainingFiles returns the sealed files that remain afterwards.
func (r *removal) remainingFiles(now []format.SealedFile) []format.SealedFile {
	list := slices.DeleteFunc(slices.Clone(now), r.hasSealed)
	for _, b := range r.bodies {
		list = append(list, b.is.named)
	}
	slices.SortFunc(list, func(a, b format.SealedFile) int { return cmp.Compare(a.First, b.First) })
	return list
}

// maxBodyFiles is the number of sealed files from which on no chapter becomes a file of bodies.
// Each has a row in the manifest, which every cut writes, and every start opens each.
const maxBodyFiles = 1 << 15

// findUnwanted returns the files that may be removed. A chapter after one that stays also stays,
// because the manifest records the run only for the first chapter. For the same reason the newest
// sealed file stays if no chapter is removed and no gap separates the file from the chapters.
func (v *baseManager) findUnwanted(needed func(first, end event.LSN) (bool, []KeptBody)) (r removal, err error) {
	p := v.p
	p.listing.Lock()
	m := p.manifest
	p.listing.Unlock()
	r.before, r.removed = p.sealing.tip, m.Removed
	stays := func(first, end event.LSN) (bool, []KeptBody) {
		if end > m.Base.LSN || first == end {
			return end > m.Base.LSN, nil
		}
		all, bodies := needed(first, end)
		return all, bodies
	}
	for i := 0; i+1 < len(m.Chapters); i++ {
		c, next, before := m.Chapters[i], m.Chapters[i+1], r.before
		all, rows := stays(c.First, next.First)
		if all || len(rows) > 0 && len(m.Sealed)+len(r.bodies) >= maxBodyFiles || len(rows) > 0 && !isSmall(bytesOf(rows), len(rows), int64(next.First-c.First)) {
			break
		}
		if err := v.passChapter(&r.before, c, next.First); err != nil {
			return r, err
		}
		if len(rows) > 0 {
			r.bodies = append(r.bodies, bodiesOfChapter(p, c, next, before, r.before, rows))
		}
		r.chapters, r.removed = append(r.chapters, c), next.First
		r.bytes += int64(next.First - c.First)
	}
	// They are empty: sealed files before them would seem to have been removed with them.
	if r.before.Epoch == 0 || r.bytes == 0 {
		r.chapters, r.removed, r.before = nil, m.Removed, p.sealing.tip
	}
	v.addUnwantedSealed(&r, &m, stays)
	if n := len(r.chapters); n > 0 {
		left := r.remainingFiles(m.Sealed)
		r.gap = len(left) == 0 || left[len(left)-1].End != m.Chapters[n].First
	}
	return r, nil
}

// addUnwantedSealed adds the sealed files that may be removed.
func (v *baseManager) addUnwantedSealed(r *removal, m *format.Manifest, stays func(first, end event.LSN) (bool, []KeptBody)) {
	was := v.stored
	v.stored = map[format.SealedFile]*sealed.Footer{}
	for i, s := range m.Sealed {
		all, rows := stays(s.First, s.End)
		if all {
			continue
		}
		if len(rows) > 0 {
			foot := was[s]
			if foot == nil {
				foot = v.footer(s)
			}
			v.stored[s] = foot
			if foot == nil || s.Revision >= maxRevision || foot.BodyBytes <= foot.ErasedBytes ||
				!isSmall(int64(float64(foot.Parts[sealed.Bodies].Length)*float64(bytesOf(rows))/float64(foot.BodyBytes-foot.ErasedBytes)), len(rows), s.Size) {
				continue
			}
			r.bodies = append(r.bodies, bodiesOfSealed(v.p, s, foot, rows))
			r.removed = max(r.removed, s.End)
			r.sealed = append(r.sealed, s)
			continue
		}
		switch last := i == len(m.Sealed)-1; {
		case last && m.Before.Epoch == 0 && len(r.chapters) == 0:
			continue
		case last:
			r.removed = max(r.removed, m.Chapters[0].First)
		default:
			r.removed = max(r.removed, m.Sealed[i+1].First)
		}
		r.sealed = append(r.sealed, s)
	}
}

// footer returns the footer of a sealed file, or nil if it cannot be read.
func (v *baseManager) footer(s format.SealedFile) *sealed.Footer {
	k := sealedKind{partition: v.p.id, tag: v.p.store.tag, named: s}
	file, f, err := k.file(openerOf(v.p.store.opts.FS, v.p.dir))
	if err != nil {
		return nil
	}
	_ = file.Close() // it was only read
	return &f.Footer
}

// passChapter moves the run at past a chapter: an epoch starts only in a chapter's first frame.
func (v *baseManager) passChapter(at *format.Run, c format.Chapter, end event.LSN) error {
	if c.First == end {
		return nil
	}
	p := v.p
	s, e := p.locate(c.First)
	if s == nil || s.base != c.First {
		return fmt.Errorf("%w: chapter %d has no segment", ErrInternal, c.ID)
	}
	return p.firstFrame(extent{s, e}, c.First, func(w *walk, off int64, h *format.Header) error {
		if at.Epoch = h.Epoch; h.Kind != EpochStart {
			return nil
		}
		if h.Records > format.MaxBoot {
			return fmt.Errorf("%w: frame %d: boot id of %d bytes", ErrInternal, h.LSN, h.Records)
		}
		boot, err := w.scan.Win.Bytes(off+h.RecordsAt(), int(h.Records))
		at.Boot = string(boot)
		return err
	})
}

// drop removes files once a manifest without them is durable. It also removes the checkpoints from
// before the base.
func (v *baseManager) drop(r *removal) (freed int64, err error) {
	p := v.p
	err = p.sealing.relist(func(m *format.Manifest) {
		m.Sealed, m.Removed = r.remainingFiles(m.Sealed), r.removed
		if n := len(r.chapters); n > 0 {
			m.Before, m.Chapters = format.Run{}, slices.Clone(m.Chapters[n:])
			if r.gap {
				m.Before = r.before
			}
		}
	})
	if err != nil {
		return 0, err
	}
	r.listed = true
	p.sealing.tip = r.before
	p.mu.Lock()
	var old []*segment
	p.segments = slices.DeleteFunc(slices.Clone(p.segments), func(s *segment) bool {
		gone := r.has(s)
		if gone {
			old = append(old, s)
		}
		return gone
	})
	for _, b := range r.bodies {
		p.segments = append(p.segments, b.segment())
	}
	slices.SortStableFunc(p.segments, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	p.first = r.removed
	base := p.base.LSN
	p.ckpts = slices.DeleteFunc(slices.Clone(p.ckpts), func(c format.Checkpoint) bool { return c.LSN < base })
	keep := p.ckpts
	p.mu.Unlock()
	p.files.drop(old)
	for _, b := range r.bodies {
		freed -= b.is.named.Size
		p.store.opts.Logger.Info("file reduced to its needed bodies", "partition", p.id, "chapter", b.is.named.Chapter, "file", b.is.path(), "bytes", b.is.named.Size, "bodies", len(b.rows))
	}
	gone, err := v.remove(r)
	if freed += gone; err != nil {
		return freed, err
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	return freed, p.pruneCheckpoints(keep)
}

// remove removes the files themselves.
func (v *baseManager) remove(r *removal) (freed int64, err error) {
	p := v.p
	for _, s := range r.sealed {
		if err := p.remove(filepath.Join("sealed", format.SealedName(s.Chapter, s.Revision))); err != nil {
			return freed, err
		}
		freed += s.Size
	}
	if len(r.sealed) > 0 {
		if err := p.store.fs.SyncDir(filepath.Join(p.dir, "sealed")); err != nil {
			return freed, err
		}
	}
	for _, c := range r.chapters {
		if err := p.sealing.removeChapter(filepath.Join("wal", format.ChapterName(c.ID))); err != nil {
			return freed, err
		}
	}
	return freed + r.bytes, nil
}
