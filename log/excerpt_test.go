package log

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// excerptDir is a directory that an excerpt is written to.
type excerptDir string

func (d excerptDir) MakeDir(name string) error {
	return os.Mkdir(filepath.Join(string(d), name), 0o700)
}

func (d excerptDir) Write(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Bodies far before the rest of a log are in as many files as their distances require, between
// frames in place of the missing ones, and are read at their addresses. Missing bytes are erased,
// and none of this is damage.
func TestExcerptOfFarBodies(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		x, err := NewExcerpt(excerptDir(dir), 1, []string{Moves}, time.UnixMilli(1e12))
		if err != nil {
			t.Fatal(err)
		}
		x.longest = 4096
		l := &ExcerptLog{Before: 3, Records: func(w io.Writer) error { _, err := w.Write([]byte("a state")); return err }}
		var blobs []event.Blob
		at := event.Position(104)
		for range rng.IntN(30) {
			if rng.IntN(3) > 0 { // another frame
				at = (at + 7 + 96 + event.Position(rng.IntN(3000))) &^ 7
				at += 8
			}
			p := bytes.Repeat([]byte{byte(at)}, 1+rng.IntN(500))
			blobs = append(blobs, event.Blob{Position: at, Size: uint32(len(p)), Sum: event.Sum(p)})
			l.Bodies = append(l.Bodies, ExcerptBody{Position: at, Size: uint32(len(p)), Read: func() ([]byte, error) { return p, nil }})
			at += event.Position(len(p))
		}
		from := (event.LSN(at) + 7) &^ 7
		frame := from + 104*event.LSN(rng.IntN(100))
		l.Base.LSN = frame
		l.Chapters = []Stretch{{From: from, To: frame + 10_400}}
		record := event.AppendRecord(nil, nil, 5000, []event.Event{&event.ReasonGiven{Reason: "why"}})
		l.Frames = func(_ context.Context, yield func(*ExcerptFrame) error) error {
			return yield(&ExcerptFrame{Newest: 5000, Frame: Frame{LSN: frame, Next: frame + 208, Kind: Events, Epoch: 3, Time: 5000, Count: 1, Records: record}})
		}
		if err := errors.Join(x.Log(t.Context(), l), x.Close()); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir, Options{ReadOnly: true, Thorough: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blobs {
			if _, err := p.ReadBlob(b, nil); err != nil {
				t.Errorf("seed %d: at %d: %v", seed, b.Position, err)
			}
		}
		if first, end := p.Bounds(); first != from || end != frame+10_400 {
			t.Errorf("from %d to %d, not %d to %d", first, end, from, frame+10_400)
		}
		records := 0
		for f, err := range p.Read(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind == Events {
				records++
				if f.LSN != frame || f.Next != frame+208 || !bytes.Equal(f.Records, record) {
					t.Errorf("%+v; want f.LSN == frame && f.Next == frame+208 && bytes.Equal(f.Records, record)", f)
				}
			}
		}
		if err := s.Close(); records != 1 || err != nil {
			t.Errorf("%d frames, %v", records, err)
		}
	}
}
