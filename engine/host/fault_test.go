package host

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// SM-377, F9, F12: an I/O error while there are no requests stops the loop, with its cause, like an
// error while a frame is written.
func TestFaultWhileIdle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op    faultfs.Op
		ticks int // seconds of idleness before the disk fails; after one comes a Skip frame
	}{{faultfs.OpRename, 0}, {faultfs.OpWrite, 1}, {faultfs.OpDatasync, 1}} {
		t.Run(string(c.op), func(t *testing.T) {
			t.Parallel()
			disk := faultfs.New()
			plog, w := logdir.Open(t, "/data", log.Options{FS: disk, Partitions: 1, Manual: true}).Lead(0)
			writer := w.(log.ManualWriter)
			batch := writer.Batch()
			// without anything a Skip frame is not written
			batch.AppendRecord(1, []event.Event{&event.EntityTouched{}}, log.Durable)
			writer.Append(batch)
			for writer.Work() {
			}
			l := loop.New(engine.NewPartition(0, 1, index.New()), plog, writer, loop.Options{Clock: func() event.Time { return 1 }, Tokens: newTokens(),
				Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1})
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.Run()
			}()
			for range c.ticks {
				writer.Tick()
			}
			disk.Hook(func(call faultfs.Call) faultfs.Fault {
				if call.Op == c.op && !strings.HasSuffix(call.Name, "fault.tmp") {
					return faultfs.Fault{Err: syscall.EIO}
				}
				return faultfs.Fault{}
			})
			writer.Tick()
			for writer.Work() {
			}
			<-done
			if err := l.Err(); !errors.Is(err, log.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Errorf("stopped with %v", err)
			}
		})
	}
}

// F21: a panic in a job of the catalogue is reported like a panic in a partition, and the others
// still end in order.
func TestPanicBesideThePartitions(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	b.manage <- engine.Request{Command: loop.Ping()} // which it does not know
	if err := <-b.Failed(); !errors.Is(err, ErrInternal) {
		t.Errorf("failed with %v", err)
	}
	b.close(t)
}
