package log

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// walk goes through the segments of a log, of whatever kind, frame by frame, and holds one frame at
// a time. All that read frames are a walk with a policy: a start, a survey, a scrub, sealing, and
// [partition.readFrames] for logs that a start has judged. It knows nothing of manifests and notes:
// they are for a [recovery].
//
// Behind a damaged place (log-format.md 5.6) not everything is known of the place where the walk
// goes on, and what is not known is not compared. In a start nothing was passed over, so all is
// known.
type walk struct {
	policy
	files partitionFiles
	file  string // path of the segment being read
	scan  format.Scanner

	sure    bool // the scanner's LSN is where a frame ends or a chapter begins
	counted bool // … and its index counts every frame of the chapter
	chained bool // … and its chain is that of the frame before
	reigned bool // … and its epoch too
	lost    bool // something was passed over unread, so that a place not met may have been there
}

// policy is what differs between readers of frames. The zero value compares everything, and ends
// with the first frame that is not good. Where a walk begins is set in its scanner; who has to rest
// while it reads does so in the file system.
type policy struct {
	// known: a start has judged the log. Of a frame the header is compared with its place, and
	// nothing else is read of it.
	known bool
	// each is called with every good frame, and its offset in the file. Its error ends the walk.
	each func(w *walk, off int64, h *format.Header) error
	// judge returns why a frame that is not good is damage, or errTail, which ends the segment.
	// last: no file follows. Without it the reason is that of the verdict.
	judge func(off int64, base event.LSN, v format.Verdict, last bool) error
	// damaged is told of a damaged place, or one that cannot be read. Where it returns nil, the
	// walk goes on behind it. Without it the error ends the walk.
	damaged func(file string, off int64, lsn event.LSN, err error) error
	// upTo is where the walk ends: what is behind it is not looked at. nil: where the files do.
	upTo *event.LSN
}

// errTail: what stands there may be cut off; nobody was promised it.
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

// corrupt says that the frame at an offset of the file being read is damaged.
func (w *walk) corrupt(off int64, reason string) error {
	return w.files.corruptBy(w.file, off, w.scan.LSN, reason, nil)
}

// atEnd reports whether a place, if it is known, is where the walk ends.
func (w *walk) atEnd(at event.LSN, known bool) bool { return w.upTo != nil && known && at >= *w.upTo }

// leave forgets what does not hold behind bytes of which nothing is known.
func (w *walk) leave() {
	if w.scan.Fresh { // the epoch's first frame has the boot id
		w.scan.Boot = ""
	}
	w.sure, w.counted, w.chained, w.reigned, w.lost, w.scan.Fresh = false, false, false, false, true, false
}

// jump goes to where a chapter or a file begins.
func (w *walk) jump(to event.LSN, chain uint32) {
	w.scan.LSN, w.scan.Chain, w.sure, w.chained = to, chain, true, true
}

// answerWatch answers what stands at the walk's place, if that is asked for.
func (w *walk) answerWatch() {
	s := &w.scan
	if _, asked := s.Watch[s.LSN]; asked {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
}

// segment reads the frames of a segment that begins at the walk's place, or where its first header
// says if that is not known. It sets where the segment begins and ends.
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

// anchor finds the address of the file's first byte. Where the frame before does not lead to it,
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

// hasHeader reports whether an intact header of this chapter stands at off, for whatever LSN. What
// cannot be read is no header.
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

// base returns want when a header of the file agrees with it, else what the first header says.
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

// block is by how much a walk steps over what cannot be read, bytes.
const block = 4096

// next is where a header may stand behind off, where none is.
func (w *walk) next(off int64) int64 {
	if _, err := w.scan.Win.Bytes(off, format.BodiesAt); err != nil {
		return (off/block + 1) * block
	}
	return off + 8
}

// frames goes from frame to frame, and behind a damaged one to the next intact header of this
// place.
func (w *walk) frames(ctx context.Context, base event.LSN, last bool) error {
	s := &w.scan
	var h format.Header
	for s.LSN < base+event.LSN(s.Win.Size) {
		from := s.LSN
		w.follow(&h, int64(from-base))
		off, v, err := s.Advance(ctx, base, &h)
		w.sure = w.sure || s.LSN > from
		if v.Good {
			return err // nil at the end, else that of each
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

// follow takes chain and epoch from an intact header of this place, if they are not known.
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

// pass goes behind a damaged frame with an intact header of this place.
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

// ahead returns where the next intact header of this place stands behind off, or the end of the
// file.
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
