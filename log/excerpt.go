package log

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// This file writes a data directory with a part of the logs of another one (docs/decisions/0059).
// Each log has a base, and after it sealed files of the wanted frames, at their addresses in the
// original. All addresses between them are bodies that are not kept.

// Excerpt is a data directory with a part of the logs of another one, while it is written. It is a
// namespace of its own.
type Excerpt struct {
	to   ExcerptFiles
	ns   format.Namespace
	tag  uint32
	now  time.Time
	ends []format.Mark
	// longest is about how many addresses a frame without records covers at most.
	longest event.LSN
}

// ExcerptFiles receives the files of an [Excerpt]. Names are below its directory, with slashes.
type ExcerptFiles interface {
	MakeDir(name string) error
	// Write makes a file with the bytes that write writes. No file is read before all are written.
	Write(name string, write func(io.Writer) error) error
}

// NewExcerpt begins an excerpt with that many partitions. capabilities are those of the original.
func NewExcerpt(to ExcerptFiles, partitions int, capabilities []string, now time.Time) (*Excerpt, error) {
	x := &Excerpt{to: to, now: now, longest: fillerBytes, ns: format.Namespace{ID: uuid.NewString(), Format: format.Directory, Partitions: partitions, Created: now}}
	words := map[string]bool{Slice: true, Based: true, Sealed: true}
	for _, w := range capabilities {
		words[w] = true
	}
	for _, w := range format.Capabilities {
		if words[w] {
			x.ns.Capabilities = append(x.ns.Capabilities, w)
		}
	}
	var err error
	if x.tag, err = x.ns.Tag(); err != nil {
		return nil, err
	}
	return x, to.MakeDir("partitions")
}

// Namespace returns the namespace of the directory.
func (x *Excerpt) Namespace() format.Namespace { return x.ns }

// ExcerptLog describes which part of a log goes into an excerpt.
type ExcerptLog struct {
	// stretches of the original, from the one with the base on; the last one ends where the log
	// must end
	Chapters []Stretch
	Before   Epoch    // epoch before them
	Base     BaseInfo // LSN, Hash and Encoding
	Records  func(io.Writer) error
	Bodies   []ExcerptBody // bodies before the chapters that are kept, in order
	// Frames yields the wanted frames of the chapters, in order, with every EpochStart among them.
	// It is called twice.
	Frames func(ctx context.Context, yield func(*ExcerptFrame) error) error
}

// ExcerptBody is a body at an address.
type ExcerptBody struct {
	Position event.Position
	Size     uint32
	// Read returns Size bytes, valid until the next call of any body's Read.
	Read func() ([]byte, error)
}

// ExcerptFrame is a frame to write. It has the same addresses as in the original, but Records may
// be shorter.
type ExcerptFrame struct {
	Frame
	Newest event.Time    // time of the last record
	Kept   []ExcerptBody // in order
}

const fillerBytes = 512 << 20 // longest stretch of addresses in one frame without records, about

// Log writes the next log. Logs are written in the order of their numbers.
func (x *Excerpt) Log(ctx context.Context, l *ExcerptLog) error {
	id := PartitionID(len(x.ends))
	w := excerptWriter{x: x, ctx: ctx, id: id, dir: format.PartitionDir(id), log: l, epoch: l.Before}
	err := w.run()
	if err != nil {
		return fmt.Errorf("log: partition %d: %w", id, err)
	}
	x.ends = append(x.ends, w.end())
	return nil
}

// Close writes the files that concern all logs.
func (x *Excerpt) Close() error {
	if err := x.write("clean", format.EncodeClean(x.tag, x.ends)); err != nil {
		return err
	}
	return x.write(format.NamespaceName, format.EncodeNamespace(x.ns))
}

func (x *Excerpt) write(name string, contents []byte) error {
	return x.to.Write(filepath.ToSlash(name), func(w io.Writer) error {
		_, err := w.Write(contents)
		return err
	})
}

// excerptWriter writes one log.
type excerptWriter struct {
	x        *Excerpt
	ctx      context.Context
	id       PartitionID
	dir      string
	log      *ExcerptLog
	manifest format.Manifest
	base     format.Base

	passed  format.Mark // the mark at the base
	chapter uint32
	at      event.LSN // of the next frame
	epoch   Epoch
	chain   uint32
	boot    string
}

func (w *excerptWriter) end() format.Mark {
	return format.Mark{LSN: w.at, Epoch: w.epoch, Chain: w.chain}
}

