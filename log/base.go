package log

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// A base is what a log may begin with instead of its first frame (log-format.md 3.3, decision 48). What its records mean is not known here.

// basing is the part of a partition that makes its base, and removes the files whose history the base stands for.
type basing struct {
	p     *partition
	doing sync.Mutex // held while a base is made, or files are removed
}

// end waits until nothing is under way any more. Sealing has been ended before, so what still runs does not succeed.
func (v *basing) end() {
	v.doing.Lock()
	defer v.doing.Unlock()
}

// baseReader reads the records of a base and compares their size at the end.
type baseReader struct {
	file disk.File
	z    *zstd.Decoder
	left int64
	// ended, unless nil, is set when nobody is to read any more.
	ended *atomic.Bool
}

// openBase opens the base that a manifest names: its header and trailer are compared, and with whole everything between them too.
func openBase(files opener, named format.BaseFile, part PartitionID, tag uint32, whole bool) (disk.File, format.Base, error) {
	f, err := files(basePath(named.LSN))
	if err != nil {
		return nil, format.Base{}, err
	}
	b, err := checkBase(f, named, part, tag, whole)
	if err != nil {
		return nil, b, errors.Join(err, f.Close())
	}
	return f, b, nil
}

func checkBase(f disk.File, named format.BaseFile, part PartitionID, tag uint32, whole bool) (b format.Base, err error) {
	size, err := f.Size()
	if err != nil {
		return b, err
	}
	if size != named.Size || size < format.BaseHead+format.BaseTrailer {
		return b, fmt.Errorf("%w: is %d bytes long, the manifest says %d", format.ErrDamaged, size, named.Size)
	}
	var p [format.BaseHead + format.BaseTrailer]byte
	if _, err := f.ReadAt(p[:format.BaseHead], 0); err != nil {
		return b, err
	}
	if _, err := f.ReadAt(p[format.BaseHead:], size-format.BaseTrailer); err != nil && !errors.Is(err, io.EOF) {
		return b, err
	}
	if b, err = format.DecodeBase(p[:format.BaseHead], p[format.BaseHead:], named, part, tag); err != nil || !whole {
		return b, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, format.BaseHead, b.Payload)); err != nil {
		return b, err
	}
	if [sha256.Size]byte(h.Sum(nil)) != b.Sum {
		return b, fmt.Errorf("%w: checksum of the records", format.ErrDamaged)
	}
	return b, nil
}

func basePath(at event.LSN) string { return filepath.Join("base", format.BaseName(at)) }

