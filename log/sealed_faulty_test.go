package log_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// faulty is a file system that writes a wrong byte, at one place of files that will become sealed
// files.
type faulty struct {
	disk.FS
	at int64 // negative: nowhere
}

func (f faulty) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	if err == nil && strings.HasSuffix(name, ".lbs.tmp") {
		return &faultyFile{File: file, at: f.at}, nil
	}
	return file, err
}

type faultyFile struct {
	disk.File
	at, written int64
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if at := f.at - f.written; at >= 0 && at < int64(len(p)) {
		p = bytes.Clone(p)
		p[at] ^= 1
	}
	f.written += int64(len(p))
	return f.File.Write(p)
}

// twoChapters writes a log with a body that does not compress in a first chapter, and a second one.
// It returns the second run's partition, which writes sealed files through a file system that fails
// at a place, the body, and the end of all.
func twoChapters(t *testing.T, dir string, at int64) (log.Partition, *event.MessageEnqueued, []byte, func() error) {
	t.Helper()
	body := make([]byte, 3000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	m := &event.MessageEnqueued{Sequence: 1, Body: event.Blob{Data: body}}
	for run := 0; ; run++ {
		s, err := log.Open(t.Context(), dir, log.Options{Partitions: 1, FS: faulty{disk.OS{}, at}, Manual: true, SealAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		w, err := p.Lead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if run == 1 {
			return p, m, body, func() error { return errors.Join(w.Close(), s.Close()) }
		}
		w.Batch().AppendRecord(1, []event.Event{m, &event.MessageEnqueued{Sequence: 2, Body: event.Blob{Data: make([]byte, 12_000)}}}, log.Durable)
		w.Append(w.Batch())
		for w.(log.ManualWriter).Work() {
		}
		m.Body.Data = nil
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// What is on the disk is read back before anything relies on it: wherever a wrong byte is stored in
// a sealed file, the chapter stays.
func TestSealedIsReadBack(t *testing.T) {
	t.Parallel()
	tried := 0
	for at := int64(0); ; at += 53 {
		dir := t.TempDir()
		p, m, body, end := twoChapters(t, dir, at)
		first := p.Segments()[0].File
		sealedIt, err := p.(log.Sealer).Seal(t.Context())
		now := p.Segments()[0]
		if sealedIt {
			if info, err := os.Stat(filepath.Join(dir, now.File)); err != nil || info.Size() > at || tried < 50 {
				t.Fatalf("the %d. byte is wrong, and the log begins with %s; %v", at, now.File, err)
			}
		}
		if !sealedIt && (err == nil || now.File != first) {
			t.Fatalf("the %d. byte is wrong: the log begins with %s, %v", at, now.File, err)
		}
		if got, err := p.ReadBlob(m.Body, nil); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("the %d. byte is wrong: the body is %.20q, %v", at, got, err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if sealedIt { // the file ends before the place
			return
		}
		tried++
	}
}

// The same holds for a file of bodies: wherever a wrong byte is stored in one, the chapter stays,
// and so does everything after it.
func TestFileOfBodiesIsReadBack(t *testing.T) {
	t.Parallel()
	for at := int64(0); ; at += 53 {
		dir := t.TempDir()
		p, m, body, end := twoChapters(t, dir, at)
		list := p.Segments()
		first, upTo := list[0], list[len(list)-1].First
		base := log.BaseInfo{LSN: upTo, Encoding: 1}
		err := p.(log.Bases).SaveBase(t.Context(), base, func(w io.Writer) error { _, err := w.Write([]byte("base")); return err }, func(io.Reader) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		freed, err := p.(log.Bases).DropFiles(t.Context(), func(from, _ event.LSN) (bool, []log.KeptBody) {
			if from != first.First {
				return true, nil
			}
			return false, []log.KeptBody{{Position: m.Body.Position, Size: m.Body.Size, Sum: m.Body.Sum, Number: 1}}
		})
		now := p.Segments()[0]
		info, statErr := os.Stat(filepath.Join(dir, now.File))
		if err == nil && (freed <= 0 || statErr != nil || info.Size() > at || at < 3000) {
			t.Fatalf("the %d. byte is wrong, and the log begins with %s; %v", at, now.File, statErr)
		}
		if err != nil && now.File != first.File {
			t.Fatalf("the %d. byte is wrong: the log begins with %s, %v", at, now.File, err)
		}
		if got, err := p.ReadBlob(m.Body, nil); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("the %d. byte is wrong: the body is %.20q, %v", at, got, err)
		}
		for over := false; !over; {
			var damage []log.Damage
			var err error
			if damage, over, err = p.(log.Scrubber).Scrub(t.Context()); len(damage) > 0 && damage[0].File != first.File && damage[0].LSN != upTo || err != nil {
				t.Fatalf("scrubbing finds %v, %v", damage, err)
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err == nil { // the file ends before the place
			return
		}
	}
}

// Where only the beginning of a body is wanted, only the checksum of its block can be compared:
// whatever is wrong in it, wrong bytes are never read.
func TestBlocksAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, m, body, end := twoChapters(t, dir, -1)
	if more, err := p.(log.Sealer).Seal(t.Context()); !more || err != nil {
		t.Fatalf("%+v %+v; want more", more, err)
	}
	name := filepath.Join(dir, p.Segments()[0].File)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(whole, body[:100]) // it does not compress
	if start < sealed.HeaderSize {
		t.Fatal("the body is not there")
	}
	for at := start - 10; at < start+100; at++ {
		file := bytes.Clone(whole)
		file[at] ^= 1
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 200)
		if n, err := p.ReadInto(m.Body, part); !errors.Is(err, log.ErrChecksum) {
			t.Errorf("byte %d is wrong: %d bytes are read, %v", at, n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
