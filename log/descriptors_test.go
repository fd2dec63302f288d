package log_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// led is a world with a writer and some messages in several segments.
func led(t *testing.T, name string) *world {
	w := newWorld(t, name, 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.send(1, 300, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
	}
	w.w.Tick()
	return w
}

// The progress note is written every second for as long as there is traffic, and no file is opened
// for it.
func TestF18ProgressOpensNothing(t *testing.T) {
	t.Parallel()
	w := led(t, "progress")
	notes, opened := 0, 0
	for range 5 {
		w.send(1, 40, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
			switch {
			case c.Op == faultfs.OpCreate || c.Op == faultfs.OpOpen:
				opened++
				t.Errorf("%v", c)
			case c.Op == faultfs.OpRename && strings.HasSuffix(c.Name, "/progress"):
				notes++
			}
			return faultfs.Fault{}
		})
		before, err := w.fs.ReadFile(simDir + "/partitions/00/progress")
		w.w.Tick()
		after, err2 := w.fs.ReadFile(simDir + "/partitions/00/progress")
		if err != nil || err2 != nil || string(before) == string(after) {
			t.Errorf("the note did not move: %v, %v", err, err2)
		}
		w.fs.Hook(nil)
	}
	if notes != 5 || opened != 0 {
		t.Errorf("%d notes opened %d files", notes, opened)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	for _, f := range w.fs.Files(simDir) {
		if strings.HasSuffix(f, ".tmp") {
			t.Errorf("%s is left", f)
		}
	}
}

// Where names cannot be exchanged the note is a new file each time, as it was before.
func TestProgressWithoutExchange(t *testing.T) {
	t.Parallel()
	w := led(t, "no exchange")
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if c.Op == faultfs.OpRename && strings.HasSuffix(c.Name, "/progress") {
			return faultfs.Fault{Err: errors.ErrUnsupported}
		}
		return faultfs.Fault{}
	})
	for range 3 {
		w.send(1, 40, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		before, _ := w.fs.ReadFile(simDir + "/partitions/00/progress")
		w.w.Tick()
		if after, err := w.fs.ReadFile(simDir + "/partitions/00/progress"); err != nil || string(before) == string(after) {
			t.Errorf("the note did not move: %v", err)
		}
	}
	w.crash(faultfs.PowerLoss)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
}

// A process without descriptors waits: no write fails because of that, and no read counts as
// damage.
func TestF18OutOfDescriptors(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE} {
		synctest.Test(t, func(t *testing.T) {
			w := led(t, errno.Error())
			var missing atomic.Bool
			missing.Store(true)
			w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
				switch c.Op {
				case faultfs.OpCreate, faultfs.OpOpen, faultfs.OpSyncDir, faultfs.OpReadDir:
					if missing.Load() {
						return faultfs.Fault{Err: errno}
					}
				}
				return faultfs.Fault{}
			})
			first := w.part.Segments()[0]
			if _, err := w.part.ReadInto(event.Blob{Position: 8, Size: 9}, make([]byte, 8)); first.First != 8 || !errors.Is(err, log.ErrDescriptors) {
				t.Errorf("read: %v", err)
			}
			began := time.Now()
			time.AfterFunc(time.Minute, func() { missing.Store(false) })
			for range 20 { // several segments and a chapter
				w.send(1, 400, log.Durable)
				w.w.Tick()
				if err := w.work(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.checkpoint(); err != nil {
				t.Error(err)
			}
			if waited := time.Since(began); waited < time.Minute {
				t.Errorf("went on after %v", waited)
			}
			if _, err := w.part.ReadInto(event.Blob{Position: 8, Size: 9}, make([]byte, 8)); err != nil {
				t.Errorf("read: %v", err)
			}
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
