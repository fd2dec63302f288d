package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Copier is a [Store] that can be copied while its logs are written. The copy is the directory as
// it would be if each log had ended at a mark and the run had ended in order. Files before a mark
// never change, so no client waits for the copy.
type Copier interface {
	// Hold keeps the files of all logs as they are until giveBack is called: no chapter is sealed,
	// no body dropped, no file removed. Call it before deciding where a copy ends. A chapter that
	// is sealed after that decision would have to be written as it was before, with bodies that may
	// be gone.
	Hold() (giveBack func())
	// Copy passes every file and directory of the copy to put: a directory before its contents, and
	// namespace.json last, because no broker opens a directory without it. ends are durable ends of
	// frames, one for each partition. An error of put ends the copy and is returned.
	Copy(ctx context.Context, ends []event.LSN, put func(CopyEntry) error) error
}

// CopyEntry is a file or a directory of a copy.
type CopyEntry struct {
	Name     string // path below the data directory, with slashes
	Dir      bool
	Size     int64     // bytes
	Contents io.Reader // Size bytes; nil for a directory
}

// Hold implements [Copier].
func (s *store) Hold() (giveBack func()) {
	var held []*partition
	for p := range s.all() {
		// No goroutine waits to lock it for writing, so this returns at once, or when a manifest
		// has been replaced.
		p.copying.RLock()
		held = append(held, p)
	}
	return sync.OnceFunc(func() {
		for _, p := range held {
			p.copying.RUnlock()
		}
	})
}

// Copy implements [Copier].
func (s *store) Copy(ctx context.Context, ends []event.LSN, put func(CopyEntry) error) error {
	if len(ends) != len(s.parts) {
		return fmt.Errorf("log: copy of %d partitions needs an end for each, got %d", len(s.parts), len(ends))
	}
	if err := put(CopyEntry{Name: "partitions", Dir: true}); err != nil {
		return err
	}
	marks := make([]format.Mark, len(ends))
	for i := range ends {
		p := s.part(PartitionID(i))
		if p.err != nil {
			return p.err
		}
		var err error
		if marks[i], err = (&logCopier{p: p, end: ends[i], put: put}).run(ctx); err != nil {
			return fmt.Errorf("log: copy of partition %d: %w", i, err)
		}
	}
	if err := put(memoryEntry("clean", format.EncodeClean(s.tag, marks))); err != nil {
		return err
	}
	return put(memoryEntry(format.NamespaceName, format.EncodeNamespace(s.Namespace())))
}

// memoryEntry returns an entry for a file whose contents are in memory.
func memoryEntry(name string, contents []byte) CopyEntry {
	return CopyEntry{Name: filepath.ToSlash(name), Size: int64(len(contents)), Contents: bytes.NewReader(contents)}
}

// logCopier copies one log up to an address.
type logCopier struct {
	p   *partition
	end event.LSN
	put func(CopyEntry) error
	raw uint32 // a chapter that is sealed by now and is copied as it was before; 0: none
}

func (c *logCopier) run(ctx context.Context) (format.Mark, error) {
	p, end := c.p, c.end
	p.copying.RLock()
	defer p.copying.RUnlock()
	var m format.Mark
	if _, committed := p.Bounds(); end > committed {
		return m, fmt.Errorf("LSN %d is not durable yet", end)
	}
	chain, epoch, err := p.chainAt(end)
	if err != nil {
		return m, fmt.Errorf("LSN %d: %w", end, err)
	}
	m = format.Mark{LSN: end, Epoch: epoch, Chain: chain}
	manifest, err := p.store.filesOf(p.id).readManifest()
	if err != nil {
		return m, err
	}
	if err := c.limit(&manifest); err != nil {
		return m, err
	}
	dir := format.PartitionDir(p.id)
	for _, name := range []string{"", "wal", "sealed", "base", "checkpoints"} {
		if name == "sealed" && len(manifest.Sealed) == 0 || name == "base" && manifest.Base.LSN == 0 {
			continue
		}
		if err := c.put(CopyEntry{Name: filepath.ToSlash(filepath.Join(dir, name)), Dir: true}); err != nil {
			return m, err
		}
	}
	if err := c.segments(ctx); err != nil {
		return m, err
	}
	if b := manifest.Base; b.LSN != 0 { // the log begins with it
		if err := c.file(ctx, basePath(b.LSN), b.Size); err != nil {
			return m, err
		}
	}
	if err := c.checkpoints(ctx); err != nil {
		return m, err
	}
	if err := c.put(memoryEntry(filepath.Join(dir, progressName), format.Progress.Encode(p.id, p.store.tag, m))); err != nil {
		return m, err
	}
	return m, c.put(memoryEntry(filepath.Join(dir, "manifest"), manifest.Encode(p.id, p.store.tag)))
}

