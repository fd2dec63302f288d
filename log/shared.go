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

	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file reads a log while a broker writes it (log-format.md 5.7). Data that the broker has
// declared durable never changes, whatever happens to the broker, so a reader ends there. Only the
// place of the bytes may change, and the manifest names it.

const (
	// tornReads is how many times a note is read while it is being overwritten.
	tornReads = 100
	// movedReads is how many times the manifest is read to find the bytes of a missing file.
	movedReads = 16
)

// bound is where a recovery beside a broker ends, because later frames may not be durable.
type bound struct {
	pinned bool // it was known before
	at     format.Mark
	notes  []note // notes with this bound
}

// readBound reads how far the log is durable. It does so before the manifest is read, which then
// names the chapter of that place.
func (r *recovery) readBound() error {
	b := r.bound
	if b == nil {
		return nil
	}
	if r.walk.upTo = &b.at.LSN; b.pinned {
		return nil
	}
	m, err := r.files.readProgress()
	if m != nil {
		b.at, b.notes = *m, []note{{progressName, *m}}
	}
	return r.damaged(progressName, 0, 0, r.files.decodeVerdict(progressName, 0, 0, err))
}

// setBound sets the places at which the log was durable, and makes the walk look for them. The
// start of the newest chapter is one of them: everything before it was synced before the manifest
// named it.
func (r *recovery) setBound() []note {
	b := r.bound
	if c := r.out.manifest.Chapters; len(c) > 0 && !b.pinned {
		if last := c[len(c)-1]; last.First > b.at.LSN {
			b.at = format.Mark{LSN: last.First, Chain: last.Chain}
			b.notes = append(b.notes, note{"manifest", b.at})
		}
	}
	for _, n := range b.notes {
		r.walk.scan.Watch[n.LSN] = format.Passed{}
	}
	return b.notes
}

// readProgress reads the progress note of a log that may be written: nil without one. The broker
// overwrites the previous note, which may have had the name when it was opened. A note that is
// damaged in the same way twice is damaged.
func (d partitionFiles) readProgress() (*format.Mark, error) {
	var before []byte
	for range tornReads {
		p, err := d.readNote(progressName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var m format.Mark
		if err == nil {
			m, err = format.Progress.Decode(p, d.id, d.tag)
		}
		if err == nil {
			return &m, nil
		}
		if !errors.Is(err, format.ErrDamaged) || p != nil && bytes.Equal(p, before) {
			return nil, err
		}
		before = p
	}
	return nil, fmt.Errorf("%w: incomplete at every read", format.ErrDamaged)
}

// recoverBeside does the same as run for a log that may be written meanwhile.
func (s *store) recoverBeside(ctx context.Context, r *recovery) (*findings, error) {
	for range movedReads {
		try, b := *r, *r.bound
		try.bound = &b
		out, err := s.run(ctx, &try)
		var c *CorruptError
		if errors.As(err, &c) && try.wasMoved(c.File) {
			continue
		}
		if out != nil {
			err = errors.Join(err, s.checkUnchanged(r.files.id, out.end.Epoch))
		}
		return out, err
	}
	return nil, fmt.Errorf("%w: partition %d: its files keep changing", ErrChanged, r.files.id)
}

// wasMoved reports whether a file that the manifest named is gone or about to be removed, and a
// newer manifest names the place of its contents.
func (r *recovery) wasMoved(file string) bool {
	_, gone := r.files.fs.Stat(filepath.Join(r.files.root, file))
	m, err := r.files.readManifest()
	was := &r.out.manifest
	if err != nil || m.Generation == was.Generation {
		return false
	}
	return errors.Is(gone, fs.ErrNotExist) || slices.ContainsFunc(was.Chapters, func(c format.Chapter) bool {
		return len(m.Chapters) > 0 && m.Chapters[0].ID > c.ID && strings.Contains(file, filepath.Join("wal", format.ChapterName(c.ID)))
	})
}

// checkUnchanged checks that the directory is the one that was opened, and that no later run than
// that of an epoch has written its log. A new run records itself within a second.
func (s *store) checkUnchanged(id PartitionID, epoch Epoch) error {
	if _, err := s.rereadNamespace(); err != nil {
		return err
	}
	m, err := s.filesOf(id).readProgress()
	if err == nil && m != nil && epoch > 0 && m.Epoch > epoch {
		return fmt.Errorf("%w: partition %d: another run of the broker began: epoch %d, was %d", ErrChanged, id, m.Epoch, epoch)
	}
	return nil
}

// rereadNamespace reads namespace.json again, which must be of the namespace that was opened.
func (s *store) rereadNamespace() (format.Namespace, error) {
	ns, _, err := readNamespace(s.fs, s.root, s.opts.Capabilities)
	if err == nil && ns.ID != s.ns.ID {
		err = fmt.Errorf("it belongs to another namespace, %s", ns.ID)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return ns, err
}

// relocate finds the current place of the bytes of a shared log. The end stays, unless everything
// before it has been removed.
func (p *partition) relocate() error {
	p.lead.Lock()
	defer p.lead.Unlock()
	out, err := p.store.recoverBeside(context.Background(), &recovery{files: p.store.filesOf(p.id), boot: p.store.opts.BootID,
		bound: &bound{pinned: true, at: p.end, notes: []note{{progressName, p.end}}}})
	if err != nil {
		return err
	}
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
	return nil
}

// checkUnchanged checks, when a reader of a shared log has finished, that it was one log all the
// time.
func (p *partition) checkUnchanged() error {
	if !p.store.opts.Shared {
		return nil
	}
	p.mu.RLock()
	epoch := p.end.Epoch
	p.mu.RUnlock()
	return p.store.checkUnchanged(p.id, epoch)
}
