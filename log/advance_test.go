package log_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// follow opens a shared reader that goes on.
func (w *world) follow(fsys disk.FS) (log.Store, error) {
	opts := w.opts
	opts.FS, opts.BootID, opts.Shared = fsys, fmt.Sprint("boot-", w.boot), true
	return log.Open(ctx, simDir, opts)
}

func advance(s log.Store) error { return s.(log.Follower).Advance(ctx) }

// look is all that a reader finds in a log.
type look struct {
	First, End  event.LSN
	Segments    []log.SegmentInfo
	Checkpoints []log.CheckpointInfo
	Base        log.BaseInfo
	Frames      []shown
}

func lookAt(s log.Store) (l look, err error) {
	p, err := s.Open(ctx, 0)
	if err != nil {
		return l, err
	}
	l.First, l.End = p.Bounds()
	l.Segments, l.Checkpoints = p.Segments(), p.Checkpoints()
	l.Base, _ = p.(log.Bases).Base()
	next := l.First
	for f, err := range p.Read(ctx, l.First) {
		if err != nil {
			return l, err
		}
		if f.LSN != next {
			return l, fmt.Errorf("a frame at LSN %d follows LSN %d", f.LSN, next)
		}
		next = f.Next
		l.Frames = append(l.Frames, shown{f.LSN, string(f.Records)})
	}
	if next != l.End && len(l.Frames) > 0 {
		return l, fmt.Errorf("the log ends at LSN %d, and was read up to %d", l.End, next)
	}
	return l, nil
}

// cut has the log begin with a base, and gives back what is in front of it.
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

// wandering is a log of which the seed says how it is kept, and what becomes of it.
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

// TestAdvance has a reader go on beside a broker that writes, begins files and chapters, seals, drops bodies, makes bases, removes files, saves checkpoints,
// stops and starts: each time it finds what a reader finds that opens the directory then.
func TestAdvance(t *testing.T) {
	t.Parallel()
	went := 0
	seeds(t, 300, func(seed uint64) {
		w := wandering(t, seed)
		s, err := w.follow(w.fs)
		if err != nil {
			w.failf("%v", err)
		}
		for range 150 {
			if err := w.act(); err != nil {
				w.failf("%v", err)
			}
			if w.rng.IntN(4) > 0 {
				continue
			}
			_, before, _ := bounds(t, s)
			if err := advance(s); err != nil {
				w.failf("%v", err)
			}
			got, err := lookAt(s)
			if err != nil {
				w.failf("%v", err)
			}
			fresh, err := w.follow(w.fs)
			if err != nil {
				w.failf("%v", err)
			}
			want, err := lookAt(fresh)
			if err != nil {
				w.failf("%v", err)
			}
			if got.End == before { // it looks for checkpoints where the log goes on
				got.Checkpoints = want.Checkpoints
			}
			if !reflect.DeepEqual(got, want) {
				w.failf("a reader that has gone on finds\n%+v, not\n%+v", got, want)
			}
			went++
		}
	})
	t.Logf("readers went on %d times", went)
}

// TestAdvanceWhileWritten has the broker do such things between any two calls of the reader as well. What a reader that went on was shown lasts.
func TestAdvanceWhileWritten(t *testing.T) {
	t.Parallel()
	went, changed, gone := 0, 0, 0
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
		s, err := w.follow(eyes)
		if err != nil {
			w.failf("%v", err)
		}
		var last []shown
		for range 10 {
			acts = w.rng.IntN(25)
			err := advance(s)
			var got look
			if err == nil {
				got, err = lookAt(s)
			}
			acts = 0
			if errors.Is(err, log.ErrGone) {
				gone++
				continue
			}
			if errors.Is(err, log.ErrChanged) {
				changed++
				if s, err = w.follow(eyes); err != nil {
					w.failf("%v", err)
				}
				continue
			}
			if err != nil {
				w.failf("%v", err)
			}
			went++
			last = got.Frames
		}
		if w.drops >= 0 { // else a part of it is gone by now
			w.keeps(last)
		}
	}
	one(1795732603658079813) // the log begins behind all that the reader was to read, with a base
	seeds(t, 200, one)
	if t.Logf("readers went on %d times; meanwhile the log changed hands %d times, and what they read was removed %d times", went, changed, gone); went == 0 || gone == 0 {
		t.Error("too little happened")
	}
}