func (w *excerptWriter) run() error {
	for _, d := range []string{"", "wal", "sealed", "base", "checkpoints"} {
		if err := w.x.to.MakeDir(filepath.ToSlash(filepath.Join(w.dir, d))); err != nil {
			return err
		}
	}
	if err := w.writeBodies(); err != nil {
		return err
	}
	w.manifest.Removed = w.log.Chapters[0].From
	for _, c := range w.log.Chapters {
		if c.From == c.To {
			continue
		}
		w.chapter++
		if err := w.writeSealed(c, w.log.Frames); err != nil {
			return err
		}
	}
	if err := w.writeBase(); err != nil {
		return err
	}
	return w.conclude()
}

// conclude writes the small files, and the chapter after which a broker would continue.
func (w *excerptWriter) conclude() error {
	x, m := w.x, &w.manifest
	c := format.Chapter{ID: w.chapter + 1, Chain: w.chain, First: w.at, Created: x.now.UnixMilli(), SegmentBytes: 8 << 20}
	m.Generation, m.Chapters = 1, []format.Chapter{c}
	m.Base = w.base.File(w.id, x.tag)
	dir := filepath.Join(w.dir, "wal", format.ChapterName(c.ID))
	err := x.to.MakeDir(filepath.ToSlash(dir))
	if err == nil {
		err = x.write(filepath.Join(dir, format.SegmentName(1)), nil)
	}
	if err == nil {
		err = x.write(filepath.Join(w.dir, progressName), format.Progress.Encode(w.id, x.tag, w.end()))
	}
	if err == nil {
		err = x.write(filepath.Join(w.dir, "manifest"), m.Encode(w.id, x.tag))
	}
	return err
}

