package log_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// reopen makes the store recover the partition whose writer is w.w, or never existed, and checks
// its contents.
func (w *world) reopen() error {
	if w.w != nil {
		_ = w.w.Close() // it failed, or ends in order
	}
	p, err := w.store.Reopen(ctx, 0)
	if err != nil {
		return err
	}
	if again, err := w.store.Open(ctx, 0); err != nil || again != p {
		w.failf("Open gives another partition than Reopen: %v", err)
	}
	w.part = p
	return w.check()
}

// F9, F14, P24: whichever call of a run fails, the log can be read again in the same process, holds
// everything acknowledged, and is written again. Later writes survive later failures. The page
// cache may show bytes that the disk lacks.
func TestReopenAfterErrorAtEveryCall(t *testing.T) {
	t.Parallel()
	for kind, fault := range map[string]faultfs.Fault{
		"EIO": {Err: syscall.EIO}, "short write": {Err: syscall.EIO, Short: 104}, "dropped pages": {Err: syscall.EIO, DropPages: true}, "clean pages": {Err: syscall.EIO, CleanPages: true},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k += step() {
				w := newWorld(t, fmt.Sprintf("%s at call %d", kind, k), 1)
				if err := w.open(); err != nil {
					t.Fatal(err)
				}
				from := w.fs.Calls()
				w.fs.FailAt(k, fault, false)
				err := w.lead()
				if err == nil {
					err = w.live()
				}
				if err == nil && w.fs.Calls()-from < k {
					return
				}
				w.fs.Hook(nil)
				// nothing was reported, for instance of a read that can be done without
				if w.safe = 0; err == nil {
					continue
				}
				if err := w.reopen(); err != nil {
					w.failf("reopened: %v", err)
				}
				if err := w.lead(); err != nil {
					if strings.Contains(err.Error(), "clean marker") {
						continue // of all partitions: the process ends
					}
					w.failf("led: %v", err)
				}
				w.send(2, 50, log.Durable)
				if err := w.work(); err != nil {
					w.failf("written: %v", err)
				}
				if k%2 == 0 {
					if err := w.stop(); err != nil {
						w.failf("stopped: %v", err)
					}
				}
				w.rng = rand.New(rand.NewPCG(uint64(k), 2))
				w.crash([]faultfs.Mode{faultfs.Kill, faultfs.PowerLoss}[k/2%2])
				w.after()
			}
		})
	}
}

// F14: the process dies, or the power fails, at any call of a restart of one partition: a start
// finds everything acknowledged.
func TestReopenDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		for how, fault := range map[string]faultfs.Fault{"failed": {Err: syscall.EIO, CleanPages: true}, "in order": {}} {
			t.Run(fmt.Sprintf("%v/%s", mode, how), func(t *testing.T) {
				t.Parallel()
				for k := 1; ; k++ {
					w := newWorld(t, fmt.Sprintf("%s, %v at call %d", how, mode, k), 1)
					if err := w.life(); err != nil {
						t.Fatal(err)
					}
					if fault.Err != nil {
						w.send(1, 10, log.Durable)
						w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
							if c.Op == faultfs.OpDatasync {
								return fault
							}
							return faultfs.Fault{}
						})
						if err := w.work(); !errors.Is(err, log.ErrPoisoned) {
							w.failf("it did not fail: %v", err)
						}
						w.fs.Hook(nil)
						_ = w.w.Close()
					} else if err := w.w.Close(); err != nil {
						t.Fatal(err)
					} else if w.acked = len(w.sent); w.settle() != nil {
						w.failf("an orderly close fails somebody")
					}
					w.w = nil
					from := w.fs.Calls()
					w.fs.CrashAt(k)
					err := w.reopen()
					if err == nil {
						err = w.lead()
					}
					if err == nil && w.fs.Calls()-from < k {
						return
					}
					w.rng = rand.New(rand.NewPCG(uint64(k), uint64(mode)))
					w.crash(mode)
					w.after()
				}
			})
		}
	}
}

