package host

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// one opens a broker with a single partition: all queues share its goroutine.
func one(b *testing.B) *broker {
	b.Helper()
	store, err := log.Open(context.Background(), b.TempDir(), log.Options{Partitions: 1})
	if err != nil {
		b.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{CheckpointBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	return &broker{n, store}
}

// fill stores n messages, 1,000 a send, that expire at the time given; 0 is never. In a session
// queue the sessions take turns.
func (b *broker) fill(t *testing.B, q engine.Target, n, sessions int, expires event.Time) {
	t.Helper()
	in := newInbox()
	sends := 0
	for i := 0; i < n; sends++ {
		cmd := &engine.Send{Slice: q.Slice(0)}
		var ttl time.Duration
		if expires != 0 {
			ttl = expires.Sub(b.Now())
		}
		for end := i + 1000; i < min(n, end); i++ {
			m := engine.Message{ID: fmt.Appendf(nil, "%d", i), Body: make([]byte, 100), TimeToLive: ttl}
			if sessions > 0 {
				m.SessionID, m.HasSession = fmt.Appendf(nil, "session-%08d", i%sessions), true
			}
			cmd.Messages = append(cmd.Messages, m)
		}
		b.Submit(q.Host(0), []engine.Request{{Command: cmd, Sink: in}})
	}
	for _, r := range in.wait(sends) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// maxPause bounds how long one queue's bursts may hold up the sends of another.
const maxPause = time.Second

// during sends to a queue, one message after the other, until done returns true. It reports the
// longest send and the 99th percentile. A pause longer than maxPause is a failure.
func (b *broker) during(t *testing.B, q engine.Target, done func() bool) {
	t.Helper()
	var took []time.Duration
	in := newInbox()
	for !done() {
		began := time.Now()
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("x"), Body: make([]byte, 100)}}}}})
		if r := in.wait(1)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	longest := took[len(took)-1]
	if longest > maxPause {
		t.Errorf("a send took %v, it may take %v", longest, maxPause)
	}
	t.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-pause")
	t.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

// waitFor waits until the broker's clock has reached an instant.
func (b *broker) waitFor(at event.Time) { time.Sleep(at.Sub(b.Now())) }

// empty reports whether a sub-queue is empty.
func (b *broker) empty(q engine.Target) bool {
	a := make(answer, 1)
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Peek{Slice: q.Slice(0), SubQueue: q.SubQueue, Count: 1, MaxBytes: 1}, Sink: a}})
	r := <-a
	return len(r.Messages()) == 0
}

// BenchmarkExpiry: 1,000,000 messages that all expire together, while messages are sent to another
// queue of the partition. In the case with only a sweep the receiver withdraws its credit at once:
// since it has given credit, a sweep looks for expired messages, but no delivery clears the front
// of the queue.
func BenchmarkExpiry(b *testing.B) {
	const n = 1_000_000
	for _, c := range []struct {
		name  string
		dead  bool
		flows []engine.Flow
	}{
		{"sweep", false, []engine.Flow{{Limit: 1}, {Limit: 0}}},
		{"sweep-dead-letter", true, []engine.Flow{{Limit: 1}, {Limit: 0}}},
		{"receiver", false, []engine.Flow{{Limit: 10}}},
		{"drain-dead-letter", true, []engine.Flow{{Limit: 10, Drain: true}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				br := one(b)
				p := testQueue()
				p.DeadLetteringOnMessageExpiration, p.MaxSizeMegabytes = c.dead, 5120
				q, other := br.queue(b, "orders", p), br.queue(b, "other", testQueue())
				expires := br.Now().Add(12 * time.Second)
				br.fill(b, q, n, 0, expires)
				if br.Now() >= expires {
					b.Fatal("the machine is too slow")
				}
				br.waitFor(expires.Add(2 * time.Second)) // including the last ones
				r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: newInbox(), Tag: 1}
				cmds := []engine.Request{{Command: &engine.Attach{Receiver: r}}}
				for _, f := range c.flows {
					f.Receiver = r
					cmds = append(cmds, engine.Request{Command: &f})
				}
				began := time.Now()
				br.Submit(q.Host(0), cmds)
				br.during(b, other, func() bool { return br.empty(q) })
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-all")
				br.close(b)
			}
		})
	}
}

// BenchmarkLocksEnd: 100,000 locks that end within a second, while messages are sent to another
// queue of the partition.
func BenchmarkLocksEnd(b *testing.B) {
	const n = 100_000
	for _, dead := range []bool{false, true} {
		b.Run(fmt.Sprintf("dead-letter=%t", dead), func(b *testing.B) {
			for b.Loop() {
				br := one(b)
				p := testQueue()
				p.LockDuration, p.MaxSizeMegabytes = 5*time.Second, 5120
				if dead {
					p.MaxDeliveryCount = 1
				}
				q, other := br.queue(b, "orders", p), br.queue(b, "other", testQueue())
				br.fill(b, q, n, 0, 0)
				r, in := br.receiver(q, 1, n)
				in.wait(n)
				br.Submit(q.Host(0), []engine.Request{{Command: &engine.Detach{Receiver: r}}})
				at := br.Now().Add(3 * time.Second)
				br.waitFor(at)
				end := br.Now().Add(2500 * time.Millisecond)
				br.during(b, other, func() bool { return br.Now() > end })
				back := q
				if dead {
					back.SubQueue = event.DeadLetter
				}
				_, in = br.receiver(back, 2, n)
				for _, r := range in.wait(n) {
					if r.Delivery().DeliveryCount != 1 {
						b.Fatalf("message %d came back with count %d", r.Delivery().Sequence, r.Delivery().DeliveryCount)
					}
				}
				br.close(b)
			}
		})
	}
}

