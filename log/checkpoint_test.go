package log_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

func checkpointFile(at event.LSN) string {
	return fmt.Sprintf("%s/partitions/00/checkpoints/%020d.ckpt", simDir, at)
}

// sealHead makes a changed checkpoint header whole again.
func sealHead(p []byte) { binary.LittleEndian.PutUint32(p[32:], event.Sum(p[:32])) }

// F6: a checkpoint that is whole, but not of this log, is not used, and said so: the state in it would be that of other messages.
func TestForeignCheckpoints(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	own := w.part.Checkpoints()[0].LSN
	_, end := w.part.Bounds()
	var other event.LSN // where another frame begins, and its chain
	var chain [4]byte
	for f, err := range w.part.Read(ctx, own+1) {
		if err != nil {
			t.Fatal(err)
		}
		other = f.LSN
		break
	}
	name := ""
	for _, s := range w.part.Segments() {
		if s.First <= other && other < s.End {
			name = simDir + "/" + s.File
			p, err := w.fs.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			copy(chain[:], p[other-s.First+8+64:])
		}
	}
	file, err := w.fs.ReadFile(checkpointFile(own))
	if err != nil || other == 0 || name == "" {
		t.Fatal(err, other, name)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	put64 := func(p []byte, at event.LSN) { binary.LittleEndian.PutUint64(p, uint64(at)) }
	for _, c := range []struct {
		what string
		edit func(head []byte)
		at   event.LSN // in its name
		good bool
	}{
		{"its own", func([]byte) {}, own, true},
		{"of another place of this log", func(p []byte) { put64(p[16:], other); copy(p[12:], chain[:]) }, other, true}, // it cannot be told
		{"of a newer format", func(p []byte) { p[4]++ }, own, false},
		{"of another partition", func(p []byte) { p[6]++ }, own, false},
		{"of another namespace", func(p []byte) { p[8] ^= 1 }, own, false},
		{"of another log", func(p []byte) { p[12] ^= 1 }, own, false},
		{"of another log, at another place", func(p []byte) { put64(p[16:], other) }, other, false},
		{"under the name of another place", func([]byte) {}, other, false},
		{"before the log", func(p []byte) { put64(p[16:], 0); copy(p[12:], []byte{0, 0, 0, 0}) }, 0, false},
		{"within a frame", func(p []byte) { put64(p[16:], own+8) }, own + 8, false},
		{"within a frame, without a chain", func(p []byte) { put64(p[16:], own+8); copy(p[12:], []byte{0, 0, 0, 0}) }, own + 8, false},
		{"behind the end", func(p []byte) { put64(p[16:], end+8) }, end + 8, false},
		{"behind the end, without a chain", func(p []byte) { put64(p[16:], end+8); copy(p[12:], []byte{0, 0, 0, 0}) }, end + 8, false},
		{"in a file with something behind its header's end", func(p []byte) { p[36] = 1 }, own, false},
	} {
		w.on(w.fs, func(w *world) {
			p := bytes.Clone(file)
			c.edit(p)
			sealHead(p)
			if err := w.fs.Remove(checkpointFile(own)); err != nil {
				t.Fatal(err)
			}
			w.fs.WriteFile(checkpointFile(c.at), p)
			w.opts.FS = w.fs
			s, err := log.Open(ctx, simDir, w.opts)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			defer s.Close()
			part, err := s.Open(ctx, 0)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			used, not := len(part.Checkpoints()), part.Recovery().Discarded
			if c.good != (used == 1) || c.good != (len(not) == 0) {
				t.Errorf("a checkpoint %s: used %v, discarded %v", c.what, part.Checkpoints(), not)
			}
			for _, d := range not {
				if !strings.HasSuffix(checkpointFile(c.at), d.File) {
					t.Errorf("a checkpoint %s: %s was discarded", c.what, d.File)
				}
			}
		})
	}
}

// F6: what is opened is what was looked at when the log was: another good checkpoint in its place is not.
func TestReplacedCheckpoint(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	at := w.part.Checkpoints()[0].LSN
	before, err := w.fs.ReadFile(checkpointFile(at))
	if err == nil {
		err = w.lead()
	}
	if err == nil {
		err = w.part.SaveCheckpoint(at, func(out io.Writer) error { _, err := out.Write([]byte("another state")); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
	w.fs.WriteFile(checkpointFile(at), before)
	if r, err := w.part.OpenCheckpoint(at); !errors.Is(err, log.ErrChecksum) {
		t.Errorf("the checkpoint that was there before is opened: %v %v", r, err)
	}
}

// A checkpoint says in whose reign its last frame was written, also one that ends where the next reign begins.
func TestEpochOfCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	w.send(3, 10, log.Durable)
	if err := w.work(); err != nil {
		t.Fatal(err)
	}
	_, at := w.part.Bounds()
	if err := errors.Join(w.stop(), w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	w.send(3, 10, log.Durable)
	if err := w.work(); err != nil {
		t.Fatal(err)
	}
	_, end := w.part.Bounds()
	for _, lsn := range []event.LSN{at, end} {
		if err := w.part.SaveCheckpoint(lsn, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	list := w.part.Checkpoints()
	if len(list) != 2 || list[0].Epoch != 2 || list[1].Epoch != 1 {
		t.Errorf("%+v", list)
	}
}

// A checkpoint that was saved is there after a power loss, whole: those before it may be gone by then.
func TestCheckpointSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(t, fmt.Sprint("seed ", seed), seed)
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		w.send(3, 100, log.Durable)
		if err := errors.Join(w.work(), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
		want := w.part.Checkpoints()
		w.rng = rand.New(rand.NewPCG(seed, 9))
		w.crash(faultfs.PowerLoss)
		w.boot++
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		if got := w.part.Checkpoints(); len(got) != 1 || got[0] != want[0] {
			w.failf("%+v is left of %+v: %v", got, want, w.part.Recovery().Discarded)
		}
	}
}
