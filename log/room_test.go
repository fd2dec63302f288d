package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

func blanks(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }

// last returns the segment being written, and the contents of its file.
func (w *world) last() (log.SegmentInfo, []byte) {
	w.t.Helper()
	list := w.part.Segments()
	s := list[len(list)-1]
	p, err := w.fs.ReadFile(simDir + "/" + s.File)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, p
}

// TestRoomComesAndGoes: while a file is written it has room, which is made before small frames
// only; a closed one has none.
func TestRoomComesAndGoes(t *testing.T) {
	t.Parallel()
	const room = 2048
	w := newWorld(t, t.Name(), 11)
	w.opts.RoomBytes, w.opts.SegmentBytes, w.opts.ChapterBytes = room, 20_000, 1<<20
	send := func(size int) (file, before, entries int) {
		t.Helper()
		s, _ := w.last()
		before = int(s.End - s.First)
		w.send(1, size, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		s, p := w.last()
		entries = int(s.End - s.First)
		if !bytes.Equal(p[entries:], blanks(len(p)-entries)) {
			t.Fatal("what is behind the entries is not blank")
		}
		return len(p), before, entries
	}
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	if s, p := w.last(); len(p) != int(s.End-s.First) {
		t.Fatalf("%d bytes after the EpochStart", len(p))
	}
	file, before, _ := send(50)
	if file != before+room {
		t.Fatalf("a small frame behind %d bytes: %d", before, file)
	}
	if again, _, entries := send(50); again != file || entries >= file {
		t.Fatalf("another: %d of %d bytes", entries, again)
	}
	if file, _, entries := send(4000); file != entries {
		t.Fatalf("a large frame: %d of %d bytes", entries, file)
	}
	if file, before, _ := send(50); file != before+room {
		t.Fatalf("a small frame behind %d bytes: %d", before, file)
	}
	for len(w.part.Segments()) < 3 {
		send(500)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.part.Segments() {
		if p, err := w.fs.ReadFile(simDir + "/" + s.File); err != nil || event.LSN(len(p)) != s.End-s.First {
			t.Fatalf("%s: %d bytes after the stop, %d of entries, %v", s.File, len(p), s.End-s.First, err)
		}
	}
}

// TestRoomAfterKill: room is the end of the log, whatever the boot; nothing is cut or kept aside.
func TestRoomAfterKill(t *testing.T) {
	t.Parallel()
	for _, reboot := range []int{0, 1} {
		w, _ := quiet(t, 4096)
		w.boot += reboot - 1
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		if r := w.part.Recovery(); r.CutBytes != 0 || r.CutFile != "" || r.Clean {
			t.Fatalf(`%+v; want r.CutBytes == 0 && r.CutFile == "" && !r.Clean`, r)
		}
		if err := w.life2(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoomSameBoot: if only the process died, a frame whose beginning is in the room is cut. A
// complete frame that differs from what was written is refused, at every byte.
func TestRoomSameBoot(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, 4096)
	w.boot--
	files := w.segments()
	name := files[len(files)-1]
	p, _ := w.fs.ReadFile(name)
	var message, skip, end int // where the last two frames begin, and the last one ends
	w.on(w.fs, func(w *world) {
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		seg, _ := w.last()
		for f, err := range w.part.Read(ctx, seg.First) {
			if err != nil {
				t.Fatal(err)
			}
			message, skip = skip, int(f.LSN-seg.First)
		}
		end = int(seg.End - seg.First)
	})
	for off := skip; off < end; off++ {
		w.on(w.fs, func(w *world) {
			w.fs.Flip(name, int64(off), 4)
			w.refused(fmt.Sprintf("Skip frame, byte %d", off-skip))
		})
	}
	w.acked = 0
	w.fs.RemoveAll(simDir + "/partitions/00/progress")
	ending := func(at int, tail []byte, f func(w *world)) {
		w.on(w.fs, func(w *world) {
			w.fs.WriteFile(name, append(bytes.Clone(p[:at]), tail...))
			f(w)
		})
	}
	for off := message; off < skip; off++ {
		ending(skip, blanks(len(p)-skip), func(w *world) {
			w.fs.Flip(name, int64(off), 4)
			w.refused(fmt.Sprintf("message, byte %d", off-message))
		})
	}
	for cut := message; cut < skip; cut += 8 {
		ending(cut, blanks(len(p)-cut), func(w *world) {
			if err := w.open(); err != nil {
				w.failf("%d bytes of a message of %d: %v", cut-message, skip-message, err)
			}
			if n := int(w.part.Recovery().CutBytes); n > cut-message || n < cut-message-8 {
				w.failf("%d bytes of a message: %d bytes cut", cut-message, n)
			}
		})
	}
	ending(skip, make([]byte, len(p)-skip), func(w *world) { w.refused("zeroes, which is how lost pages look") })
	ending(len(p)-1, []byte{0xfe}, func(w *world) { w.refused("a bit in the room") })
}

// TestRoomIsOnlyAtTheEnd: in any other file, and after a clean stop, it is damage.
func TestRoomIsOnlyAtTheEnd(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, 4096)
	files := w.segments()
	for _, name := range files[:len(files)-1] {
		w.on(w.fs, func(w *world) {
			p, _ := w.fs.ReadFile(name)
			w.fs.WriteFile(name, append(p, blanks(4096)...))
			w.refused(name)
		})
	}
	clean := newWorld(t, t.Name(), 5)
	if err := clean.life(); err != nil {
		t.Fatal(err)
	}
	if err := clean.stop(); err != nil {
		t.Fatal(err)
	}
	clean.crash(faultfs.Kill)
	files = clean.segments()
	p, _ := clean.fs.ReadFile(files[len(files)-1])
	clean.fs.WriteFile(files[len(files)-1], append(p, blanks(64)...))
	clean.refused("room after a clean stop")
}

// TestRoomAndPowerLoss overwrites room and loses power before the sync: earlier synced bytes in the
// same sector are in every image.
func TestRoomAndPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(t, fmt.Sprintf("seed %d", seed), seed)
		w.opts.RoomBytes, w.opts.SegmentBytes, w.opts.ChapterBytes = 2048, 1<<20, 1<<20
		if err := errors.Join(w.open(), w.lead()); err != nil {
			t.Fatal(err)
		}
		w.rng = rand.New(rand.NewPCG(seed, 3))
		for range 3 {
			w.send(1, w.rng.IntN(400), log.Durable)
		}
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		w.send(1, w.rng.IntN(400), log.Durable)
		w.w.Work() // written, not synced
		w.crash(faultfs.PowerLoss)
		w.after()
	}
}

// cramped is a world whose next frame does not fit into the room of the file being written.
func cramped(t *testing.T, name string) *world {
	w := newWorld(t, name, 12)
	w.opts.RoomBytes, w.opts.SegmentBytes, w.opts.ChapterBytes = 4096, 20_000, 1<<20
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	for s, p := w.last(); int(s.End-s.First) < len(p)-700; s, p = w.last() {
		w.send(1, 300, log.Durable)
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestF8NoPlaceForRoom: a frame that fits is written although its room does not fit, into a file
// that gets no more room; the next one gets room.
func TestF8NoPlaceForRoom(t *testing.T) {
	t.Parallel()
	for _, short := range []int{0, 1, 700, 4095} {
		for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
			w := cramped(t, fmt.Sprintf("%v after %d bytes", errno, short))
			writes := 0
			w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
				if c.Op != faultfs.OpWrite {
					return faultfs.Fault{}
				}
				if writes++; writes == 1 {
					return faultfs.Fault{Err: errno, Short: short}
				}
				return faultfs.Fault{}
			})
			frames := 0
			for len(w.part.Segments()) == 1 {
				frames++
				w.send(1, 700, log.Durable)
				if err := w.work(); err != nil {
					w.failf("frame %d: %v", frames, err)
				}
				if s, p := w.last(); len(w.part.Segments()) == 1 && event.LSN(len(p)) != s.End-s.First {
					w.failf("frame %d: %d bytes in a file of %d", frames, s.End-s.First, len(p))
				}
			}
			if writes != 1+frames {
				w.failf("%d writes of %d frames", writes, frames)
			}
			w.fs.Hook(nil)
			w.send(1, 10, log.Durable)
			if err := w.work(); err != nil {
				t.Fatal(err)
			}
			if _, p := w.last(); len(p) != w.opts.RoomBytes {
				w.failf("the next file has %d bytes", len(p))
			}
			w.crash(faultfs.Kill)
			w.after()
		}
	}
}

