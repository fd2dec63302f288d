package host

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// BenchmarkForward moves messages of 1 KiB that exist when ForwardTo is set.
func BenchmarkForward(b *testing.B) {
	store, err := log.Open(context.Background(), b.TempDir(), log.Options{Partitions: 2})
	if err != nil {
		b.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{Reread: message.Reread})
	if err != nil {
		b.Fatal(err)
	}
	br := &broker{n, store}
	defer br.close(b)
	p := testQueue()
	p.MaxSizeMegabytes = 81920
	to := br.queue(b, "b", p)
	from := br.queue(b, "a", p)
	in := newInbox()
	for sent := 0; sent < b.N; {
		cmd := &engine.Send{Entity: from.Entity, Slice: from.Slice(0)}
		for ; sent < b.N && len(cmd.Messages) < 1000; sent++ {
			id := fmt.Sprint(sent)
			body := amqp.AppendData(amqp.AppendProperties(nil, &amqp.Properties{MessageID: id}), bytes.Repeat([]byte("x"), 1000))
			cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte(id), Body: body})
		}
		br.Submit(from.Host(0), []engine.Request{{Command: cmd, Sink: in}})
		if r := in.wait(1)[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	cpu := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	p.ForwardTo = "b"
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	br.queue(b, "a", p)
	for {
		r, err := br.Runtime(context.Background(), []*engine.Entity{to.Entity, from.Entity})
		if err != nil {
			b.Fatal(err)
		}
		if r[0].Active == b.N && r[1].Transfer == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	_ = event.Main
}
