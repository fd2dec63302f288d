package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/wal"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// library opens tidwall/wal on an empty directory, only to write to it.
func library(dir string, segmentBytes int) (*wal.Log, error) {
	return wal.Open(dir, &wal.Options{NoSync: true, SegmentSize: segmentBytes, LogFormat: wal.Binary, SegmentCacheSize: 1,
		NoCopy: true, DirPerms: 0o700, FilePerms: 0o600})
}

func dirBytes(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		info, _ := d.Info()
		files[rel] = info.Mode().String() + string(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestTailBytes writes random frames with tidwall/wal and with our writer: names, modes and bytes
// are the same.
func TestTailBytes(t *testing.T) {
	t.Parallel()
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 60 {
		limit := 1 + rng.IntN(40000)
		dirs := [2]string{t.TempDir(), t.TempDir()}
		ours, err := newTail(disk.OS{}, dirs[0], 8*rng.IntN(3)*rng.IntN(10000))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := library(dirs[1], limit)
		if err != nil {
			t.Fatal(err)
		}
		for index := uint64(1); index <= uint64(1+rng.IntN(30)); index++ {
			sizes := []int{0, rng.IntN(200), rng.IntN(20000), rng.IntN(100)}
			h := format.Header{Kind: Events, Bodies: uint32(sizes[rng.IntN(4)]), Records: uint32(sizes[rng.IntN(4)])}
			h.Length = uint32(format.FrameLength(int(h.Bodies), int(h.Records)))
			entry := make([]byte, h.Entry())
			for i := format.BodiesAt; i < len(entry); i++ {
				entry[i] = byte(rng.Uint32())
			}
			h.Seal(entry)
			_, own := binary.Uvarint(entry) // the library writes the length itself
			if err := errors.Join(ours.write(entry, true), theirs.Write(index, entry[own:])); err != nil {
				t.Fatal(err)
			}
			if ours.size < limit {
				continue
			}
			if err := errors.Join(ours.close(), ours.create(index+1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(ours.close(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
		a, b := dirBytes(t, dirs[0]), dirBytes(t, dirs[1])
		if len(a) != len(b) {
			t.Fatalf("limit %d: %d files, %d files", limit, len(a), len(b))
		}
		for name := range a {
			if a[name] != b[name] {
				t.Fatalf("limit %d: %s differs", limit, name)
			}
		}
	}
}

// TestModes: only the owner can read a data directory.
func TestModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		s, err := Open(t.Context(), dir, goldenOptions(disk.OS{}))
		if err != nil {
			t.Fatal(err)
		}
		writeGolden(t, s)
	}
	files := dirBytes(t, dir)
	if len(files) < 8 {
		t.Fatalf("%d files", len(files))
	}
	for name, p := range files {
		if p[:10] != "-rw-------" {
			t.Errorf("%s has mode %s", name, p[:10])
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, _ := d.Info(); d.IsDir() && path != dir && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeGolden(t *testing.T, s Store) {
	t.Helper()
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := p.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := writer.(ManualWriter)
	for i := range 3 {
		b := w.Batch()
		for k := range i + 1 {
			m := &event.MessageEnqueued{
				Envelope: event.Envelope{Slice: event.Slice{Entity: 3, Partition: 2}, Origin: 1}, Sequence: event.SequenceNumber(10*i + k),
				MessageID: []byte("id"), EnqueuedAt: 1_600_000_000_000, Body: event.Blob{Data: bytes.Repeat([]byte{byte('a' + k)}, 20*i+3)},
			}
			b.AppendRecord(event.Time(1_600_000_000_000+i*1000+k), []event.Event{m}, Durability(i%2))
		}
		w.Append(b)
		for w.Work() {
		}
	}
	w.Tick()
	w.Tick()
	for w.Work() {
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
