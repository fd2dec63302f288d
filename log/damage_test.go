package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

const walDir = simDir + "/partitions/00/wal/"

// quiet returns a log after a second without traffic and a power failure. The written bytes show
// that everything up to the last Skip frame is durable. It returns the world and the LSN of that
// frame.
func quiet(t testing.TB, room int) (*world, event.LSN) {
	w := newWorld(t, t.Name(), 7)
	w.opts.RoomBytes = room
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.send(1, 300, log.Durable)
	}
	for range 2 {
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.w.Tick()
	}
	if err := w.work(); err != nil {
		t.Fatal(err)
	}
	skip := w.lastFrame()
	if skip.Kind != log.Skip || skip.DurableUpTo != skip.LSN {
		t.Fatalf("last frame is %+v", skip)
	}
	w.crash(faultfs.Kill)
	w.boot++
	w.safe = 0
	return w, skip.LSN
}

func (w *world) lastFrame() (last log.Frame) {
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		last = f
	}
	return last
}

// segments lists the segment files, with the bytes they hold.
func (w *world) segments() []string {
	var list []string
	for _, f := range w.fs.Files(walDir) {
		if p, _ := w.fs.ReadFile(f); len(p) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// on runs f on a copy of the disk.
func (w *world) on(fs *faultfs.FS, f func(*world)) {
	c := *w
	c.fs, c.sent = fs.Clone(), append([]uint64(nil), w.sent...)
	f(&c)
}

func (w *world) refused(what string) *log.CorruptError {
	w.t.Helper()
	before := map[string]string{}
	for _, f := range w.fs.Files(simDir) {
		p, _ := w.fs.ReadFile(f)
		before[f] = string(p)
	}
	err := w.open()
	var c *log.CorruptError
	if !errors.As(err, &c) {
		w.failf("%s: opened with %v, want a refusal", what, err)
	}
	for _, f := range w.fs.Files(simDir) {
		if p, _ := w.fs.ReadFile(f); before[f] != string(p) {
			w.failf("%s: %s was changed", what, f)
		}
	}
	return c
}

// TestF4FlipAtEveryByte (SM-364, SM-365) damages each byte of the log. Damage in the durable part
// is refused and names the frame; the last frame, which was never acknowledged, is cut.
func TestF4FlipAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, room := range []int{-1, 1024} {
		w, skip := quiet(t, room)
		lsn := event.LSN(8)
		for _, name := range w.segments() {
			p, _ := w.fs.ReadFile(name)
			for off := 0; off < len(p); off += step() {
				w.on(w.fs, func(w *world) {
					what := fmt.Sprintf("room %d, %s byte %d", room, name, off)
					if err := w.fs.Flip(name, int64(off), 1<<(off%8)); err != nil {
						t.Fatal(err)
					}
					if at := lsn + event.LSN(off); at >= skip {
						if err := w.open(); err != nil || w.part.Recovery().CutBytes == 0 {
							w.failf("%s: %v", what, err)
						}
						return
					}
					c := w.refused(what)
					if simDir+"/"+c.File != name || c.Offset > int64(off) || c.LSN != lsn+event.LSN(c.Offset) {
						w.failf("%s: reported %v", what, c)
					}
				})
			}
			lsn += event.LSN(len(p))
		}
		if end := skip + 96; room > 0 && lsn <= end {
			w.failf("no room behind %d", end)
		}
	}
}

// TestF3TornAtEveryByte (SM-364) cuts the last segment at each byte, and the whole log at each
// file.
func TestF3TornAtEveryByte(t *testing.T) {
	t.Parallel()
	w, skip := quiet(t, -1)
	files := w.segments()
	name := files[len(files)-1]
	p, _ := w.fs.ReadFile(name)
	base := int(skip) + 96 - len(p)
	for size := 0; size < len(p); size += step() {
		for _, tail := range []string{"", strings.Repeat("\x00", len(p)-size), strings.Repeat("\x5a", len(p)-size)} {
			w.on(w.fs, func(w *world) {
				what := fmt.Sprintf("cut at %d, then %d bytes of %.1q", size, len(tail), tail)
				w.fs.WriteFile(name, append(bytes.Clone(p[:size]), tail...))
				if data, _ := w.fs.ReadFile(name); base+len(data) >= int(skip) && bytes.Equal(data[:int(skip)-base], p[:int(skip)-base]) {
					if err := w.open(); err != nil {
						w.failf("%s: %v", what, err)
					}
					return
				}
				w.refused(what)
			})
		}
	}
}

// Without Skip and progress the frames of the last sync may be lost, but never one that a later
// frame vouches for.
func TestF3TornWithoutNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	w.opts.SegmentBytes, w.opts.ChapterBytes, w.opts.RoomBytes = 1<<20, 1<<20, -1
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	var sure []event.LSN // per message, where its successor says it is durable
	for range 5 {
		w.send(1, 200, log.Durable)
		sure = append(sure, w.wait[0].End())
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
	}
	w.crash(faultfs.Kill)
	w.boot++
	w.safe = 0
	name := w.segments()[0]
	p, _ := w.fs.ReadFile(name)
	for off := range p {
		w.on(w.fs, func(w *world) {
			w.fs.Flip(name, int64(off), 0xff)
			what := fmt.Sprintf("byte %d", off)
			if event.LSN(off)+8 < sure[3] {
				w.refused(what)
				return
			}
			w.acked = 4
			if err := w.open(); err != nil || len(w.sent) != 4 {
				w.failf("%s: %v, %d messages", what, err, len(w.sent))
			}
		})
	}
}

