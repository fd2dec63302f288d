package log

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// memFile is bytes as a file that is only read.
type memFile struct {
	File
	*bytes.Reader
}

func (m memFile) ReadAt(p []byte, off int64) (int, error) { return m.Reader.ReadAt(p, off) }
func (m memFile) Size() (int64, error)                    { return m.Reader.Size(), nil }
func (m memFile) Close() error                            { return nil }
func (m memFile) Write([]byte) (int, error)               { return 0, ErrReadOnly }

// validSegment is a segment of n frames and the addresses where they begin and end.
func validSegment(n int, tag uint32) ([]byte, []event.LSN) {
	var file []byte
	at := []event.LSN{firstLSN}
	prev := header{epoch: 1}
	for i := range n {
		h := header{
			kind: Events, level: Durable, bodies: uint32(i * 37 % 200), records: uint32(10 + i), count: 1, chapter: 1, epoch: 1,
			lsn: at[i], first: event.Time(i), durable: at[i], chain: prev.sum, tag: tag,
		}
		if i == 0 {
			h.kind, h.count, h.durable = EpochStart, 0, firstLSN
		}
		h.length = uint32(frameLength(int(h.bodies), int(h.records)))
		entry := make([]byte, h.entry())
		for k := bodiesAt; k < bodiesAt+int(h.bodies+h.records); k++ {
			entry[k] = byte(k * (i + 1))
		}
		h.seal(entry)
		file, prev = append(file, entry...), h
		at = append(at, h.next())
	}
	return file, at
}

func scanBytes(t testing.TB, data []byte, sameBoot bool) (s scanner, off int64, reason string, err error) {
	s = scanner{tag: 9, chapter: 1, fresh: true, lsn: firstLSN, index: 1, watch: map[event.LSN]passed{}}
	s.win.buf = make([]byte, 4096)
	s.win.reset(memFile{Reader: bytes.NewReader(data)}, int64(len(data)))
	off, v, err := s.advance(t.Context(), firstLSN, new(header))
	if err != nil {
		return s, off, "", err
	}
	if !v.good {
		written, err := s.win.written(off)
		if err != nil {
			return s, off, "", err
		}
		if written > 0 {
			reason, err = s.classify(off, written, firstLSN, v, sameBoot)
		}
		return s, off, reason, err
	}
	return s, off, reason, err
}

// FuzzScan reads any bytes as a segment: no panic, and what is taken for a frame encodes to the same bytes.
func FuzzScan(f *testing.F) {
	valid, _ := validSegment(8, 9)
	f.Add(valid)
	f.Add(valid[:len(valid)-7])
	f.Add(append(bytes.Clone(valid[:len(valid)-16]), bytes.Repeat([]byte{blank}, 300)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, off, _, err := scanBytes(t, data, false)
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) && s.frames > 0 && s.epoch > 0 && len(data) < 300 {
			t.Fatal(err)
		}
		if off > int64(len(data)) || int64(s.lsn-firstLSN) != s.bytes {
			t.Fatalf("stopped at %d of %d", off, len(data))
		}
		scanBytes(t, data, true)
		var h header
		if ok, err := h.get(data); ok && err == nil {
			p := make([]byte, headerSize)
			if h.put(p); !bytes.Equal(p, data[:headerSize]) {
				t.Fatal("header is not what it decodes to")
			}
		}
	})
}