// processor returns the CPU time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSessions: 100,000 sessions with 10 messages each: the next available one is accepted and
// released, by one receiver and by many at a time.
func BenchmarkSessions(b *testing.B) {
	const n = 100_000
	br := one(b)
	defer br.close(b)
	p := testQueue()
	p.RequiresSession, p.MaxSizeMegabytes = true, 5120
	q := br.queue(b, "orders", p)
	br.fill(b, q, 10*n, n, 0)
	for _, receivers := range []int{1, 64} {
		b.Run(fmt.Sprintf("receivers=%d", receivers), func(b *testing.B) {
			in, gone := newInbox(), newInbox()
			before, done := processor(), 0
			for done < b.N {
				k := min(receivers, b.N-done)
				rs := make([]*engine.Receiver, k)
				reqs := make([]engine.Request, k)
				for i := range rs {
					rs[i] = &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Session: &engine.SessionRequest{Any: true, Wait: time.Minute}}
					reqs[i] = engine.Request{Command: &engine.Attach{Receiver: rs[i]}, Sink: in}
				}
				br.Submit(q.Host(0), reqs)
				for _, r := range in.wait(k) {
					if r.Err != nil || r.SessionGrant() == nil {
						b.Fatalf("%+v; want r.Err == nil && r.SessionGrant() != nil", r.Err)
					}
				}
				for i := range rs {
					reqs[i] = engine.Request{Command: &engine.Detach{Receiver: rs[i]}, Sink: gone}
				}
				br.Submit(q.Host(0), reqs)
				gone.wait(k)
				done += k
			}
			b.ReportMetric(float64((processor()-before).Microseconds())/float64(b.N), "µs-CPU/op")
		})
	}
	b.Run("list", func(b *testing.B) { // a page in the middle, while sessions come and go
		in := newInbox()
		for i := range b.N {
			br.Submit(q.Host(0), []engine.Request{
				{Sink: in, Command: &engine.Send{Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("x"), HasSession: true, SessionID: fmt.Appendf(nil, "new-%d", i)}}}},
				{Sink: in, Command: &engine.ListSessions{Slice: q.Slice(0), All: true, Skip: n / 2, Top: 100}}})
			in.wait(2)
		}
	})
}

// BenchmarkCostly: half a megabyte of requests that visit many entries, as three connections would
// pipeline them, on a partition with 100,000 sessions and a session of as many messages, while
// messages are sent to another queue of the partition.
func BenchmarkCostly(b *testing.B) {
	const n, many, connections = 100_000, 3000, 3
	br := one(b)
	defer br.close(b)
	p := testQueue()
	p.RequiresSession, p.MaxSizeMegabytes = true, 5120
	q, long, other := br.queue(b, "sessions", p), br.queue(b, "long", p), br.queue(b, "other", testQueue())
	br.fill(b, q, n, n, 0)
	br.fill(b, long, n, 1, 0)
	id := []byte("session-00000000")
	for _, c := range []struct {
		name string
		cmd  func(i int) engine.Command
	}{
		{"sessions", func(i int) engine.Command {
			return &engine.ListSessions{Slice: q.Slice(0), All: true, Skip: n / 2, Top: 100}
		}},
		{"states", func(i int) engine.Command { return &engine.ListSessions{Slice: q.Slice(0), Top: 100} }},
		{"peek", func(i int) engine.Command {
			return &engine.Peek{Slice: long.Slice(0), From: event.SequenceNumber(i), Count: 1000, MaxBytes: 1 << 20}
		}},
		{"peek-in-session", func(i int) engine.Command {
			return &engine.Peek{Slice: long.Slice(0), SubQueue: event.DeadLetter, SessionID: id, HasSession: true, Count: 1, MaxBytes: 1}
		}},
		{"delete-in-session", func(i int) engine.Command {
			return &engine.BatchDelete{Slice: long.Slice(0), SubQueue: event.DeadLetter, SessionID: id, HasSession: true, Count: 1}
		}},
		{"receive-by-number", func(i int) engine.Command {
			return &engine.ReceiveDeferred{Slice: long.Slice(0), SubQueue: event.DeadLetter, Sequences: make([]event.SequenceNumber, 1000)}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				ins := make([]*inbox, connections)
				for k := range ins {
					ins[k] = newInbox()
					var requests []engine.Request
					for i := range many / connections {
						requests = append(requests, engine.Request{Command: c.cmd(i), Sink: ins[k]})
					}
					br.Submit(q.Host(0), requests)
				}
				br.during(b, other, func() bool {
					done := 0
					for _, in := range ins {
						in.mu.Lock()
						done += len(in.got)
						in.mu.Unlock()
					}
					return done == many
				})
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-all")
			}
		})
	}
}