// records returns a reader of the records of a base whose header and trailer were compared.
func records(f disk.File, b *format.Base, ended *atomic.Bool) (io.ReadCloser, error) {
	z, err := zstd.NewReader(io.NewSectionReader(f, format.BaseHead, b.Payload), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &baseReader{file: f, z: z, left: b.Size, ended: ended}, nil
}

// Read implements [io.Reader].
func (r *baseReader) Read(p []byte) (int, error) {
	if r.ended != nil && r.ended.Load() {
		return 0, ErrClosed
	}
	n, err := r.z.Read(p)
	r.left -= int64(n)
	switch end := errors.Is(err, io.EOF); {
	case err != nil && !end:
		return 0, fmt.Errorf("log: base: %w: %w", ErrChecksum, err)
	case r.left < 0 || end && r.left != 0:
		return 0, fmt.Errorf("log: base: %w", ErrChecksum)
	}
	return n, err
}

// Close implements [io.Closer].
func (r *baseReader) Close() error {
	r.z.Close()
	return r.file.Close()
}

// named is the base that the manifest names.
func (v *basing) named() format.BaseFile {
	v.p.listing.Lock()
	defer v.p.listing.Unlock()
	return v.p.manifest.Base
}

// Base implements [Bases].
func (v *basing) Base() (BaseInfo, bool) {
	v.p.mu.RLock()
	defer v.p.mu.RUnlock()
	b := v.p.base
	return v.info(&b), b.LSN != 0
}

func (v *basing) info(b *format.Base) BaseInfo {
	return BaseInfo{
		LSN: b.LSN, Size: format.BaseHead + b.Payload + format.BaseTrailer, Hash: b.Hash, Encoding: b.Encoding,
		File: filepath.Join(format.PartitionDir(v.p.id), basePath(b.LSN)),
	}
}

// OpenBase implements [Bases].
func (v *basing) OpenBase() (io.ReadCloser, error) {
	p := v.p
	for {
		named := v.named()
		if named.LSN == 0 {
			return nil, fmt.Errorf("log: partition %d has no base", p.id)
		}
		f, b, err := openBase(opens(p.store.fs, p.dir), named, p.id, p.store.tag, true)
		if errors.Is(err, fs.ErrNotExist) && (v.named() != named || p.store.opts.Shared && walkAgain(p)) {
			continue // there is a newer one
		}
		if err != nil {
			return nil, &CorruptError{Partition: p.id, File: filepath.Join(format.PartitionDir(p.id), basePath(named.LSN)), LSN: named.LSN, Reason: "base", Cause: errors.Join(ErrChecksum, err)}
		}
		return records(f, &b, nil)
	}
}

// SaveBase implements [Bases]. The steps are those of log-format.md 3.3.
func (v *basing) SaveBase(ctx context.Context, info BaseInfo, write func(io.Writer) error, prove func(io.Reader) error) error {
	p := v.p
	if p.store.opts.ReadOnly {
		return ErrReadOnly
	}
	v.doing.Lock()
	defer v.doing.Unlock()
	old := v.named()
	if info.LSN <= old.LSN {
		return fmt.Errorf("%w: partition %d has a base at LSN %d", ErrTooLittle, p.id, old.LSN)
	}
	b := format.Base{LSN: info.LSN, Hash: info.Hash, Encoding: info.Encoding}
	err := v.begin(&b)
	if err == nil {
		err = v.save(ctx, &b, write, prove)
	}
	if err != nil {
		return fmt.Errorf("log: partition %d: base at LSN %d: %w", p.id, info.LSN, err)
	}
	return v.removeOthers(b.LSN)
}

// removeOthers removes older bases, and what is left of bases that were not completed. While a copy of the log is being made it removes nothing, since the
// copy may have one of them: the next call or the next start does.
func (v *basing) removeOthers(named event.LSN) error {
	p := v.p
	if !p.copying.TryLock() {
		return nil
	}
	defer p.copying.Unlock()
	dir := filepath.Join(p.dir, "base")
	entries, err := p.store.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if at, ok := format.BaseLSN(e.Name); ok && at != named {
			if err := p.remove(basePath(at)); err != nil {
				return err
			}
		}
	}
	return p.store.fs.SyncDir(dir)
}

// begin makes durable what has to be on the disk before a base is written.
func (v *basing) begin(b *format.Base) (err error) {
	p := v.p
	if _, durable := p.Bounds(); b.LSN > durable {
		return fmt.Errorf("log is durable up to LSN %d only", durable)
	}
	if b.Chain, b.Epoch, err = p.chainAt(b.LSN); err != nil {
		return err
	}
	if err := p.store.Use(Based); err != nil {
		return err
	}
	if err := disk.MakeDir(p.store.fs, filepath.Join(p.dir, "base")); err != nil {
		return err
	}
	return p.store.fs.SyncDir(p.dir)
}

