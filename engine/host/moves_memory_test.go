package host

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// moveMemory is the live heap, bytes, around a move of many messages.
type moveMemory struct{ before, most, after int64 }

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// countingSink counts deliveries and reads them as they come.
type countingSink struct {
	n  atomic.Int64
	of *engine.Receiver
}

func (s *countingSink) Post(rs []engine.Reply) {
	for i := range rs {
		if rs[i].Delivery() != nil {
			s.n.Add(1)
			s.of.Read[0].Add(1)
		}
	}
}

// measureMove moves messages that exist when ForwardTo is set, and measures the live heap again and
// again during the move. With drained, a receiver at the destination takes the messages.
func measureMove(t testing.TB, messages, bodySize int, drained bool) (m moveMemory) {
	t.Helper()
	store, err := log.Open(context.Background(), t.TempDir(), log.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{Reread: message.Reread})
	if err != nil {
		t.Fatal(err)
	}
	br := &broker{n, store}
	defer br.close(t)
	p := testQueue()
	p.MaxSizeMegabytes = 81920
	to := br.queue(t, "b", p)
	from := br.queue(t, "a", p)
	in := newInbox()
	filler := bytes.Repeat([]byte("x"), bodySize)
	for sent := 0; sent < messages; {
		cmd := &engine.Send{Entity: from.Entity, Slice: from.Slice(0)}
		for ; sent < messages && len(cmd.Messages) < 1000; sent++ {
			id := fmt.Sprint(sent)
			body := amqp.AppendData(amqp.AppendProperties(nil, &amqp.Properties{MessageID: id}), filler)
			cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte(id), Body: body})
		}
		br.Submit(from.Host(0), []engine.Request{{Command: cmd, Sink: in}})
		if r := in.wait(1)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var sink countingSink
	if drained {
		r := &engine.Receiver{Entity: to.Entity, Slice: to.Slice(0), Mode: engine.ReceiveAndDelete, Sink: &sink}
		sink.of = r
		br.Submit(to.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: uint32(messages)}}})
	}
	m.before = liveHeap()
	p.ForwardTo = "b"
	br.queue(t, "a", p)
	for over := false; !over; {
		m.most = max(m.most, liveHeap())
		r, err := br.Runtime(context.Background(), []*engine.Entity{to.Entity, from.Entity})
		if err != nil {
			t.Fatal(err)
		}
		over = r[0].Active+int(sink.n.Load()) == messages && r[1].Transfer == 0 && r[1].Active == 0
		time.Sleep(5 * time.Millisecond)
	}
	m.after = liveHeap()
	return m
}

// P23: memory does not grow while messages move: a message that waits at the destination takes what
// it took at the source, and a message that has left takes nothing. Not parallel: it measures the
// heap.
func TestMemoryOfMoving(t *testing.T) {
	const n = 100_000
	for _, drained := range []bool{false, true} {
		m := measureMove(t, n, 10, drained)
		t.Logf("drained %t: %.2f MiB before, %.2f at most, %.2f then", drained, mib(m.before), mib(m.most), mib(m.after))
		// messages in transfer, buffers, and checkpoints, for any number of messages
		const moving = 6 << 20
		if m.most > m.before+moving {
			t.Errorf("drained %t: %.2f MiB more while messages move", drained, mib(m.most-m.before))
		}
		left := m.before - n*50
		if !drained {
			left = m.before + n*3 // the numbers they had where they were sent to
		}
		if m.after > left+2<<20 {
			t.Errorf("drained %t: %.2f MiB are left, %.2f are meant", drained, mib(m.after), mib(left))
		}
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// BenchmarkForwardMemory measures the live heap before, during and after the move of a million
// messages of 1 KiB.
func BenchmarkForwardMemory(b *testing.B) {
	for _, drained := range []bool{false, true} {
		b.Run(fmt.Sprintf("drained=%t", drained), func(b *testing.B) {
			for range b.N {
				m := measureMove(b, 1_000_000, 1000, drained)
				b.ReportMetric(mib(m.before), "MiB-before")
				b.ReportMetric(mib(m.most), "MiB-most")
				b.ReportMetric(mib(m.after), "MiB-after")
			}
		})
	}
}
