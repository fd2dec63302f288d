package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// shown is a frame as a reader was shown it.
type shown struct {
	lsn     event.LSN
	records string
}

// frames reads a log to its end.
func frames(p log.Partition) (list []shown, err error) {
	for f, err := range p.Read(ctx, 0) {
		if err != nil {
			return list, err
		}
		list = append(list, shown{f.LSN, string(f.Records)})
	}
	return list, nil
}

// beside opens a shared reader.
func (w *world) beside(fsys disk.FS) (log.Partition, error) {
	opts := w.opts
	opts.FS, opts.BootID, opts.Shared = fsys, fmt.Sprint("boot-", w.boot), true
	s, err := log.Open(ctx, simDir, opts)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, 0)
}

// keeps checks that everything a reader was shown is in the log that a start finds, whatever
// happens to the machine.
func (w *world) keeps(seen []shown) {
	w.t.Helper()
	for v := range 4 {
		left := *w
		left.rng = rand.New(rand.NewPCG(uint64(v), 9))
		left.fs = w.fs.Clone()
		if v > 0 {
			left.fs = left.fs.Crash(left.rng, faultfs.PowerLoss)
			left.boot++
		}
		left.opts.FS, left.opts.BootID = left.fs, fmt.Sprint("boot-", left.boot)
		s, err := log.Open(ctx, simDir, left.opts)
		if err != nil {
			w.failf("recovery: %v", err)
		}
		p, err := s.Open(ctx, 0)
		if err != nil {
			w.failf("recovery: %v", err)
		}
		all, err := frames(p)
		if err != nil || len(all) < len(seen) || !slices.Equal(all[:len(seen)], seen) {
			w.failf("a reader was shown %d frames, of which variant %d of a recovery does not find all: %d, %v", len(seen), v, len(all), err)
		}
	}
}

// TestSharedShowsWhatLasts stops the machine at each call to the disk and lets a shared reader read
// the disk of that moment. The reader finds no damage, and everything it shows survives every loss
// of power that may follow. Planted bug C6.
func TestSharedShowsWhatLasts(t *testing.T) {
	t.Parallel()
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := 0
			for k := 1; ; k += step() {
				w := script.start(t, fmt.Sprintf("%s, at call %d", name, k), 1)
				w.fs.CrashAt(k)
				if err := script.run(w); err == nil {
					break
				}
				now := w.fs.Clone()
				p, err := w.beside(now)
				if errors.Is(err, fs.ErrNotExist) {
					continue // the directory is being made
				}
				if err != nil {
					w.failf("%v", err)
				}
				seen, err := frames(p)
				if err != nil {
					w.failf("%v", err)
				}
				most = max(most, len(seen))
				w.keeps(seen)
			}
			if most < 20 {
				t.Errorf("readers were shown %d frames at most", most)
			}
		})
	}
}

// between is a disk for a reader beside a broker that acts before each of the reader's calls.
type between struct {
	disk.FS
	step func(op, name string) error // an error is that of the call
}

type betweenFile struct {
	disk.File
	b    between
	name string
}

func (b between) Open(name string) (disk.File, error) {
	if err := b.step("open", name); err != nil {
		return nil, err
	}
	f, err := b.FS.Open(name)
	return betweenFile{f, b, name}, err
}

func (b between) ReadDir(name string) ([]disk.Entry, error) {
	if err := b.step("readdir", name); err != nil {
		return nil, err
	}
	return b.FS.ReadDir(name)
}