// TestF8NoWayBack: if a file cannot be truncated for lack of room either, as on file systems that
// copy it for that, its frame waits. Any other error of making or removing room poisons.
func TestF8NoWayBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ write, cut syscall.Errno }{{syscall.ENOSPC, syscall.EDQUOT}, {syscall.ENOSPC, syscall.EIO}, {syscall.EIO, 0}} {
		w := cramped(t, fmt.Sprint(c))
		failed := 0
		w.fs.Hook(func(call faultfs.Call) faultfs.Fault {
			switch {
			case failed == 0 && call.Op == faultfs.OpWrite:
				failed++
				return faultfs.Fault{Err: c.write, Short: 1000}
			case call.Op == faultfs.OpTruncate && c.cut != 0:
				return faultfs.Fault{Err: c.cut}
			}
			return faultfs.Fault{}
		})
		w.send(1, 700, log.Durable)
		err := w.work()
		if c.cut == syscall.EDQUOT {
			if err != nil || len(w.wait) != 1 || w.w.DiskState().Room != log.RoomNone {
				w.failf("%v, %d wait", err, len(w.wait))
			}
		} else if !errors.Is(err, log.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			w.failf("%v", err)
		}
		w.fs.Hook(nil)
		w.crash(faultfs.Kill)
		w.after()
	}
}
