package log_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// A start reports how the last run ended, as far as possible.
func TestLastStop(t *testing.T) {
	t.Parallel()
	const unknown = "the process died, and nobody knows whether the machine did"
	for _, c := range []struct {
		name string
		want event.Stop
		end  func(*world) error
	}{
		{"nothing was there", event.StopNone, nil},
		{"in order", event.StopClean, (*world).stop},
		{"the process died", event.StopKilled, func(w *world) error { w.crash(faultfs.Kill); return nil }},
		{"the power failed", event.StopCrash, func(w *world) error { w.crash(faultfs.PowerLoss); return nil }},
		{unknown, event.StopCrash, func(w *world) error { w.crash(faultfs.Kill); return nil }},
		{"a sync failed", event.StopFailed, func(w *world) error {
			w.fs.FailAt(1, faultfs.Fault{Err: syscall.EIO}, false)
			w.send(1, 100, log.Durable)
			if err := w.work(); !errors.Is(err, log.ErrPoisoned) {
				return errors.Join(errors.New("the writer goes on"), err)
			}
			w.fs.Hook(nil)
			w.crash(faultfs.Kill)
			return nil
		}},
	} {
		w := newWorld(t, c.name, 3)
		if c.end != nil {
			if err := errors.Join(w.open(), w.lead()); err != nil {
				w.failf("%v", err)
			}
			w.send(2, 200, log.Durable)
			if err := errors.Join(w.work(), c.end(w)); err != nil {
				w.failf("%v", err)
			}
		}
		opts := w.opts
		if opts.FS, opts.BootID = w.fs, fmt.Sprint("boot-", w.boot); c.name == unknown {
			opts.BootID = ""
		}
		store := must(log.Open(ctx, simDir, opts))(t)
		if got := must(store.Open(ctx, 0))(t).LastStop(); got != c.want {
			w.failf("the last run ended %v, it must be %v", got, c.want)
		}
	}
}
