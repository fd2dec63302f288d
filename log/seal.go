package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file turns a closed chapter into a sealed file (log-format.md 3.2, decision 46). No client
// waits for it. It reads files that are no longer written, and writes one that is not read yet. It
// locks the partition only while the manifest is replaced and the segments change.

// chapterSealer is the part of a partition that seals its chapters.
type chapterSealer struct {
	p     *partition
	ended atomic.Bool // another recovery of the partition begins: running work is abandoned

	mu      sync.Mutex // held while a chapter is sealed; guards the fields below
	tip     format.Run // the run at the start of the first chapter, which sealing needs
	made    bool       // the directory exists, durably
	stopped error      // why no chapter is sealed any more
}

// errCopied says that the log is being copied. A copy takes the files that the manifest named when
// the copy began.
var errCopied = errors.New("log: a copy is in progress")

// useBlocks makes sealed segments share their decompressed blocks with the whole store.
func useBlocks(list []*segment, blocks *blockCache) {
	for _, s := range list {
		if k, ok := s.kind.(*sealedKind); ok {
			k.blocks = blocks
		}
	}
}

// Seal implements [Sealer].
func (p *partition) Seal(ctx context.Context) (bool, error) { return p.sealing.next(ctx) }

// sealHurry is the address up to which chapters are sealed as soon as they have ended.
type sealHurry struct{ upTo atomic.Uint64 }

// Hurry implements [Sealer].
func (v *sealHurry) Hurry(upTo event.LSN) { v.upTo.Store(uint64(upTo)) }

// next seals the oldest chapter if its time has come.
func (v *chapterSealer) next(ctx context.Context) (bool, error) {
	p := v.p
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped != nil {
		return false, v.stopped
	}
	c, end, ok := v.due()
	if !ok {
		return false, nil
	}
	err := v.seal(ctx, c, end)
	if err == nil || errors.Is(err, ErrNoRoom) || ctx.Err() != nil || disk.OutOfDescriptors(err) || errors.Is(err, ErrClosed) || errors.Is(err, errCopied) {
		return err == nil, err
	}
	v.stopped = fmt.Errorf("log: partition %d: sealing stopped at chapter %d: %w", p.id, c.ID, err)
	p.store.opts.Logger.Error("sealing stopped until the next start", "partition", p.id, "chapter", c.ID, "error", err)
	return false, v.stopped
}

// due returns the oldest chapter and its end, if it is time to seal it.
func (v *chapterSealer) due() (c format.Chapter, end format.Mark, ok bool) {
	p := v.p
	opts := &p.store.opts
	p.listing.Lock()
	list := p.manifest.Chapters
	p.listing.Unlock()
	if opts.SealAfter == 0 || opts.ReadOnly || len(list) < 2 || p.store.reserve.room() >= RoomCritical {
		return c, end, false
	}
	if !p.copying.TryLock() {
		return c, end, false
	}
	p.copying.Unlock()
	p.mu.RLock()
	leads := p.writer != nil && p.poison == nil
	p.mu.RUnlock()
	if age := opts.Now().Sub(time.UnixMilli(list[1].Created)); !leads || opts.SealAfter > 0 && list[1].First > event.LSN(p.sealHurry.upTo.Load()) && age < opts.SealAfter {
		return c, end, false
	}
	return list[0], format.Mark{LSN: list[1].First, Chain: list[1].Chain}, true
}

