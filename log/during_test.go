package log_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// during is a world in whose first sync something is done. The frame that is synced has one
// message.
func during(t *testing.T, do func(w *world)) *world {
	t.Helper()
	w := newWorld(t, t.Name(), 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	w.send(1, 10, log.Durable)
	w.w.Work()
	w.fs.During(func(string) {
		w.fs.During(nil)
		do(w)
	})
	return w
}

func (w *world) done(i int) bool {
	select {
	case <-w.wait[i].Done():
		return true
	default:
		return false
	}
}

// A frame is written during a sync: its Ordered ticket completes, its Durable one waits for another
// sync, and the sync makes only earlier writes durable.
func TestWriteDuringSync(t *testing.T) {
	t.Parallel()
	w := during(t, func(w *world) {
		w.write(1, 10, log.Ordered)
		w.write(1, 10, log.Durable)
		if w.done(0) || !w.done(1) || w.done(2) || w.w.Written() != w.wait[2].End() || w.w.Durable() != w.wait[0].LSN() {
			t.Errorf("tickets %v %v %v, written to %d, durable to %d", w.done(0), w.done(1), w.done(2), w.w.Written(), w.w.Durable())
		}
		if w.w.Work() {
			t.Error("there is work for another one while a sync goes on")
		}
	})
	if !w.w.Work() || !w.done(0) || w.done(2) || w.w.Durable() != w.wait[0].End() {
		t.Fatalf("after the sync: tickets %v %v, durable to %d", w.done(0), w.done(2), w.w.Durable())
	}
	select {
	case <-w.w.Moved():
	default:
		t.Error("nobody is told that more is durable")
	}
	if w.w.Work() {
		t.Error("a sync that nobody asked for")
	}
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f.LSN >= w.wait[1].LSN() && f.DurableUpTo != w.wait[0].LSN() {
			t.Errorf("frame %d says that all below %d is durable, it was all below %d", f.LSN, f.DurableUpTo, w.wait[0].LSN())
		}
	}
	w.w.Sync()
	if !w.w.Work() || w.w.Work() || !w.done(2) || w.w.Durable() != w.wait[2].End() {
		t.Errorf("after a sync was asked for: ticket %v, durable to %d", w.done(2), w.w.Durable())
	}
}

// What the death of the process, and a power loss, leave of frames that were written during a sync.
func TestCrashAfterWriteDuringSync(t *testing.T) {
	t.Parallel()
	left := map[int]bool{}
	for seed := range uint64(200) {
		mode := faultfs.Mode(seed % 2)
		w := during(t, func(w *world) {
			w.write(1, 10, log.Ordered)
			w.write(1, 10, log.Durable)
		})
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		if w.acked != 1 || w.safe != 2 {
			t.Fatalf("%d messages are durable and %d written, it must be 1 and 2", w.acked, w.safe)
		}
		for range seed {
			w.rng.Uint64()
		}
		w.crash(mode)
		if err := w.open(); err != nil { // checks that nothing that was promised is missing
			t.Fatal(err)
		}
		if left[len(w.sent)] = true; mode == faultfs.Kill && len(w.sent) != 3 {
			t.Fatalf("the death of the process took %d messages that were written", 3-len(w.sent))
		}
	}
	if !left[1] || !left[2] || !left[3] {
		t.Errorf("of the three messages there were left %v", left)
	}
}

// Where a file ends, syncs are due: the caller of Write does not wait for them, and nothing is
// reordered.
func TestWriteAtTheEndOfAFile(t *testing.T) {
	t.Parallel()
	var written bool
	w := during(t, func(w *world) {
		w.write(1, 3000, log.Ordered)
		w.write(1, 10, log.Ordered)
		written = w.done(1) || w.done(2)
	})
	if err := w.work(); err != nil || written || w.safe != 3 {
		t.Errorf("written during the sync: %v, after it: %d messages, %v", written, w.safe, err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.after()
}

// F9: a sync fails while others write. Whatever was not durable before is unknown, and nothing is
// written any more.
func TestSyncFailsDuringWrite(t *testing.T) {
	t.Parallel()
	for _, fault := range []faultfs.Fault{{Err: syscall.EIO}, {Err: syscall.EIO, DropPages: true}} {
		w := during(t, func(w *world) { w.write(1, 10, log.Durable) })
		w.fs.FailAt(1, fault, false)
		if w.w.Work() {
			t.Fatal("the sync succeeded")
		}
		for i := range w.wait {
			if !w.done(i) || !errors.Is(w.wait[i].Err(), log.ErrUnknown) {
				t.Errorf("ticket %d: %v, %v", i, w.done(i), w.wait[i].Err())
			}
		}
		w.stillPoisoned(w.w.Err())
		w.safe = 0
		w.crash(faultfs.Kill)
		w.after()
	}
}
