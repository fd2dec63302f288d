package log_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// scrubbable returns a log in use with everything that is scrubbed: sealed files, chapters that
// ended, a base and checkpoints.
func scrubbable(t *testing.T) *world {
	t.Helper()
	w := sealing(t, t.Name(), 53)
	w.opts.ChapterBytes = 4_000
	now := time.Unix(1e9, 0)
	w.opts.Now = func() time.Time { now = now.Add(10 * time.Second); return now }
	if err := errors.Join(w.script(), w.stop()); err != nil {
		t.Fatal(err)
	}
	w.opts.SealAfter = 0
	for range 2 {
		if err := errors.Join(w.life(), w.stop()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	at := w.part.Segments()[1].First
	err := w.part.(log.Bases).SaveBase(ctx, log.BaseInfo{LSN: at}, func(out io.Writer) error {
		_, err := out.Write([]byte("what a state is made of"))
		return err
	}, func(io.Reader) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// pass scrubs to the end of a pass, and returns the damage.
func (w *world) pass() (found []log.Damage) {
	w.t.Helper()
	for range 1000 {
		some, over, err := w.part.(log.Scrubber).Scrub(ctx)
		if err != nil {
			w.failf("scrub: %v", err)
		}
		if found = append(found, some...); over {
			return found
		}
	}
	w.failf("a pass has no end")
	return nil
}

// F4: a bit that flips anywhere in closed files is found in one pass, with its file, and nothing
// else is found; after it has flipped back, nothing is.
func TestScrubFindsEveryPart(t *testing.T) {
	t.Parallel()
	w := scrubbable(t)
	if found := w.pass(); found != nil {
		t.Fatalf("nothing is damaged: %v", found)
	}
	segments := w.part.Segments()
	open := segments[len(segments)-1].File
	kinds, named := map[string]int{}, 0
	for _, name := range w.fs.Files(simDir + "/partitions/00") {
		file := strings.TrimPrefix(name, simDir+"/")
		kind := strings.Split(file, "/")[2]
		if file == open || kind == "progress" || kind == "scrub" {
			continue
		}
		size := len(w.file(file))
		for i := range min(size, 40) {
			at := int64(i * size / min(size, 40))
			if err := w.fs.Flip(name, at, 4); err != nil {
				t.Fatal(err)
			}
			found := w.pass()
			if len(found) == 0 {
				t.Errorf("a flip at byte %d of %d of %s is not found", at, size, file)
			}
			for _, d := range found {
				if d.File != file || d.Spare != (kind == "checkpoints") {
					t.Errorf("a flip at byte %d of %s is found in %s: %v", at, file, d.File, d)
				}
				named += len(d.Messages)
			}
			if n := w.part.(log.Scrubber).Scrubbed().Damaged; (n > 0) == (kind == "checkpoints") {
				t.Errorf("a flip at byte %d of %s: %d files are damaged", at, file, n)
			}
			if err := w.fs.Flip(name, at, 4); err != nil {
				t.Fatal(err)
			}
			kinds[kind]++
		}
	}
	if found := w.pass(); found != nil || w.part.(log.Scrubber).Scrubbed().Damaged != 0 {
		t.Errorf("nothing is damaged any more: %v", found)
	}
	if kinds["wal"] < 40 || kinds["sealed"] < 80 || kinds["base"] < 40 || kinds["checkpoints"] < 40 || kinds["manifest"] < 40 || named < 100 {
		t.Errorf("looked at %v, and %d messages were named", kinds, named)
	}
}

// Damage is reported with the messages that cannot be read, and the damage at the end of a run is
// checked first by the next one.
func TestScrubGoesOn(t *testing.T) {
	t.Parallel()
	w := scrubbable(t)
	scrubber := func() log.Scrubber { return w.part.(log.Scrubber) }
	damaged := w.part.Segments()[1] // a sealed file, of which a start reads only the ends
	at, size := int64(0), int64(len(w.file(damaged.File)))
	var found []log.Damage
	for ; at < size && (len(found) == 0 || len(found[0].Messages) == 0); at += size / 50 {
		if err := w.fs.Flip(simDir+"/"+damaged.File, at, 1); err != nil {
			t.Fatal(err)
		}
		if found = w.pass(); len(found) > 0 && len(found[0].Messages) > 0 {
			break
		}
		if err := w.fs.Flip(simDir+"/"+damaged.File, at, 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) == 0 || found[0].File != damaged.File || len(found[0].Messages) == 0 || found[0].Messages[0].Sequence == 0 {
		t.Fatalf("found %+v", found)
	}
	for range 8 { // into the next pass
		if _, _, err := scrubber().Scrub(ctx); err != nil {
			t.Fatal(err)
		}
	}
	before := scrubber().Scrubbed()
	err := w.stop()
	if err == nil { // not by open, which reads all of it
		w.store, err = log.Open(ctx, simDir, w.opts)
	}
	if err == nil {
		w.part, err = w.store.Open(ctx, 0)
	}
	if err := errors.Join(err, w.lead()); err != nil {
		t.Fatal(err)
	}
	some, over, err := scrubber().Scrub(ctx)
	after := scrubber().Scrubbed()
	if err != nil || over || len(some) == 0 || some[0].File != damaged.File {
		t.Errorf("what was damaged is read first: %v %v %v", some, over, err)
	}
	if before.Next == 0 || after.Next == 0 || after.Next > before.Next || !after.Began.Equal(before.Began) || after.Ended.IsZero() {
		t.Errorf("was at %+v, goes on at %+v", before, after)
	}
	if _, _, err := scrubber().Scrub(ctx); err != nil || scrubber().Scrubbed().Next <= after.Next {
		t.Errorf("does not go on: %v", err)
	}
}

// F10: an unreadable file is damaged. A file that is removed by then, a scrub that is stopped, and
// a process without descriptors are no evidence of damage.
func TestScrubReadErrors(t *testing.T) {
	t.Parallel()
	w := scrubbable(t)
	file := w.part.Segments()[0].File
	fails := func(op faultfs.Op, err error) {
		w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
			if c.Op == op && c.Name == simDir+"/"+file {
				return faultfs.Fault{Err: err}
			}
			return faultfs.Fault{}
		})
	}
	fails(faultfs.OpRead, syscall.EIO)
	found := w.pass()
	if len(found) == 0 || found[0].File != file || !errors.Is(found[0], syscall.EIO) {
		t.Errorf("found %v", found)
	}
	fails(faultfs.OpOpen, syscall.EMFILE)
	var err error
	for range 3 {
		var some []log.Damage
		if some, _, err = w.part.(log.Scrubber).Scrub(ctx); err != nil || some != nil {
			break
		}
	}
	if !errors.Is(err, log.ErrDescriptors) && !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without descriptors: %v", err)
	}
	w.fs.Hook(nil)
	ended, end := context.WithCancel(ctx)
	end()
	if some, _, err := w.part.(log.Scrubber).Scrub(ended); !errors.Is(err, context.Canceled) || some != nil {
		t.Errorf("told to end: %v %v", some, err)
	}
}

// A chapter that is sealed, a file that is written again without bodies and one that is removed
// while they are read are not damaged.
func TestScrubOfWhatGoes(t *testing.T) {
	t.Parallel()
	gone := 0
	for k := 1; k < 120; k++ {
		w := dropping(t, t.Name(), 9)
		w.opts.SealAfter = 0
		if err := errors.Join(w.script(), w.stop()); err != nil {
			t.Fatal(err)
		}
		w.opts.SealAfter = -1
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		before := w.part.Segments()
		calls, inside := 0, false
		w.part.(log.Scrubber).Scrub(ctx)
		hook := func(c faultfs.Call) faultfs.Fault {
			if calls++; calls == k {
				inside = true
			}
			return faultfs.Fault{}
		}
		w.fs.Hook(hook)
		for over, i := false, 0; !over && i < 500; i++ {
			var found []log.Damage
			var err error
			if found, over, err = w.part.(log.Scrubber).Scrub(ctx); found != nil || err != nil {
				t.Fatalf("call %d: %v %v", k, found, err)
			}
			if inside {
				inside = false
				w.fs.Hook(nil)
				if err := w.seal(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(before, w.part.Segments()) {
			gone++
		}
	}
	if gone < 20 {
		t.Errorf("files went %d times", gone)
	}
}
