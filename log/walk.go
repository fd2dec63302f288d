package log

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// walk goes through the segments of a log, of whatever kind, frame by frame, and holds one frame at
// a time. Every reader of frames is a walk with a policy: a start, a survey, a scrub, sealing, and
// [partition.readFrames] for logs that a start has judged. It knows nothing of manifests and notes,
// which belong to a [recovery].
//
// After a damaged place (log-format.md 5.6) some facts about the place where the walk continues are
// unknown, and are not compared. In a start nothing is skipped, so everything is known.
type walk struct {
	policy
	files partitionFiles
	file  string // path of the segment being read
	scan  format.Scanner

	sure    bool // the scanner's LSN is the end of a frame or the start of a chapter
	counted bool // … and its index counts every frame of the chapter
	chained bool // … and its chain is that of the frame before
	reigned bool // … and its epoch is too
	lost    bool // bytes were skipped unread, so that a place not met may have been among them
}

// policy is the part of a walk that differs between readers of frames. The zero value compares
// everything, and ends at the first bad frame. The start of a walk is set in its scanner. A reader
// that must pause does so in the file system.
type policy struct {
	// known means that a start has judged the log. Only the header of a frame is read, and compared
	// with its place.
	known bool
	// each is called with every good frame, and its offset in the file. Its error ends the walk.
	each func(w *walk, off int64, h *format.Header) error
	// judge returns why a bad frame is damage, or errTail, which ends the segment. last means that
	// no file follows. Without judge the reason is that of the verdict.
	judge func(off int64, base event.LSN, v format.Verdict, last bool) error
	// damaged is called with a damaged or unreadable place. If it returns nil, the walk continues
	// after the place. Without damaged the error ends the walk.
	damaged func(file string, off int64, lsn event.LSN, err error) error
	// upTo is where the walk ends; later bytes are not read. nil: at the end of the files.
	upTo *event.LSN
}

// errTail says that the bytes there may be cut off, because they were never acknowledged.
var errTail = errors.New("unacknowledged tail")

func newWalk(files partitionFiles, buf []byte, p policy) *walk {
	w := &walk{policy: p, files: files, sure: true, chained: true, reigned: true}
	w.scan = format.Scanner{Win: format.Window{Buf: buf}, Partition: files.id, Tag: files.tag, Known: p.known}
	if w.each != nil {
		w.scan.Each = func(off int64, h *format.Header) error { return w.each(w, off, h) }
	}
	if w.judge == nil {
		w.judge = func(off int64, _ event.LSN, v format.Verdict, _ bool) error { return w.corrupt(off, v.Reason) }
	}
	if w.damaged == nil {
		w.damaged = func(_ string, _ int64, _ event.LSN, err error) error { return err }
	}
	return w
}

// corrupt returns an error that says that the frame at an offset of the file being read is damaged.
func (w *walk) corrupt(off int64, reason string) error {
	return w.files.corruptBy(w.file, off, w.scan.LSN, reason, nil)
}

// atEnd reports whether a known place is where the walk ends.
func (w *walk) atEnd(at event.LSN, known bool) bool { return w.upTo != nil && known && at >= *w.upTo }

// leave forgets the facts that do not hold after unknown bytes.
func (w *walk) leave() {
	if w.scan.Fresh { // the epoch's first frame has the boot id
		w.scan.Boot = ""
	}
	w.sure, w.counted, w.chained, w.reigned, w.lost, w.scan.Fresh = false, false, false, false, true, false
}

// jump goes to the start of a chapter or a file.
func (w *walk) jump(to event.LSN, chain uint32) {
	w.scan.LSN, w.scan.Chain, w.sure, w.chained = to, chain, true, true
}