// What was read before is not read again.
func TestAdvanceReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	w.opts.SealAfter = -1
	if err := errors.Join(w.life(), w.stop(), w.life(), w.work()); err != nil {
		t.Fatal(err)
	}
	known, opened, again := make(map[string]bool), 0, 0
	s, err := w.follow(between{w.fs, func(op, name string) error {
		if op == "open" && (strings.Contains(name, "/wal/") || strings.Contains(name, "/sealed/") || strings.Contains(name, "/checkpoints/")) {
			opened++
			if known[name] {
				again++
			}
			known[name] = true
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if opened < 5 {
		t.Fatalf("only %d files were opened: nothing is shown by this", opened)
	}
	w.w.Tick()
	if err := advance(s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what           string
		do             func() error
		newer, already int // files that are opened at most
	}{
		{"nothing", func() error { return nil }, 0, 0},
		{"a message", func() error { w.send(1, 10, log.Durable); return w.work() }, 2, 1},
		{"a chapter", func() error { w.send(40, 300, log.Durable); return w.work() }, 2, 1},
		{"a sealed file", w.seal, 9, 1},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		w.w.Tick()
		opened, again = 0, 0
		if err := advance(s); err != nil || again > c.already || opened-again > c.newer {
			t.Errorf("after %s: %d new files were opened, of at most %d, and %d known ones, of at most %d: %v", c.what, opened-again, c.newer, again, c.already, err)
		}
	}
}

// changing is a disk that becomes another one.
type changing struct{ disk.FS }

// A reader does not go on in a log that is not the one that it has read, even where another one has frames at the same places. It says so, or names what does not fit.
func TestAdvanceInAnotherLog(t *testing.T) {
	t.Parallel()
	write := func(w *world, n int) {
		w.t.Helper()
		for range n {
			w.send(1, 100, log.Durable)
			if err := w.work(); err != nil {
				w.failf("%v", err)
			}
		}
		w.w.Tick()
	}
	for name, c := range map[string]struct{ read, there int }{
		"an older one":           {9, 0},
		"another one as long":    {3, 3},
		"another one, longer":    {3, 5},
		"another one, far ahead": {3, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Name(), 4)
			if err := errors.Join(w.open(), w.lead()); err != nil {
				t.Fatal(err)
			}
			write(w, 5)
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			other := *w
			other.fs, other.rng = w.fs.Clone(), rand.New(rand.NewPCG(7, 7))
			other.sent = append([]uint64(nil), w.sent...)
			eyes := &changing{w.fs}
			if err := errors.Join(w.open(), w.lead(), other.open(), other.lead()); err != nil {
				t.Fatal(err)
			}
			write(w, c.read)
			s, err := w.follow(eyes)
			if err != nil {
				t.Fatal(err)
			}
			write(&other, c.there)
			eyes.FS = other.fs
			var damage *log.CorruptError
			if err := advance(s); !errors.Is(err, log.ErrChanged) && !errors.As(err, &damage) {
				t.Errorf("a reader went on: %v", err)
			}
		})
	}
}

// A partition that was refused is not known by a reader that goes on: it may be whole by now. Damage in what is new has it refused then, too.
func TestAdvanceRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 4)
	w.opts.SegmentBytes, w.opts.ChapterBytes = 1<<20, 1<<20
	if err := errors.Join(w.life(), w.work()); err != nil {
		t.Fatal(err)
	}
	w.w.Tick()
	s, err := w.follow(w.fs)
	if err != nil {
		t.Fatal(err)
	}
	_, end, segment := bounds(t, s)
	w.send(1, 500, log.Durable)
	if err := w.work(); err != nil {
		t.Fatal(err)
	}
	w.w.Tick()
	if err := w.fs.Flip(filepath.Join(simDir, segment.File), int64(end-segment.First)+200, 1); err != nil {
		t.Fatal(err)
	}
	var damage *log.CorruptError
	if err := advance(s); !errors.As(err, &damage) || damage.LSN < end {
		t.Fatalf("%v, not damage behind LSN %d", err, end)
	}
	damaged, err := w.follow(w.fs)
	if err != nil {
		t.Fatal(err)
	}
	if err := advance(damaged); err != nil {
		t.Fatal(err)
	}
	if _, err := damaged.Open(ctx, 0); !errors.As(err, &damage) {
		t.Fatal(err)
	}
	if err := w.fs.Flip(filepath.Join(simDir, segment.File), int64(end-segment.First)+200, 1); err != nil {
		t.Fatal(err)
	}
	for _, s := range []log.Store{s, damaged} {
		if err := advance(s); err != nil {
			t.Errorf("when it is whole again: %v", err)
		}
		if _, now, _ := bounds(t, s); now <= end {
			t.Errorf("it is read up to LSN %d", now)
		}
	}
	if err := advance(w.store); err == nil {
		t.Error("a store that is not shared goes on")
	}
}

// bounds are those of a log, and the segment with its end.
func bounds(t *testing.T, s log.Store) (first, end event.LSN, last log.SegmentInfo) {
	t.Helper()
	p, err := s.Open(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, end = p.Bounds()
	if list := p.Segments(); len(list) > 0 {
		last = list[len(list)-1]
	}
	return first, end, last
}