// TestSameBoot: if only the process died, nothing but a short frame is accepted at the end.
func TestSameBoot(t *testing.T) {
	t.Parallel()
	w, skip := quiet(t, -1)
	w.boot-- // no reboot
	files := w.segments()
	name := files[len(files)-1]
	p, _ := w.fs.ReadFile(name)
	at := len(p) - 96
	for off := at; off < len(p); off++ {
		w.on(w.fs, func(w *world) {
			w.fs.Flip(name, int64(off), 4)
			w.refused(fmt.Sprintf("LSN %d byte %d", skip, off))
		})
		w.on(w.fs, func(w *world) {
			w.fs.TruncateFile(name, int64(off))
			if err := w.open(); err != nil {
				w.failf("short by %d: %v", len(p)-off, err)
			}
		})
		if off > at+15 { // from the magic on a prefix that is not ours is noticed
			w.on(w.fs, func(w *world) {
				w.fs.WriteFile(name, append(bytes.Clone(p[:at]), make([]byte, off-at)...))
				w.refused(fmt.Sprintf("%d zeroes", off-at))
			})
		}
	}
}

// TestF7Files: files that are missing, empty, doubled, swapped, renamed or foreign are refused.
func TestF7Files(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	files := w.segments()
	other := newWorld(t, "other", 9)
	other.opts.NamespaceID = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
	if err := other.life(); err != nil {
		t.Fatal(err)
	}
	for i, name := range files {
		try := func(what string, damage func(*world)) {
			w.on(w.fs, func(w *world) {
				damage(w)
				w.refused(what + " " + name)
			})
		}
		try("missing", func(w *world) { w.fs.RemoveAll(name) })
		try("empty", func(w *world) { w.fs.WriteFile(name, nil) })
		try("renamed", func(w *world) {
			w.fs.Swap(name, name) // exists
			p, _ := w.fs.ReadFile(name)
			w.fs.RemoveAll(name)
			w.fs.WriteFile(filepath.Join(filepath.Dir(name), fmt.Sprintf("%020d", 77+i)), p)
		})
		try("doubled", func(w *world) {
			p, _ := w.fs.ReadFile(name)
			w.fs.WriteFile(filepath.Join(filepath.Dir(name), fmt.Sprintf("%020d", 1000)), p)
		})
		if i > 0 {
			try("swapped", func(w *world) { w.fs.Swap(name, files[i-1]) })
			try("chapter swapped", func(w *world) {
				if filepath.Dir(name) == filepath.Dir(files[i-1]) {
					w.fs.RemoveAll(name)
				} else {
					w.fs.Swap(filepath.Dir(name), filepath.Dir(files[i-1]))
				}
			})
		}
		try("foreign", func(w *world) {
			p, err := other.fs.ReadFile(name)
			if err != nil {
				p, _ = other.fs.ReadFile(other.segments()[0])
			}
			w.fs.WriteFile(name, p)
		})
		try("chapter missing", func(w *world) { w.fs.RemoveAll(filepath.Dir(name)) })
		try("stranger", func(w *world) { w.fs.WriteFile(filepath.Join(filepath.Dir(name), "notes.txt"), nil) })
	}
	// A leftover temp file is ignored, then removed.
	temp := files[0] + ".tmp"
	w.fs.WriteFile(temp, []byte("half"))
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.ReadFile(temp); err == nil {
		t.Fatal("temp file was not removed")
	}
}