// A partition is not reopened while it has a writer. One that was closed in order must end where it
// was closed; with its files restored it is as before. The same holds for one that a start refused:
// the clean marker recorded its end, although the marker is gone by now (log-format.md 5.3).
func TestReopenWhatWasThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Reopen(ctx, 0); err == nil {
		t.Fatal("reopened beside its writer")
	}
	if _, err := w.store.Reopen(ctx, 1); err == nil {
		t.Fatal("reopened a partition that is not there")
	}
	if err := w.w.Close(); err != nil {
		t.Fatal(err)
	}
	w.w = nil
	w.acked = len(w.sent)
	files := w.segments()
	last := files[len(files)-1]
	good, err := w.fs.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	cut := func(w *world) {
		if err := w.fs.TruncateFile(last, int64(len(good)-8)); err != nil {
			t.Fatal(err)
		}
	}
	cut(w)
	var c *log.CorruptError
	if err := w.reopen(); !errors.As(err, &c) {
		t.Fatalf("a log that was closed in order and has lost its end: %v", err)
	}
	if err := w.fs.WriteFile(last, good); err != nil {
		t.Fatal(err)
	}
	if err := w.reopen(); err != nil {
		t.Fatal(err)
	}
	if !w.part.Recovery().Clean {
		t.Error("it was closed in order, and is not found so")
	}
	if err := w.lead(); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.crash(faultfs.Kill)
	w.after()
}

// syncWith works up to a sync, in which the disk has a fault. After a failing sync no note is left
// on it either.
func (w *world) syncWith(fault faultfs.Fault) error {
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		switch {
		case c.Op == faultfs.OpDatasync:
			return fault
		case fault.Err != nil && c.Op != faultfs.OpWrite:
			return faultfs.Fault{Err: fault.Err}
		}
		return faultfs.Fault{}
	})
	defer w.fs.Hook(nil)
	w.w.Sync()
	return w.work()
}

// F9, F14: a sync reports success without syncing, and then the disk fails, so that acknowledged
// data is lost. The process knows how far it had synced: it refuses the log, names both addresses,
// and keeps refusing it until everything is back. A start knows nothing, and accepts the end of the
// log.
func TestReopenRefusesWhatASyncLostSilently(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the sync was true", "a start takes what is left", "the file comes back"} {
		w, lies := sealing(t, how, 5), how != "the sync was true"
		if err := w.life(); err != nil {
			t.Fatal(err)
		}
		w.send(1, 10, log.Durable)
		if err := w.syncWith(faultfs.Fault{}); err != nil {
			t.Fatal(err)
		}
		kept, at := w.acked, w.w.Durable()
		w.send(1, 10, log.Durable)
		if err := w.syncWith(faultfs.Fault{Lies: lies}); err != nil || w.acked != kept+1 {
			t.Fatalf("%d are acknowledged, %v; want %d", w.acked, err, kept+1)
		}
		promised := w.w.Durable()
		files := w.segments()
		last := files[len(files)-1]
		good, err := w.fs.ReadFile(last)
		if err != nil {
			t.Fatal(err)
		}
		w.send(1, 10, log.Durable)
		if err := w.syncWith(faultfs.Fault{Err: syscall.EIO, DropPages: true}); !errors.Is(err, log.ErrPoisoned) {
			t.Fatalf("the disk fails, and the writer says %v", err)
		}
		if w.safe = 0; !lies {
			if err := w.reopen(); err != nil {
				w.failf("nothing that was acknowledged is gone: %v", err)
			}
			// the earlier acknowledged data is in a sealed file by now
			if err := errors.Join(w.lead(), w.live(), w.w.Close(), w.settle()); err != nil {
				t.Fatal(err)
			}
			w.w, w.acked = nil, len(w.sent)
			if err := w.reopen(); err != nil || !w.part.Recovery().Clean {
				w.failf("closed in order, and reopened: %v", err)
			}
			continue
		}
		for range 2 { // not even the second time
			err := w.reopen()
			c, is := errors.AsType[*log.CorruptError](err)
			if !is || !errors.Is(err, log.ErrLost) || c.LSN != at || !strings.Contains(err.Error(), fmt.Sprintf("(LSN %d)", at)) || !strings.Contains(err.Error(), fmt.Sprintf("up to LSN %d", promised)) {
				t.Fatalf("the log ends at %d, was acknowledged up to %d, and is reopened with %v", at, promised, err)
			}
		}
		if how == "the file comes back" {
			if err := w.fs.WriteFile(last, good); err != nil {
				t.Fatal(err)
			}
			if err := w.reopen(); err != nil {
				w.failf("all that was acknowledged is there: %v", err)
			}
			continue
		}
		w.crash(faultfs.Kill)
		w.acked = kept
		w.after()
	}
}

