package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// topicOf configures a topic with one subscription for every rules.
func topicOf(tb testing.TB, p *Partition, rules ...[]event.Rule) {
	props := DefaultProperties(event.Topic)
	props.MaxSizeMegabytes = 1 << 30
	topic := &Entity{ID: 1, Kind: event.Topic, Path: "events", Properties: props, Hosts: []PartitionID{0}}
	p.Configure(topic)
	for i, of := range rules {
		sub := &Entity{ID: event.EntityID(i + 2), Kind: event.Subscription, Path: fmt.Sprint("events/Subscriptions/", i), Topic: 1,
			Properties: DefaultProperties(event.Subscription), Hosts: topic.Hosts}
		p.Configure(sub)
		if err := p.ConfigureRules(sub, of); err != nil {
			tb.Fatal(err)
		}
	}
}

// byCustomer returns n correlation filters, 1,000 a subscription.
func byCustomer(n int) (subs [][]event.Rule) {
	for i := range n {
		if i%1000 == 0 {
			subs = append(subs, nil)
		}
		s := &subs[len(subs)-1]
		*s = append(*s, event.Rule{Name: fmt.Sprint("r", i), Filter: event.Filter{Kind: event.CorrelationFilter,
			Properties: []event.Property{{Name: "customer", Value: event.Value{Type: event.String, Text: fmt.Sprint("c-", i)}}}}})
	}
	return subs
}

// BenchmarkPublish: one message of 1 KiB to a topic, and for comparison one to a queue, is decided,
// encoded and applied. No log; everything is forgotten now and then, so that the index stays small.
func BenchmarkPublish(b *testing.B) {
	var filters [][]event.Rule
	for i := range 100 {
		filters = append(filters, []event.Rule{sql("r", fmt.Sprintf("region = 'r%d' AND weight > %d", i/10, i%10))})
	}
	for _, c := range []struct {
		name   string
		rules  [][]event.Rule // nil: a queue
		copies int
	}{{"queue", nil, 0}, {"sql=100,matching=10", filters, 10}, {"correlation=100", byCustomer(100), 1}, {"correlation=100000", byCustomer(100_000), 1}} {
		b.Run(c.name, func(b *testing.B) {
			props := testQueue()
			props.MaxSizeMegabytes = 1 << 30
			see := &filter.Message{User: []event.Property{
				{Name: "region", Value: event.Value{Type: event.String, Text: "r7"}},
				{Name: "weight", Value: event.Value{Type: event.Long, Bits: 50}},
				{Name: "customer", Value: event.Value{Type: event.String, Text: "c-47"}}}}
			cmd := &Send{Slice: event.Slice{Entity: 1}, Messages: []Message{{ID: []byte("4711"), Body: make([]byte, 1024), Properties: see}}}
			var p *Partition
			var frame memory
			var dst []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%100_000 == 0 {
					b.StopTimer()
					if p = NewPartition(0, 1, index.New()); c.rules != nil {
						topicOf(b, p, c.rules...)
					} else {
						p.Configure(&Entity{ID: 1, Kind: event.Queue, Path: "orders", Properties: props})
					}
					b.StartTimer()
				}
				now := event.Time(1_000_000 + i/100)
				out := p.Decide(now, cmd)
				if out.Reply.Err != nil {
					b.Fatal(out.Reply.Err)
				}
				if pub, ok := out.Events[0].(*event.MessagePublished); c.rules != nil && (!ok || len(pub.Copies) != c.copies) {
					b.Fatalf("%T, %d copies", out.Events[0], len(pub.Copies))
				}
				frame.blobs = frame.blobs[:0]
				dst = event.AppendRecord(dst[:0], &frame, now, out.Events)
				for _, ev := range out.Events {
					p.Apply(now, ev)
				}
			}
		})
	}
}

// BenchmarkDuplicates: a send with duplicate detection, compared with one without, and what is kept
// for each id. No log.
func BenchmarkDuplicates(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%t", on), func(b *testing.B) {
			p := NewPartition(0, 1, index.New())
			props := testQueue()
			props.RequiresDuplicateDetection, props.DuplicateDetectionWindow, props.MaxSizeMegabytes = on, time.Hour, 1<<30
			p.Configure(&Entity{ID: 1, Kind: event.Queue, Path: "orders", Properties: props})
			var frame memory
			var dst []byte
			id := make([]byte, 0, 64)
			cmd := &Send{Slice: testSlice, Messages: []Message{{Body: make([]byte, 100)}}}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			for i := range b.N {
				id = fmt.Appendf(id[:0], "a message id of usual length %d", i)
				cmd.Messages[0].ID = id
				out := p.Decide(event.Time(1_000_000+i/100), cmd)
				frame.blobs = frame.blobs[:0]
				dst = event.AppendRecord(dst[:0], &frame, 1_000_000, out.Events)
				for _, ev := range out.Events {
					p.Apply(1_000_000, ev)
				}
			}
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(b.N), "B-kept/op")
			runtime.KeepAlive(p)
		})
	}
}