// save writes the base, has it proved, and lets the manifest name it.
func (v *basing) save(ctx context.Context, b *format.Base, write func(io.Writer) error, prove func(io.Reader) error) error {
	p := v.p
	fsys, name := p.store.fs, filepath.Join(p.dir, basePath(b.LSN))
	soon := func() error {
		return p.sealing.relist(func(m *format.Manifest) { m.Base = b.File(p.id, p.store.tag) })
	}
	err := v.write(ctx, b, name+disk.TempSuffix, write)
	if err == nil && !mutant.On(mutant.BaseUnproved) {
		err = v.prove(b, name+disk.TempSuffix, prove)
	}
	if err == nil && mutant.On(mutant.BaseTooSoon) {
		err = soon()
	}
	if err == nil {
		err = disk.Later(fsys.Rename(name+disk.TempSuffix, name))
	}
	if err != nil {
		_ = fsys.Remove(name + disk.TempSuffix) // best effort: the next start removes it too
		return disk.Later(err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return err
	}
	if err := soon(); err != nil {
		return err
	}
	p.mu.Lock()
	p.base = *b
	p.mu.Unlock()
	return nil
}

// write makes the temp file, durable.
func (v *basing) write(ctx context.Context, b *format.Base, name string, write func(io.Writer) error) (err error) {
	p := v.p
	f, err := p.store.fs.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	paced := &pacedWriter{ctx: ctx, file: f, p: p}
	if _, err := paced.Write(b.Head(p.id, p.store.tag)); err != nil {
		return err
	}
	h := sha256.New()
	out := &summed{w: io.MultiWriter(paced, h)}
	z := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(z)
	z.Reset(out)
	in := &summed{w: z}
	err = write(in)
	if err2 := z.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	b.Payload, b.Size = out.n, in.n
	h.Sum(b.Sum[:0])
	if _, err := paced.Write(b.Trailer()); err != nil {
		return err
	}
	if err := paced.flush(); err != nil || mutant.On(mutant.BaseTooSoon) {
		return err
	}
	return f.Sync()
}

// prove compares the checksums of what was stored, and calls prove with its records.
func (v *basing) prove(b *format.Base, name string, prove func(io.Reader) error) error {
	p := v.p
	files := func(string) (disk.File, error) { return p.store.fs.Open(name) }
	f, is, err := openBase(files, b.File(p.id, p.store.tag), p.id, p.store.tag, true)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	r, err := records(f, &is, &p.sealing.ended)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(prove(r), r.Close())
}

// removed reports whether an address that no file has was in a file that was removed with its history.
func (v *basing) removed(at event.LSN) bool {
	v.p.mu.RLock()
	defer v.p.mu.RUnlock()
	return at < v.p.first
}

// DropFiles implements [Bases].
func (v *basing) DropFiles(ctx context.Context, wanted func(first, end event.LSN) bool) (freed int64, err error) {
	p := v.p
	if p.store.opts.ReadOnly {
		return 0, ErrReadOnly
	}
	v.doing.Lock()
	defer v.doing.Unlock()
	p.sealing.mu.Lock() // no chapter is sealed that is about to go
	defer p.sealing.mu.Unlock()
	if !p.copying.TryLock() {
		return 0, fmt.Errorf("%w: partition %d: a copy is being made", ErrHeld, p.id)
	}
	defer p.copying.Unlock()
	r, err := v.unwanted(wanted)
	if err != nil {
		return 0, err
	}
	if len(r.sealed) == 0 && len(r.chapters) == 0 {
		return 0, fmt.Errorf("%w: partition %d: no file before its base at LSN %d can go", ErrTooLittle, p.id, v.named().LSN)
	}
	if err := v.leased(r.removed); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.chapters) > 0 {
		if err := p.store.Use(format.Unsealed); err != nil {
			return 0, err
		}
	}
	return v.drop(&r)
}

// leased returns why what is in front of an LSN has to stay for readers beside the broker, else nil. As with bodies leases count only while there is room enough: sends would be
// refused for a reader that lags.
func (v *basing) leased(before event.LSN) error {
	p := v.p
	if p.store.reserve.room() != RoomEnough {
		return nil
	}
	held, _ := p.store.leases()
	for _, l := range held {
		if l.Lowest[p.id] < before {
			return fmt.Errorf("%w: partition %d: a reader, process %d, needs it from LSN %d on", ErrHeld, p.id, l.PID, l.Lowest[p.id])
		}
	}
	return nil
}

