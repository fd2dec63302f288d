package log_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// takesRoom are the calls that fail without an effect when there is no room. Cutting a file is one,
// since some file systems copy it for that. A sync is not among them.
var takesRoom = []faultfs.Op{faultfs.OpCreate, faultfs.OpMkdir, faultfs.OpRename, faultfs.OpWrite, faultfs.OpAllocate, faultfs.OpTruncate}

// TestF8EveryCallWithoutRoom: a disk or a quota that is full at one call that needs room, or at the
// next three, costs a running log nothing. No frame is lost, doubled or left incomplete, and
// waiting frames are written without a restart.
func TestF8EveryCallWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, reserve := range []int64{0, 16 << 10} {
		for _, fault := range []faultfs.Fault{{Err: syscall.ENOSPC}, {Err: syscall.EDQUOT, Short: 100}} {
			for _, times := range []int{1, 2, 3} {
				name := fmt.Sprintf("reserve %d, %v after %d bytes, %d times", reserve, fault.Err, fault.Short, times)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					everyCallWithoutRoom(t, name, reserve, fault, times)
				})
			}
		}
	}
}

func everyCallWithoutRoom(t *testing.T, name string, reserve int64, fault faultfs.Fault, times int) {
	for k := 1; ; k += step() {
		w := newWorld(t, fmt.Sprintf("%s, from call %d on", name, k), 1)
		w.opts.ReserveBytes = reserve
		w.busy = k%2 == 0
		if err := errors.Join(w.open(), w.lead()); err != nil {
			w.failf("%v", err)
		}
		n, failed := 0, 0
		w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
			if n++; n < k || failed == times || !slices.Contains(takesRoom, c.Op) {
				return faultfs.Fault{}
			}
			failed++
			return fault
		})
		// a checkpoint may be left out
		if err := w.live(); err != nil && !errors.Is(err, log.ErrNoRoom) {
			w.failf("%v", err)
		}
		for range times + 2 {
			w.w.Tick()
			if err := w.work(); err != nil {
				w.failf("%v", err)
			}
		}
		if len(w.wait) > 0 || w.acked < len(w.sent)-1 { // nothing waits for a sync of the last one
			w.failf("%d frames wait, %d messages of %d are there", len(w.wait), w.acked, len(w.sent))
		}
		w.acked, w.safe = len(w.sent), len(w.sent)
		w.fs.Hook(nil)
		done := failed == 0
		if k%3 == 0 {
			if err := w.stop(); err != nil {
				w.failf("stop: %v", err)
			}
		} else {
			w.crash(faultfs.Mode(k % 3 % 2))
		}
		w.after()
		if done {
			return
		}
	}
}

// F8: a writer that is closed right after a frame found no room, and before the reserve was asked,
// writes it if there is room by then.
func TestCloseTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 1)
	w.opts.ReserveBytes = -1
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	w.send(1, 100, log.Durable)
	full := true
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if !full || c.Op != faultfs.OpWrite {
			return faultfs.Fault{}
		}
		full = false
		return faultfs.Fault{Err: syscall.ENOSPC}
	})
	for full { // until the frame has found no room
		if !w.w.Work() {
			t.Fatal("the frame is not written")
		}
	}
	if err := w.stop(); err != nil {
		t.Fatalf("the disk has room, and the stop fails: %v", err)
	}
	w.acked, w.safe = len(w.sent), len(w.sent)
	w.after()
}

// others fills the disk with a file of other programs, so that only that many bytes are free.
func (w *world) others(free int64) {
	const theirs = "/theirs"
	if _, err := w.fs.Stat(theirs); err == nil {
		if err := w.fs.Remove(theirs); err != nil {
			w.t.Fatal(err)
		}
	}
	space, err := w.fs.Free("/")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.fs.WriteFile(theirs, make([]byte, space.Free-free)); err != nil {
		w.t.Fatal(err)
	}
}

// look looks at the disk, twice, and demands that its room is as given.
func (w *world) look(want log.Room, why string) {
	w.t.Helper()
	for range 2 {
		w.w.Tick()
		if err := w.work(); err != nil {
			w.failf("%s: %v", why, err)
		}
		if got := w.w.DiskState().Room; got != want {
			w.failf("%s: the disk has %v room, want %v", why, got, want)
		}
	}
}