func (f betweenFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.b.step("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// wandering is a log whose retention and history depend on the seed.
func wandering(t *testing.T, seed uint64) *world {
	w := newWorld(t, fmt.Sprintf("LEDGERBUS_SEED=%d", seed), seed)
	w.opts.SegmentBytes, w.opts.ChapterBytes = 1+w.rng.IntN(4000), 1+w.rng.IntN(20000)
	w.opts.SealAfter = -1
	w.drops = 3 * (w.rng.IntN(3) - 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	return w
}

// act does something to a log that is written.
func (w *world) act() error {
	switch w.rng.IntN(14) {
	case 0, 1, 2, 3:
		w.send(1+w.rng.IntN(3), w.rng.IntN(1500), log.Durability(w.rng.IntN(2)))
	case 4, 5, 6, 7:
		w.w.Work()
	case 8, 9, 10:
		w.w.Tick()
	case 11:
		if err := w.work(); err != nil {
			return err
		}
		if w.drops < 0 { // nothing counts messages
			return w.cut()
		}
		return w.checkpoint()
	case 12:
		if w.drops < 0 {
			_, err := w.part.(log.Sealer).Seal(ctx)
			return err
		}
		return w.seal()
	case 13:
		if w.rng.IntN(4) == 0 && w.drops >= 0 {
			return errors.Join(w.stop(), w.open(), w.lead())
		}
	}
	return w.settle()
}

// cut makes the log begin with a base, and removes the files before it.
func (w *world) cut() error {
	list := w.part.Segments()
	at := list[w.rng.IntN(len(list))].First
	if _, durable := w.part.Bounds(); w.rng.IntN(2) == 0 { // else in the middle of a file
		for f, err := range w.part.Read(ctx, at) {
			if err != nil {
				return err
			}
			if at = f.LSN; w.rng.IntN(4) == 0 || f.Next >= durable {
				break
			}
		}
	}
	if base, ok := w.part.(log.Bases).Base(); at == format.FirstLSN || ok && at <= base.LSN {
		return nil
	}
	p := w.part.(log.Bases)
	err := p.SaveBase(ctx, log.BaseInfo{LSN: at}, func(out io.Writer) error {
		_, err := out.Write([]byte("what a state is made of"))
		return err
	}, func(io.Reader) error { return nil })
	if err != nil {
		return err
	}
	keep := w.rng.IntN(2) == 0
	_, err = p.DropFiles(ctx, func(first, _ event.LSN) (bool, []log.KeptBody) { return keep && first > at/2, nil })
	if errors.Is(err, log.ErrTooLittle) {
		return nil
	}
	return err
}

// TestSharedWhileWritten makes a broker write, begin files and chapters, seal, drop bodies, make
// bases, remove files, save checkpoints, write its progress, and stop and start again, between any
// two calls of a shared reader. The reader finds no damage, reports everything it leaves out, and
// what it shows lasts.
func TestSharedWhileWritten(t *testing.T) {
	t.Parallel()
	read, changed, gone := 0, 0, 0
	one := func(seed uint64) {
		w := wandering(t, seed)
		acts := 0 // that are still to come while the reader looks
		eyes := between{w.fs, func(string, string) error {
			if acts > 0 && w.rng.IntN(3) == 0 {
				acts--
				if err := w.act(); err != nil {
					w.failf("%v", err)
				}
			}
			return nil
		}}
		var seen []shown
		for range 10 {
			acts = w.rng.IntN(40)
			p, err := w.beside(eyes)
			var shown []shown
			if err == nil {
				shown, err = readWhole(p)
				if first, end := p.Bounds(); first > end {
					w.failf("a log begins at LSN %d and ends at %d", first, end)
				}
			}
			acts = 0
			if len(shown) > len(seen) {
				seen = shown
			}
			switch {
			case err == nil:
				read++
			case errors.Is(err, log.ErrGone):
				gone++
			case errors.Is(err, log.ErrChanged):
				changed++
			default:
				w.failf("%v", err)
			}
		}
		if w.drops >= 0 { // else a part of it is gone by now
			w.keeps(seen)
		}
	}
	one(1795787147713630174) // the log begins, with a base, after everything that the reader wanted
	seeds(t, 300, one)
	if t.Logf("%d times a log was read to its end; %d times it changed hands meanwhile, and %d times what was to be read was removed", read, changed, gone); read == 0 || gone == 0 {
		t.Error("too little happened")
	}
}

// readWhole reads a log from its first frame to its end. None may be missing in between.
func readWhole(p log.Partition) (list []shown, err error) {
	first, end := p.Bounds()
	next := first
	for f, err := range p.Read(ctx, first) {
		if err != nil {
			return list, err
		}
		if f.LSN != next {
			return list, fmt.Errorf("a frame at LSN %d follows LSN %d", f.LSN, next)
		}
		next = f.Next
		list = append(list, shown{f.LSN, string(f.Records)})
	}
	if next != end && len(list) > 0 {
		return list, fmt.Errorf("the log ends at LSN %d, and was read up to %d", end, next)
	}
	return list, nil
}

// A file that is gone is looked for where the manifest says then; one that is gone and stays where
// it was is damage.
func TestSharedFileIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	if err := errors.Join(w.life(), w.work()); err != nil {
		t.Fatal(err)
	}
	w.w.Tick()
	manifest := filepath.Join(simDir, format.PartitionDir(0), "manifest")
	moves := 0
	move := func() {
		p, err := w.fs.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		tag := format.TagOf(p)
		m, err := format.DecodeManifest(p, 0, tag)
		if err != nil {
			t.Fatal(err)
		}
		m.Generation++
		moves++
		if err := w.fs.WriteFile(manifest, m.Encode(0, tag)); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[string]bool{}
	forget := func() { clear(gone) }
	eyes := hiding{between{w.fs, func(op, name string) error {
		if op != "open" || !strings.Contains(name, "/wal/") || gone[name] {
			return nil
		}
		gone[name] = true
		move()
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}}, gone}
	p, err := w.beside(eyes)
	if err != nil {
		t.Fatal(err)
	}
	before := moves
	forget()
	seen, err := frames(p)
	if err != nil || len(seen) < 10 || before == 0 || moves == before {
		t.Fatalf("%d frames, %v, files moved %d and then %d times", len(seen), err, before, moves-before)
	}
	w.keeps(seen)
	if err := w.fs.RemoveAll(filepath.Join(simDir, format.PartitionDir(0), "wal", format.ChapterName(1))); err != nil {
		t.Fatal(err)
	}
	var c *log.CorruptError
	if _, err := w.beside(w.fs); !errors.As(err, &c) || !strings.Contains(c.Reason, "chapter is missing") {
		t.Errorf(`%v; want errors.As(err, &c) && strings.Contains(c.Reason, "chapter is missing")`, err)
	}
}

// hiding is a disk on which files are gone until their names are known.
type hiding struct {
	between
	known map[string]bool
}

func (h hiding) Stat(name string) (disk.Entry, error) {
	return disk.Entry{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// What was opened as one log is not read on as another.
func TestSharedChanges(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*world, log.Partition) {
		w := newWorld(t, t.Name(), 4)
		if err := errors.Join(w.life(), w.work()); err != nil {
			t.Fatal(err)
		}
		w.w.Tick()
		p, err := w.beside(w.fs)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := frames(p); err != nil {
			t.Fatal(err)
		}
		return w, p
	}
	for name, c := range map[string]struct {
		change func(*world) error
		says   string
	}{
		"another run of the broker began": {func(w *world) error {
			return errors.Join(w.stop(), w.open(), w.lead(), w.life2after())
		}, "another run of the broker began: epoch 2, was 1"},
		"another directory": {func(w *world) error {
			ns := format.Namespace{ID: "00000000-0000-4000-8000-000000000001", Format: 2, Partitions: 1}
			return w.fs.WriteFile(simDir+"/namespace.json", format.EncodeNamespace(ns))
		}, "it belongs to another namespace"},
		"no directory any more": {func(w *world) error { return w.fs.RemoveAll(simDir + "/namespace.json") }, "namespace.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := start(t)
			if err := c.change(w); err != nil {
				t.Fatal(err)
			}
			if _, err := frames(p); !errors.Is(err, log.ErrChanged) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	t.Run("a foreign note", func(t *testing.T) {
		t.Parallel()
		w, _ := start(t)
		note := format.Progress.Encode(0, 0xbad, format.Mark{LSN: 8})
		if err := w.fs.WriteFile(filepath.Join(simDir, format.PartitionDir(0), "progress"), note); err != nil {
			t.Fatal(err)
		}
		if _, err := w.beside(w.fs); err == nil || !strings.Contains(err.Error(), "belongs to another namespace") {
			t.Errorf(`%v; want err != nil && strings.Contains(err.Error(), "belongs to another namespace")`, err)
		}
	})
}

// life2after writes a little, and the progress note.
func (w *world) life2after() error {
	w.send(1, 1, log.Durable)
	err := w.work()
	w.w.Tick()
	return err
}

// A note that is being written over while it is read is read again; one that is damaged is damage.
func TestSharedTornNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 5)
	if err := errors.Join(w.life(), w.work()); err != nil {
		t.Fatal(err)
	}
	w.w.Tick()
	note := filepath.Join(simDir, format.PartitionDir(0), "progress")
	good, err := w.fs.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	tear := func(times int) func(op, name string) error {
		return func(op, name string) error {
			if filepath.Base(name) != "progress" || op != "open" {
				return nil
			}
			p := bytes.Clone(good)
			if torn++; torn < times {
				p[20] ^= byte(torn)
			}
			return w.fs.WriteFile(name, p)
		}
	}
	p, err := w.beside(between{w.fs, tear(5)})
	if err != nil || torn < 5 {
		t.Fatalf("%v after %d readings", err, torn)
	}
	if seen, err := frames(p); err != nil || len(seen) < 10 {
		t.Errorf("%d frames, %v", len(seen), err)
	}
	if err := w.fs.Flip(note, 20, 1); err != nil {
		t.Fatal(err)
	}
	var c *log.CorruptError
	if _, err := w.beside(w.fs); !errors.As(err, &c) || filepath.Base(c.File) != "progress" {
		t.Errorf(`%v; want errors.As(err, &c) && filepath.Base(c.File) == "progress"`, err)
	}
}