// removal is what of a log goes.
type removal struct {
	sealed   []format.SealedFile
	chapters []format.Chapter // the first ones, unsealed
	bytes    int64            // of these
	removed  event.LSN        // from which on the log has no gaps then
	before   format.Run       // under way where the first chapter begins then
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

// unwanted returns what may go. A chapter in front of which another one stays is left, too: the manifest says only of the first one which run it goes on with. For the same
// reason the newest sealed file stays if no chapter goes and it stands in front of them without a gap.
func (v *basing) unwanted(wanted func(first, end event.LSN) bool) (r removal, err error) {
	v.p.listing.Lock()
	m := v.p.manifest
	v.p.listing.Unlock()
	r.before, r.removed = v.p.sealing.tip, m.Removed
	stays := func(first, end event.LSN) bool {
		return end > m.Base.LSN || wanted(first, end) && !mutant.On(mutant.CutBodies)
	}
	for i := 0; i+1 < len(m.Chapters) && !stays(m.Chapters[i].First, m.Chapters[i+1].First); i++ {
		if err := v.passes(&r.before, m.Chapters[i], m.Chapters[i+1].First); err != nil {
			return r, err
		}
		r.chapters, r.removed = append(r.chapters, m.Chapters[i]), m.Chapters[i+1].First
		r.bytes += int64(m.Chapters[i+1].First - m.Chapters[i].First)
	}
	if r.before.Epoch == 0 { // they are empty, as all before them
		r.chapters, r.removed = nil, m.Removed
	}
	for i, s := range m.Sealed {
		switch last := i == len(m.Sealed)-1; {
		case stays(s.First, s.End), last && m.Before.Epoch == 0 && len(r.chapters) == 0:
			continue
		case last:
			r.removed = max(r.removed, m.Chapters[0].First)
		default:
			r.removed = max(r.removed, m.Sealed[i+1].First)
		}
		r.sealed = append(r.sealed, s)
	}
	return r, nil
}

// passes goes on behind a chapter with the run that is under way: an epoch starts in a chapter's first frame only.
func (v *basing) passes(at *format.Run, c format.Chapter, end event.LSN) error {
	if c.First == end {
		return nil
	}
	p := v.p
	s, e := p.locate(c.First)
	if s == nil || s.base != c.First {
		return fmt.Errorf("%w: chapter %d has no segment", ErrInternal, c.ID)
	}
	f, err := p.files.get(p.store.opts.FS, p.dir, s)
	if err != nil {
		return err
	}
	defer p.files.done(f)
	buf := readWindows.Get().(*[readWindow]byte)
	defer readWindows.Put(buf)
	r := frameReader{p: p, win: format.Window{Buf: buf[:]}}
	r.win.Reset(f, int64(e-s.base))
	h, err := r.header(s, c.First)
	if err != nil {
		return err
	}
	if at.Epoch = h.Epoch; h.Kind != EpochStart {
		return nil
	}
	if h.Records > format.MaxBoot {
		return fmt.Errorf("%w: frame %d: boot id of %d bytes", ErrInternal, h.LSN, h.Records)
	}
	boot, err := r.win.Bytes(h.RecordsAt(), int(h.Records))
	at.Boot = string(boot)
	return err
}

// drop removes files, once a manifest without them is durable, and the checkpoints from before the base.
func (v *basing) drop(r *removal) (freed int64, err error) {
	p := v.p
	if mutant.On(mutant.CutTooSoon) {
		if _, err := v.remove(r); err != nil {
			return 0, err
		}
	}
	err = p.sealing.relist(func(m *format.Manifest) {
		m.Sealed, m.Removed = slices.DeleteFunc(slices.Clone(m.Sealed), r.hasSealed), r.removed
		if n := len(r.chapters); n > 0 {
			m.Before, m.Chapters = r.before, slices.Clone(m.Chapters[n:])
		}
	})
	if err != nil {
		return 0, err
	}
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
	p.first = r.removed
	base := p.base.LSN
	p.ckpts = slices.DeleteFunc(slices.Clone(p.ckpts), func(c format.Checkpoint) bool { return c.LSN < base })
	keep := p.ckpts
	p.mu.Unlock()
	p.files.drop(old)
	if freed, err = v.remove(r); err != nil {
		return freed, err
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	return freed, p.pruneCheckpoints(keep)
}

// remove removes the files themselves.
func (v *basing) remove(r *removal) (freed int64, err error) {
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