// seal takes the steps in their order.
func (v *chapterSealer) seal(ctx context.Context, c format.Chapter, end format.Mark) error {
	p := v.p
	if c.First == end.LSN {
		return v.dropEmpty(c)
	}
	began := p.store.opts.Now()
	if err := p.store.Use(Sealed); err != nil {
		return err
	}
	if err := v.makeDir(); err != nil {
		return err
	}
	k := &sealedKind{partition: p.id, tag: p.store.tag, blocks: p.store.blocks, named: format.SealedFile{
		Chapter: c.ID, Revision: 1, First: c.First, End: end.LSN, Chain: c.Chain, Last: end.Chain,
	}}
	r := chapterReader{files: p.store.filesOf(p.id), chapter: c, segments: v.segmentsOf(c.ID)}
	boot, err := v.write(ctx, &r, k)
	if err == nil {
		err = v.nameFile(k)
	}
	if err == nil {
		err = p.store.fs.SyncDir(filepath.Join(p.dir, "sealed"))
	}
	if err != nil {
		return err
	}
	if !p.copying.TryLock() {
		_ = p.remove(k.path()) // made again after the copy
		return errCopied
	}
	defer p.copying.Unlock()
	if err := v.relist(func(m *format.Manifest) {
		m.Sealed, m.Before, m.Chapters = append(slices.Clip(m.Sealed), k.named), format.Run{}, slices.Clone(m.Chapters[1:])
	}); err != nil {
		return err
	}
	v.tip = format.Run{Epoch: k.named.Epoch, Boot: boot}
	v.replaceSegments(r.segments, []*segment{{chapter: c.ID, base: c.First, end: end.LSN, kind: k}})
	raw := int64(end.LSN - c.First)
	p.store.opts.Logger.Info("chapter sealed", "partition", p.id, "chapter", c.ID, "file", k.path(), "bytes", raw, "sealed", k.named.Size,
		"percent", 100*k.named.Size/raw, "took", p.store.opts.Now().Sub(began))
	return v.removeChapter(filepath.Join("wal", format.ChapterName(c.ID)))
}

// end abandons running work, and waits for it to stop. From then on no chapter is sealed.
func (v *chapterSealer) end() {
	v.ended.Store(true)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped == nil {
		v.stopped = ErrClosed
	}
}

// makeDir makes the directory durable, once in a run: an earlier run may have died between making
// and syncing it.
func (v *chapterSealer) makeDir() error {
	p := v.p
	if v.made {
		return nil
	}
	if err := disk.Later(disk.MakeDir(p.store.fs, filepath.Join(p.dir, "sealed"))); err != nil {
		return err
	}
	if err := p.store.fs.SyncDir(p.dir); err != nil {
		return err
	}
	v.made = true
	return nil
}

func (v *chapterSealer) segmentsOf(chapter uint32) (list []*segment) {
	p := v.p
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, s := range p.segments {
		if s.chapter == chapter {
			list = append(list, s)
		}
	}
	return list
}

// write makes the sealed file of a chapter, and compares the two.
func (v *chapterSealer) write(ctx context.Context, r *chapterReader, k *sealedKind) (boot string, err error) {
	err = v.makeFile(ctx, k, true, func(to io.Writer) (sealed.Footer, error) {
		return r.write(ctx, to, k, v.tip)
	}, func(s *sealed.File, foot *sealed.Footer) error {
		if boot = foot.Boot; foot.Last != k.named.Last || s.Footer != *foot {
			return fmt.Errorf("%w: the chapter does not end where the next one begins", ErrInternal)
		}
		c, err := v.openMade(k)
		if err != nil {
			return err
		}
		_, wrongIDs := s.IDs()
		_, wrongContents := s.Contents()
		_, wrongRecords := s.Index(sealed.Records)
		_, wrongBodies := s.Index(sealed.Bodies)
		err = errors.Join(r.compare(ctx, c), wrongIDs, wrongContents, wrongRecords, wrongBodies)
		return errors.Join(err, c.Close())
	})
	return boot, err
}

