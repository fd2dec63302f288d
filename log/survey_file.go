package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// place compares a file's name, the index of its first frame, with the frames counted so far. Afterwards counted tells whether it is
// a segment's.
func (y *surveyor) place(chapter string, e Entry) error {
	var index uint64
	_, err := fmt.Sscanf(e.Name, "%020d", &index)
	valid := err == nil && !e.Dir && index > 0 && segmentName(index) == e.Name
	counted := y.counted
	y.counted = valid
	if valid && (index == y.scan.index || !counted) {
		y.scan.index = index
		return nil
	}
	lsn, fresh := y.scan.lsn, y.scan.fresh
	reason := "does not belong to this log"
	if counted {
		reason = fmt.Sprintf("segment %s is expected here", segmentName(y.scan.index))
	}
	y.leave()
	if y.counted, y.scan.fresh = valid, fresh; valid {
		y.scan.index = index
	}
	return y.found(y.bad(filepath.Join(chapter, e.Name), 0, lsn, reason))
}

// file looks through a segment file that begins at the scanner's place, or where its first header says if nobody knows that.
func (y *surveyor) file(ctx context.Context, e Entry, last bool) error {
	s := &y.scan
	seg := &segment{chapter: s.chapter, index: s.index, base: s.lsn, end: s.lsn}
	y.out.segments = append(y.out.segments[:0], seg) // for endPlace
	name := seg.relative()
	f, err := y.fs.Open(filepath.Join(y.dir(), name))
	if err != nil {
		y.leave()
		return y.report(name, y.wrap(name, 0, s.lsn, err))
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		y.leave()
		return y.report(name, y.wrap(name, 0, s.lsn, err))
	}
	s.win.reset(f, size)
	if err := y.anchor(ctx, name, last); err != nil {
		return err
	}
	seg.base = s.lsn
	err = y.frames(ctx, name, seg.base, last)
	seg.end = s.lsn
	return err
}

// anchor finds the address of the file's first byte. Where the frame before does not lead to it, that is a damaged place of its own.
func (y *surveyor) anchor(ctx context.Context, name string, last bool) error {
	s := &y.scan
	var h header
	if y.ours(0, &h) && h.lsn == s.lsn || y.sure && !y.ours(0, &h) {
		return nil // there, or its first frame is damaged
	}
	base, err := y.base(ctx, s.lsn)
	if err != nil || base == s.lsn {
		return err
	}
	if y.sure {
		v, err := s.frame(0, &h)
		if err == nil {
			err = y.judge(name, 0, s.lsn, v, last, nil)
		}
		if err := y.report(name, y.wrap(name, 0, s.lsn, err)); err != nil {
			return err
		}
		fresh := s.fresh
		y.leave()
		s.fresh, y.counted = fresh, true
	}
	s.lsn = base
	return nil
}

// ours tells whether an intact header of this chapter stands at off, for whatever LSN. What cannot be read is none.
func (y *surveyor) ours(off int64, h *header) bool {
	s := &y.scan
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
func (y *surveyor) base(ctx context.Context, want event.LSN) (event.LSN, error) {
	var first event.LSN
	for off := int64(0); off+bodiesAt <= y.scan.win.size; {
		if off%(1<<20) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		var h header
		if !y.ours(off, &h) {
			off = y.next(off)
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

// block is by how much a survey steps over what cannot be read, bytes.
const block = 4096

// next is where a header may stand behind off, where none is.
func (y *surveyor) next(off int64) int64 {
	if _, err := y.scan.win.bytes(off, bodiesAt); err != nil {
		return (off/block + 1) * block
	}
	return off + 8
}

// frames goes from frame to frame, and behind a damaged one to the next intact header of this place.
func (y *surveyor) frames(ctx context.Context, name string, base event.LSN, last bool) error {
	s := &y.scan
	var h header
	for off := int64(0); off < s.win.size; off = int64(s.lsn - base) {
		if err := ctx.Err(); err != nil {
			return err
		}
		y.follow(&h, off)
		v, err := s.frame(off, &h)
		if err == nil && v.good {
			err = s.take(off, &h)
		}
		if err == nil && v.good {
			y.sure = true
			continue
		}
		err = y.judge(name, off, base, v, last, err)
		if errors.Is(err, errTail) {
			return nil
		}
		if err := y.report(name, y.wrap(name, off, s.lsn, err)); err != nil {
			return err
		}
		if v.ours {
			y.pass(&h, base)
			continue
		}
		at := y.ahead(off)
		y.leave()
		s.lsn = base + event.LSN(at)
	}
	return nil
}

// follow takes chain and epoch from an intact header of this place, if they are not known.
func (y *surveyor) follow(h *header, off int64) {
	s := &y.scan
	if y.chained && y.reigned || !y.ours(off, h) || h.lsn != s.lsn {
		return
	}
	if !y.chained {
		s.chain = h.chain
	}
	if !y.reigned {
		if s.epoch = h.epoch; h.kind == EpochStart {
			s.epoch--
		}
	}
	y.chained, y.reigned = true, true
}

// pass goes behind a damaged frame with an intact header of this place.
func (y *surveyor) pass(h *header, base event.LSN) {
	s := &y.scan
	if h.kind == EpochStart || s.fresh {
		s.boot = ""
	}
	s.chain, s.epoch, s.fresh = h.sum, h.epoch, false
	s.index++
	if h.next() > base+event.LSN(s.win.size) { // the file was cut short
		y.leave()
		s.lsn = base + event.LSN(s.win.size)
		return
	}
	s.lsn, y.sure = h.next(), true
	if _, ok := s.watch[s.lsn]; ok {
		s.watch[s.lsn] = passed{true, s.chain}
	}
}

// ahead returns where the next intact header of this place stands behind off, or the end of the file.
func (y *surveyor) ahead(off int64) int64 {
	s := &y.scan
	base := s.lsn - event.LSN(off)
	var h header
	for off = y.next(off); off+bodiesAt <= s.win.size; off = y.next(off) {
		if y.ours(off, &h) && h.lsn == base+event.LSN(off) && h.epoch >= s.epoch {
			return off
		}
	}
	return s.win.size
}

// errTail: what stands there may be cut off; nobody was promised it.
var errTail = errors.New("unacknowledged tail")

// judge says of a frame that is not good what recovery would (log-format.md 5.3): why it is damaged, or errTail. cause is why it cannot
// be read, if so.
func (y *surveyor) judge(name string, off int64, base event.LSN, v verdict, last bool, cause error) error {
	s := &y.scan
	switch {
	case cause != nil && errors.Is(cause, ErrFormat):
		return y.corrupt(name, off, s.lsn, "%v", cause)
	case cause != nil:
		return cause
	case !last:
		return y.corrupt(name, off, s.lsn, "%s; segments follow, so it was durable", v.reason)
	case y.clean != nil:
		return y.corrupt(name, off, s.lsn, "%s; the last stop was clean", v.reason)
	}
	written, err := s.win.written(off)
	if err != nil {
		return err
	}
	if written == 0 {
		return errTail
	}
	sameBoot := y.boot != "" && y.boot == s.boot && !y.out.fault
	reason, err := s.classify(off, written, base, v, sameBoot)
	if err != nil {
		return err
	}
	if reason != "" {
		return y.corrupt(name, off, s.lsn, "%s", reason)
	}
	return errTail
}
