package servicebus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// BenchmarkSend is sends of 1 KiB to a queue over one connection and link of a plain AMQP client,
// 256 under way at once, each answered when it is durable.
func BenchmarkSend(b *testing.B) { benchmarkSend(b, startBroker(b, "orders")) }

// BenchmarkSendTopic is the same to a topic with two subscriptions, one with a filter that matches.
func BenchmarkSendTopic(b *testing.B) {
	broker := startBroker(b)
	broker.put(b, event.Topic, "orders", nil)
	broker.put(b, event.Subscription, "orders/Subscriptions/all", nil)
	put := engine.PutEntity{Kind: event.Subscription, Path: "orders/Subscriptions/some", Properties: engine.DefaultProperties(event.Subscription),
		Rules: []event.Rule{{Name: "some", Filter: event.Filter{Kind: event.SQLFilter, Text: "kind = 'order' AND n >= 0"}}}}
	must(broker.PutEntity(context.Background(), put))(b)
	benchmarkSend(b, broker)
}

func benchmarkSend(b *testing.B, broker *broker) {
	ctx := context.Background()
	c, err := amqp.Dial(ctx, "amqp://"+broker.address, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1024)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				m := amqp.NewMessage(body)
				m.Properties = &amqp.MessageProperties{MessageID: fmt.Sprint(i)}
				m.ApplicationProperties = map[string]any{"kind": "order", "n": i}
				if err := s.Send(ctx, m, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkReceive is 1-KiB messages received and completed over one link.
func BenchmarkReceive(b *testing.B) {
	broker := startBroker(b, "orders")
	ctx := context.Background()
	c, err := amqp.Dial(ctx, "amqp://"+broker.address, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1024)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 256 {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := s.Send(ctx, amqp.NewMessage(body), nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	mode := amqp.ReceiverSettleModeSecond
	r, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{Credit: 500, SettlementMode: &mode})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	slots := make(chan struct{}, 256)
	for range b.N {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		slots <- struct{}{}
		wg.Go(func() {
			if err := r.AcceptMessage(ctx, m); err != nil {
				b.Error(err)
			}
			<-slots
		})
	}
	wg.Wait()
}