// segments copies the files of the segments below the address.
func (c *logCopier) segments(ctx context.Context) error {
	p, last := c.p, ""
	for _, e := range p.extents(0, c.end) {
		k := e.seg.kind
		if s, ok := k.(*sealedKind); ok {
			if s.named.Chapter != c.raw {
				if err := c.file(ctx, s.path(), s.named.Size); err != nil {
					return err
				}
				continue
			}
			k = hotKind{e.seg.chapter, 1}
		}
		name := filepath.ToSlash(filepath.Join(format.PartitionDir(p.id), k.path()))
		if dir := path.Dir(name); dir != last {
			if err := c.put(CopyEntry{Name: dir, Dir: true}); err != nil {
				return err
			}
			last = dir
		}
		f, err := p.files.get(p.store.opts.FS, p.dir, e.seg)
		if err != nil {
			return err
		}
		size := int64(e.end - e.seg.base)
		err = c.put(CopyEntry{Name: name, Size: size, Contents: contextReader{ctx, io.NewSectionReader(fullReads{f}, 0, size)}})
		p.files.done(f)
		if err != nil {
			return err
		}
	}
	return nil
}

// limit removes from a manifest everything at or after the address. The last remaining entry is
// always a chapter: one that was sealed after the mark is listed as a chapter again.
func (c *logCopier) limit(m *format.Manifest) error {
	m.Chapters = slices.DeleteFunc(m.Chapters, func(h format.Chapter) bool { return h.First >= c.end })
	m.Sealed = slices.DeleteFunc(m.Sealed, func(s format.SealedFile) bool { return s.First >= c.end })
	if m.Before.Epoch != 0 && len(m.Chapters) == 0 {
		return fmt.Errorf("%w: no history remains before LSN %d", ErrGone, c.end)
	}
	if n := len(m.Sealed); n > 0 && len(m.Chapters) == 0 {
		last, opts := m.Sealed[n-1], &c.p.store.opts
		m.Sealed, c.raw = m.Sealed[:n-1], last.Chapter
		m.Chapters = []format.Chapter{{ID: last.Chapter, Chain: last.Chain, First: last.First, Created: opts.Now().UnixMilli(), SegmentBytes: uint32(opts.SegmentBytes)}}
		if last.End <= m.Removed || last.First == m.Removed {
			return fmt.Errorf("%w: the copy ends in the only file after the removed history", ErrHeld)
		}
	}
	if m.Base.LSN > c.end {
		return fmt.Errorf("%w: the log begins with a base at LSN %d, after the end of the copy", ErrGone, m.Base.LSN)
	}
	return nil
}

// file copies a file as it is, by its path below the partition's directory. size is the size of the
// file; -1: unknown, and the file may be gone.
func (c *logCopier) file(ctx context.Context, path string, size int64) error {
	f, err := c.p.store.filesOf(c.p.id).open(path)
	if size < 0 && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if size < 0 {
		if size, err = f.Size(); err != nil {
			return err
		}
	}
	name := filepath.ToSlash(filepath.Join(format.PartitionDir(c.p.id), path))
	return c.put(CopyEntry{Name: name, Size: size, Contents: contextReader{ctx, io.NewSectionReader(f, 0, size)}})
}

// fullReads turns content, whose reads may end early, into a file whose reads do not.
type fullReads struct{ content }

func (u fullReads) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.content.ReadAt(p, off)
	if n > 0 && errors.Is(err, errPartEnds) {
		err = nil
	}
	return n, err
}

// checkpoints copies the checkpoints of states below the address. A start does not need them.
func (c *logCopier) checkpoints(ctx context.Context) error {
	for _, info := range c.p.Checkpoints() {
		if info.LSN > c.end {
			continue
		}
		if err := c.file(ctx, filepath.Join("checkpoints", format.CheckpointName(info.LSN)), -1); err != nil {
			return err
		}
	}
	return nil
}

// contextReader reads a file until the context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// The names that a copy of a data directory may have. They are compiled when first needed.
var (
	copiedFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(clean|namespace\.json|slice\.json|partitions/[0-6]\d/(manifest|progress|wal/\d{10}/\d{20}|sealed/\d{10}-\d{4}\.lbs|base/\d{20}\.lbb|checkpoints/\d{20}\.ckpt))$`)
	})
	copiedDir = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^partitions(/[0-6]\d(/(base|checkpoints|sealed|wal(/\d{10})?))?)?$`)
	})
)

// MayBeCopied reports whether a copy of a data directory may contain a directory or a file of that
// name, with slashes. The receiver of a copy refuses all other names.
func MayBeCopied(name string, dir bool) bool {
	if dir {
		return copiedDir().MatchString(name)
	}
	return copiedFile().MatchString(name)
}
