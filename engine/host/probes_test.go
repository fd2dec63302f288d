package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// onDisk opens a namespace of two partitions on an injected disk, inside a bubble.
func onDisk(t *testing.T, disk *faultfs.FS, o log.Options) *broker {
	t.Helper()
	o.FS, o.Partitions = disk, 2
	store, err := log.Open(t.Context(), "/data", o)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{CheckpointBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

// MA-159: an idle loop is live however long it sleeps; a loop in one turn for more than ten seconds
// is not, and is again when that turn has ended.
func TestLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := onDisk(t, faultfs.New(), log.Options{})
		defer b.close(t)
		time.Sleep(30 * time.Minute)
		if err := b.Live(); err != nil {
			t.Errorf("idle: %v", err)
		}
		stuck := make(stuckSink)
		b.Submit(1, []engine.Request{{Command: loop.Ping(), Sink: stuck}})
		for _, c := range []struct {
			after time.Duration
			live  bool
		}{{10 * time.Second, true}, {time.Second, false}, {time.Hour, false}} {
			time.Sleep(c.after)
			if err := b.Live(); (err == nil) != c.live {
				t.Errorf("after %v more in one turn: %v; want live to be %t", c.after, err, c.live)
			}
			if err := b.Ready(); err != nil {
				t.Errorf("not ready: %v", err)
			}
		}
		close(stuck)
		synctest.Wait()
		if err := b.Live(); err != nil {
			t.Errorf("after the turn: %v", err)
		}
	})
}

// MA-162: the disk is full for ten minutes. Messages are refused, so /health fails throughout; but
// the probes of an orchestrator do not fail, because a restart would not help and consumers can
// make room: they drain the queue in that time.
func TestProbesOnAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		b := onDisk(t, disk, log.Options{ReserveBytes: 1 << 20, LowBytes: 1 << 20})
		q := b.queue(t, "orders", testQueue())
		const stored = 20
		b.send(t, q, stored)
		disk.Limit(disk.Used()) // nothing is free except the reserve
		time.Sleep(2 * time.Second)
		received := 0
		for minute := range 10 {
			for probe := range 6 {
				time.Sleep(10 * time.Second)
				if err := errors.Join(b.Live(), b.Ready()); err != nil {
					t.Fatalf("minute %d, probe %d: %v", minute, probe, err)
				}
				if b.Health(t.Context()) == nil {
					t.Fatalf("minute %d: messages are taken on a full disk", minute)
				}
			}
			in := newInbox()
			b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0),
				Messages: []engine.Message{{ID: []byte("new"), Body: []byte("x")}}}}})
			if r := in.wait(1)[0]; !isBusy(r.Err) {
				t.Errorf("minute %d: a send is answered %v", minute, r.Err)
			}
			_, to := b.receiver(q, uint64(minute), 2)
			for _, r := range to.wait(2) {
				b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0),
					Token: r.Delivery().Token, Outcome: engine.Complete}}})
				if r := in.wait(1)[0]; r.Err != nil {
					t.Errorf("minute %d: settling is answered %v", minute, r.Err)
				}
				received++
			}
		}
		if received != stored {
			t.Errorf("%d messages were received, want %d", received, stored)
		}
		disk.Limit(0)
		time.Sleep(2 * time.Second)
		if err := b.Health(t.Context()); err != nil {
			t.Errorf("with room again: %v", err)
		}
		b.close(t)
	})
}

// MA-160: a namespace whose partition 1 is fenced is ready.
func TestReadyWithoutAPartition(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	if err := b.FencePartition(t.Context(), 1, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Live(), b.Ready()); err != nil {
		t.Error(err)
	}
	ps := &partitions{slots: make([]slot, 1)}
	if ps.Ready() == nil {
		t.Error("ready without partition 0")
	}
}