// answerWatch records the walk's place if the scanner watches it.
func (w *walk) answerWatch() {
	s := &w.scan
	if _, asked := s.Watch[s.LSN]; asked {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
}

// segment reads the frames of a segment that begins at the walk's place, or where its first header
// says if that place is unknown. It sets the segment's start and end.
func (w *walk) segment(ctx context.Context, seg *segment, last bool) error {
	s := &w.scan
	w.file = seg.kind.path()
	f, err := seg.kind.open(w.files.open)
	size := int64(0)
	if err == nil {
		defer f.Close()
		size, err = f.Size()
	}
	if err != nil {
		w.leave()
		return w.damaged(w.file, 0, s.LSN, err)
	}
	s.Win.Reset(f, size)
	erased := s.Erased
	if err = w.anchor(ctx, last); err == nil {
		if seg.base = s.LSN; w.upTo != nil {
			s.Win.Size = min(size, max(0, int64(*w.upTo)-int64(seg.base)))
		}
		err = w.frames(ctx, seg.base, last)
	}
	seg.end, seg.erased = s.LSN, s.Erased-erased
	if errors.Is(err, errTail) {
		return nil
	}
	return err
}

// frame returns the frame that each is called with, and compares its records with their checksum.
func (w *walk) frame(off int64, h *format.Header) (Frame, error) {
	records, err := w.scan.Win.LongBytes(off+h.RecordsAt(), int(h.Records))
	if err != nil {
		return Frame{}, w.files.readVerdict(w.file, off, h.LSN, err)
	}
	if !h.RecordsMatch(records) {
		return Frame{}, w.files.corruptBy(w.file, off, h.LSN, "records", ErrChecksum)
	}
	return Frame{
		LSN: h.LSN, Next: h.Next(), Epoch: h.Epoch, Kind: h.Kind, Level: h.Level, DurableUpTo: h.Durable, Time: h.First,
		Count: h.Count, Base: event.Position(h.LSN), Bodies: [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}, Records: records,
	}, nil
}

// anchor finds the address of the file's first byte. If the previous frame does not lead to it,
// that is a damaged place of its own.
func (w *walk) anchor(ctx context.Context, last bool) error {
	s := &w.scan
	var h format.Header
	if w.hasHeader(0, &h) && h.LSN == s.LSN || w.sure && !w.hasHeader(0, &h) {
		return nil // there, or its first frame is damaged
	}
	base, err := w.base(ctx, s.LSN)
	if err != nil || base == s.LSN {
		return err
	}
	if w.sure {
		v, err := s.Judge(0, &h)
		if err == nil {
			err = w.judge(0, s.LSN, v, last)
		}
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(w.file, 0, s.LSN, err); err != nil {
			return err
		}
		fresh := s.Fresh
		w.leave()
		s.Fresh, w.counted = fresh, true
	}
	s.LSN = base
	return nil
}

// hasHeader reports whether an intact header of this chapter is at off, for any LSN. Bytes that
// cannot be read are not a header.
func (w *walk) hasHeader(off int64, h *format.Header) bool {
	s := &w.scan
	if off+format.BodiesAt > s.Win.Size {
		return false
	}
	p, err := s.Win.Bytes(off, format.BodiesAt)
	if err != nil {
		return false
	}
	intact, err := h.Decode(p)
	return err == nil && intact && h.Tag == s.Tag && h.Partition == s.Partition && h.Chapter == s.Chapter
}

// base returns want if a header of the file agrees with it, else the base that the first header
// implies.
func (w *walk) base(ctx context.Context, want event.LSN) (event.LSN, error) {
	var first event.LSN
	for off := int64(0); off+format.BodiesAt <= w.scan.Win.Size; {
		if off%(1<<20) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		var h format.Header
		if !w.hasHeader(off, &h) {
			off = w.next(off)
			continue
		}
		base := h.LSN - event.LSN(off)
		if base == want {
			return want, nil
		}
		if first == 0 && h.LSN >= format.FirstLSN+event.LSN(off) {
			first = base
		}
		off += h.Entry()
	}
	if first == 0 {
		return want, nil
	}
	return first, nil
}

// block is how many bytes a walk skips where it cannot read.
const block = 4096

// next returns the next place after off where a header may be, if there is none at off.
func (w *walk) next(off int64) int64 {
	if _, err := w.scan.Win.Bytes(off, format.BodiesAt); err != nil {
		return (off/block + 1) * block
	}
	return off + 8
}

// frames goes from frame to frame, and after a damaged one to the next intact header of this place.
func (w *walk) frames(ctx context.Context, base event.LSN, last bool) error {
	s := &w.scan
	var h format.Header
	for s.LSN < base+event.LSN(s.Win.Size) {
		from := s.LSN
		w.follow(&h, int64(from-base))
		off, v, err := s.Advance(ctx, base, &h)
		w.sure = w.sure || s.LSN > from
		if v.Good {
			return err // nil at the end, else the error of each
		}
		if err == nil {
			err = w.judge(off, base, v, last)
		}
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(w.file, off, s.LSN, err); err != nil {
			return err
		}
		if v.Ours {
			w.pass(&h, base)
			continue
		}
		at := w.ahead(off)
		w.leave()
		s.LSN = base + event.LSN(at)
	}
	return nil
}

// follow takes chain and epoch from an intact header of this place, if they are unknown.
func (w *walk) follow(h *format.Header, off int64) {
	s := &w.scan
	if w.chained && w.reigned || !w.hasHeader(off, h) || h.LSN != s.LSN {
		return
	}
	if !w.chained {
		s.Chain = h.Chain
	}
	if !w.reigned {
		if s.Epoch = h.Epoch; h.Kind == EpochStart {
			s.Epoch--
		}
	}
	w.chained, w.reigned = true, true
}

// pass goes past a damaged frame with an intact header of this place.
func (w *walk) pass(h *format.Header, base event.LSN) {
	s := &w.scan
	if h.Kind == EpochStart || s.Fresh {
		s.Boot = ""
	}
	s.Chain, s.Epoch, s.Fresh = h.Sum, h.Epoch, false
	s.Index++
	if h.Next() > base+event.LSN(s.Win.Size) { // the file was cut short
		w.leave()
		s.LSN = base + event.LSN(s.Win.Size)
		return
	}
	s.LSN, w.sure = h.Next(), true
	w.answerWatch()
}

// ahead returns the next intact header of this place after off, or the end of the file.
func (w *walk) ahead(off int64) int64 {
	s := &w.scan
	base := s.LSN - event.LSN(off)
	var h format.Header
	for off = w.next(off); off+format.BodiesAt <= s.Win.Size; off = w.next(off) {
		if w.hasHeader(off, &h) && h.LSN == base+event.LSN(off) && h.Epoch >= s.Epoch {
			return off
		}
	}
	return s.Win.Size
}
