package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

const (
	manyBytes = 200 << 10 // of log in each partition
	blockRoom = 32 << 10  // what a start may need for its small files, of all partitions together
)

// fullDirectory makes a data directory with four partitions whose last segment files are long, and
// makes every writer end on a full disk. full takes away the room before each one's last, large
// frame, and may keep its written part from being cut off.
func fullDirectory(t *testing.T, dir string, opts log.Options, full func()) {
	t.Helper()
	s := must(log.Open(ctx, dir, opts))(t)
	var writers []log.Writer
	commit := func(w log.Writer, n, size int) error {
		b := w.Batch()
		b.AppendRecord(event.Time(n), []event.Event{message(n, size)}, log.Durable)
		k := w.Append(b)
		for opts.Manual && w.(log.ManualWriter).Work() {
		}
		<-k.Done()
		return k.Err()
	}
	for _, id := range s.Partitions() {
		w := must(must(s.Open(ctx, id))(t).Lead(ctx))(t)
		for n := range manyBytes / 4096 {
			if err := commit(w, n+1, 4096); err != nil {
				t.Fatal(err)
			}
		}
		writers = append(writers, w)
	}
	for i, w := range writers {
		full()
		b := w.Batch()
		b.AppendRecord(1e6, []event.Event{message(1e6, 200<<10)}, log.Durable)
		k := w.Append(b)
		if err := w.Close(); !errors.Is(err, log.ErrPoisoned) {
			t.Fatalf("partition %d: %v", i, err)
		}
		if <-k.Done(); !errors.Is(k.Err(), log.ErrPoisoned) || errors.Is(k.Err(), log.ErrUnknown) {
			t.Fatalf("partition %d: %v", i, k.Err())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// uncut is a disk that cannot truncate files: the part of a frame that found room stays.
func uncut(c faultfs.Call) faultfs.Fault {
	if c.Op == faultfs.OpTruncate {
		return faultfs.Fault{Err: syscall.EIO}
	}
	return faultfs.Fault{}
}

// orderly fails the test when something is tried that may fill the disk for a moment, a copy of a
// tail or room, once a partition has begun to make its chapter: its manifest could then find no
// room where there is enough for it.
func orderly(t *testing.T, disk *faultfs.FS) {
	began := ""
	disk.Hook(func(c faultfs.Call) faultfs.Fault {
		tries := strings.Contains(c.Name, "/cut/") || c.Op == faultfs.OpTruncate && strings.Contains(c.Name, "/wal/")
		switch {
		case tries && began != "":
			t.Errorf("%v, after %s", c, began)
		case c.Op == faultfs.OpMkdir && strings.Contains(c.Name, "/wal/"):
			began = c.String()
		}
		return faultfs.Fault{}
	})
}

// lead starts all partitions at once, as the engine does, and returns the errors.
func lead(t *testing.T, dir string, opts log.Options) error {
	t.Helper()
	s := must(log.Open(ctx, dir, opts))(t)
	errs := make([]error, len(s.Partitions()))
	var wg sync.WaitGroup
	for i, id := range s.Partitions() {
		p := must(s.Open(ctx, id))(t)
		if n := p.Recovery().Records; n != manyBytes/4096 {
			t.Errorf("partition %d has %d records", id, n)
		}
		wg.Go(func() {
			w, err := p.Lead(ctx)
			if err == nil {
				err = w.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(append(errs, s.Close())...)
}

// F8: a start after a full disk needs no room for segments, nor for all tails at once. A file that
// it cannot write leaves nothing behind.
func TestF8StartOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	opts := log.Options{FS: disk, Partitions: 4, Manual: true, BootID: "boot"}
	left := int64(60 << 10) // of the frame that does not fit
	fullDirectory(t, simDir, opts, func() {
		disk.Limit(disk.Used() + left)
		disk.Hook(uncut)
	})
	disk = disk.Crash(rand.New(rand.NewPCG(1, 1)), faultfs.Kill)
	opts.FS = disk
	used := disk.Used()

	disk.Limit(used + 1)
	if err := lead(t, simDir, opts); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("started without any room: %v", err)
	}
	if more := disk.Used() - used; more > 1 {
		t.Errorf("a start that failed left %d bytes", more)
	}
	for _, name := range disk.Files(simDir) {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("a start that failed left %s", name)
		}
	}

	disk.Limit(disk.Used() + blockRoom)
	orderly(t, disk)
	if err := lead(t, simDir, opts); err != nil {
		t.Fatalf("with room for small files: %v", err)
	}
	disk.Hook(nil)
	kept := 0
	for _, name := range disk.Files(simDir) {
		if strings.Contains(name, "/cut/") {
			kept++
		}
	}
	if kept != 4 {
		t.Errorf("%d tails of 4 were kept", kept)
	}
	if err := lead(t, simDir, opts); err != nil {
		t.Fatal(err)
	}
}

// F9: after a failed sync the page cache shows bytes that the disk lacks, and no later sync writes
// them. The bytes that a start shows must be on the disk nevertheless, even if the note about the
// failure could not be written either.
func TestF9PageCacheLies(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{true, false} {
		t.Run(fmt.Sprintf("noted=%t", noted), func(t *testing.T) {
			w := newWorld(t, t.Name(), 5)
			if err := errors.Join(w.open(), w.lead()); err != nil {
				t.Fatal(err)
			}
			w.send(3, 100, log.Durable)
			w.work()
			failed := false
			w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
				switch {
				case c.Op == faultfs.OpDatasync && !failed:
					failed = true
					return faultfs.Fault{Err: syscall.EIO, CleanPages: true}
				case failed && !noted && c.Op == faultfs.OpCreate:
					return faultfs.Fault{Err: syscall.EIO}
				}
				return faultfs.Fault{}
			})
			w.send(4, 100, log.Durable)
			w.work()
			if !failed {
				t.Fatal("no sync failed")
			}
			w.fs = w.fs.Crash(w.rng, faultfs.Kill)
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
			shown := len(w.sent)
			if shown != 7 {
				t.Fatalf("%d messages are shown", shown)
			}
			if err := w.lead(); err != nil {
				t.Fatal(err)
			}
			w.acked, w.safe = shown, shown
			for seed := range uint64(30) {
				c := *w
				c.fs = w.fs.Clone().Crash(rand.New(rand.NewPCG(seed, 3)), faultfs.PowerLoss)
				c.sent, c.boot = slices.Clone(w.sent), w.boot+1
				if err := c.open(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A repair that fails at any call can be repeated: durable data is kept, nothing is refused, no
// temporary file stays.
func TestRepairFailsAnywhere(t *testing.T) {
	t.Parallel()
	base := newWorld(t, t.Name(), 6)
	if err := errors.Join(base.open(), base.lead()); err != nil {
		t.Fatal(err)
	}
	base.send(3, 100, log.Durable)
	base.work()
	base.send(2, 100, log.Ordered)
	base.work()
	base.fs = base.fs.Crash(base.rng, faultfs.Kill)
	for _, drop := range []faultfs.Fault{{Err: syscall.EIO}, {Err: syscall.EIO, DropPages: true}, {Err: syscall.EIO, CleanPages: true}, {Err: syscall.ENOSPC}} {
		for k := 1; ; k++ {
			w := *base
			w.fs, w.sent, w.name = base.fs.Clone(), slices.Clone(base.sent), fmt.Sprintf("call %d %v", k, drop)
			if drop.DropPages {
				w.safe = w.acked
			}
			if err := w.open(); err != nil {
				w.failf("%v", err)
			}
			w.fs.FailAt(k, drop, false)
			err := w.lead()
			w.fs.Hook(nil)
			if err == nil {
				break
			}
			for _, name := range w.fs.Files(simDir) {
				if strings.HasSuffix(name, ".tmp") {
					w.failf("left %s", name)
				}
			}
			w.fs = w.fs.Crash(rand.New(rand.NewPCG(uint64(k), 1)), faultfs.Kill)
			if err := errors.Join(w.open(), w.lead()); err != nil {
				w.failf("the start after it: %v", err)
			}
		}
	}
}

// A tail without room for a second copy is kept as it was.
func TestTailIsKeptAsItWas(t *testing.T) {
	t.Parallel()
	for _, room := range []int64{0, 200 << 10} {
		disk := faultfs.New()
		opts := log.Options{FS: disk, Partitions: 1, Manual: true, BootID: "boot"}
		s := must(log.Open(ctx, simDir, opts))(t)
		w := must(must(s.Open(ctx, 0))(t).Lead(ctx))(t).(log.ManualWriter)
		disk.Limit(disk.Used() + 60<<10)
		disk.Hook(uncut)
		b := w.Batch()
		b.AppendRecord(1, []event.Event{message(1, 200<<10)}, log.Durable)
		k := w.Append(b)
		for w.Work() {
		}
		if <-k.Done(); !errors.Is(k.Err(), syscall.EIO) {
			t.Fatalf("%+v; want errors.Is(k.Err(), syscall.EIO)", k.Err())
		}
		disk = disk.Crash(rand.New(rand.NewPCG(1, 1)), faultfs.Kill)
		opts.FS = disk
		file := simDir + "/partitions/00/wal/0000000001/" + fmt.Sprintf("%020d", 1)
		before := must(disk.ReadFile(file))(t)
		disk.Limit(disk.Used() + 8<<10 + room)
		s = must(log.Open(ctx, simDir, opts))(t)
		p := must(s.Open(ctx, 0))(t)
		must(p.Lead(ctx))(t)
		rec := p.Recovery()
		tail := must(disk.ReadFile(simDir + "/" + rec.CutFile))(t)
		if rec.CutBytes < 50<<10 || !bytes.Equal(tail, before[len(before)-int(rec.CutBytes):]) {
			t.Errorf("room %d: %d bytes cut, %d kept, not as they were", room, rec.CutBytes, len(tail))
		}
		if after := must(disk.ReadFile(file))(t); !bytes.Equal(after, before[:len(before)-int(rec.CutBytes)]) {
			t.Errorf("room %d: the segment has %d bytes", room, len(after))
		}
	}
}
