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

// foreignCheckpoint is a checkpoint of a log, changed, under the name of a place.
type foreignCheckpoint struct {
	what string
	edit func(head []byte)
	at   event.LSN // in its name
	good bool
}

// foreignCheckpoints are made of the checkpoint at own. Another frame begins at other, with the
// chain given, and the log ends at end.
func foreignCheckpoints(own, other, end event.LSN, chain [4]byte) []foreignCheckpoint {
	put64 := func(p []byte, at event.LSN) { binary.LittleEndian.PutUint64(p, uint64(at)) }
	return []foreignCheckpoint{
		{"its own", func([]byte) {}, own, true},
		// it cannot be told from a good one
		{"of another place of this log", func(p []byte) { put64(p[16:], other); copy(p[12:], chain[:]) }, other, true},
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
	}
}

// otherFrame returns where a frame begins after the first one at own, and its chain.
func otherFrame(t *testing.T, w *world, own event.LSN) (other event.LSN, chain [4]byte) {
	t.Helper()
	for f, err := range w.part.Read(ctx, own+1) {
		if err != nil {
			t.Fatal(err)
		}
		other = f.LSN
		break
	}
	for _, s := range w.part.Segments() {
		if s.First <= other && other < s.End {
			p, err := w.fs.ReadFile(simDir + "/" + s.File)
			if err != nil {
				t.Fatal(err)
			}
			copy(chain[:], p[other-s.First+8+64:])
			return other, chain
		}
	}
	t.Fatalf("no segment holds a frame behind %d", own)
	return 0, chain
}

// F6: a checkpoint that is whole, but not of this log, is not used, and is reported: the state in
// it would be that of other messages.
func TestForeignCheckpoints(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	own := w.part.Checkpoints()[0].LSN
	_, end := w.part.Bounds()
	other, chain := otherFrame(t, w, own)
	file, err := w.fs.ReadFile(checkpointFile(own))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range foreignCheckpoints(own, other, end, chain) {
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

// F6: the checkpoint that is opened is the one that was looked at when the log was opened: another
// good one in its place is refused.
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

// A checkpoint has the epoch in which its last frame was written, even one that ends where the next
// epoch begins.
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
		t.Errorf("%+v; want len(list) == 2 && list[0].Epoch == 2 && list[1].Epoch == 1", list)
	}
}

// A checkpoint that was saved is there after a power loss, whole: those before it may be gone by
// then.
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

// F7: a partition is refused for a note that is whole but says how far another log went, and for a
// chapter that nothing names.
func TestForeignNotes(t *testing.T) {
	t.Parallel()
	unclean, _ := quiet(t, -1)
	clean := newWorld(t, t.Name(), 8)
	if err := errors.Join(clean.life(), clean.stop()); err != nil {
		t.Fatal(err)
	}
	const progress, marker = simDir + "/partitions/00/progress", simDir + "/clean"
	add := func(at int, n uint64) func([]byte) {
		return func(p []byte) { binary.LittleEndian.PutUint64(p[at:], binary.LittleEndian.Uint64(p[at:])+n) }
	}
	flip := func(at int) func([]byte) { return func(p []byte) { p[at] ^= 1 } }
	for _, c := range []struct {
		what string
		of   *world
		file string
		edit []func(p []byte)
		good bool
	}{
		{"its own progress", unclean, progress, nil, true},
		{"progress with another chain", unclean, progress, []func([]byte){flip(32)}, false},
		{"progress within a frame", unclean, progress, []func([]byte){add(16, 0xffff_ffff_ffff_fff8)}, false},
		{"progress within a frame, without a chain", unclean, progress,
			[]func([]byte){add(16, 0xffff_ffff_ffff_fff8), func(p []byte) { clear(p[32:36]) }}, false},
		{"progress behind the end", unclean, progress, []func([]byte){add(16, 1<<20)}, false},
		{"progress of another partition", unclean, progress, []func([]byte){flip(6)}, false},
		{"progress of another namespace", unclean, progress, []func([]byte){flip(8)}, false},
		{"its own marker", clean, marker, nil, true},
		{"a marker of another partition", clean, marker, []func([]byte){flip(16)}, false},
		{"a marker with another chain", clean, marker, []func([]byte){flip(20)}, false},
		{"a marker of another place", clean, marker, []func([]byte){add(24, 8)}, false},
		{"a marker of another epoch", clean, marker, []func([]byte){add(32, 1)}, false},
	} {
		c.of.on(c.of.fs, func(w *world) {
			p, err := w.fs.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			for _, edit := range c.edit {
				edit(p)
			}
			binary.LittleEndian.PutUint32(p[len(p)-4:], event.Sum(p[:len(p)-4]))
			w.fs.WriteFile(c.file, p)
			if !c.good {
				w.refused(c.what)
			} else if err := w.open(); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		})
	}
	unclean.on(unclean.fs, func(w *world) {
		files := w.segments()
		p, _ := w.fs.ReadFile(files[len(files)-1])
		next := fmt.Sprintf("%s/%010d", walDir, 77)
		if err := w.fs.Mkdir(next); err != nil {
			t.Fatal(err)
		}
		w.fs.WriteFile(fmt.Sprintf("%s/%020d", next, 1), p)
		w.refused("a chapter that is not in the manifest")
	})
}

