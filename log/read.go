package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// readWindow is how much Read reads at once, bytes.
const readWindow = 256 << 10

var readWindows = sync.Pool{New: func() any { return new([readWindow]byte) }}

// locate finds the segment that holds the address, and its end. Segments may be empty: the last one that begins at or
// before the address is it.
func (p *partition) locate(lsn event.LSN) (*segment, event.LSN) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	i, ok := slices.BinarySearchFunc(p.segments, lsn, func(s *segment, at event.LSN) int {
		if s.base <= at {
			return -1
		}
		return 1
	})
	if ok || i == 0 {
		return nil, 0
	}
	return p.segments[i-1], p.segments[i-1].end
}

// ReadInto implements [Reader].
func (p *partition) ReadInto(b event.Blob, dst []byte) (int, error) {
	for {
		s, end, err := p.holding(b)
		if err != nil {
			return 0, err
		}
		n, err := p.readInto(s, end, b, dst)
		if again, err := p.again(s, err); !again {
			return n, err
		}
	}
}

// ReadBlob implements [Reader].
func (p *partition) ReadBlob(b event.Blob, dst []byte) ([]byte, error) {
	if _, _, err := p.holding(b); err != nil { // before room is made for it
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, int(b.Size))[:start+int(b.Size)]
	if _, err := p.ReadInto(b, dst[start:]); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// holding finds the segment of a blob, and its end. A blob never leaves its segment; one without bytes stands nowhere, and has none.
func (p *partition) holding(b event.Blob) (*segment, event.LSN, error) {
	if b.Size == 0 {
		return nil, 0, nil
	}
	s, end := p.locate(event.LSN(b.Position))
	if (s == nil || event.LSN(b.Position) >= end) && p.removed(event.LSN(b.Position)) {
		return nil, 0, fmt.Errorf("log: address %d: %w", b.Position, event.ErrErased)
	}
	if s == nil || uint64(b.Position)+uint64(b.Size) > uint64(end) {
		return nil, 0, fmt.Errorf("log: partition %d: blob of %d bytes at position %d is outside of the log", p.id, b.Size, b.Position)
	}
	return s, end, nil
}

// readInto reads a blob, and what lies behind it in the segment, which ends at end: see [Reader]. All bodies that leave a log are read here.
func (p *partition) readInto(s *segment, end event.LSN, b event.Blob, dst []byte) (int, error) {
	if s == nil {
		return 0, nil
	}
	off := int64(b.Position) - int64(s.base)
	dst = dst[:min(uint64(len(dst)), uint64(end)-uint64(b.Position))]
	asked := min(len(dst), int(b.Size))
	f, err := p.files.get(p.store.opts.FS, p.dir, s)
	if err != nil {
		return 0, fmt.Errorf("log: partition %d: %w", p.id, err)
	}
	n, err := readBody(f.content, dst, off)
	p.files.done(f)
	switch {
	case n >= asked:
		err = nil
		if asked == int(b.Size) && !b.Matches(dst[:asked]) && !mutant.On(mutant.NoPayloadChecksum) {
			err = ErrChecksum
		}
	case err == nil || errors.Is(err, io.EOF): // not the end: the file has lost bytes
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("log: partition %d: %s: blob of %d bytes at byte %d (position %d): %w", p.id, s.kind.path(), b.Size, off, b.Position, err)
	}
	return n, nil
}

// readBody reads bytes that are most likely those of a body.
func readBody(c content, dst []byte, off int64) (int, error) {
	if b, ok := c.(bodies); ok {
		return b.ReadBody(dst, off)
	}
	return c.ReadAt(dst, off)
}

// again reports whether an error is that of a file whose bytes are elsewhere by now, and finds out where. If not, it returns the error, or what it comes from.
func (p *partition) again(s *segment, cause error) (bool, error) {
	if !errors.Is(cause, fs.ErrNotExist) {
		return false, cause
	}
	if p.store.opts.Shared {
		err := walkAgain(p)
		if errors.Is(err, ErrChanged) {
			return false, err
		}
		return err == nil, cause
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return !slices.Contains(p.segments, s), cause // it was sealed
}

// extent is a segment as a reader saw it.
type extent struct {
	seg *segment
	end event.LSN
}

// extents returns the segments that hold an address from from on and below to.
func (p *partition) extents(from, to event.LSN) []extent {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var list []extent
	for _, s := range p.segments {
		if s.end > from && s.base < to && s.end > s.base {
			list = append(list, extent{s, min(s.end, to)})
		}
	}
	return list
}

// Read implements [Reader].
func (p *partition) Read(ctx context.Context, from event.LSN) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		first, committed := p.Bounds()
		buf := readWindows.Get().(*[readWindow]byte)
		defer readWindows.Put(buf)
		r := frameReader{p: p, win: format.Window{Buf: buf[:]}, next: max(from, first)}
		for {
			more, err := r.segments(ctx, committed, yield)
			again, err := p.again(r.seg, err)
			if again {
				continue
			}
			if err == nil && more {
				err = p.lasting()
			}
			if err != nil {
				yield(Frame{}, err)
			}
			return
		}
	}
}

type frameReader struct {
	p    *partition
	win  format.Window
	big  []byte    // records that are longer than the window
	next event.LSN // no frame before it is wanted any more
	seg  *segment  // being read
	// begun: next is where a frame ends, so that another one begins there
	begun bool
}