// FuzzMutate damages a valid segment in which every frame but the last is known to be durable, with room behind it and without, after
// a restart of the machine and without: no frame that was not written comes out, and damage below the last frame is never taken
// for a torn tail. When only the process died, no damage is; a frame cut short still is.
func FuzzMutate(f *testing.F) {
	f.Add(uint16(100), byte(1), uint16(0), byte(0), uint16(0xffff), uint16(0), false)
	f.Add(uint16(900), byte(0x80), uint16(901), byte(1), uint16(1200), uint16(0), true)
	f.Add(uint16(0), byte(0), uint16(0), byte(0), uint16(1200), uint16(4096), true)
	f.Add(uint16(1500), byte(0xff), uint16(0), byte(0), uint16(0xffff), uint16(4097), true)
	valid, at := validSegment(12, 9)
	f.Fuzz(func(t *testing.T, off1 uint16, mask1 byte, off2 uint16, mask2 byte, size, room uint16, sameBoot bool) {
		data := bytes.Clone(valid)
		data[int(off1)%len(data)] ^= mask1
		data[int(off2)%len(data)] ^= mask2
		damaged := !bytes.Equal(data, valid)
		cut := int(size) < len(data)
		if cut && room > 0 {
			size &^= 7 // as a write stops (log-format.md 5.1)
		}
		if cut {
			data = data[:size]
		}
		data = append(data, bytes.Repeat([]byte{blank}, int(room))...)
		s, off, reason, err := scanBytes(t, data, sameBoot)
		if err != nil {
			t.Fatal(err)
		}
		if int(off) > len(valid) || !bytes.Equal(data[:off], valid[:off]) {
			t.Fatal("a changed frame was taken")
		}
		last := at[len(at)-2] // of the last frame, which says that all before it was durable
		intact := len(data) >= int(last-firstLSN)+bodiesAt && bytes.Equal(data[last-firstLSN:][prefixSize:bodiesAt], valid[last-firstLSN:][prefixSize:bodiesAt])
		if s.lsn < last && intact && reason == "" {
			t.Fatalf("log ends at %d, frame %d is intact, and it was taken for a torn tail", s.lsn, last)
		}
		if sameBoot && damaged && !cut && reason == "" {
			t.Fatalf("log ends at %d, the machine was not restarted, and damage was taken for a torn tail", s.lsn)
		}
		if !damaged && reason != "" {
			t.Fatalf("nothing is damaged: %s", reason)
		}
	})
}

// FuzzManifest: decode of anything that decodes encodes to the same bytes.
func FuzzManifest(f *testing.F) {
	m := manifest{generation: 3, chapters: []chapterEntry{{id: 1, first: 8, segmentBytes: 100}, {id: 2, chain: 7, first: 800, created: 5}}}
	f.Add(m.encode(1, 9)[noteHead:])
	f.Fuzz(func(t *testing.T, fields []byte) {
		if back, err := decodeManifest(fields, 1, 9); err == nil {
			_ = back
		}
		file := sealNote("LBMF", 1, 9, fields) // the checksum is no obstacle
		back, err := decodeManifest(file, 1, 9)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := decodeManifest(back.encode(1, 9), 1, 9)
		if err != nil || again.generation != back.generation || len(again.chapters) != len(back.chapters) {
			t.Fatal(err)
		}
		decodeClean(sealNote("LBCM", noPartition, 9, fields), 9, 2)
		if m, err := decodeMark(fields); err == nil && !bytes.Equal(m.append(nil)[:20], fields[:20]) {
			t.Fatal("mark")
		}
		decodeNamespace(fields, nil)
	})
}

// FuzzCheckpoint opens anything as a checkpoint whose checksums were made to match: no panic, and only the state that
// has the hash comes out.
func FuzzCheckpoint(f *testing.F) {
	good, err := os.ReadFile(filepath.Join("testdata", "checkpoint.ckpt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[checkpointHead:len(good)-checkpointTrailer], int64(9))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, payload []byte, size int64) {
		c := checkpoint{lsn: 8, epoch: 1, payload: int64(len(payload)), payloadSum: event.Sum(payload), size: size}
		file := append(append(c.head(0, 5), payload...), c.trailer()...)
		tmp, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(tmp.Name())
		tmp.Write(file)
		tmp.Close()
		back, err := readCheckpoint(osFS{}, tmp.Name(), 0, 5)
		if err != nil {
			return
		}
		r, err := openCheckpoint(osFS{}, tmp.Name(), 0, 5, back)
		if err != nil {
			return
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); err == nil {
			t.Fatalf("%d bytes were accepted whose hash is zero", n)
		}
	})
}
