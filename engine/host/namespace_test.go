package host

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// inbox is a sink for tests.
type inbox struct {
	mu   sync.Mutex
	cond *sync.Cond
	got  []engine.Reply
}

func newInbox() *inbox {
	b := &inbox{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *inbox) Post(rs []engine.Reply) {
	b.mu.Lock()
	b.got = append(b.got, rs...)
	b.mu.Unlock()
	b.cond.Broadcast()
}

// wait returns the first n replies.
func (b *inbox) wait(n int) []engine.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.got) < n {
		b.cond.Wait()
	}
	out := b.got[:n:n]
	b.got = b.got[n:]
	return out
}

// broker is a namespace on a directory, with its store.
type broker struct {
	*Namespace
	store log.Store
}

func open(t testing.TB, dir string) *broker {
	t.Helper()
	store, err := log.Open(context.Background(), dir, log.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

func (b *broker) close(t testing.TB) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) queue(t testing.TB, path string, p event.Properties) engine.Target {
	t.Helper()
	if _, err := b.PutEntity(context.Background(), engine.PutEntity{Kind: event.Queue, Path: path, Properties: p}); err != nil {
		t.Fatal(err)
	}
	target, err := b.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// SM-001, SM-052, SM-166: accepted messages are there after a stop and start, byte for byte, and
// each is delivered once.
func TestSendRestartReceive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	q := b.queue(t, "orders", testQueue())
	const n = 1000
	in := newInbox()
	var reqs []engine.Request
	for i := range n {
		reqs = append(reqs, engine.Request{Sink: in, Tag: uint64(i), Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0),
			Messages: []engine.Message{{ID: []byte("id"), Body: fmt.Appendf(nil, "body %d", i)}}}})
	}
	b.Submit(q.Host(0), reqs)
	for i, r := range in.wait(n) {
		if r.Err != nil || r.Tag != uint64(i) {
			t.Fatalf("reply %d: tag %d, %v", i, r.Tag, r.Err)
		}
	}
	b.close(t)

	b = open(t, dir)
	defer b.close(t)
	q = b.queue(t, "ORDERS", testQueue())
	if r := b.Recovered()[q.Host(0)]; r.Messages != n {
		t.Fatalf("recovered %d messages, want %d", r.Messages, n)
	}
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 77}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: n + 5, Drain: true}}})
	replies := in.wait(n + 1)
	if replies[n].Kind != engine.ReplyDrained {
		t.Fatalf("last reply is %v", replies[n].Kind)
	}
	for i, r := range replies[:n] {
		d := r.Delivery()
		body := make([]byte, d.Body.Size)
		if _, err := b.ReadInto(q.Host(0), d.Body, body); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("body %d", i); string(body) != want || event.Sum(body) != d.Body.Sum || d.Sequence != event.SequenceNumber(i+1) {
			t.Fatalf("delivery %d has number %d and body %q", i, d.Sequence, body)
		}
	}
	reqs = reqs[:0]
	for i, r := range replies[:n] {
		reqs = append(reqs, engine.Request{Sink: in, Tag: uint64(i), Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: r.Delivery().Token, Outcome: engine.Complete}})
	}
	b.Submit(q.Host(0), reqs)
	for _, r := range in.wait(n) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Peek{Slice: q.Slice(0), From: 1, Count: 10, MaxBytes: 1000}}})
	if r := in.wait(1)[0]; len(r.Messages()) != 0 {
		t.Fatalf("peek found %d messages", len(r.Messages()))
	}
}

// WP-126, SM-029: credit is served in the order in which it arrived.
func TestCreditOrder(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	in := newInbox()
	r1 := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 1}
	r2 := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 2}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r1}}, {Command: &engine.Attach{Receiver: r2}},
		{Command: &engine.Flow{Receiver: r1, Limit: 2}}, {Command: &engine.Flow{Receiver: r2, Limit: 1}}, {Command: &engine.Flow{Receiver: r1, Limit: 3}}})
	send := &engine.Send{Entity: q.Entity, Slice: q.Slice(0)}
	for range 5 {
		send.Messages = append(send.Messages, engine.Message{ID: []byte("x"), Body: []byte("x")})
	}
	b.Submit(q.Host(0), []engine.Request{{Command: send}})
	var order []uint64
	for _, r := range in.wait(4) {
		order = append(order, r.Tag)
	}
	if fmt.Sprint(order) != "[1 1 2 1]" {
		t.Fatalf("served %v", order)
	}
	// A delivery that never reached the wire returns without counting, and the next in line gets
	// it.
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Tag: 9, Command: &engine.Detach{Receiver: r2}}, {Command: &engine.Flow{Receiver: r1, Limit: 5}}})
	in.wait(2)
}

func BenchmarkSend(b *testing.B) {
	for _, inFlight := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			br := open(b, b.TempDir())
			defer br.close(b)
			p := testQueue()
			p.MaxSizeMegabytes = 1 << 20
			q := br.queue(b, "orders", p)
			in := newInbox()
			body := make([]byte, 1024)
			b.SetBytes(1024)
			b.ReportAllocs()
			sent, acked := 0, 0
			for acked < b.N {
				var reqs []engine.Request
				for sent < b.N && sent-acked < inFlight {
					reqs = append(reqs, engine.Request{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("x"), Body: body}}}})
					sent++
				}
				br.Submit(q.Host(0), reqs)
				acked += len(in.wait(len(reqs)))
			}
		})
	}
}
