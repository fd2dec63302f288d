package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// How a walk goes from frame to frame, and on behind those that are damaged (log-format.md 5.6).

// anchor finds the address of the file's first byte. Where the frame before does not lead to it, that is a damaged place of its own.
func (w *walk) anchor(ctx context.Context, name string, last bool) error {
	s := &w.scan
	var h header
	if w.ours(0, &h) && h.lsn == s.lsn || w.sure && !w.ours(0, &h) {
		return nil // there, or its first frame is damaged
	}
	base, err := w.base(ctx, s.lsn)
	if err != nil || base == s.lsn {
		return err
	}
	if w.sure {
		v, err := s.frame(0, &h)
		if err == nil {
			err = w.judge(name, 0, s.lsn, v, last, nil)
		}
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(name, 0, s.lsn, err); err != nil {
			return err
		}
		fresh := s.fresh
		w.leave()
		s.fresh, w.counted = fresh, true
	}
	s.lsn = base
	return nil
}

// ours reports whether an intact header of this chapter stands at off, for whatever LSN. What cannot be read is none.
func (w *walk) ours(off int64, h *header) bool {
	s := &w.scan
	if off+bodiesAt > s.win.size {
		return false
	}
	p, err := s.win.bytes(off, bodiesAt)
	if err != nil {
		return false
	}
	intact, err := h.get(p[prefixSize:])
	return err == nil && intact && h.tag == s.tag && h.partition == s.partition && h.chapter == s.chapter
}

// base returns want when a header of the file agrees with it, else what the first header says.
func (w *walk) base(ctx context.Context, want event.LSN) (event.LSN, error) {
	var first event.LSN
	for off := int64(0); off+bodiesAt <= w.scan.win.size; {
		if off%(1<<20) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		var h header
		if !w.ours(off, &h) {
			off = w.next(off)
			continue
		}
		base := h.lsn - event.LSN(off)
		if base == want {
			return want, nil
		}
		if first == 0 && h.lsn >= firstLSN+event.LSN(off) {
			first = base
		}
		off += h.entry()
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
	if _, err := w.scan.win.bytes(off, bodiesAt); err != nil {
		return (off/block + 1) * block
	}
	return off + 8
}

// frames goes from frame to frame, and behind a damaged one to the next intact header of this place.
func (w *walk) frames(ctx context.Context, name string, base event.LSN, last bool) error {
	s := &w.scan
	var h header
	for s.lsn < base+event.LSN(s.win.size) {
		from := s.lsn
		w.follow(&h, int64(from-base))
		off, v, err := s.advance(ctx, base, &h)
		w.sure = w.sure || s.lsn > from
		if err == nil && v.good {
			return nil
		}
		err = w.judge(name, off, base, v, last, err)
		if errors.Is(err, errTail) {
			return err
		}
		if err := w.damaged(name, off, s.lsn, err); err != nil {
			return err
		}
		if v.ours {
			w.pass(&h, base)
			continue
		}
		at := w.ahead(off)
		w.leave()
		s.lsn = base + event.LSN(at)
	}
	return nil
}

// follow takes chain and epoch from an intact header of this place, if they are not known.
func (w *walk) follow(h *header, off int64) {
	s := &w.scan
	if w.chained && w.reigned || !w.ours(off, h) || h.lsn != s.lsn {
		return
	}
	if !w.chained {
		s.chain = h.chain
	}
	if !w.reigned {
		if s.epoch = h.epoch; h.kind == EpochStart {
			s.epoch--
		}
	}
	w.chained, w.reigned = true, true
}

// pass goes behind a damaged frame with an intact header of this place.
func (w *walk) pass(h *header, base event.LSN) {
	s := &w.scan
	if h.kind == EpochStart || s.fresh {
		s.boot = ""
	}
	s.chain, s.epoch, s.fresh = h.sum, h.epoch, false
	s.index++
	if h.next() > base+event.LSN(s.win.size) { // the file was cut short
		w.leave()
		s.lsn = base + event.LSN(s.win.size)
		return
	}
	s.lsn, w.sure = h.next(), true
	if _, ok := s.watch[s.lsn]; ok {
		s.watch[s.lsn] = passed{true, s.chain}
	}
}

// ahead returns where the next intact header of this place stands behind off, or the end of the file.
func (w *walk) ahead(off int64) int64 {
	s := &w.scan
	base := s.lsn - event.LSN(off)
	var h header
	for off = w.next(off); off+bodiesAt <= s.win.size; off = w.next(off) {
		if w.ours(off, &h) && h.lsn == base+event.LSN(off) && h.epoch >= s.epoch {
			return off
		}
	}
	return s.win.size
}

// errTail: what stands there may be cut off; nobody was promised it.
var errTail = errors.New("unacknowledged tail")

// judge says of a frame that is not good why it is damaged (log-format.md 5.3), or errTail, which is noted. cause is why it cannot be read, if
// so.
func (w *walk) judge(name string, off int64, base event.LSN, v verdict, last bool, cause error) error {
	s := &w.scan
	switch {
	case cause != nil:
		return cause
	case !last:
		return w.corrupt(name, off, s.lsn, "%s; segments follow, so it was durable", v.reason)
	case w.clean != nil:
		return w.corrupt(name, off, s.lsn, "%s; the last stop was clean", v.reason)
	}
	written, err := s.win.written(off)
	if err != nil {
		return err
	}
	if written == 0 {
		return errTail // room for the frame that did not come
	}
	sameBoot := w.boot != "" && w.boot == s.boot && !w.out.fault
	reason, err := s.classify(off, written, base, v, sameBoot)
	if err != nil {
		return err
	}
	if reason != "" {
		return w.corrupt(name, off, s.lsn, "%s", reason)
	}
	return w.cut(off, written, v.reason)
}

// cut notes what is behind the good frames, and the name of the file that is to keep it.
func (w *walk) cut(off, written int64, reason string) error {
	sum, err := w.scan.win.sum(off, written)
	if err != nil {
		return err
	}
	w.out.cut, w.out.report.CutReason = written, reason
	w.out.report.CutFile = filepath.Join(partitionName(w.id), "cut", fmt.Sprintf("%020d-%08x.cut", w.scan.lsn, sum))
	return errTail
}
