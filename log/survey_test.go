package log_test

import (
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

// survey lists the damaged places of partition 0.
func (w *world) survey() (places []*log.CorruptError, out log.SurveyResult) {
	w.t.Helper()
	opts := w.opts
	opts.FS, opts.BootID = w.fs, fmt.Sprint("boot-", w.boot)
	s, err := log.OpenSurvey(simDir, opts)
	if err != nil {
		w.failf("survey: %v", err)
	}
	defer s.Close()
	out, err = s.Partition(ctx, 0, func(c *log.CorruptError) error {
		places = append(places, c)
		return nil
	})
	if err != nil {
		w.failf("survey: %v", err)
	}
	return places, out
}

// agree compares a survey with recovery: no place where recovery accepts, and recovery's place
// first where it refuses. It returns the places.
func (w *world) agree(what string) []*log.CorruptError {
	w.t.Helper()
	opts := w.opts
	opts.FS, opts.BootID = w.fs.Clone(), fmt.Sprint("boot-", w.boot)
	s, err := log.Open(ctx, simDir, opts)
	if err == nil {
		err = s.Close()
	}
	var first *log.CorruptError
	if errors.As(err, &first) && (first.File == "clean" && first.LSN == 0 || first.File == "namespace.json") {
		return nil // of no partition
	}
	places, _ := w.survey()
	if first == nil && (err != nil || len(places) > 0) {
		w.failf("%s: recovery says %v, the survey %v", what, err, places)
	}
	if first != nil && (len(places) == 0 || places[0].Error() != first.Error()) {
		w.failf("%s: recovery says\n%v, the survey\n%v", what, first, places)
	}
	for i, p := range places {
		for _, q := range places[:i] {
			if p.File == q.File && p.Offset == q.Offset {
				w.failf("%s: twice: %v", what, places)
			}
		}
	}
	return places
}

// place is a frame in the log of a world.
type place struct {
	file     string // below the data directory
	off, end int64
	lsn      event.LSN
}

// places lists all frames.
func (w *world) places() (list []place) {
	w.t.Helper()
	c := *w
	c.fs = w.fs.Clone()
	if err := c.open(); err != nil {
		w.t.Fatal(err)
	}
	for f, err := range c.part.Read(ctx, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range c.part.Segments() {
			if s.First <= f.LSN && f.LSN < s.End {
				list = append(list, place{s.File, int64(f.LSN - s.First), int64(f.Next - s.First), f.LSN})
			}
		}
	}
	return list
}

// One damaged byte is one place, and recovery's.
func TestSurveyFlips(t *testing.T) {
	t.Parallel()
	w, skip := quiet(t, 1024)
	for _, sameBoot := range []bool{true, false} {
		if w.boot--; !sameBoot {
			w.boot += 2
		}
		for i, p := range w.places() {
			for off := p.off; off < p.end; off += int64(11 * step()) {
				w.on(w.fs, func(w *world) {
					if err := w.fs.Flip(simDir+"/"+p.file, off, 1<<(off%8)); err != nil {
						t.Fatal(err)
					}
					places := w.agree(fmt.Sprintf("frame %d byte %d", i, off))
					if p.lsn == skip && !sameBoot && len(places) == 0 {
						return
					}
					if len(places) != 1 || places[0].File != p.file || places[0].Offset != p.off || places[0].LSN != p.lsn {
						w.failf("frame %d byte %d: %v", i, off, places)
					}
				})
			}
		}
	}
}

// Several damaged frames, in the same file and in others, are all named, with partition, file, byte
// and LSN.
func TestSurveyNamesEveryPlace(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, 1024)
	all := w.places()
	all = all[:len(all)-1] // the last one was never acknowledged
	seeds(t, 150, func(seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w.on(w.fs, func(w *world) {
			var want []place
			// two in a row may be one place
			for i := rng.IntN(3); i < len(all); i += 2 + rng.IntN(4) {
				p := all[i]
				want = append(want, p)
				w.fs.Flip(simDir+"/"+p.file, p.off+rng.Int64N(p.end-p.off), byte(1+rng.IntN(255)))
			}
			got := w.agree(fmt.Sprint("seed ", seed))
			same := len(got) == len(want)
			for i := range min(len(got), len(want)) {
				same = same && got[i].File == want[i].file && got[i].Offset == want[i].off && got[i].LSN == want[i].lsn && got[i].Partition == 0
			}
			if !same {
				w.failf("seed %d: %v\nwant %v", seed, got, want)
			}
		})
	})
}

// Whatever is done to the files, survey and recovery agree on whether there is damage, and where
// the first is.
func TestSurveyAgrees(t *testing.T) {
	t.Parallel()
	unclean, _ := quiet(t, 1024)
	clean := newWorld(t, t.Name(), 8)
	if err := errors.Join(clean.life(), clean.stop()); err != nil {
		t.Fatal(err)
	}
	seeds(t, 500, func(seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := []*world{unclean, clean}[rng.IntN(2)]
		w.on(w.fs, func(w *world) {
			if w.boot -= rng.IntN(2); w.boot < 0 {
				w.boot = 0
			}
			var did []string
			for range 1 + rng.IntN(4) {
				did = append(did, w.harm(rng))
			}
			w.agree(fmt.Sprint("seed ", seed, ": ", strings.Join(did, ", ")))
		})
	})
}

