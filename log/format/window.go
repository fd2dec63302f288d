package format

import (
	"errors"
	"hash/crc32"
	"io"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Window is a part of a file in memory that moves forward.
type Window struct {
	Buf  []byte // as long as the window; set before Reset
	Size int64  // of the file

	file io.ReaderAt
	at   int64 // place of Buf[0]
	n    int   // valid bytes
	long []byte
}

// Reset moves the window to the beginning of a file, of which it sees the first size bytes.
func (w *Window) Reset(f io.ReaderAt, size int64) { w.file, w.Size, w.at, w.n = f, size, 0, 0 }

// Bytes returns the n bytes at off, which must be in the file and no more than a window. They are
// valid until the next call.
func (w *Window) Bytes(off int64, n int) ([]byte, error) {
	if off >= w.at && off+int64(n) <= w.at+int64(w.n) {
		return w.Buf[off-w.at:][:n], nil
	}
	keep := 0
	if off >= w.at && off < w.at+int64(w.n) {
		keep = copy(w.Buf, w.Buf[off-w.at:w.n])
	}
	w.at, w.n = off, keep
	want := int(min(int64(len(w.Buf)), w.Size-off))
	if want < n {
		return nil, io.ErrUnexpectedEOF
	}
	m, err := w.file.ReadAt(w.Buf[keep:want], off+int64(keep))
	w.n += m
	if w.n < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file has become shorter
		}
		return nil, err
	}
	return w.Buf[:n], nil
}

// LongBytes does the same as Bytes for more bytes than a window. Then it does not move the window.
func (w *Window) LongBytes(off int64, n int) ([]byte, error) {
	if n <= len(w.Buf) {
		return w.Bytes(off, n)
	}
	w.long = slices.Grow(w.long[:0], n)[:n]
	m, err := w.file.ReadAt(w.long, off)
	if m == n {
		return w.long, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// Sum returns the checksum of the n bytes at off.
func (w *Window) Sum(off int64, n int64) (uint32, error) {
	var crc uint32
	for n > 0 {
		p, err := w.Bytes(off, int(min(n, int64(len(w.Buf)))))
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, p)
		off, n = off+int64(len(p)), n-int64(len(p))
	}
	return crc, nil
}

// Written returns how many bytes from off on are not preallocated room, rounded up to where an
// entry may end.
func (w *Window) Written(off int64) (int64, error) {
	last := off
	for at := off; at < w.Size; {
		p, err := w.Bytes(at, int(min(w.Size-at, int64(len(w.Buf)))))
		if err != nil {
			return 0, err
		}
		n := len(p)
		for n > 0 && p[n-1] == Blank {
			n--
		}
		if n > 0 {
			last = at + int64(n)
		}
		at += int64(len(p))
	}
	return min(w.Size-off, (last-off+7)&^7), nil
}
