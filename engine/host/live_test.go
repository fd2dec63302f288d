package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// openOrders opens a namespace with a queue orders on a disk whose room a test can limit.
func openOrders(t *testing.T, partitions int) (*faultfs.FS, log.Store, *Namespace, *engine.Entity) {
	t.Helper()
	disk := faultfs.New()
	store, err := log.Open(t.Context(), "/data", log.Options{FS: disk, Partitions: partitions, RoomBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{Time: &manualClocks{wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, CheckpointBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := n.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()})
	if err != nil {
		t.Fatal(err)
	}
	return disk, store, n, e
}

// F8: a partition whose disk is full still answers, and its answer says so, but not what is not
// durable.
func TestReceivingFromFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, store, n, e := openOrders(t, 1)
		ask := func() engine.PartitionNow {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return n.Receiving(ctx, engine.Target{Entity: e})[0]
		}
		if now := ask(); !now.Answered || now.Conditions != nil || *now.Messages != (engine.MessagesNow{}) {
			t.Errorf("%+v", now)
		}
		disk.Limit(disk.Used())
		n.Submit(0, []engine.Request{{Sink: make(answer, 1), Command: &engine.Send{Slice: event.Slice{Entity: e.ID}, Messages: []engine.Message{{ID: []byte("m"), Body: make([]byte, 1000)}}}}})
		synctest.Wait()
		if now := ask(); !now.Answered || !slices.Equal(now.Conditions, []string{diskFull}) || now.Messages != nil {
			t.Errorf("%+v", now)
		}
		if err := n.Close(); !errors.Is(err, log.ErrNoRoom) {
			t.Errorf("stopped with %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
