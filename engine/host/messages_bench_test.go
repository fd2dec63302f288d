package host

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// order returns a message of 1 KiB as the log has it, with a JSON body and a property.
func order(n int) engine.Message {
	b := amqp.AppendDescriptor(nil, amqp.SectionApplicationProperties)
	b, mark := amqp.BeginMap(b)
	b = amqp.EndMap(amqp.AppendString(amqp.AppendString(b, "tenant"), fmt.Sprintf("t-%d", n%100)), mark, 1)
	header := len(b)
	body := fmt.Sprintf(`{"order": {"id": %d, "customer": "c-%d", "total": %d.50, "express": %t}, "lines": [`, n, n%1000, n%500, n%7 == 0)
	for i := 0; len(body) < 900; i++ {
		body += fmt.Sprintf(`{"sku": "A-%05d", "quantity": %d, "note": "as \"ordered\""}, `, i, i%9)
	}
	body += `null]}`
	body += strings.Repeat(" ", max(0, 1000-len(body)))
	return engine.Message{ID: fmt.Appendf(nil, "%d", n), Body: amqp.AppendData(b, []byte(body)), Header: header}
}

// sendOrders sends n messages, 500 at a time.
func (b *broker) sendOrders(t testing.TB, q engine.Target, n int) {
	t.Helper()
	in := newInbox()
	sends := 0
	for i := 0; i < n; sends++ {
		cmd := &engine.Send{Slice: q.Slice(0)}
		for end := i + 500; i < min(n, end); i++ {
			cmd.Messages = append(cmd.Messages, order(i))
		}
		b.Submit(q.Host(0), []engine.Request{{Command: cmd, Sink: in}})
		for _, r := range in.wait(1) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// cpu returns the CPU time of the process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMessages: conditions on 100,000 messages of 1 KiB with JSON bodies. It reports the time
// and the CPU time of a whole scan, the time until the answer with the first row, and the largest
// heap above that before the scan.
func BenchmarkMessages(b *testing.B) {
	const n = 100_000
	br := open(b, b.TempDir())
	defer br.close(b)
	p := testQueue()
	p.MaxSizeMegabytes = 5120
	br.sendOrders(b, br.queue(b, "orders", p), n)
	names := present.New(br.Present(), time.Now).ReadWith(func() present.Reader { return new(message.StoredReader) })
	for _, c := range []struct {
		where  string
		bodies bool
		rows   int
	}{
		{"state = 'locked'", false, 0},
		{"body.order.id = 4711 AND state = 'active'", true, 1},
		{"body.order.customer = 'c-17' AND body.order.express AND body.order.total > 1.5", true, 14},
		{"body.order.nothing = 1", false, 0},
		{"body.lines.3.sku = 'nothing'", false, 0},
		{"user.tenant = 'nothing'", false, 0},
		{"sys.Label = 'nothing' OR body.order.id = 99999", false, 1},
	} {
		b.Run(c.where, func(b *testing.B) {
			b.ReportAllocs()
			var first, used time.Duration
			var most uint64
			for b.Loop() {
				runtime.GC()
				stop := followHeap(&most)
				began, before := time.Now(), cpu()
				q := rows.MessagesQuery{Entity: "orders", Where: c.where, Bodies: c.bodies}
				found, calls, scanned := 0, 0, 0
				for {
					page, err := names.Messages(b.Context(), q)
					if err != nil {
						b.Fatal(err)
					}
					if found == 0 && len(page.Messages) > 0 {
						first += time.Since(began)
					}
					calls, scanned, found = calls+1, scanned+page.Scanned, found+len(page.Messages)
					if q.From = page.Next; q.From == 0 {
						break
					}
				}
				used += cpu() - before
				stop()
				if found != c.rows || scanned != n {
					b.Fatalf("%d rows of %d messages in %d answers; want %d", found, scanned, calls, c.rows)
				}
			}
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms-first")
			b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "ms-cpu")
			b.ReportMetric(float64(most>>10)/1024, "MiB-heap")
		})
	}
}

// followHeap looks at the heap until it is stopped, and keeps the largest growth.
func followHeap(most *uint64) (stop func()) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*most = max(*most, m.HeapAlloc-min(before, m.HeapAlloc))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() { over.Store(true); <-done }
}