// TestNotes flips each byte of the small files of a clean and an unclean directory: they are
// refused or do not matter, and messages are never wrong.
func TestNotes(t *testing.T) {
	t.Parallel()
	unclean, _ := quiet(t, -1)
	clean := newWorld(t, t.Name(), 8)
	if err := errors.Join(clean.life(), clean.stop()); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*world{unclean, clean} {
		for _, name := range []string{"namespace.json", "clean", "partitions/00/manifest", "partitions/00/progress"} {
			p, err := w.fs.ReadFile(simDir + "/" + name)
			if err != nil {
				continue
			}
			for off := range p {
				w.on(w.fs, func(c *world) {
					c.fs.Flip(simDir+"/"+name, int64(off), 1<<(off%7))
					if name == "partitions/00/progress" && w == clean {
						if err := c.open(); err != nil || len(c.part.Recovery().Discarded) != 1 {
							c.failf("%s byte %d: %v", name, off, err)
						}
						return
					}
					if err := c.open(); err == nil {
						c.failf("%s byte %d: opened", name, off)
					}
				})
			}
			if name == "clean" || name == "partitions/00/progress" {
				continue
			}
			w.on(w.fs, func(w *world) {
				w.fs.RemoveAll(simDir + "/" + name)
				w.refused(name + " missing")
			})
		}
	}
}

// TestCleanMarker: with the marker the log must end exactly there.
func TestCleanMarker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 8)
	if err := errors.Join(w.life(), w.stop()); err != nil {
		t.Fatal(err)
	}
	marker, _ := w.fs.ReadFile(simDir + "/clean")
	w.on(w.fs, func(w *world) { // stale: the log went on
		if err := errors.Join(w.open(), w.life2()); err != nil {
			t.Fatal(err)
		}
		w.fs.WriteFile(simDir+"/clean", marker)
		w.refused("stale marker")
	})
	files := w.segments()
	p, _ := w.fs.ReadFile(files[len(files)-1])
	w.on(w.fs, func(w *world) { // one frame less
		w.fs.WriteFile(files[len(files)-1], p[:len(p)-1])
		w.refused("short log")
	})
	// also without the marker: the last progress note says how far it went
	w.on(w.fs, func(w *world) {
		w.fs.WriteFile(files[len(files)-1], p[:len(p)-1])
		w.fs.RemoveAll(simDir + "/clean")
		w.boot++
		w.refused("short log, no marker")
	})
	w.on(w.fs, func(w *world) {
		if err := w.open(); err != nil || !w.part.Recovery().Clean {
			t.Fatalf("%+v; want w.part.Recovery().Clean", err)
		}
	})
}