// TestF8States walks through low, critical, the reserve used up, and back, each said once.
func TestF8States(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	w := newWorld(t, t.Name(), 3)
	w.opts.ReserveBytes, w.opts.LowBytes, w.opts.SegmentBytes, w.opts.ChapterBytes = 64<<10, 128<<10, 1<<20, 1<<20
	w.opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
	w.fs.Limit(8 << 20)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	look := w.look
	look(log.RoomEnough, "a disk with room")
	w.others(100 << 10)
	look(log.RoomLow, "less than 128 KiB")
	w.others(140 << 10)
	look(log.RoomLow, "hardly more")
	w.others(8 << 10)
	look(log.RoomCritical, "nothing but the reserve")
	sent := 0
	for w.w.DiskState().Room == log.RoomCritical {
		w.send(1, 500, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		if sent++; sent > 1000 {
			w.failf("the reserve lasts for ever")
		}
	}
	if len(w.wait) > 0 || sent < 64<<10/1000 {
		w.failf("%d frames were written, %d wait", sent, len(w.wait))
	}
	for range 40 { // the rest of it is for accepted frames
		w.send(1, 500, log.Durable)
	}
	look(log.RoomNone, "nothing is left")
	if len(w.wait) == 0 {
		w.failf("written where there is no room")
	}
	if p, err := w.fs.ReadFile(simDir + "/ballast"); err != nil || len(p) != 0 {
		w.failf("the reserve has %d bytes, %v", len(p), err)
	}
	if s, p := w.last(); event.LSN(len(p)) != s.End-s.First {
		w.failf("%d bytes in a file with entries of %d", len(p), s.End-s.First)
	}
	w.others(40 << 10)
	look(log.RoomCritical, "room for what waits")
	if len(w.wait) > 0 {
		w.failf("%d frames wait for room that is there", len(w.wait))
	}
	w.others(1 << 20)
	look(log.RoomEnough, "room again")
	if p, err := w.fs.ReadFile(simDir + "/ballast"); err != nil || len(p) != 64<<10 {
		w.failf("the reserve has %d bytes, %v", len(p), err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"disk nearly full": 1, "refused, settlements continue from the reserve": 2, "disk and reserve full": 1, "has room again": 1} {
		if n := strings.Count(said.String(), text); n != want {
			t.Errorf("%q is said %d times, not %d:\n%s", text, n, want, &said)
		}
	}
	w.after()
}

// TestF8Quota: a quota that the disk does not report is found when it refuses a write, and counts
// as gone when the reserve could be refilled twice.
func TestF8Quota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 4)
	w.opts.ReserveBytes, w.opts.RoomBytes = 64<<10, -1
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	full := true
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if full && (c.Op == faultfs.OpAllocate || c.Op == faultfs.OpWrite && strings.Contains(c.Name, "/wal/")) {
			return faultfs.Fault{Err: syscall.EDQUOT, Short: 1}
		}
		return faultfs.Fault{}
	})
	for range 20 { // the reserve does not help: a user's quota may not count it
		w.send(1, 100, log.Durable)
		w.w.Tick()
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.w.DiskState().Room; got != log.RoomNone || len(w.wait) != 20 {
		t.Fatalf("room %v, %d wait", got, len(w.wait))
	}
	full = false
	for range 2 {
		w.w.Tick()
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.w.DiskState().Room; got != log.RoomEnough || len(w.wait) != 0 {
		t.Fatalf("room %v, %d wait", got, len(w.wait))
	}
}

// TestF8SmallDisk: on a small disk the reserve is smaller, and a start takes the room that it needs
// from it.
func TestF8SmallDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 5)
	w.opts.ReserveBytes = 64 << 20
	w.fs.Limit(16 << 20)
	ballast := func() int {
		p, err := w.fs.ReadFile(simDir + "/ballast")
		if err != nil {
			t.Fatal(err)
		}
		return len(p)
	}
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	if n := ballast(); n != 2<<20 || w.w.DiskState().Room != log.RoomEnough {
		t.Fatalf("%d bytes of reserve, room %v", n, w.w.DiskState().Room)
	}
	w.send(1, 100, log.Durable)
	if err := errors.Join(w.work(), w.stop()); err != nil {
		t.Fatal(err)
	}
	w.others(0)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatalf("a start on a full disk: %v", err)
	}
	if n := ballast(); n != 1<<20 || w.w.DiskState().Room != log.RoomCritical {
		t.Fatalf("%d bytes of reserve, room %v", n, w.w.DiskState().Room)
	}
}
