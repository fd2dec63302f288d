package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestPresentOfFullDisk: what is not durable is not counted. Its partition is named as missing,
// after a second, and so it is while it is out of service.
func TestPresentOfFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, store, n, e := openOrders(t, 2)
		host := int(e.Hosts[0])
		ask := func() rows.Entity {
			e, err := present.New(n.Present(), time.Now).Entity(t.Context(), "ORDERS")
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		if e := ask(); e.Path != "orders" || e.Messages != 0 || e.Missing != nil {
			t.Errorf("%+v", e)
		}
		disk.Limit(disk.Used())
		n.Submit(engine.PartitionID(host), []engine.Request{{Sink: make(answer, 1), Command: &engine.Send{Slice: event.Slice{Entity: e.ID}, Messages: []engine.Message{{ID: []byte("m"), Body: make([]byte, 1000)}}}}})
		synctest.Wait()
		began := time.Now()
		if e := ask(); e.Messages != 0 || !slices.Equal(e.Missing, []int{host}) || time.Since(began) != time.Second {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := n.Present().Snapshot(ctx, host); s != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a snapshot that is not durable: %v, %v", s, err)
		}
		var stopped rows.Now
		asked := make(chan error, 1)
		go func() {
			var err error
			stopped, err = present.New(n.Present(), time.Now).Now(t.Context())
			asked <- err
		}()
		synctest.Wait()
		if err := n.Close(); !errors.Is(err, log.ErrNoRoom) {
			t.Errorf("stopped with %v", err)
		}
		if err := <-asked; err != nil || !slices.Contains(stopped.Missing, host) {
			t.Errorf("a partition that stops meanwhile: %+v, %v", stopped, err)
		}
		if err := n.Present().Look(t.Context(), host, func(*index.Index) {}); !errors.Is(err, present.ErrAway) {
			t.Errorf("a partition that has stopped: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
