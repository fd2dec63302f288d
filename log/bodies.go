package log

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file replaces a sealed file, or a chapter that no replay reads any more, by a file of bodies
// (log-format.md 3.3, decision 71). Only the few bodies that are needed are read and written.

// KeptBody is a body that is kept when the rest of its file is removed.
type KeptBody = sealed.Kept

// bodyFile is a file of bodies that is being made.
type bodyFile struct {
	p    *partition
	is   sealedKind    // write sets its size and its digest
	from sealed.Footer // facts about the frames of the original file
	rows []sealed.Kept
}

// errUnread says that a needed body cannot be read.
var errUnread = errors.New("a body that is needed cannot be read")

// bodiesOfChapter returns the file of bodies of a chapter. before and behind are the runs at its
// start and at its end.
func bodiesOfChapter(p *partition, c, next format.Chapter, before, behind format.Run, rows []sealed.Kept) *bodyFile {
	named := format.SealedFile{Chapter: c.ID, Revision: 1, First: c.First, End: next.First, Epoch: behind.Epoch, Chain: c.Chain, Last: next.Chain}
	return &bodyFile{
		p: p, is: sealedKind{partition: p.id, tag: p.store.tag, named: named, blocks: p.store.blocks}, rows: rows,
		from: sealed.Footer{Before: before.Epoch, Epoch: behind.Epoch, Last: next.Chain, Boot: behind.Boot},
	}
}

// bodiesOfSealed returns the next revision of a sealed file, as a file of bodies.
func bodiesOfSealed(p *partition, named format.SealedFile, foot *sealed.Footer, rows []sealed.Kept) *bodyFile {
	named.Revision++
	return &bodyFile{p: p, is: sealedKind{partition: p.id, tag: p.store.tag, named: named, blocks: p.store.blocks}, from: *foot, rows: rows}
}

// keptOverhead is about how many bytes a file of bodies has besides the bodies and their rows.
const keptOverhead = 1 << 10

// isSmall reports whether the bodies, with that many stored bytes, leave at most half of a file.
func isSmall(stored int64, rows int, of int64) bool {
	return stored+int64(rows)*sealed.KeptRow+keptOverhead <= of/2
}

func bytesOf(rows []sealed.Kept) (n int64) {
	for i := range rows {
		n += int64(rows[i].Size)
	}
	return n
}

// begin makes durable everything that must be on the disk before a file of bodies is written. The
// caller holds the mutex of sealing.
func (b *bodyFile) begin() error {
	for _, word := range [...]string{Sealed, format.Bodies} {
		if err := b.p.store.Use(word); err != nil {
			return err
		}
	}
	return b.p.sealing.makeDir()
}

// write makes the temporary file, durable and read back. After an error there is none.
func (b *bodyFile) write(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return disk.Later(err)
	}
	n := &b.is.named
	head := sealed.Header{Partition: b.p.id, Tag: b.p.store.tag, Chapter: n.Chapter, Revision: n.Revision, First: n.First, End: n.End, Chain: n.Chain}
	return b.p.sealing.makeFile(ctx, &b.is, true, func(to io.Writer) (sealed.Footer, error) {
		return sealed.WriteBodies(to, head, b.from, b.rows, b.read())
	}, func(s *sealed.File, foot *sealed.Footer) error {
		if err := b.compare(s, foot); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		return nil
	})
}

// remove removes the file if it can; otherwise the next start removes it.
func (b *bodyFile) remove(suffix string) { _ = b.p.remove(b.is.path() + suffix) }

// read returns a function that reads bodies from their current place in the log and compares their
// checksums.
func (b *bodyFile) read() func(*sealed.Kept) ([]byte, error) {
	var buf []byte
	return func(k *sealed.Kept) (_ []byte, err error) {
		if buf, err = b.p.ReadBlob(k.Blob(), buf[:0]); err != nil && !errors.Is(err, ErrClosed) {
			err = fmt.Errorf("%w: %w", errUnread, err)
		}
		return buf, err
	}
}

// compare reads the file back and compares it with what was written.
func (b *bodyFile) compare(s *sealed.File, foot *sealed.Footer) error {
	if s.Footer != *foot || foot.BodyBytes != uint64(bytesOf(b.rows)) {
		return fmt.Errorf("%w: a file of bodies differs from the bytes written", ErrInternal)
	}
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	_, err := s.Verify(buf[:])
	if err == nil {
		_, err = s.CheckBodies()
	}
	return err
}

// segment returns the segment whose bytes the file has.
func (b *bodyFile) segment() *segment {
	return &segment{chapter: b.is.named.Chapter, base: b.is.named.First, end: b.is.named.End, kind: &b.is}
}

// keptOf returns a body in the form of a file of bodies.
func keptOf(b *Body) sealed.Kept {
	k := sealed.Kept{Position: b.Position, Size: b.Size, Sum: b.Sum, Slice: b.Message.Slice, Number: b.Message.Sequence}
	if b.Event == nil {
		return k
	}
	k.Slice = b.Event.Common().Slice
	event.Named(b.Event, func(s event.Slice, n event.SequenceNumber) {
		if k.Number == 0 {
			k.Slice, k.Number = s, n
		}
	})
	return k
}

// isBodyFile reports whether the content of a segment is a file of bodies, which has no frames.
func isBodyFile(c content) bool {
	s, ok := c.(*sealedContent)
	return ok && s.sealed.Footer.Alone
}
