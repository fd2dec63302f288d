package format

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// validSegment is a segment of n frames and the addresses where they begin and end.
func validSegment(n int, tag uint32) ([]byte, []event.LSN) {
	var file []byte
	at := []event.LSN{FirstLSN}
	prev := Header{Epoch: 1}
	for i := range n {
		h := Header{
			Kind: Events, Level: Durable, Bodies: uint32(i * 37 % 200), Records: uint32(10 + i), Count: 1, Chapter: 1, Epoch: 1,
			LSN: at[i], First: event.Time(i), Durable: at[i], Chain: prev.Sum, Tag: tag,
		}
		if i == 0 {
			h.Kind, h.Count, h.Durable = EpochStart, 0, FirstLSN
		}
		h.Length = uint32(FrameLength(int(h.Bodies), int(h.Records)))
		entry := make([]byte, h.Entry())
		for k := BodiesAt; k < BodiesAt+int(h.Bodies+h.Records); k++ {
			entry[k] = byte(k * (i + 1))
		}
		h.Seal(entry)
		file, prev = append(file, entry...), h
		at = append(at, h.Next())
	}
	return file, at
}

func scanBytes(t testing.TB, data []byte, sameBoot bool) (s Scanner, off int64, reason string, err error) {
	s = Scanner{Tag: 9, Chapter: 1, Fresh: true, LSN: FirstLSN, Index: 1, Watch: map[event.LSN]Passed{}}
	s.Win.Buf = make([]byte, 4096)
	s.Win.Reset(bytes.NewReader(data), int64(len(data)))
	off, v, err := s.Advance(t.Context(), FirstLSN, new(Header))
	if err != nil {
		return s, off, "", err
	}
	if !v.Good {
		written, err := s.Win.Written(off)
		if err != nil {
			return s, off, "", err
		}
		if written > 0 {
			reason, err = s.Classify(off, written, FirstLSN, v, sameBoot)
		}
		return s, off, reason, err
	}
	return s, off, reason, err
}

// FuzzScan reads any bytes as a segment: no panic, and accepted frames encode to the same bytes.
func FuzzScan(f *testing.F) {
	valid, _ := validSegment(8, 9)
	f.Add(valid)
	f.Add(valid[:len(valid)-7])
	f.Add(append(bytes.Clone(valid[:len(valid)-16]), bytes.Repeat([]byte{Blank}, 300)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, off, _, err := scanBytes(t, data, false)
		if err != nil && !errors.Is(err, ErrNewer) && !errors.Is(err, io.ErrUnexpectedEOF) && s.Frames > 0 && s.Epoch > 0 && len(data) < 300 {
			t.Fatalf("%d bytes: %+v, %v; want that it is whole, newer, cut short, or has neither frames nor an epoch", len(data), s, err)
		}
		if off > int64(len(data)) || int64(s.LSN-FirstLSN) != s.Bytes {
			t.Fatalf("stopped at %d of %d", off, len(data))
		}
		scanBytes(t, data, true)
		var h Header
		if ok, err := h.get(data); ok && err == nil {
			p := make([]byte, headerSize)
			if h.put(p); !bytes.Equal(p, data[:headerSize]) {
				t.Fatal("header is not what it decodes to")
			}
		}
	})
}

// FuzzMutate damages a valid segment in which every frame except the last is known to be durable,
// with and without room after it, after a restart of the machine and without one. No frame appears
// that was not written, and damage below the last frame never counts as a torn tail. If only the
// process died, only a frame that was cut short counts as a torn tail, and no damage does.
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
		data = append(data, bytes.Repeat([]byte{Blank}, int(room))...)
		s, off, reason, err := scanBytes(t, data, sameBoot)
		if err != nil {
			t.Fatal(err)
		}
		if int(off) > len(valid) || !bytes.Equal(data[:off], valid[:off]) {
			t.Fatal("a changed frame was taken")
		}
		last := at[len(at)-2] // of the last frame, which says that all before it was durable
		intact := len(data) >= int(last-FirstLSN)+BodiesAt && bytes.Equal(data[last-FirstLSN:][PrefixSize:BodiesAt], valid[last-FirstLSN:][PrefixSize:BodiesAt])
		if s.LSN < last && intact && reason == "" {
			t.Fatalf("log ends at %d, frame %d is intact, and it was taken for a torn tail", s.LSN, last)
		}
		if sameBoot && damaged && !cut && reason == "" {
			t.Fatalf("log ends at %d, the machine was not restarted, and damage was taken for a torn tail", s.LSN)
		}
		if !damaged && reason != "" {
			t.Fatalf("nothing is damaged: %s", reason)
		}
	})
}

