package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// readWindow is how much Read reads at once, bytes.
const readWindow = 256 << 10

var readWindows = sync.Pool{New: func() any { return new([readWindow]byte) }}

// locate finds the segment that holds the address, and its end. Segments may be empty; the result
// is the last one that begins at or before the address.
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
		s, end, err := p.segmentOf(b)
		if err != nil {
			return 0, err
		}
		n, err := p.readInto(s, end, b, dst)
		if again, err := p.retry(s, err); !again {
			return n, err
		}
	}
}

// ReadBlob implements [Reader].
func (p *partition) ReadBlob(b event.Blob, dst []byte) ([]byte, error) {
	if _, _, err := p.segmentOf(b); err != nil { // before memory is allocated
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, int(b.Size))[:start+int(b.Size)]
	if _, err := p.ReadInto(b, dst[start:]); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// segmentOf finds the segment of a blob, and its end. A blob never leaves its segment. A blob
// without bytes has no place and no segment.
func (p *partition) segmentOf(b event.Blob) (*segment, event.LSN, error) {
	if b.Size == 0 {
		return nil, 0, nil
	}
	s, end := p.locate(event.LSN(b.Position))
	if (s == nil || event.LSN(b.Position) >= end) && p.isRemoved(event.LSN(b.Position)) {
		return nil, 0, fmt.Errorf("log: address %d: %w", b.Position, event.ErrErased)
	}
	if s == nil || uint64(b.Position)+uint64(b.Size) > uint64(end) {
		return nil, 0, fmt.Errorf("log: partition %d: blob of %d bytes at position %d is outside the log", p.id, b.Size, b.Position)
	}
	return s, end, nil
}

// readInto reads a blob, and the bytes after it in the segment, which ends at end: see [Reader].
// All bodies that leave a log are read here.
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
		if asked == int(b.Size) && !b.Matches(dst[:asked]) {
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

// retry reports whether an error comes from a file whose bytes are elsewhere by now, and finds
// their new place. If not, it returns the error, or its cause.
func (p *partition) retry(s *segment, cause error) (bool, error) {
	if !errors.Is(cause, fs.ErrNotExist) {
		return false, cause
	}
	if p.store.opts.Shared {
		err := p.relocate()
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

// extents returns the segments that hold an address at or after from and below to.
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

// errEnough ends [partition.readFrames] when its caller needs no more frames.
var errEnough = errors.New("enough frames were read")

// readFrames calls each with the frames of an open segment, from the one that begins at an address
// on. A start has judged them, so it ends at the first one that differs. It is a walk that reads
// headers; each may read the rest of a frame through it.
func (p *partition) readFrames(ctx context.Context, e extent, c content, at event.LSN, each func(w *walk, off int64, h *format.Header) error) error {
	buf := readWindows.Get().(*[readWindow]byte)
	defer readWindows.Put(buf)
	files := p.store.filesOf(p.id)
	w := newWalk(files, buf[:], policy{known: true, each: each, damaged: files.readVerdict})
	w.file, w.scan.Chapter, w.scan.LSN = e.seg.kind.path(), e.seg.chapter, at
	w.scan.Win.Reset(c, int64(e.end-e.seg.base))
	if err := w.frames(ctx, e.seg.base, false); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// Read implements [Reader].
func (p *partition) Read(ctx context.Context, from event.LSN) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		first, committed := p.Bounds()
		r := frameReader{p: p, next: max(from, first), yield: yield}
		for {
			err := r.segments(ctx, committed)
			again, err := p.retry(r.seg, err)
			if again {
				continue
			}
			if err == nil && !r.over {
				err = p.checkUnchanged()
			}
			if err != nil {
				yield(Frame{}, err)
			}
			return
		}
	}
}

// frameReader reads the frames of one segment after the other, and begins again where segments were
// replaced meanwhile.
type frameReader struct {
	p     *partition
	next  event.LSN // frames before it are no longer wanted
	seg   *segment  // being read
	begun bool      // next is the end of a frame, so that another one begins there
	yield func(Frame, error) bool
	over  bool // no more frames are wanted
}

// segments reads the wanted frames below an LSN.
func (r *frameReader) segments(ctx context.Context, to event.LSN) error {
	list := r.p.extents(r.next, to)
	at := r.next
	for _, e := range list {
		if e.seg.base > at {
			break
		}
		at = e.end
	}
	if at < to { // segments are contiguous, so some have been removed since the reader began
		return fmt.Errorf("%w: partition %d: from LSN %d on", ErrGone, r.p.id, at)
	}
	for _, e := range list {
		if err := r.segment(ctx, e); err != nil || r.over {
			return err
		}
	}
	return nil
}

func (r *frameReader) segment(ctx context.Context, e extent) error {
	r.seg = e.seg
	f, err := r.p.files.get(r.p.store.opts.FS, r.p.dir, e.seg)
	if err != nil {
		return fmt.Errorf("log: partition %d: %w", r.p.id, err)
	}
	defer r.p.files.done(f)
	if isBodyFile(f.content) {
		if r.begun {
			err = fmt.Errorf("%w: partition %d: from LSN %d on", ErrGone, r.p.id, r.next)
		}
		return err
	}
	at := e.seg.base
	if c, ok := f.content.(*sealedContent); ok && r.next > at {
		at = c.frameStart(r.next)
	}
	return r.p.readFrames(ctx, e, f.content, at, func(w *walk, off int64, h *format.Header) error {
		if h.LSN < r.next {
			return nil
		}
		frame, err := w.frame(off, h)
		if err != nil {
			return err
		}
		r.next, r.begun = h.Next(), true
		if r.over = !r.yield(frame, nil); r.over {
			return errEnough
		}
		return nil
	})
}

// firstFrame calls each with the frame that begins at an address, which e holds.
func (p *partition) firstFrame(e extent, at event.LSN, each func(w *walk, off int64, h *format.Header) error) error {
	f, err := p.files.get(p.store.opts.FS, p.dir, e.seg)
	if err != nil {
		return err
	}
	defer p.files.done(f)
	return p.readFrames(context.Background(), e, f.content, at, func(w *walk, off int64, h *format.Header) error {
		return cmp.Or(each(w, off, h), errEnough)
	})
}

// chainAt returns the chain and epoch of the frame that ends at the LSN.
func (p *partition) chainAt(at event.LSN) (chain uint32, epoch Epoch, err error) {
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
		return 0, 0, fmt.Errorf("LSN is outside the log")
	}
	err = p.firstFrame(extent{s, e}, at, func(_ *walk, _ int64, h *format.Header) error {
		if chain, epoch = h.Chain, h.Epoch; h.Kind == EpochStart {
			epoch--
		}
		return nil
	})
	if again, err := p.retry(s, err); !again {
		return chain, epoch, err
	}
	return p.chainAt(at)
}
