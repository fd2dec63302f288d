package log_test

import (
	"bytes"
	"errors"
	"fmt"
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
	s, err := w.follow(fsys)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, 0)
}

// keeps checks that what a reader was shown is in the log that a start finds, whatever becomes of the machine.
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

// TestSharedShowsWhatLasts stops the machine at each call to the disk and has a shared reader look at it as it is then: it finds no damage, and
// what it shows is there after every loss of power that may follow. Planted bug C6.
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

// between is a disk as a reader sees it beside a broker that does something before each of the reader's calls.
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

// TestSharedWhileWritten has a broker write, sync, begin files and chapters, note its progress, and stop and start again, between any two calls of
// a shared reader.
func TestSharedWhileWritten(t *testing.T) {
	t.Parallel()
	read, changed := 0, 0
	seeds(t, 300, func(seed uint64) {
		w := newWorld(t, fmt.Sprintf("LEDGERBUS_SEED=%d", seed), seed)
		w.opts.SegmentBytes, w.opts.ChapterBytes = 1+w.rng.IntN(3000), 1+w.rng.IntN(9000)
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		act := func() {
			w.send(1+w.rng.IntN(2), w.rng.IntN(900), log.Durability(w.rng.IntN(2)))
			for range w.rng.IntN(4) {
				w.w.Work()
			}
			if w.rng.IntN(3) == 0 {
				w.w.Tick()
			}
			if w.rng.IntN(300) == 0 {
				if err := errors.Join(w.stop(), w.open(), w.lead()); err != nil {
					w.failf("%v", err)
				}
			}
		}
		for range 20 {
			act()
		}
		p, err := w.beside(between{w.fs, func(string, string) error {
			if w.rng.IntN(3) == 0 {
				act()
			}
			return nil
		}})
		var seen []shown
		if err == nil {
			seen, err = frames(p)
		}
		if err != nil && !errors.Is(err, log.ErrChanged) {
			w.failf("%v", err)
		}
		if errors.Is(err, log.ErrChanged) {
			changed++
		} else {
			read++
		}
		w.keeps(seen)
	})
	if t.Logf("%d logs were read, %d changed hands meanwhile", read, changed); read == 0 {
		t.Error("no log was read to its end")
	}
}

// A file that is gone is looked for where the manifest says then; one that is gone and stays where it was is damage.
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
		"a broker was started": {func(w *world) error {
			return errors.Join(w.stop(), w.open(), w.lead(), w.life2after())
		}, "a broker was started on it: epoch 2, was 1"},
		"another directory": {func(w *world) error {
			ns := format.Namespace{ID: "00000000-0000-4000-8000-000000000001", Format: 2, Partitions: 1}
			return w.fs.WriteFile(simDir+"/namespace.json", format.EncodeNamespace(ns))
		}, "it is that of another namespace"},
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
