package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// How a log is read while a broker writes it (log-format.md 5.7). What the broker has said to be durable stays as it is, whatever becomes of the
// broker, so a reader ends there; only where the bytes are may change, and that the manifest says.

const (
	// tornReads is how many times a note is read that is being written over.
	tornReads = 100
	// movedReads is how many times the manifest is asked where the bytes of a missing file are now.
	movedReads = 16
)

// bound is where a walk ends that goes on beside a broker: what is behind it may not be durable.
type bound struct {
	pinned bool // it was known before
	at     format.Mark
	notes  []note // that say so
}

// readBound reads how far the log is durable: before the manifest, which then names the chapter that the place is in.
func (w *walk) readBound() error {
	b := w.bound
	if b == nil || b.pinned {
		return nil
	}
	if mutant.On(mutant.SharedWritten) {
		w.bound = nil
		return nil
	}
	m, err := readProgress(w.fs, w.dir(), w.id, w.tag)
	if errors.Is(err, format.ErrDamaged) {
		err = w.corrupt(progressName, 0, 0, "%v", err)
	}
	if m != nil {
		b.at, b.notes = *m, []note{{progressName, *m}}
	}
	return w.damaged(progressName, 0, 0, err)
}

// setBound says at which places the log was durable, and has the walk look for them. The newest chapter is one: what is before it was synced
// before the manifest named it.
func (w *walk) setBound() []note {
	b := w.bound
	if c := w.out.manifest.Chapters; len(c) > 0 && !b.pinned {
		if last := c[len(c)-1]; last.First > b.at.LSN {
			b.at = format.Mark{LSN: last.First, Chain: last.Chain}
			b.notes = append(b.notes, note{"manifest", b.at})
		}
	}
	for _, n := range b.notes {
		w.scan.Watch[n.LSN] = format.Passed{}
	}
	return b.notes
}

// passed reports whether a place, if it is known, is where the walk ends.
func (b *bound) passed(at event.LSN, known bool) bool {
	return b != nil && known && at >= b.at.LSN
}

// within is how many bytes a walk looks at of a file that begins at base and has size bytes.
func (b *bound) within(base event.LSN, size int64) int64 {
	if b == nil {
		return size
	}
	return min(size, max(0, int64(b.at.LSN)-int64(base)))
}

// readProgress reads the progress note of a log that may be written: nil without one. The broker writes over the note before, which may have
// had the name when it was opened: a note that is damaged in the same way twice is damaged.
func readProgress(fsys disk.FS, dir string, id PartitionID, tag uint32) (*format.Mark, error) {
	var before []byte
	for range tornReads {
		p, err := readFile(fsys, filepath.Join(dir, progressName), format.MaxNote)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var m format.Mark
		if err == nil {
			m, err = format.Progress.Decode(p, id, tag)
		}
		if err == nil {
			return &m, nil
		}
		if !errors.Is(err, format.ErrDamaged) || p != nil && bytes.Equal(p, before) {
			return nil, err
		}
		before = p
	}
	return nil, fmt.Errorf("%w: never whole", format.ErrDamaged)
}

// walkBeside is run for a log that may be written meanwhile.
func (s *store) walkBeside(ctx context.Context, w *walk) (*found, error) {
	for range movedReads {
		try, b := *w, *w.bound
		try.bound = &b
		out, err := s.run(ctx, &try)
		var c *CorruptError
		if errors.As(err, &c) && try.moved(c.File) {
			continue
		}
		if out != nil {
			err = errors.Join(err, s.unchanged(w.id, out.end.Epoch))
		}
		return out, err
	}
	return nil, fmt.Errorf("%w: partition %d: its files come and go", ErrChanged, w.id)
}

// moved reports whether a file that the manifest named is gone, or about to go, and another manifest says by now where its contents are.
func (w *walk) moved(file string) bool {
	_, gone := w.fs.Stat(filepath.Join(w.root, file))
	p, err := readFile(w.fs, filepath.Join(w.dir(), "manifest"), format.MaxNote)
	if err != nil {
		return false
	}
	m, err := format.DecodeManifest(p, w.id, w.tag)
	if err != nil || m.Generation == w.out.manifest.Generation {
		return false
	}
	return errors.Is(gone, fs.ErrNotExist) || slices.ContainsFunc(w.out.manifest.Chapters, func(c format.Chapter) bool {
		return len(m.Chapters) > 0 && m.Chapters[0].ID > c.ID && strings.Contains(file, filepath.Join("wal", format.ChapterName(c.ID)))
	})
}

// unchanged checks that the directory is the one that was opened, and that no later run than the one of an epoch has written its log. A new
// run says so within a second.
func (s *store) unchanged(id PartitionID, epoch Epoch) error {
	if _, err := s.same(); err != nil {
		return err
	}
	m, err := readProgress(s.fs, filepath.Join(s.root, format.PartitionDir(id)), id, s.tag)
	if err == nil && m != nil && epoch > 0 && m.Epoch > epoch {
		return fmt.Errorf("%w: partition %d: a broker was started on it: epoch %d, was %d", ErrChanged, id, m.Epoch, epoch)
	}
	return nil
}

// same reads namespace.json again, which must be that of the namespace that was opened.
func (s *store) same() (format.Namespace, error) {
	ns, _, err := readNamespace(s.fs, s.root, s.opts.Capabilities)
	if err == nil && ns.ID != s.ns.ID {
		err = fmt.Errorf("it is that of another namespace, %s", ns.ID)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return ns, err
}

// walkAgain finds out where the bytes of a shared log are by now.
func walkAgain(p *partition) error {
	p.lead.Lock()
	defer p.lead.Unlock()
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	w := walk{fs: p.store.fs, root: p.store.root, id: p.id, tag: p.store.tag, boot: p.store.opts.BootID,
		bound: &bound{pinned: true, at: p.end, notes: []note{{progressName, p.end}}}}
	w.scan.Win.Buf = buf[:]
	out, err := p.store.walkBeside(context.Background(), &w)
	if err != nil {
		return err
	}
	relocate(p, out)
	return nil
}

// relocate takes over where a later walk has found the bytes of a log. The end stays, unless all in front of it has been removed.
func relocate(p *partition, out *found) {
	p.listing.Lock()
	p.manifest = out.manifest
	p.listing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments, p.first, p.base = out.segments, out.first, out.base
	if out.end.LSN > p.end.LSN {
		p.end = out.end
	}
	useBlocks(p.segments, p.store.blocks)
}

// lasting checks, when a reader of a shared log is done, that it was one log all the time.
func (p *partition) lasting() error {
	if !p.store.opts.Shared {
		return nil
	}
	p.mu.RLock()
	epoch := p.end.Epoch
	p.mu.RUnlock()
	return p.store.unchanged(p.id, epoch)
}