// makeFile makes the temporary file of a sealed file, and completes its entry for the manifest. The
// file is durable unless sync is false. write writes it; compare checks what is read back. After an
// error there is no file.
func (v *chapterSealer) makeFile(ctx context.Context, k *sealedKind, sync bool, write func(io.Writer) (sealed.Footer, error), compare func(*sealed.File, *sealed.Footer) error) (err error) {
	fsys, name := v.p.store.fs, filepath.Join(v.p.dir, k.path())+disk.TempSuffix
	defer func() {
		if err != nil {
			_ = fsys.Remove(name) // best effort: the next start removes it too
			err = disk.Later(err)
		}
	}()
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to := &pacedWriter{ctx: ctx, file: f, p: v.p}
	foot, err := write(to)
	if err == nil {
		err = to.flush()
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	s, err := sealed.Open(f, size)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	k.named.Epoch, k.named.Size, k.named.Footer = foot.Epoch, size, s.Digest
	return compare(s, &foot)
}

// openMade opens a temp file that makeFile has made.
func (v *chapterSealer) openMade(k *sealedKind) (content, error) {
	back := *k
	back.blocks = walkCache()
	c, err := back.open(func(path string) (disk.File, error) { return v.p.store.filesOf(v.p.id).open(path + disk.TempSuffix) })
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	return c, nil
}

// nameFile renames a file that makeFile has made to its final name. The directory must be synced
// afterwards.
func (v *chapterSealer) nameFile(k *sealedKind) error {
	name := filepath.Join(v.p.dir, k.path())
	err := disk.Later(v.p.store.fs.Rename(name+disk.TempSuffix, name))
	if err != nil {
		_ = v.p.store.fs.Remove(name + disk.TempSuffix)
	}
	return err
}

// dropEmpty drops a chapter without a frame, as left by an interrupted start.
func (v *chapterSealer) dropEmpty(c format.Chapter) error {
	if !v.p.copying.TryLock() {
		return errCopied
	}
	defer v.p.copying.Unlock()
	old := v.segmentsOf(c.ID)
	if err := v.relist(func(m *format.Manifest) { m.Chapters = slices.Clone(m.Chapters[1:]) }); err != nil {
		return err
	}
	v.replaceSegments(old, nil)
	return v.removeChapter(filepath.Join("wal", format.ChapterName(c.ID)))
}

// relist replaces the manifest by a changed one. change must not modify the lists of the old one.
// If it is unknown which of the two is on the disk, writing stops.
func (v *chapterSealer) relist(change func(*format.Manifest)) error {
	p := v.p
	if v.ended.Load() {
		return ErrClosed
	}
	p.listing.Lock()
	defer p.listing.Unlock()
	m := p.manifest
	m.Generation++
	change(&m)
	err := disk.Replace(p.store.fs, filepath.Join(p.dir, "manifest"), m.Encode(p.id, p.store.tag))
	if err == nil {
		p.manifest = m
		return nil
	}
	err = fmt.Errorf("manifest: %w", err)
	if errors.Is(err, ErrNoRoom) || disk.OutOfDescriptors(err) {
		return err
	}
	p.mu.RLock()
	w := p.writer
	p.mu.RUnlock()
	if w != nil {
		return w.fail(err)
	}
	return p.fail(err)
}

// replaceSegments replaces a chapter's segments by others. Readers of the old ones can finish.
func (v *chapterSealer) replaceSegments(old, new []*segment) {
	p := v.p
	p.mu.Lock()
	i := slices.Index(p.segments, old[0])
	p.segments = slices.Concat(p.segments[:i], new, p.segments[i+len(old):])
	p.mu.Unlock()
	p.files.drop(old)
}

// removeChapter removes the files of a chapter that a sealed file replaces, and its directory.
func (v *chapterSealer) removeChapter(name string) error {
	p := v.p
	dir := filepath.Join(p.dir, name)
	files, err := p.store.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := p.remove(filepath.Join(name, f.Name)); err != nil {
			return err
		}
	}
	if err := p.remove(name); err != nil {
		return err
	}
	return p.store.fs.SyncDir(filepath.Dir(dir))
}

