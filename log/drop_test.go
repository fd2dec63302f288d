package log_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// dropping is a world in which bodies are dropped from sealed files, more of them from round to
// round.
func dropping(t testing.TB, name string, seed uint64) *world {
	w := sealing(t, name, seed)
	w.opts.ChapterBytes = 4_000
	w.drops = 3
	return w
}

// wants reports whether the body of a message is still wanted: of every third one, then of every
// sixth, and so on.
func (w *world) wants(n int) bool { return w.drops == 0 || n%w.drops == 0 }

// drop drops the unwanted bodies from every sealed file, and wants fewer the next time.
func (w *world) drop() error {
	if w.drops == 0 {
		return nil
	}
	for _, s := range w.part.Segments() {
		if !strings.HasSuffix(s.File, ".lbs") {
			continue
		}
		_, err := w.part.(log.Compactor).DropBodies(ctx, s.File, func(b *log.Body) bool {
			return w.wants(int(b.Event.(*event.MessageEnqueued).Sequence))
		}, 1)
		if errors.Is(err, faultfs.ErrCrashed) || errors.Is(err, log.ErrPoisoned) {
			return err
		}
	}
	if w.drops < 12 {
		w.drops *= 2
	}
	return nil
}

// Unwanted bodies are dropped, all others stay, and a file that would free too little is left alone
// (reliability.md P22).
func TestDropBodies(t *testing.T) {
	t.Parallel()
	w := sealing(t, t.Name(), 8)
	w.opts.ChapterBytes = 4_000
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	var before, after int64
	for _, s := range w.part.Segments() {
		if !strings.HasSuffix(s.File, ".lbs") {
			continue
		}
		size := int64(len(w.file(s.File)))
		before += size
		none := func(*log.Body) bool { return false }
		if _, err := w.part.(log.Compactor).DropBodies(ctx, s.File, none, size); !errors.Is(err, log.ErrTooLittle) {
			t.Errorf("more than a file has is given back: %v", err)
		}
		if freed, err := w.part.(log.Compactor).DropBodies(ctx, s.File, func(*log.Body) bool { return true }, 1); !errors.Is(err, log.ErrTooLittle) {
			t.Errorf("all is wanted, and %d bytes go: %v", freed, err)
		}
	}
	w.drops = 5
	if err := w.drop(); err != nil {
		t.Fatal(err)
	}
	erased := uint64(0)
	for _, s := range w.part.Segments() {
		if strings.HasSuffix(s.File, ".lbs") {
			after += int64(len(w.file(s.File)))
			erased += s.Erased
			if !strings.HasSuffix(s.File, "-0002.lbs") {
				t.Errorf("%s is the file still", s.File)
			}
		}
	}
	w.drops = 5
	if n := w.gone(); n < 10 || after >= before || erased == 0 {
		t.Errorf("%d bodies are gone, %d frames say so, %d bytes of %d are left", n, erased, after, before)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.after()
}

func (w *world) file(name string) []byte {
	p, err := w.fs.ReadFile(simDir + "/" + name)
	if err != nil {
		w.failf("%v", err)
	}
	return p
}

// gone counts the messages without a body.
func (w *world) gone() (n int) {
	var d event.Decoder
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			w.failf("%v", err)
		}
		for rest := f.Records; f.Kind == log.Events && len(rest) > 0; {
			var rec event.Record
			if rec, rest, err = d.Record(f.Base, f.Bodies, rest); err != nil {
				w.failf("%v", err)
			}
			for _, ev := range rec.Events {
				if _, err := w.part.ReadBlob(ev.(*event.MessageEnqueued).Body, nil); errors.Is(err, event.ErrErased) {
					n++
				}
			}
		}
	}
	return n
}

// A file that differs from the bytes written stays as it is, whether its records or a wanted body
// are damaged.
func TestDamagedFileKeepsItsBodies(t *testing.T) {
	t.Parallel()
	for at := range 60 {
		w := sealing(t, fmt.Sprintf("%s, %d", t.Name(), at), 9)
		w.opts.ChapterBytes = 4_000
		if err := w.life(); err != nil {
			t.Fatal(err)
		}
		file := w.part.Segments()[0].File
		whole := w.file(file)
		place := len(whole) * at / 60
		if err := w.fs.Flip(simDir+"/"+file, int64(place), 3); err != nil {
			t.Fatal(err)
		}
		_, err := w.part.(log.Compactor).DropBodies(ctx, file, func(b *log.Body) bool { return b.Event.(*event.MessageEnqueued).Sequence%2 == 0 }, 1)
		if strings.Contains(file, "wal") {
			t.Fatal("nothing is sealed")
		}
		if now := w.part.Segments()[0].File; err == nil && now == file || err != nil && now != file {
			t.Errorf("flip at %d of %d: %s is now %s: %v", place, len(whole), file, now, err)
		}
		if err != nil { // the same bytes, and no other files
			if got := w.file(file); string(got[:place]) != string(whole[:place]) {
				t.Errorf("flip at %d: the file has changed", place)
			}
			continue
		}
		// The damage was in a body that was dropped: the revision is good.
		w.drops = 2
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if places := survey(t, w); len(places) > 0 {
			t.Errorf("flip at %d: the revision is damaged: %v", place, places)
		}
	}
}