// segments reads what is wanted and below an LSN. It reports whether the reader wants more.
func (r *frameReader) segments(ctx context.Context, to event.LSN, yield func(Frame, error) bool) (more bool, err error) {
	more = true
	list := r.p.extents(r.next, to)
	at := r.next
	for _, e := range list {
		if e.seg.base > at {
			break
		}
		at = e.end
	}
	if at < to { // segments follow one another: some have been removed since the reader began
		return false, fmt.Errorf("%w: partition %d: from LSN %d on", ErrGone, r.p.id, at)
	}
	for _, e := range list {
		if more, err = r.segment(ctx, e, yield); err != nil || !more {
			break
		}
	}
	return more, err
}

func (r *frameReader) segment(ctx context.Context, e extent, yield func(Frame, error) bool) (bool, error) {
	r.seg = e.seg
	f, err := r.p.files.get(r.p.store.opts.FS, r.p.dir, e.seg)
	if err != nil {
		return false, fmt.Errorf("log: partition %d: %w", r.p.id, err)
	}
	defer r.p.files.done(f)
	if alone(f.content) {
		if r.begun {
			err = fmt.Errorf("%w: partition %d: from LSN %d on", ErrGone, r.p.id, r.next)
		}
		return true, err
	}
	r.win.Reset(f, int64(e.end-e.seg.base))
	for lsn := begins(f.content, e.seg, r.next); lsn < e.end; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		h, err := r.header(e.seg, lsn)
		if err != nil {
			return false, err
		}
		if lsn >= r.next {
			fr, err := r.frame(e.seg, &h)
			if err != nil {
				return false, err
			}
			r.next, r.begun = h.Next(), true
			if !yield(fr, nil) {
				return false, nil
			}
		}
		lsn = h.Next()
	}
	return true, nil
}

// begins is the LSN of a frame of a segment at which a reader that wants the frames at or after from can begin.
func begins(c content, s *segment, from event.LSN) event.LSN {
	if c, ok := c.(*sealedContent); ok && from > s.base {
		return c.begins(from)
	}
	return s.base
}

func (r *frameReader) corrupt(s *segment, lsn event.LSN, reason string, cause error) error {
	return &CorruptError{
		Partition: r.p.id, File: filepath.Join(format.PartitionDir(r.p.id), s.kind.path()), Offset: int64(lsn - s.base), LSN: lsn,
		Reason: reason, Cause: cause,
	}
}

// header reads and checks the header of the frame at lsn, which must lie in the window's file.
func (r *frameReader) header(s *segment, lsn event.LSN) (format.Header, error) {
	var h format.Header
	off := int64(lsn - s.base)
	p, err := r.win.Bytes(off, format.BodiesAt)
	if err != nil {
		return h, r.corrupt(s, lsn, "cannot be read", err)
	}
	intact, err := h.Decode(p)
	if err != nil {
		return h, err
	}
	if !intact || h.LSN != lsn || h.Tag != r.p.store.tag || h.Partition != r.p.id || h.Chapter != s.chapter || h.Entry() > r.win.Size-off {
		return h, r.corrupt(s, lsn, "frame header is not what was recovered", nil)
	}
	return h, nil
}

func (r *frameReader) frame(s *segment, h *format.Header) (Frame, error) {
	off := int64(h.LSN-s.base) + h.RecordsAt()
	var records []byte
	var err error
	if n := int(h.Records); n <= len(r.win.Buf) {
		records, err = r.win.Bytes(off, n)
	} else {
		r.big = slices.Grow(r.big[:0], n)[:n]
		records = r.big
		err = r.win.ReadAt(records, off)
	}
	if err != nil {
		return Frame{}, r.corrupt(s, h.LSN, "cannot be read", err)
	}
	if !h.RecordsMatch(records) {
		return Frame{}, r.corrupt(s, h.LSN, "records", ErrChecksum)
	}
	return Frame{
		LSN: h.LSN, Next: h.Next(), Epoch: h.Epoch, Kind: h.Kind, Level: h.Level, DurableUpTo: h.Durable, Time: h.First,
		Count: h.Count, Base: event.Position(h.LSN), Bodies: [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}, Records: records,
	}, nil
}

// chainAt returns the chain and epoch of the frame that ends at the LSN.
func (p *partition) chainAt(at event.LSN) (uint32, Epoch, error) {
	p.mu.RLock()
	end := p.end
	if p.writer != nil {
		end = p.writer.head()
	}
	first := p.first
	p.mu.RUnlock()
	if at == end.LSN {
		return end.Chain, end.Epoch, nil
	}
	if at == format.FirstLSN {
		return 0, 0, nil
	}
	s, e := p.locate(at)
	if at < first || s == nil || at >= e {
		return 0, 0, fmt.Errorf("LSN is outside of the log")
	}
	f, err := p.files.get(p.store.opts.FS, p.dir, s)
	if err != nil {
		again, err := p.again(s, err)
		if again {
			return p.chainAt(at)
		}
		return 0, 0, err
	}
	defer p.files.done(f)
	r := frameReader{p: p, win: format.Window{Buf: make([]byte, format.BodiesAt)}}
	r.win.Reset(f, int64(e-s.base))
	h, err := r.header(s, at)
	if err != nil {
		return 0, 0, err
	}
	if h.Kind == EpochStart {
		h.Epoch--
	}
	return h.Chain, h.Epoch, nil
}
