package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// windowBytes is how much of a file is read at once.
const windowBytes = 2 << 20

var windows = sync.Pool{New: func() any { return new([windowBytes]byte) }}

// window is a part of a file held in memory, moving forward.
type window struct {
	file File
	size int64
	buf  []byte // as long as the window
	at   int64  // place of buf[0]
	n    int    // valid bytes
}

func (w *window) reset(f File, size int64) { w.file, w.size, w.at, w.n = f, size, 0, 0 }

// bytes returns the n bytes at off, which must lie in the file and be no more than a window.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off >= w.at && off+int64(n) <= w.at+int64(w.n) {
		return w.buf[off-w.at:][:n], nil
	}
	keep := 0
	if off >= w.at && off < w.at+int64(w.n) {
		keep = copy(w.buf, w.buf[off-w.at:w.n])
	}
	w.at, w.n = off, keep
	want := int(min(int64(len(w.buf)), w.size-off))
	if want < n {
		return nil, io.ErrUnexpectedEOF
	}
	m, err := w.file.ReadAt(w.buf[keep:want], off+int64(keep))
	w.n += m
	if w.n < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file shrank under us
		}
		return nil, err
	}
	return w.buf[:n], nil
}

// sum is the checksum of the n bytes at off.
func (w *window) sum(off int64, n int64) (uint32, error) {
	var crc uint32
	for n > 0 {
		p, err := w.bytes(off, int(min(n, int64(len(w.buf)))))
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, p)
		off, n = off+int64(len(p)), n-int64(len(p))
	}
	return crc, nil
}

// written is how many bytes from off on are not room, rounded up to where an entry may end.
func (w *window) written(off int64) (int64, error) {
	last := off
	for at := off; at < w.size; {
		p, err := w.bytes(at, int(min(w.size-at, int64(len(w.buf)))))
		if err != nil {
			return 0, err
		}
		n := len(p)
		for n > 0 && p[n-1] == blank {
			n--
		}
		if n > 0 {
			last = at + int64(n)
		}
		at += int64(len(p))
	}
	return min(w.size-off, (last-off+7)&^7), nil
}

// scanner reads a log from its first frame on and knows what a good next frame looks like.
type scanner struct {
	win       window
	partition PartitionID
	tag       uint32

	chapter uint32
	fresh   bool      // at the first frame of a chapter
	lsn     event.LSN // of the next frame
	chain   uint32
	epoch   Epoch
	boot    string
	newest  event.Time // of the newest record
	durable event.LSN  // everything below was synced when one of the frames was written
	index   uint64     // of the next frame in its chapter

	frames, records uint64
	bytes           int64
	watch           map[event.LSN]passed // what is at the LSNs asked for, filled in as they come by
}

// passed is what a scan has found at an LSN.
type passed struct {
	there bool   // a frame ends there; without, nothing is known of it, and no chain is the right one
	chain uint32 // of that frame
}

// verdict is what stands at a place where a frame was expected.
type verdict struct {
	good   bool
	reason string // of a bad one
	intact bool   // its header is intact
	ours   bool   // … and of this place, partition, chapter and namespace
	linked bool   // … and its chain and epoch go on from the frame before
	entry  int64  // … and its prefix and length are as they must be: bytes of the entry; else 0
}

// frame judges what stands at off, where the scanner's next frame is due.
func (s *scanner) frame(off int64, h *header) (verdict, error) {
	rest := s.win.size - off
	if rest < bodiesAt {
		return verdict{reason: fmt.Sprintf("%d bytes are less than a frame", rest)}, nil
	}
	p, err := s.win.bytes(off, bodiesAt)
	if err != nil {
		return verdict{}, err
	}
	intact, err := h.get(p[prefixSize:])
	if err != nil {
		return verdict{}, err
	}
	if !intact {
		return verdict{reason: "no intact frame header"}, nil
	}
	v := verdict{intact: true}
	if v.reason = s.place(h); v.reason != "" {
		return v, nil
	}
	v.ours = true
	if v.reason = s.link(h); v.reason != "" {
		return v, nil
	}
	v.linked = true
	if h.length > maxFrame {
		v.reason = fmt.Sprintf("frame of %d bytes is over the limit", h.length)
	} else if !prefixOK(p, h.length) {
		v.reason = "entry prefix is wrong"
	} else if v.entry = h.entry(); v.entry > rest {
		v.reason = fmt.Sprintf("frame needs %d bytes, %d are there", v.entry, rest)
	}
	if v.reason != "" {
		return v, nil
	}
	v.reason, err = s.payload(off, h)
	v.good = v.reason == "" && err == nil
	return v, err
}

// place says what is wrong with the place an intact header claims.
func (s *scanner) place(h *header) string {
	switch {
	case h.tag != s.tag:
		return "frame belongs to another namespace"
	case h.partition != s.partition:
		return fmt.Sprintf("frame belongs to partition %d", h.partition)
	case h.chapter != s.chapter:
		return fmt.Sprintf("frame belongs to chapter %d", h.chapter)
	case h.lsn != s.lsn:
		return fmt.Sprintf("frame belongs to LSN %d", h.lsn)
	}
	return ""
}

// link says what is wrong with how an intact header goes on from the frame before.
func (s *scanner) link(h *header) string {
	epoch := s.epoch
	if h.kind == EpochStart {
		epoch++
		if !s.fresh {
			return "epoch starts inside a chapter"
		}
	}
	switch {
	case h.epoch != epoch || epoch == 0:
		return fmt.Sprintf("epoch is %d, not %d", h.epoch, epoch)
	case h.chain != s.chain:
		return "chain is broken: it does not follow the frame before it"
	}
	return ""
}

