package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// How a walk goes from frame to frame, and on behind those that are damaged (log-format.md 5.6).

// anchor finds the address of the file's first byte. Where the frame before does not lead to it, that is a damaged place of its own.
func (w *walk) anchor(ctx context.Context, name string, last bool) error {
	s := &w.scan
	var h format.Header
	if w.ours(0, &h) && h.LSN == s.LSN || w.sure && !w.ours(0, &h) {
		return nil // there, or its first frame is damaged
	}
	base, err := w.base(ctx, s.LSN)
	if err != nil || base == s.LSN {
		return err
	}
	if w.sure {
		v, err := s.Judge(0, &h)
		if err == nil {
			err = w.judge(name, 0, s.LSN, v, last, nil)
		}
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(name, 0, s.LSN, err); err != nil {
			return err
		}
		fresh := s.Fresh
		w.leave()
		s.Fresh, w.counted = fresh, true
	}
	s.LSN = base
	return nil
}

// ours reports whether an intact header of this chapter stands at off, for whatever LSN. What cannot be read is no header.
func (w *walk) ours(off int64, h *format.Header) bool {
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
		if !w.ours(off, &h) {
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

// frames goes from frame to frame, and behind a damaged one to the next intact header of this place.
func (w *walk) frames(ctx context.Context, name string, base event.LSN, last bool) error {
	s := &w.scan
	var h format.Header
	for s.LSN < base+event.LSN(s.Win.Size) {
		from := s.LSN
		w.follow(&h, int64(from-base))
		off, v, err := s.Advance(ctx, base, &h)
		w.sure = w.sure || s.LSN > from
		if err == nil && v.Good {
			return nil
		}
		err = w.judge(name, off, base, v, last, err)
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(name, off, s.LSN, err); err != nil {
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
	if w.chained && w.reigned || !w.ours(off, h) || h.LSN != s.LSN {
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
	if _, ok := s.Watch[s.LSN]; ok {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
}

// ahead returns where the next intact header of this place stands behind off, or the end of the file.
func (w *walk) ahead(off int64) int64 {
	s := &w.scan
	base := s.LSN - event.LSN(off)
	var h format.Header
	for off = w.next(off); off+format.BodiesAt <= s.Win.Size; off = w.next(off) {
		if w.ours(off, &h) && h.LSN == base+event.LSN(off) && h.Epoch >= s.Epoch {
			return off
		}
	}
	return s.Win.Size
}

// errTail: what stands there may be cut off; nobody was promised it.
var errTail = errors.New("unacknowledged tail")

// judge says of a frame that is not good why it is damaged (log-format.md 5.3), or errTail, which is noted. cause is why it cannot be read, if
// so.
func (w *walk) judge(name string, off int64, base event.LSN, v format.Verdict, last bool, cause error) error {
	s := &w.scan
	switch {
	case cause != nil:
		return cause
	case !last:
		return w.corrupt(name, off, s.LSN, "%s; segments follow, so it was durable", v.Reason)
	case w.bound != nil:
		return w.corrupt(name, off, s.LSN, "%s; it was durable", v.Reason)
	case w.clean != nil:
		return w.corrupt(name, off, s.LSN, "%s; the last stop was clean", v.Reason)
	}
	written, err := s.Win.Written(off)
	if err != nil {
		return err
	}
	if written == 0 {
		return errTail // room for the frame that did not come
	}
	sameBoot := w.boot != "" && w.boot == s.Boot && !w.out.fault
	reason, err := s.Classify(off, written, base, v, sameBoot)
	if err != nil {
		return err
	}
	if reason != "" {
		return w.corrupt(name, off, s.LSN, "%s", reason)
	}
	return w.cut(off, written, v.Reason)
}

// cut notes what is behind the good frames, and the name of the file that is to keep it.
func (w *walk) cut(off, written int64, reason string) error {
	sum, err := w.scan.Win.Sum(off, written)
	if err != nil {
		return err
	}
	w.out.cut, w.out.report.CutReason = written, reason
	w.out.report.CutFile = filepath.Join(format.PartitionDir(w.id), "cut", fmt.Sprintf("%020d-%08x.cut", w.scan.LSN, sum))
	return errTail
}