// removeRemains removes the remains of an interrupted sealing.
func (v *chapterSealer) removeRemains() error {
	p := v.p
	for _, name := range p.found.remains {
		var err error
		if filepath.Dir(name) == "wal" {
			err = v.removeChapter(name)
		} else {
			err = p.remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.found.remains = nil
	return nil
}

// chapterReader reads the frames of a closed chapter.
type chapterReader struct {
	files    partitionFiles
	chapter  format.Chapter
	segments []*segment
}

// write writes the sealed file.
func (r *chapterReader) write(ctx context.Context, to io.Writer, k *sealedKind, from format.Run) (sealed.Footer, error) {
	head := sealed.Header{
		Partition: k.partition, Tag: k.tag, Chapter: k.named.Chapter, Revision: k.named.Revision, First: k.named.First, End: k.named.End, Chain: k.named.Chain,
	}
	out, err := sealed.NewWriter(to, head, from.Epoch, from.Boot)
	if err != nil {
		return sealed.Footer{}, err
	}
	err = r.frames(ctx, from, func(w *walk, off int64, h *format.Header) error {
		var entry [format.BodiesAt]byte
		p, err := w.scan.Win.Bytes(off, format.BodiesAt)
		if err != nil {
			return err
		}
		copy(entry[:], p)
		// including their padding
		records, err := w.scan.Win.LongBytes(off+h.RecordsAt(), int(h.Entry()-h.RecordsAt()))
		if err != nil {
			return err
		}
		return out.Frame(h, entry[:], records)
	})
	if err == nil {
		err = out.EndRecords()
	}
	if err != nil {
		return sealed.Footer{}, err
	}
	err = r.frames(ctx, from, func(w *walk, off int64, h *format.Header) error {
		for at, end := off+format.BodiesAt, off+h.RecordsAt(); at < end; {
			p, err := w.scan.Win.Bytes(at, int(min(end-at, int64(len(w.scan.Win.Buf)))))
			if err != nil {
				return err
			}
			if err := out.Bodies(h.LSN+event.LSN(at-off), p); err != nil {
				return err
			}
			at += int64(len(p))
		}
		return nil
	})
	if err != nil {
		return sealed.Footer{}, err
	}
	return out.Close()
}

// frames calls each with every frame of the chapter, judged as a start does.
func (r *chapterReader) frames(ctx context.Context, from format.Run, each func(w *walk, off int64, h *format.Header) error) error {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	var upTo event.LSN
	w := newWalk(r.files, buf[:], policy{upTo: &upTo, each: each})
	s, c := &w.scan, r.chapter
	s.Chapter, s.Fresh, s.LSN, s.Chain, s.Epoch, s.Boot, s.Index = c.ID, true, c.First, c.Chain, from.Epoch, from.Boot, 1
	for _, seg := range r.segments {
		is := *seg // the walk writes to it
		upTo = seg.end
		err := w.segment(ctx, &is, false)
		if err == nil && is.end != seg.end {
			err = io.ErrUnexpectedEOF // the file has lost bytes
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare compares the chapter with a sealed file, byte for byte.
func (r *chapterReader) compare(ctx context.Context, c content) error {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	was, is := buf[:windowBytes/2], buf[windowBytes/2:]
	at := int64(0) // from the chapter's first address
	for _, seg := range r.segments {
		f, err := seg.kind.open(r.files.open)
		if err != nil {
			return err
		}
		err = func() error {
			for off, size := int64(0), int64(seg.end-seg.base); off < size; {
				if err := ctx.Err(); err != nil {
					return err
				}
				n, err := c.ReadAt(is[:min(int64(len(is)), size-off)], at)
				if n == 0 {
					return fmt.Errorf("read back: %w", err)
				}
				if m, err := f.ReadAt(was[:n], off); m < n {
					return err
				}
				if !bytes.Equal(was[:n], is[:n]) {
					return fmt.Errorf("%w: the sealed file differs from its chapter, starting at address %d", ErrInternal, r.chapter.First+event.LSN(at))
				}
				off, at = off+int64(n), at+int64(n)
			}
			return nil
		}()
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