func (s *scanner) payload(off int64, h *header) (string, error) {
	if sum, err := s.win.sum(off+bodiesAt, int64(h.bodies)); err != nil {
		return "", err
	} else if !sumOK(sum, h.bodiesSum) {
		return "checksum of the bodies does not match", nil
	}
	if sum, err := s.win.sum(off+h.recordsAt(), int64(h.records)); err != nil {
		return "", err
	} else if !sumOK(sum, h.recordSum) {
		return "checksum of the records does not match", nil
	}
	end := h.recordsAt() + int64(h.records)
	pad, err := s.win.bytes(off+end, int(h.entry()-end))
	if err != nil {
		return "", err
	}
	for _, b := range pad {
		if b != 0 {
			return "padding is not zero", nil
		}
	}
	return "", nil
}

// take moves on behind a good frame at off.
func (s *scanner) take(off int64, h *header) error {
	if h.kind == EpochStart {
		if h.records > 256 {
			return fmt.Errorf("boot id of %d bytes", h.records)
		}
		p, err := s.win.bytes(off+h.recordsAt(), int(h.records))
		if err != nil {
			return err
		}
		s.boot, s.epoch = string(p), h.epoch
	}
	s.lsn, s.chain, s.fresh = h.next(), h.sum, false
	if h.count > 0 {
		s.newest = h.newest() // not the latest: behind a ClockSet time begins again earlier
	}
	s.durable = max(s.durable, h.durable)
	s.index++
	s.frames++
	s.records += uint64(h.count)
	s.bytes += h.entry()
	if _, ok := s.watch[s.lsn]; ok {
		s.watch[s.lsn] = passed{true, s.chain}
	}
	return nil
}

// advance reads the window's file, whose first byte has the address base, from the scanner's LSN to its end or its first bad frame. It returns
// the place where it stopped, what stands there, and its header in h.
func (s *scanner) advance(ctx context.Context, base event.LSN, h *header) (int64, verdict, error) {
	for s.lsn < base+event.LSN(s.win.size) {
		off := int64(s.lsn - base)
		if err := ctx.Err(); err != nil {
			return off, verdict{}, err
		}
		v, err := s.frame(off, h)
		if err == nil && v.good {
			err = s.take(off, h)
		}
		if err != nil || !v.good {
			return off, v, err
		}
	}
	return s.win.size, verdict{good: true}, nil
}

// promised looks ahead from the bad frame at off for a header that says it was durable. base is the address of the
// file's first byte. It returns where it found one, or -1 (log-format.md 5.3 rule 3).
func (s *scanner) promised(off int64, base event.LSN) (int64, error) {
	bad := base + event.LSN(off)
	for at := off; at+bodiesAt <= s.win.size; {
		p, err := s.win.bytes(at, bodiesAt)
		if err != nil {
			return 0, err
		}
		p = p[prefixSize:]
		if [4]byte(p) != frameMagic {
			at += 8
			continue
		}
		var h header
		intact, err := h.get(p)
		if err != nil || !intact || h.tag != s.tag || h.partition != s.partition || h.chapter != s.chapter ||
			h.lsn != base+event.LSN(at) || h.epoch < s.epoch {
			at += 8 // also a header of a newer version: not ours, since those before it are not
			continue
		}
		if h.durable > bad {
			return at, nil
		}
		at += h.entry() // never look for headers inside an entry of ours: its bodies come from clients
	}
	return -1, nil
}

// shortPrefix tells whether what is written from off on can be the beginning of the one frame that was being written when
// the process died (rule 4). An entry that is there to its end is none, whatever its last bytes are.
func (s *scanner) shortPrefix(off, written int64, v verdict) (bool, error) {
	if v.entry > s.win.size-off || v.entry > 0 && written <= v.entry-8 {
		return true, nil
	}
	if v.intact || written >= bodiesAt {
		return false, nil
	}
	p, err := s.win.bytes(off, int(written))
	if err != nil {
		return false, err
	}
	// What is known of the header before it was written, field by field.
	want := header{partition: s.partition, chapter: s.chapter, lsn: s.lsn, chain: s.chain, tag: s.tag}
	var w [headerSize]byte
	want.put(w[:])
	for _, field := range [][2]int{{0, 5}, {24, 32}, {40, 48}, {64, 72}} {
		lo, hi := prefixSize+field[0], min(prefixSize+field[1], len(p))
		if lo < hi && !bytes.Equal(p[lo:hi], w[lo-prefixSize:hi-prefixSize]) {
			return false, nil
		}
	}
	if len(p) >= prefixSize+12 && !prefixOK(p, le.Uint32(p[prefixSize+8:])&^7) {
		return false, nil
	}
	return true, nil
}

// classify decides about the bad frame at off of the last file: "" when it and all behind it may be cut, else why it is
// corruption (log-format.md 5.3). written is how much of that is not room.
func (s *scanner) classify(off, written int64, base event.LSN, v verdict, sameBoot bool) (string, error) {
	if mutant.On(mutant.TruncateAlways) {
		return "", nil
	}
	if v.intact && !v.linked {
		return v.reason, nil
	}
	at, err := s.promised(off, base)
	if err != nil {
		return "", err
	}
	if at >= 0 {
		return fmt.Sprintf("%s, but the frame at byte %d says it was durable", v.reason, at), nil
	}
	if sameBoot {
		short, err := s.shortPrefix(off, written, v)
		if err != nil {
			return "", err
		}
		if !short {
			return v.reason + ", and the operating system has not been restarted since it was written", nil
		}
	}
	return "", nil
}
