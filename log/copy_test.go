package log_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// copied puts a copy of a store on a disk.
func copied(t *testing.T, s log.Store, end event.LSN) *faultfs.FS {
	t.Helper()
	disk := faultfs.New()
	if err := disk.Mkdir(simDir); err != nil {
		t.Fatal(err)
	}
	last := ""
	err := s.(log.Copier).Copy(ctx, []event.LSN{end}, func(c log.CopyEntry) error {
		name := filepath.Join(simDir, c.Name)
		if last = c.Name; !log.MayBeCopied(c.Name, c.Dir) {
			t.Errorf("%q is not among the names of a copy", c.Name)
		}
		if c.Dir {
			return disk.Mkdir(name)
		}
		p, err := io.ReadAll(c.Contents)
		if int64(len(p)) != c.Size {
			t.Errorf("%s has %d bytes, not %d", c.Name, len(p), c.Size)
		}
		return errors.Join(err, disk.WriteFile(name, p))
	})
	if err != nil || last != "namespace.json" {
		t.Fatalf("LSN %d: %v, and %q was last", end, err, last)
	}
	return disk
}

// TestCopy copies a log that is being written, at every frame that is durable: the copy ends there
// in order, and goes on as a log of its own.
func TestCopy(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, string, uint64) *world{"plain": newWorld, "sealed": sealing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copies(t, start(t, t.Name(), 6))
		})
	}
}

func copies(t *testing.T, w *world) {
	if err := errors.Join(w.script(), w.work()); err != nil {
		t.Fatal(err)
	}
	all, err := frames(w.part)
	if err != nil {
		t.Fatal(err)
	}
	w.send(1, 300, log.Ordered)
	w.w.Work() // written and not durable
	checkpoints := 0
	for i := range all {
		end := w.w.Durable()
		if i+1 < len(all) {
			end = all[i+1].lsn
		}
		opts := w.opts
		opts.FS, opts.BootID = copied(t, w.store, end), "elsewhere"
		s, err := log.Open(ctx, simDir, opts)
		if err != nil {
			t.Fatalf("LSN %d: %v", end, err)
		}
		p, err := s.Open(ctx, 0)
		if err != nil {
			t.Fatalf("LSN %d: %v", end, err)
		}
		got, err := frames(p)
		rec := p.Recovery()
		if _, at := p.Bounds(); err != nil || at != end || !slices.Equal(got, all[:i+1]) || !rec.Clean || rec.CutBytes > 0 || len(rec.Discarded) > 0 {
			t.Fatalf("a copy up to LSN %d ends at %d: %v %+v", end, at, err, rec)
		}
		checkpoints += rec.Checkpoints
		c := *w
		c.fs, c.opts, c.store, c.part, c.wait = opts.FS.(*faultfs.FS), opts, s, p, nil
		if i%7 == 0 {
			if err := c.lead(); err != nil {
				t.Fatal(err)
			}
			if err := c.w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if checkpoints == 0 {
		t.Error("no checkpoint was copied")
	}
	w.refusesToCopy(all[2].lsn)
}

// refusesToCopy asks for copies that do not end where a durable frame does, and for one whose
// context has ended. at is the end of a frame.
func (w *world) refusesToCopy(at event.LSN) {
	t, copier := w.t, w.store.(log.Copier)
	none := func(log.CopyEntry) error { return nil }
	if err := copier.Copy(ctx, []event.LSN{w.w.Written()}, none); err == nil {
		t.Error("what is not durable is copied")
	}
	if err := copier.Copy(ctx, []event.LSN{at + 8}, none); err == nil {
		t.Error("a copy ends inside a frame")
	}
	if err := copier.Copy(ctx, nil, none); err == nil {
		t.Error("a copy of no partition")
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	err := copier.Copy(ended, []event.LSN{at}, func(c log.CopyEntry) error {
		if c.Dir {
			return nil
		}
		_, err := io.ReadAll(c.Contents)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v; want errors.Is(err, context.Canceled)", err)
	}
}

func TestMayBeCopied(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "/", "/etc", "../clean", "clean/", "lock", "ballast", "namespace.json.tmp", "partitions/", "partitions/0", "partitions/00/..",
		"partitions/00//wal", "partitions/00/wal/../../clean", "partitions/99/wal/1", "partitions/00/wal/0000000001/00000000000000000001/x", "partitions/00/wal/0000000001/..",
		"partitions/00/checkpoints/x.ckpt", "partitions/00/fault", "partitions\\00", "Clean", "clean\n", "lease-0000000000000001"} {
		if log.MayBeCopied(name, false) || log.MayBeCopied(name, true) {
			t.Errorf("%q is taken", name)
		}
	}
	for name, dir := range map[string]bool{"clean": false, "namespace.json": false, "partitions": true, "partitions/63": true, "partitions/00/wal": true,
		"partitions/00/wal/0000000001": true, "partitions/00/wal/0000000001/00000000000000000001": false, "partitions/00/checkpoints/00000000000000000008.ckpt": false,
		"partitions/00/sealed": true, "partitions/00/sealed/0000000001-0001.lbs": false} {
		if !log.MayBeCopied(name, dir) || log.MayBeCopied(name, !dir) {
			t.Errorf("%q is not taken for what it is", name)
		}
	}
}