// harm damages a file and returns a description.
func (w *world) harm(rng *rand.Rand) string {
	var files []string
	for _, f := range w.fs.Files(simDir + "/partitions") {
		if rng.IntN(4) == 0 || strings.Contains(f, "/wal/") {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return "nothing"
	}
	name, other := files[rng.IntN(len(files))], files[rng.IntN(len(files))]
	p, _ := w.fs.ReadFile(name)
	at := rng.IntN(len(p) + 1)
	what := ""
	switch rng.IntN(10) {
	default:
		if what = "flip"; at < len(p) {
			w.fs.Flip(name, int64(at), byte(1+rng.IntN(255)))
		}
	case 0:
		what = "cut"
		w.fs.TruncateFile(name, int64(at))
	case 1:
		what = "remove"
		w.fs.RemoveAll(name)
	case 2:
		what = "remove the directory of"
		w.fs.RemoveAll(filepath.Dir(name))
	case 3:
		what = "swap with " + other + ":"
		w.fs.Swap(name, other)
	case 4:
		what = "take bytes out of"
		w.fs.WriteFile(name, append(append([]byte(nil), p[:at]...), p[min(len(p), at+8*rng.IntN(30)):]...))
	case 5:
		what = "overwrite in"
		for i := at; i < min(len(p), at+600); i++ {
			w.fs.Flip(name, int64(i), byte(1+rng.IntN(255)))
		}
	case 6:
		what = "stranger beside"
		w.fs.WriteFile(filepath.Join(filepath.Dir(name), "notes.txt"), []byte("hello"))
	}
	return fmt.Sprintf("%s %s at %d", what, name, at)
}

// A survey also finds problems after damage of other kinds: a manifest, a missing file or chapter,
// a note, a checkpoint.
func TestSurveyBehindMissingThings(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, 1024)
	all := w.places()
	files := w.segments()
	dir := simDir + "/partitions/00/"
	for what, do := range map[string]func(*world){
		"manifest":         func(w *world) { w.fs.Flip(dir+"manifest", 20, 1) },
		"no manifest":      func(w *world) { w.fs.RemoveAll(dir + "manifest") },
		"progress":         func(w *world) { w.fs.Flip(dir+"progress", 20, 1) },
		"first file":       func(w *world) { w.fs.RemoveAll(files[0]) },
		"second file":      func(w *world) { w.fs.RemoveAll(files[1]) },
		"first chapter":    func(w *world) { w.fs.RemoveAll(filepath.Dir(files[0])) },
		"first file short": func(w *world) { w.fs.TruncateFile(files[0], 500) },
		"stranger":         func(w *world) { w.fs.WriteFile(dir+"wal/x", []byte("x")) },
	} {
		w.on(w.fs, func(w *world) {
			do(w)
			alone := w.agree(what)
			if len(alone) != 1 {
				w.failf("%s: %v", what, alone)
			}
			last := all[len(all)-4]
			w.fs.Flip(simDir+"/"+last.file, last.off+100, 1)
			for _, f := range w.fs.Files(dir + "checkpoints") {
				w.fs.Flip(f, 5, 1)
			}
			got := w.agree(what)
			_, out := w.survey()
			if len(got) != 2 || got[1].File != last.file || got[1].Offset != last.off || got[1].LSN != last.lsn {
				w.failf("%s: %v, want %v too", what, got, last)
			}
			if len(out.Discarded) == 0 || len(out.Checkpoints) > 0 || out.Frames == 0 {
				w.failf("%s: %+v", what, out)
			}
		})
	}
}

// A damaged namespace.json or clean marker, which is no partition's damage, hides none in
// partitions.
func TestSurveyWithoutNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 8)
	if err := errors.Join(w.life(), w.stop()); err != nil {
		t.Fatal(err)
	}
	p := w.places()[3]
	for _, name := range []string{"namespace.json", "clean"} {
		w.on(w.fs, func(w *world) {
			w.boot++
			w.fs.Flip(simDir+"/"+name, 30, 1)
			if got, out := w.survey(); len(got) != 0 || out.Frames == 0 || len(out.Checkpoints) == 0 {
				w.failf("%s: %v, %+v", name, got, out)
			}
			w.fs.Flip(simDir+"/"+p.file, p.off+50, 1)
			if got, _ := w.survey(); len(got) != 1 || got[0].File != p.file || got[0].Offset != p.off || got[0].LSN != p.lsn {
				w.failf("%s: %v", name, got)
			}
		})
	}
}

// An unreadable place is also reported, and does not hide later ones (F10).
func TestSurveyReadErrors(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, 1024)
	all := w.places()
	broken, flipped := all[2], all[len(all)-4]
	w.fs.Flip(simDir+"/"+flipped.file, flipped.off+50, 1)
	bad := simDir + "/" + broken.file
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if c.Op == faultfs.OpRead && c.Name == bad {
			return faultfs.Fault{Err: errors.New("EIO")}
		}
		return faultfs.Fault{}
	})
	got, _ := w.survey()
	if len(got) != 2 || got[0].File != broken.file || got[0].Cause == nil || got[1].File != flipped.file || got[1].LSN != flipped.lsn {
		t.Errorf("%v; want len(got) == 2 && got[0].File == broken.file && got[0].Cause != nil && got[1].File == flipped.file && got[1].LSN == flipped.lsn", got)
	}
}