// FuzzManifest: decode of anything that decodes encodes to the same bytes.
func FuzzManifest(f *testing.F) {
	m := Manifest{Generation: 3, Chapters: []Chapter{{ID: 1, First: 8, SegmentBytes: 100}, {ID: 2, Chain: 7, First: 800, Created: 5}}}
	sealed := Manifest{Generation: 4, Sealed: []SealedFile{{Chapter: 1, Revision: 1, First: 8, End: 80, Epoch: 1, Last: 3, Size: 9}, {Chapter: 3, Revision: 2, First: 80, End: 800, Epoch: 2, Chain: 3, Last: 7, Size: 9}}}
	sealed.Chapters = []Chapter{{ID: 4, First: 800, Chain: 7}}
	f.Add(m.Encode(1, 9)[noteHead:])
	f.Add(sealed.Encode(1, 9)[noteHead:])
	gaps := sealed
	gaps.Base, gaps.Removed = BaseFile{LSN: 400, Size: 144}, 160
	gaps.Sealed = []SealedFile{{Chapter: 2, Revision: 1, First: 40, End: 80, Epoch: 1, Chain: 2, Last: 3, Size: 9}, {Chapter: 3, Revision: 2, First: 160, End: 800, Epoch: 2, Chain: 5, Last: 7, Size: 9}}
	f.Add(gaps.Encode(1, 9)[noteHead:])
	unsealed := gaps
	unsealed.Before, unsealed.Removed, unsealed.Base.LSN = Run{2, "boot"}, 1600, 1600
	unsealed.Chapters = []Chapter{{ID: 6, First: 1600, Chain: 8}}
	f.Add(unsealed.Encode(1, 9)[noteHead:])
	f.Fuzz(func(t *testing.T, fields []byte) {
		if back, err := DecodeManifest(fields, 1, 9); err == nil {
			_ = back
		}
		// the checksum is no obstacle
		file := sealVersion("LBMF", 1+uint16(len(fields)/8%3), 1, 9, fields)
		back, err := DecodeManifest(file, 1, 9)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatalf("%v; want ErrDamaged or ErrNewer", err)
			}
			return
		}
		again, err := DecodeManifest(back.Encode(1, 9), 1, 9)
		if err != nil || again.Generation != back.Generation || len(again.Chapters) != len(back.Chapters) || !slices.Equal(again.Sealed, back.Sealed) || again.Before != back.Before {
			t.Fatalf("encoded and decoded again: %+v, %v; want %+v", again, err, back)
		}
		DecodeClean(seal("LBCM", noPartition, 9, fields), 9, 2)
		if m, err := decodeMark(fields); err == nil && !bytes.Equal(m.append(nil)[:20], fields[:20]) {
			t.Fatal("mark")
		}
		DecodeNamespace(fields, nil)
	})
}

// FuzzLease reads any bytes as a lease: no panic, and an accepted lease encodes to the same bytes.
func FuzzLease(f *testing.F) {
	l := Lease{PID: 7, Renewed: 1_900_000_000_000, Lowest: []event.LSN{8, 16}}
	f.Add(l.Encode(9))
	f.Add(l.Encode(9)[:30])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := DecodeLease(data, 9, 2); err == nil && !bytes.Equal(l.Encode(9), data) && data[noteHead+4]|data[noteHead+5]|data[noteHead+6]|data[noteHead+7] == 0 {
			t.Fatalf("%+v encodes to %x; want the bytes it was read from, %x", l, l.Encode(9), data)
		}
		// the checksum is no obstacle
		l, err := DecodeLease(seal("LBLE", noPartition, 9, data), 9, 2)
		if (err == nil) != (len(data) == leaseHead+16) || err == nil && len(l.Lowest) != 2 {
			t.Fatalf("%+v of %d bytes: %v", l, len(data), err)
		}
	})
}
