package sdkgo

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// One client holds 2,000 sessions at a time: each receiver has a link of its own and a pair to the
// management node, all on one connection.
func TestManySessionReceivers(t *testing.T) {
	many := 2000
	if testing.Short() {
		many = 200
	}
	b := harness.Start(t, harness.Queue("baskets", func(p *event.Properties) { p.RequiresSession, p.LockDuration = true, 5*time.Minute }))
	client, err := azservicebus.NewClientFromConnectionString(b.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	defer client.Close(context.WithoutCancel(ctx))
	sender, err := client.NewSender("baskets", nil)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	receivers := make([]*azservicebus.SessionReceiver, many)
	var all sync.WaitGroup
	slots := make(chan struct{}, 50)
	for n := range receivers {
		id := fmt.Sprint("basket-", n)
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := sender.SendMessage(ctx, &azservicebus.Message{SessionID: &id, Body: []byte(id)}, nil); err != nil {
				t.Errorf("send %d: %v", n, err)
				return
			}
			var err error
			if receivers[n], err = client.AcceptSessionForQueue(ctx, "baskets", id, nil); err != nil {
				t.Errorf("accept %d: %v", n, err)
				return
			}
			// over the pair to the management node
			if err := receivers[n].RenewSessionLock(ctx, nil); err != nil {
				t.Errorf("renew %d: %v", n, err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d receivers in %s; client and broker together take %d KiB for each", many, took.Round(time.Millisecond),
		(after.HeapInuse-before.HeapInuse)/uint64(many)>>10)
	for n, r := range receivers {
		if r == nil {
			continue
		}
		got, err := r.ReceiveMessages(ctx, 1, nil)
		if err != nil || len(got) != 1 || string(got[0].Body) != fmt.Sprint("basket-", n) {
			t.Fatalf("receiver %d: %d messages, %v", n, len(got), err)
		}
		if err := r.CompleteMessage(ctx, got[0], nil); err != nil {
			t.Fatalf("complete %d: %v", n, err)
		}
	}
}