// P24: the clean marker covers all partitions or is not written: a partition that was not led after
// a crash was not repaired.
func TestNoCleanMarkerForAnUncleanPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 5)
	w.opts.Partitions, w.opts.FS = 2, w.fs
	for _, led := range [][]log.PartitionID{{0, 1}, {0}, {0, 1}} {
		s, err := log.Open(ctx, simDir, w.opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range led {
			p, err := s.Open(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			writer, err := p.Lead(ctx)
			if err != nil {
				t.Fatal(err)
			}
			b := writer.Batch()
			b.AppendRecord(1, []event.Event{message(1, 100)}, log.Durable)
			writer.Append(b)
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = w.fs.ReadFile(simDir + "/clean")
		if is := err == nil; is != (len(led) == 2) {
			t.Errorf("led %v: clean marker %v", led, is)
		}
		w.fs.RemoveAll(simDir + "/clean") // as if the run had not stopped cleanly
	}
}

// TestF6Checkpoints (SM-371): damaged, foreign or future checkpoints are discarded and reported,
// never used, never fatal.
func TestF6Checkpoints(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	var name string
	for _, f := range w.fs.Files(simDir + "/partitions/00/checkpoints") {
		name = f
	}
	p, err := w.fs.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for off := 0; off < len(p); off += step() {
		for _, cut := range []bool{false, true} {
			w.on(w.fs, func(w *world) {
				if cut {
					w.fs.TruncateFile(name, int64(off))
				} else {
					w.fs.Flip(name, int64(off), 0x10)
				}
				err := w.open() // reads the state of all it lists
				if err == nil && len(w.part.Checkpoints()) > 0 || err != nil && !errors.Is(err, log.ErrChecksum) {
					w.failf("byte %d, cut %v: %v", off, cut, err)
				}
				if err == nil && len(w.part.Recovery().Discarded) != 1 {
					w.failf("byte %d, cut %v: not reported", off, cut)
				}
			})
		}
	}
	// From a longer log: the checkpoint is ahead.
	w.on(w.fs, func(w *world) {
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		w.send(3, 100, log.Durable)
		if err := errors.Join(w.work(), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
		list := w.part.Checkpoints()
		if len(list) != 2 || list[0].LSN < list[1].LSN {
			t.Fatalf("checkpoints %+v", list)
		}
		future := simDir + "/" + list[0].File
		p, _ := w.fs.ReadFile(future)
		old, _ := quiet(t, -1)
		old.fs.WriteFile(future, p)
		if err := old.open(); err != nil || len(old.part.Checkpoints()) != 1 || len(old.part.Recovery().Discarded) != 1 {
			t.Fatalf("%+v %+v; want len(old.part.Checkpoints()) == 1 && len(old.part.Recovery().Discarded) == 1", err, old.part.Recovery().Discarded)
		}
	})
}

// TestSaveCheckpoint: only at a frame boundary that is durable; the newest two stay.
func TestSaveCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	nothing := func(io.Writer) error { return nil }
	for range 3 {
		w.send(1, 10, log.Durable)
		if err := errors.Join(w.work(), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.part.Checkpoints()); n != 2 {
		t.Fatalf("%d checkpoints", n)
	}
	at := w.part.Checkpoints()[0].LSN
	for _, bad := range []event.LSN{0, 1, 16, at - 8, at + 8, 1 << 40} {
		if err := w.part.SaveCheckpoint(bad, nothing); err == nil {
			t.Fatalf("checkpoint at %d of %d", bad, at)
		}
	}
	w.send(1, 10, log.Ordered)
	w.w.Work()
	if err := w.part.SaveCheckpoint(w.wait[0].End(), nothing); err == nil {
		t.Fatal("checkpoint of what is not durable")
	}
	boom := errors.New("boom")
	if err := w.part.SaveCheckpoint(at, func(io.Writer) error { return boom }); !errors.Is(err, boom) {
		t.Fatalf("%+v; want errors.Is(err, boom)", err)
	}
	if err := errors.Join(w.stop(), w.open()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.part.Checkpoints()); n != 2 {
		t.Fatalf("%d checkpoints after restart", n)
	}
}