// writeBodies writes the bodies before the chapters, each stretch in a file with one frame without
// records.
func (w *excerptWriter) writeBodies() error {
	const other = format.BodiesAt + 8 // bytes; bodies of the same frame are closer to each other
	fits := func(list []ExcerptBody, n int) bool {
		gap := list[n].Position - list[n-1].Position - event.Position(list[n-1].Size)
		return gap < other || event.LSN(list[n].Position-list[0].Position) < w.x.longest
	}
	for list := w.log.Bodies; len(list) > 0; {
		n := 1
		for n < len(list) && fits(list, n) {
			n++
		}
		last := list[n-1]
		from := (event.LSN(list[0].Position) - format.BodiesAt) &^ 7
		if from < w.at {
			return fmt.Errorf("%w: bodies at position %d overlap earlier ones", ErrInternal, list[0].Position)
		}
		to := (event.LSN(last.Position) + event.LSN(last.Size) + 7) &^ 7
		row := list[:n]
		w.chapter++
		w.at = from
		frames := func(_ context.Context, yield func(*ExcerptFrame) error) error {
			return yield(&ExcerptFrame{Frame: Frame{LSN: from, Next: to, Kind: Skip, Epoch: w.epoch}, Kept: row})
		}
		if err := w.writeSealed(Stretch{From: from, To: to}, frames); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// writeSealed writes a sealed file of a stretch of addresses.
func (w *excerptWriter) writeSealed(c Stretch, frames func(context.Context, func(*ExcerptFrame) error) error) error {
	w.at = c.From
	w.pass()
	head := sealed.Header{Partition: w.id, Tag: w.x.tag, Chapter: w.chapter, Revision: 1, First: c.From, End: c.To, Chain: w.chain}
	name := filepath.Join("sealed", format.SealedName(w.chapter, 1))
	var foot sealed.Footer
	var sum summingWriter
	digest := sha256.Sum256(nil)
	err := w.x.to.Write(filepath.ToSlash(filepath.Join(w.dir, name)), func(to io.Writer) (err error) {
		sum = summingWriter{w: to}
		s, err := sealed.NewWriter(&sum, head, w.epoch, w.boot)
		if err != nil {
			return err
		}
		f := excerptFile{excerptWriter: w, to: s, stretch: c}
		if err := frames(w.ctx, f.frame); err != nil {
			return err
		}
		if err := f.fill(c.To); err != nil {
			return err
		}
		if err := s.EndRecords(); err != nil {
			return err
		}
		if err := frames(w.ctx, f.writeKept); err != nil {
			return err
		}
		foot, err = s.Close()
		digest = sha256.Sum256(foot.Encode())
		return err
	})
	if err != nil {
		return err
	}
	w.boot = foot.Boot
	w.manifest.Sealed = append(w.manifest.Sealed, format.SealedFile{Chapter: w.chapter, Revision: 1, First: c.From, End: c.To, Epoch: foot.Epoch,
		Chain: foot.Chain, Last: foot.Last, Size: sum.n, Footer: digest})
	return nil
}

// excerptFile is a sealed file that is being written.
type excerptFile struct {
	*excerptWriter
	to      *sealed.Writer
	stretch Stretch
}

// has reports whether a frame belongs in the file.
func (f *excerptFile) has(lsn event.LSN) bool { return lsn >= f.stretch.From && lsn < f.stretch.To }

// fill writes frames without records up to an address. One of them ends at the base.
func (f *excerptFile) fill(to event.LSN) error {
	for f.at < to {
		next := to
		if b := f.log.Base.LSN; f.at < b && b < next {
			next = b
		}
		if next-f.at > f.x.longest+format.BodiesAt {
			next = f.at + f.x.longest
		}
		if err := f.put(&ExcerptFrame{Frame: Frame{LSN: f.at, Next: next, Kind: Skip, Epoch: f.epoch}}); err != nil {
			return err
		}
	}
	return nil
}

func (f *excerptFile) frame(e *ExcerptFrame) error {
	if !f.has(e.LSN) {
		return nil
	}
	if err := f.fill(e.LSN); err != nil {
		return err
	}
	return f.put(e)
}

// put writes a frame except for its bodies.
func (f *excerptFile) put(e *ExcerptFrame) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	length := int64(e.Next-e.LSN) - format.PrefixSize
	room := length - (format.BodiesAt - format.PrefixSize)
	records, bodies, kept := e.Records, room-int64(len(e.Records)), int64(0)
	for i := range e.Kept {
		kept += int64(e.Kept[i].Size)
	}
	if pad := bodies - kept; pad > 0 && pad < 8 { // as in the original
		records, bodies = append(records[:len(records):len(records)], make([]byte, pad)...), kept
	}
	if bodies < 0 || e.LSN != f.at || length > format.MaxFrame {
		return fmt.Errorf("%w: the records at LSN %d need %d bytes, but the frame at LSN %d has only %d", ErrInternal, e.LSN, len(e.Records), f.at, length)
	}
	h := format.Header{Kind: e.Kind, Level: e.Level, Length: uint32(length), Bodies: uint32(bodies), Records: uint32(len(e.Records)), Count: e.Count, Partition: f.id,
		Chapter: f.chapter, Epoch: e.Epoch, LSN: e.LSN, First: e.Time, Durable: min(e.DurableUpTo, e.LSN), Chain: f.chain, Tag: f.x.tag, RecordSum: event.Sum(e.Records)}
	if e.Count > 0 {
		h.Span = format.SpanOf(e.Time, e.Newest)
	}
	if kept < bodies {
		f.to.Erased(uint64(bodies - kept))
	} else if err := sumBodies(&h, e.Kept); err != nil {
		return err
	}
	if err := f.to.Frame(&h, h.Head(), records); err != nil {
		return err
	}
	f.at, f.chain, f.epoch = e.Next, h.Sum, e.Epoch
	f.pass()
	return nil
}

// pass records the mark that the base needs, at the place of the base.
func (w *excerptWriter) pass() {
	if w.at == w.log.Base.LSN {
		w.passed = w.end()
	}
}

// sumBodies sets the checksum of bodies that are all kept.
func sumBodies(h *format.Header, kept []ExcerptBody) error {
	for i := range kept {
		p, err := kept[i].Read()
		if err != nil {
			return err
		}
		h.BodiesSum = crc32.Update(h.BodiesSum, castagnoli, p)
	}
	return nil
}

// writeKept writes the bodies of a frame.
func (f *excerptFile) writeKept(e *ExcerptFrame) error {
	if !f.has(e.LSN) {
		return nil
	}
	for i := range e.Kept {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		p, err := e.Kept[i].Read()
		if err == nil && len(p) != int(e.Kept[i].Size) {
			err = fmt.Errorf("%w: a body has %d bytes, expected %d", ErrInternal, len(p), e.Kept[i].Size)
		}
		if err == nil {
			err = f.to.Bodies(event.LSN(e.Kept[i].Position), p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeBase writes the base. The chain and the epoch at its place are known by now.
func (w *excerptWriter) writeBase() error {
	info := &w.log.Base
	w.base.LSN, w.base.Hash, w.base.Encoding = info.LSN, info.Hash, info.Encoding
	if w.base.Chain, w.base.Epoch = w.passed.Chain, w.passed.Epoch; w.passed.LSN != info.LSN {
		return fmt.Errorf("%w: no frame ends at LSN %d, where the base begins", ErrInternal, info.LSN)
	}
	return w.x.to.Write(filepath.ToSlash(filepath.Join(w.dir, basePath(info.LSN))), func(to io.Writer) error {
		return writeBase(to, &w.base, w.id, w.x.tag, w.log.Records)
	})
}