// TestF9FaultNote: after a failed sync whose pages are lost, and without a reboot, acknowledged
// data is served, and a log that ends before it is refused. If room was synced, the file shows it
// in place of the lost pages: then nothing is cut.
func TestF9FaultNote(t *testing.T) {
	t.Parallel()
	// none; too little for the frame that is lost; enough
	for _, room := range []int{-1, 1024, 8192} {
		w := newWorld(t, fmt.Sprintf("room %d", room), 2)
		w.opts.RoomBytes, w.opts.SegmentBytes = room, 20_000
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		w.send(2, 200, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.send(1, 1000, log.Durable)
		w.w.Work()
		w.fs.FailAt(1, faultfs.Fault{Err: errors.New("EIO"), DropPages: true}, false)
		if err := w.work(); !errors.Is(err, log.ErrPoisoned) || !errors.Is(err, log.ErrUnknown) {
			t.Fatalf("%+v; want errors.Is(err, log.ErrPoisoned) && errors.Is(err, log.ErrUnknown)", err)
		}
		w.fs.Hook(nil)
		w.crash(faultfs.Kill)
		w.afterFault(w.segments()[0], room == 8192)
	}
}

// afterFault starts on a last file after a failed sync, with two acknowledged messages.
func (w *world) afterFault(name string, blank bool) {
	w.t.Helper()
	if !blank {
		w.on(w.fs, func(w *world) {
			w.fs.RemoveAll(simDir + "/partitions/00/fault")
			w.refused("no note")
		})
	}
	w.on(w.fs, func(w *world) {
		w.fs.TruncateFile(name, 200)
		w.refused("shorter than the note")
	})
	if err := w.open(); err != nil || len(w.sent) != 2 || (w.part.Recovery().CutBytes > 0) == blank {
		w.failf("%v, %d messages, %+v", err, len(w.sent), w.part.Recovery())
	}
	cutBytes, cutFile := w.part.Recovery().CutBytes, w.part.Recovery().CutFile
	if err := w.life2(); err != nil {
		w.failf("%v", err)
	}
	if _, err := w.fs.ReadFile(simDir + "/partitions/00/fault"); err == nil {
		w.failf("note is still there")
	}
	if cut, err := w.fs.ReadFile(simDir + "/" + cutFile); !blank && (err != nil || int64(len(cut)) != cutBytes) {
		w.failf("cut bytes were not kept: %v", err)
	}
}

// TestF13InUse, on the simulated and the real disk.
func TestF13InUse(t *testing.T) {
	t.Parallel()
	for _, opts := range []log.Options{{FS: faultfs.New()}, {}} {
		dir := t.TempDir()
		s := must(log.Open(ctx, dir, opts))(t)
		if _, err := log.Open(ctx, dir, opts); !errors.Is(err, log.ErrInUse) {
			t.Fatalf("%+v; want errors.Is(err, log.ErrInUse)", err)
		}
		if _, err := log.Open(ctx, dir, log.Options{FS: opts.FS, ReadOnly: true}); !errors.Is(err, log.ErrInUse) {
			t.Fatalf("%+v; want errors.Is(err, log.ErrInUse)", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := must(log.Open(ctx, dir, opts))(t).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestP24Contained: damage of one partition does not stop another; damage of the catalogue stops
// all. A refused partition stays refused after the others ran and stopped.
func TestP24Contained(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	opts := log.Options{FS: disk, Partitions: 2, Manual: true}
	s := must(log.Open(ctx, simDir, opts))(t)
	for _, id := range s.Partitions() {
		w := must(must(s.Open(ctx, id))(t).Lead(ctx))(t)
		b := w.Batch()
		b.AppendRecord(1, []event.Event{message(1, 100)}, log.Durable)
		w.Append(b)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := [2]string{}
	for i := range names {
		names[i] = fmt.Sprintf("%s/partitions/%02d/wal/0000000001/%020d", simDir, i, 1)
	}
	for range 2 {
		opts.FS = disk
		p, _ := disk.ReadFile(names[1])
		if p[30] != 0xee {
			disk.Flip(names[1], 30, p[30]^0xee)
		}
		s = must(log.Open(ctx, simDir, opts))(t)
		_, err := s.Open(ctx, 1)
		var c *log.CorruptError
		if !errors.As(err, &c) || c.Partition != 1 {
			t.Fatalf("%+v; want errors.As(err, &c) && c.Partition == 1", err)
		}
		w := must(must(s.Open(ctx, 0))(t).Lead(ctx))(t)
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	disk.Flip(names[0], 30, 1)
	var c *log.CorruptError
	if _, err := log.Open(ctx, simDir, opts); !errors.As(err, &c) || c.Partition != 0 {
		t.Fatalf("%+v; want errors.As(err, &c) && c.Partition == 0", err)
	}
}

// What a start cuts off is never lost: wherever the power fails while it repairs, the bytes are
// still in the log's file, or in the file they are kept in.
func TestCutIsKept(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	files := w.segments()
	tail := bytes.Repeat([]byte("torn"), 50)
	name := files[len(files)-1]
	p, err := w.fs.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	w.fs.WriteFile(name, append(p, tail...))
	for k := 1; ; k++ {
		done := false
		for seed := range uint64(4) {
			w.on(w.fs, func(w *world) {
				if err := w.open(); err != nil || w.part.Recovery().CutBytes != int64(len(tail)) {
					t.Fatalf("%+v %+v; want w.part.Recovery().CutBytes == int64(len(tail))", err, w.part.Recovery().CutBytes)
				}
				kept := w.part.Recovery().CutFile
				w.fs.CrashAt(k)
				_, err := w.part.Lead(ctx)
				done = err == nil
				w.rng = rand.New(rand.NewPCG(uint64(k), seed))
				w.crash(faultfs.PowerLoss)
				here, _ := w.fs.ReadFile(name)
				there, _ := w.fs.ReadFile(simDir + "/" + kept)
				if !bytes.HasSuffix(here, tail) && !bytes.Equal(there, tail) {
					t.Errorf("power lost at call %d, variant %d: the tail is gone", k, seed)
				}
			})
		}
		if done {
			return
		}
	}
}
