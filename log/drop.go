package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file removes bodies from a sealed file (log-format.md 3.2, decision 50): another revision of
// the file replaces it. As with sealing, no client waits for it.

// DropBodies implements [Compactor].
func (p *partition) DropBodies(ctx context.Context, file string, wanted func(*Body) bool, least int64) (freed int64, err error) {
	v := &p.sealing
	v.mu.Lock()
	defer v.mu.Unlock()
	r := revision{p: p, files: p.store.filesOf(p.id), wanted: wanted, least: least}
	if err := r.find(file); err != nil {
		return 0, fmt.Errorf("log: partition %d: %w", p.id, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.make(ctx); err != nil {
		return 0, fmt.Errorf("log: partition %d: %s: %w", p.id, file, err)
	}
	return r.was.named.Size - r.is.named.Size, r.removeOld()
}

// revision replaces a sealed file by its next revision.
type revision struct {
	p      *partition
	files  partitionFiles
	wanted func(*Body) bool
	least  int64 // bytes by which it must be shorter

	segment *segment
	was, is *sealedKind
	content *sealedContent // contents of was
	// no replay reads the records any more: the file becomes a file of bodies, unless it is one
	alone  bool
	rows   []sealed.Kept   // the kept bodies, with alone
	keep   []sealed.Extent // the kept bodies, without alone
	erased uint64          // frames with at least one body that is not kept
	sum    bodyBytes
}

// bodyBytes counts the bytes of a file's bodies.
type bodyBytes struct{ kept, dropped uint64 }

// find finds and opens the file, if it may be replaced now.
func (r *revision) find(file string) error {
	p := r.p
	if p.store.opts.ReadOnly {
		return ErrReadOnly
	}
	if p.sealing.ended.Load() {
		return ErrClosed
	}
	p.mu.RLock()
	leads, poison := p.writer != nil, p.poison
	for _, s := range p.segments {
		if k, ok := s.kind.(*sealedKind); ok && filepath.Join(format.PartitionDir(p.id), k.path()) == file {
			r.segment, r.was = s, k
		}
	}
	p.mu.RUnlock()
	switch {
	case poison != nil:
		return poison
	case !leads:
		return ErrClosed
	case r.was == nil:
		return fmt.Errorf("%s: not a sealed file of the log: %w", file, fs.ErrNotExist)
	case r.was.named.Revision == maxRevision:
		return fmt.Errorf("%s: revision numbers are used up: %w", file, ErrTooLittle)
	}
	if err := r.checkFree(); err != nil {
		return err
	}
	k := *r.was
	k.blocks = walkCache()
	c, err := k.open(r.files.open)
	if err != nil {
		return err
	}
	r.content = c.(*sealedContent)
	p.listing.Lock()
	r.alone = r.was.named.End <= p.manifest.Removed
	p.listing.Unlock()
	most := r.content.sealed.Footer.Parts[sealed.Bodies].Length
	if r.alone {
		most = r.was.named.Size
	}
	if most < r.least {
		return errors.Join(tooLittle(most, r.least), r.close())
	}
	return nil
}

// maxRevision is the highest revision that a file name in a copy of a directory may have.
const maxRevision = 9999

func tooLittle(freed, least int64) error {
	return fmt.Errorf("%w: at most %d bytes, %d required", ErrTooLittle, freed, least)
}

// checkFree returns why the file must not change now, else nil. Leases count only while there is
// enough room, because they are a courtesy.
func (r *revision) checkFree() error {
	p := r.p
	if !p.copying.TryLock() {
		return fmt.Errorf("%w: a copy is in progress", ErrHeld)
	}
	p.copying.Unlock()
	return r.checkLeases()
}

func (r *revision) checkLeases() error {
	p := r.p
	if p.store.reserve.room() != RoomEnough {
		return nil
	}
	held, _ := p.store.leases()
	for _, l := range held {
		if l.Lowest[p.id] < r.was.named.End {
			return fmt.Errorf("%w: process %d reads the log from LSN %d on", ErrHeld, l.PID, l.Lowest[p.id])
		}
	}
	return nil
}

func (r *revision) close() error {
	if r.content == nil {
		return nil
	}
	return r.content.Close()
}

// make takes the steps up to the manifest.
func (r *revision) make(ctx context.Context) error {
	p := r.p
	if err := r.plan(ctx); err != nil {
		return err
	}
	is := *r.was
	is.named.Revision++
	r.is = &is
	write := r.write
	if r.alone {
		write = r.writeBodies
	}
	err := write(ctx)
	if err == nil {
		err = p.sealing.nameFile(r.is)
	}
	if err != nil {
		return err
	}
	err = p.store.fs.SyncDir(filepath.Join(p.dir, "sealed"))
	if err == nil {
		err = r.list()
	}
	if err != nil && !errors.Is(err, ErrPoisoned) { // else the manifest may name it
		_ = p.remove(r.is.path())
	}
	return err
}

// plan decides which bodies are kept.
func (r *revision) plan(ctx context.Context) error {
	there, err := r.bodyExtents()
	if err != nil {
		return err
	}
	kept, left := uint64(0), uint64(0) // bytes of the frame
	err = r.bodies(ctx, func(f *Frame, b *Body) error {
		if b == nil {
			if kept < left {
				r.erased++
			}
			kept, left = 0, uint64(f.Bodies[1]-f.Bodies[0])
			return nil
		}
		size := uint64(b.Size)
		switch {
		case !there.has(b.Blob):
		case r.wanted(b):
			if r.alone {
				r.rows = append(r.rows, keptOf(b))
			} else {
				r.add(event.LSN(b.Position), event.LSN(b.Position)+event.LSN(size))
			}
			r.sum.kept, kept = r.sum.kept+size, kept+size
		default:
			r.sum.dropped += size
		}
		return nil
	})
	if kept < left {
		r.erased++
	}
	if err != nil {
		return err
	}
	foot := &r.content.sealed.Footer
	if r.sum.dropped == 0 && (!r.alone || foot.Alone) {
		return tooLittle(0, max(r.least, 1))
	}
	stored := foot.Parts[sealed.Bodies].Length
	kept = uint64(float64(stored) * float64(r.sum.kept) / float64(max(1, r.sum.dropped+r.sum.kept)))
	freed := stored - int64(kept)
	switch {
	case foot.Alone:
		rows := foot.Parts[sealed.IDs].Length/sealed.KeptRow - int64(len(r.rows))
		freed += rows * sealed.KeptRow
	case r.alone:
		r.erased = 0
		freed = r.was.named.Size - int64(kept) - int64(len(r.rows))*sealed.KeptRow - keptOverhead
	}
	if freed < r.least {
		return tooLittle(freed, r.least)
	}
	return nil
}

// add adds a kept range, which follows all ranges that were added before.
func (r *revision) add(from, to event.LSN) {
	if n := len(r.keep); n > 0 && r.keep[n-1].To == from {
		r.keep[n-1].To = to
		return
	}
	r.keep = append(r.keep, sealed.Extent{From: from, To: to})
}

// stretches are ranges of addresses, in order.
type stretches []sealed.Extent

// has reports whether a whole blob is in the ranges.
func (s stretches) has(b event.Blob) bool {
	from := event.LSN(b.Position)
	i := sort.Search(len(s), func(i int) bool { return s[i].To > from })
	return i < len(s) && s[i].From <= from && s[i].To >= from+event.LSN(b.Size)
}

// bodyExtents returns the addresses at which the file has bodies.
func (r *revision) bodyExtents() (stretches, error) {
	f := r.content.sealed
	if f.Footer.ErasedBytes == 0 {
		return stretches{{From: f.Footer.First, To: f.Footer.End}}, nil
	}
	blocks, err := r.content.part(sealed.Bodies)
	if err != nil {
		return nil, err
	}
	return f.Extents(blocks)
}

// bodies calls each for every frame that has bodies, first with a nil body and then with each of
// its bodies, in the order of their addresses. For a file of bodies it calls each with the bodies
// only, and with no frame.
func (r *revision) bodies(ctx context.Context, each func(*Frame, *Body) error) error {
	if r.content.sealed.Footer.Alone {
		return r.keptBodies(each)
	}
	var d event.Decoder
	e := extent{r.segment, r.segment.end}
	return r.p.readFrames(ctx, e, r.content, r.segment.base, func(w *walk, off int64, h *format.Header) error {
		if r.p.sealing.ended.Load() {
			return ErrClosed
		}
		f, err := w.frame(off, h)
		if err != nil || h.Bodies == 0 {
			return err
		}
		if err := each(&f, nil); err != nil {
			return err
		}
		if err := bodiesOf(&d, &f, each); err != nil {
			return w.files.corruptBy(w.file, off, f.LSN, "bodies", err)
		}
		return nil
	})
}

// keptBodies does the same as bodies for a file without frames.
func (r *revision) keptBodies(each func(*Frame, *Body) error) error {
	rows, err := r.content.sealed.Kept()
	if err != nil {
		return r.files.verdict(r.was.path(), r.segment.base, err)
	}
	for i := range rows {
		if err := each(nil, &Body{Blob: rows[i].Blob(), Message: Message{rows[i].Slice, rows[i].Number}}); err != nil {
			return err
		}
	}
	return nil
}

// bodiesOf finds the bodies of a frame in its records.
func bodiesOf(d *event.Decoder, f *Frame, each func(*Frame, *Body) error) error {
	end := f.Base
	for rest := f.Records; len(rest) > 0; {
		rec, left, err := d.Record(f.Base, f.Bodies, rest)
		if err != nil {
			return err
		}
		rest = left
		blobs := d.Blobs()
		for i, size := range d.Sizes() {
			for _, b := range blobs[:size.Blobs] {
				if b.Position < end {
					return fmt.Errorf("%w: body at position %d overlaps the previous one", format.ErrDamaged, b.Position)
				}
				end = b.Position + event.Position(b.Size)
				if err := each(f, &Body{Blob: b, At: rec.At, Event: rec.Events[i]}); err != nil {
					return err
				}
			}
			blobs = blobs[size.Blobs:]
		}
	}
	return nil
}

// write makes the revision.
func (r *revision) write(ctx context.Context) error {
	return r.p.sealing.makeFile(ctx, r.is, true, func(to io.Writer) (sealed.Footer, error) {
		return r.content.sealed.Revise(to, r.is.named.Revision, r.keep, r.erased)
	}, func(s *sealed.File, foot *sealed.Footer) error {
		if s.Footer != *foot || foot.ErasedBytes != foot.BodyBytes-r.sum.kept {
			return fmt.Errorf("%w: the stored revision does not match the written bytes", ErrInternal)
		}
		return r.compare(ctx, s)
	})
}

// writeBodies does the same as write for a file of bodies.
func (r *revision) writeBodies(ctx context.Context) error {
	b := bodiesOfSealed(r.p, r.was.named, &r.content.sealed.Footer, r.rows)
	err := b.write(ctx)
	if errors.Is(err, errUnread) {
		err = r.files.corruptBy(r.was.path(), 0, r.segment.base, "bodies", err)
	}
	r.is = &b.is
	return err
}

// compare reads the revision back: every part that must be unchanged, and every wanted body.
func (r *revision) compare(ctx context.Context, s *sealed.File) error {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	if _, err := s.Verify(buf[:]); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	c, err := r.p.sealing.openMade(r.is)
	if err != nil {
		return err
	}
	win := format.Window{Buf: buf[:]}
	win.Reset(c, int64(r.segment.end-r.segment.base))
	there, err := r.bodyExtents()
	if err == nil {
		err = r.bodies(ctx, func(_ *Frame, b *Body) error {
			if b == nil || !there.has(b.Blob) || !r.wanted(b) {
				return nil
			}
			sum, err := win.Sum(int64(b.Position)-int64(r.segment.base), int64(b.Size))
			if err == nil && sum != b.Sum {
				err = ErrChecksum
			}
			if err != nil {
				return fmt.Errorf("read back: body at position %d: %w", b.Position, err)
			}
			return nil
		})
	}
	return errors.Join(err, c.Close())
}

// list puts the revision in the place of the one before.
func (r *revision) list() error {
	p := r.p
	if !p.copying.TryLock() {
		return fmt.Errorf("%w: a copy is in progress", ErrHeld)
	}
	defer p.copying.Unlock()
	if err := r.checkLeases(); err != nil {
		return err
	}
	err := p.sealing.relist(func(m *format.Manifest) {
		m.Sealed = slices.Clone(m.Sealed)
		m.Sealed[slices.Index(m.Sealed, r.was.named)] = r.is.named
	})
	if err != nil {
		return err
	}
	s := &segment{chapter: r.segment.chapter, base: r.segment.base, end: r.segment.end, erased: r.erased, kind: r.is}
	p.sealing.replaceSegments([]*segment{r.segment}, []*segment{s})
	p.store.opts.Logger.Info("bodies dropped", "partition", p.id, "chapter", s.chapter, "file", r.is.path(), "bytes", r.is.named.Size,
		"freed", r.was.named.Size-r.is.named.Size, "kept", r.sum.kept, "dropped", r.sum.dropped)
	return nil
}

// removeOld removes the file of the previous revision. If it cannot, the next start does.
func (r *revision) removeOld() error {
	p := r.p
	if err := p.remove(r.was.path()); err != nil {
		return err
	}
	return p.store.fs.SyncDir(filepath.Join(p.dir, "sealed"))
}
