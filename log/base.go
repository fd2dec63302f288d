package log

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// A log may begin with a base instead of its first frame (log-format.md 3.3, decision 48). This
// package does not know what the records of a base mean.

// baseManager is the part of a partition that makes its base. It also removes the files whose
// history the base replaces.
type baseManager struct {
	p     *partition
	doing sync.Mutex // held while a base is made, or files are removed; guards the fields below

	// footers of files that had bodies which the base needs, at the last removal of files; nil: a
	// footer that cannot be read
	stored map[format.SealedFile]*sealed.Footer
}

// end waits until no base is being made. Sealing has ended before, so work that still runs fails.
func (v *baseManager) end() {
	v.doing.Lock()
	defer v.doing.Unlock()
}

// baseReader reads the records of a base and compares their size at the end.
type baseReader struct {
	file disk.File
	z    *zstd.Decoder
	left int64
	// ended, unless nil, is set when reading must stop.
	ended *atomic.Bool
}

// openBase opens the base that a manifest names and compares its header and trailer. With whole it
// also compares everything between them.
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
		return b, fmt.Errorf("%w: %d bytes long, the manifest says %d", format.ErrDamaged, size, named.Size)
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
		return b, fmt.Errorf("%w: checksum of the records does not match", format.ErrDamaged)
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

// namedBase returns the base that the manifest names.
func (v *baseManager) namedBase() format.BaseFile {
	v.p.listing.Lock()
	defer v.p.listing.Unlock()
	return v.p.manifest.Base
}

// Base implements [Bases].
func (v *baseManager) Base() (BaseInfo, bool) {
	v.p.mu.RLock()
	defer v.p.mu.RUnlock()
	b := v.p.base
	return v.info(&b), b.LSN != 0
}

func (v *baseManager) info(b *format.Base) BaseInfo {
	return BaseInfo{
		LSN: b.LSN, Size: format.BaseHead + b.Payload + format.BaseTrailer, Hash: b.Hash, Encoding: b.Encoding,
		File: filepath.Join(format.PartitionDir(v.p.id), basePath(b.LSN)),
	}
}

// OpenBase implements [Bases].
func (v *baseManager) OpenBase() (io.ReadCloser, error) {
	p := v.p
	for {
		named := v.namedBase()
		if named.LSN == 0 {
			return nil, fmt.Errorf("log: partition %d has no base", p.id)
		}
		f, b, err := openBase(openerOf(p.store.fs, p.dir), named, p.id, p.store.tag, true)
		if errors.Is(err, fs.ErrNotExist) && v.namedBase() != named {
			continue // there is a newer one
		}
		if errors.Is(err, fs.ErrNotExist) && p.store.opts.Shared {
			again := p.relocate()
			if again == nil {
				continue
			}
			if errors.Is(again, ErrChanged) {
				return nil, again
			}
		}
		if err != nil {
			return nil, p.store.filesOf(p.id).corruptBy(basePath(named.LSN), 0, named.LSN, "base", errors.Join(ErrChecksum, err))
		}
		return records(f, &b, nil)
	}
}

// SaveBase implements [Bases]. The steps are those of log-format.md 3.3.
func (v *baseManager) SaveBase(ctx context.Context, info BaseInfo, write func(io.Writer) error, prove func(io.Reader) error) error {
	p := v.p
	if p.store.opts.ReadOnly {
		return ErrReadOnly
	}
	v.doing.Lock()
	defer v.doing.Unlock()
	old := v.namedBase()
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

// removeOthers removes older bases and the remains of incomplete ones. While the log is being
// copied it removes nothing, because the copy may include one of them. The next call or the next
// start removes them then.
func (v *baseManager) removeOthers(named event.LSN) error {
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

// begin makes durable everything that must be on the disk before a base is written.
func (v *baseManager) begin(b *format.Base) (err error) {
	p := v.p
	if _, durable := p.Bounds(); b.LSN > durable {
		return fmt.Errorf("the log is durable only up to LSN %d", durable)
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

// save writes the base, has it verified, and names it in the manifest.
func (v *baseManager) save(ctx context.Context, b *format.Base, write func(io.Writer) error, prove func(io.Reader) error) error {
	p := v.p
	fsys, name := p.store.fs, filepath.Join(p.dir, basePath(b.LSN))
	err := v.write(ctx, b, name+disk.TempSuffix, write)
	if err == nil {
		err = v.prove(b, name+disk.TempSuffix, prove)
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
	if err := p.sealing.relist(func(m *format.Manifest) { m.Base = b.File(p.id, p.store.tag) }); err != nil {
		return err
	}
	p.mu.Lock()
	p.base = *b
	p.mu.Unlock()
	return nil
}

// write makes the durable temporary file.
func (v *baseManager) write(ctx context.Context, b *format.Base, name string, write func(io.Writer) error) (err error) {
	p := v.p
	f, err := p.store.fs.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	paced := &pacedWriter{ctx: ctx, file: f, p: p}
	if err := writeBase(paced, b, p.id, p.store.tag, write); err != nil {
		return err
	}
	if err := paced.flush(); err != nil {
		return err
	}
	return f.Sync()
}

// writeBase writes a base with the records that write writes, and completes b.
func writeBase(to io.Writer, b *format.Base, part PartitionID, tag uint32, write func(io.Writer) error) error {
	if _, err := to.Write(b.Head(part, tag)); err != nil { // it does not depend on what follows
		return err
	}
	h := sha256.New()
	out := &summingWriter{w: io.MultiWriter(to, h)}
	z := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(z)
	z.Reset(out)
	in := &summingWriter{w: z}
	err := write(in)
	if err2 := z.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	b.Payload, b.Size = out.n, in.n
	h.Sum(b.Sum[:0])
	_, err = to.Write(b.Trailer())
	return err
}

// prove compares the stored checksums, and calls prove with the stored records.
func (v *baseManager) prove(b *format.Base, name string, prove func(io.Reader) error) error {
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

// isRemoved reports whether an address that is in no file was in a file that was removed together
// with its history.
func (v *baseManager) isRemoved(at event.LSN) bool {
	v.p.mu.RLock()
	defer v.p.mu.RUnlock()
	return at < v.p.first
}