// P24: one of two partitions is refused at the start. Its files come back while the other one
// works, and so does it; meanwhile the clean marker is gone, and still counts for it.
func TestReopenARefusedPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 4)
	w.opts.Partitions = 2
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	other, err := w.store.Open(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := other.Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	name := simDir + "/partitions/01/wal/0000000001/00000000000000000001"
	good, err := w.fs.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		if err := w.fs.WriteFile(name, b); err != nil {
			t.Fatal(err)
		}
	}
	put(good[:len(good)-8])
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if err := w.lead(); err != nil { // the clean marker goes
		t.Fatal(err)
	}
	var c *log.CorruptError
	if _, err := w.store.Open(ctx, 1); !errors.As(err, &c) {
		t.Fatalf("not refused: %v", err)
	}
	if _, err := w.store.Reopen(ctx, 1); !errors.As(err, &c) {
		t.Fatalf("a partition that has lost its end is reopened: %v", err)
	}
	put(good)
	p, err := w.store.Reopen(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if writer, err = p.Lead(ctx); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil || !w.part.Recovery().Clean {
		t.Fatalf("the run that brought it back ended in order: %v", err)
	}
}

// Who takes a partition away, or its disk, waits for its files to be closed: none is open once its
// writer is closed, however that ended, and whatever was read.
func TestClosedPartitionHasNoFileOpen(t *testing.T) {
	t.Parallel()
	for how, fault := range map[string]faultfs.Fault{"failed": {Err: syscall.EIO}, "in order": {}} {
		w := newWorld(t, how, 3)
		var mu sync.Mutex
		open, failing := 0, false
		if err := w.open(); err != nil { // searches without a match are not counted
			t.Fatal(err)
		}
		w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !strings.Contains(c.Name, "partitions/"):
			case failing && c.Op == faultfs.OpDatasync:
				return fault
			case c.Op == faultfs.OpCreate, c.Op == faultfs.OpOpen, c.Op == faultfs.OpEdit:
				open++
			case c.Op == faultfs.OpClose:
				open--
			}
			return faultfs.Fault{}
		})
		if err := errors.Join(w.lead(), w.live()); err != nil {
			t.Fatal(err)
		}
		w.send(1, 10, log.Durable)
		if err := errors.Join(w.work(), w.check()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if failing = true; open < 2 {
			t.Errorf("%s: %d files are open of a log that is written and was read", how, open)
		}
		mu.Unlock()
		w.send(1, 10, log.Durable)
		if err := w.work(); (err != nil) != (fault.Err != nil) {
			t.Fatalf("%+v; want (err != nil) == (fault.Err != nil)", err)
		}
		if err := w.w.Close(); (err != nil) != (fault.Err != nil) {
			t.Fatalf("%+v; want (err != nil) == (fault.Err != nil)", err)
		}
		if open != 0 {
			t.Errorf("%s: %d files are open", how, open)
		}
	}
}
