package host

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// live returns the bytes of the heap that are in use. The content of pools is gone after the second
// collection.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkEntities: the cost of 10,000 unused queues.
func BenchmarkEntities(b *testing.B) {
	const n = 10_000
	var cmds []engine.PutEntity
	for i := range n {
		cmds = append(cmds, engine.PutEntity{Kind: event.Queue, Path: fmt.Sprintf("queue-%05d", i), Properties: testQueue()})
	}
	ms := func(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
	for b.Loop() {
		dir := b.TempDir()
		open := func() *broker {
			store, err := log.Open(context.Background(), dir, log.Options{Partitions: 4})
			if err != nil {
				b.Fatal(err)
			}
			ns, err := Open(context.Background(), store, Options{})
			if err != nil {
				b.Fatal(err)
			}
			return &broker{ns, store}
		}
		put := func(br *broker) {
			_, errs := br.PutEntities(b.Context(), cmds)
			for _, err := range errs {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		br := open()
		began := time.Now()
		put(br)
		b.ReportMetric(ms(began), "ms-create")
		br.close(b)
		br = nil

		before := live()
		began = time.Now()
		br = open()
		b.ReportMetric(ms(began), "ms-open")
		began = time.Now()
		put(br)
		b.ReportMetric(ms(began), "ms-put-again")
		began = time.Now()
		if page := br.List(event.Queue, "", n-100, 100); len(page) != 100 {
			b.Fatalf("%+v, want 100", len(page))
		}
		b.ReportMetric(ms(began), "ms-first-list")
		began = time.Now()
		br.List(event.Queue, "", n-100, 100)
		b.ReportMetric(ms(began), "ms-list")
		b.ReportMetric(float64(live()-before)/n, "B-kept/entity")
		runtime.KeepAlive(cmds)
		br.close(b)
	}
}
