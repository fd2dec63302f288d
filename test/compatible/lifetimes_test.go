package compatible

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	amqpmessage "github.com/ledgerbus/ledgerbus/protocol/message"
)

const lifetimesEntities = `{"UserConfig": {"Namespaces": [{"Name": "compatible", "Queues": [
	{"Name": "orders", "Properties": {"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"}},
	{"Name": "off", "Properties": {"RequiresSession": true}}],
	"Topics": [{"Name": "hub", "Properties": {"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"},
		"Subscriptions": [{"Name": "all", "Properties": {"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"}}]}]}]}}`

// The times that its messages were sent with, and the end that .NET writes for "never".
var (
	created = time.Date(2026, 11, 27, 5, 51, 19, 0, time.UTC)
	never   = time.Date(9999, 12, 30, 22, 0, 0, 0, time.UTC)
)

// lifetimes writes with a build that took the difference of the two times for the time to live of a
// message without a ttl as well, and stored "never" as a time to live.
func lifetimes(t *testing.T, binary, data string) map[string]int {
	live(t, binary, data, lifetimesEntities, []begin{{(*author).lives, true}})
	b := open(t, data)
	b.handsOver()
	b.close()
	return live(t, binary, data, "", []begin{{func(*author) {}, false}})
}

// lives sends a message with each kind of time to live to a queue and a topic, now and for later.
func (a *author) lives() {
	for _, to := range []string{"orders", "hub"} {
		s, err := a.bus.NewSender(to, nil)
		a.must(err)
		var list []*azservicebus.AMQPAnnotatedMessage
		for _, m := range []struct {
			ttl     time.Duration
			expires time.Time
		}{{0, created.Add(time.Hour)}, {math.MaxUint32 * time.Millisecond, never}, {math.MaxUint32 * time.Millisecond, created.Add(60 * 24 * time.Hour)}} {
			list = append(list, &azservicebus.AMQPAnnotatedMessage{
				Header:     &azservicebus.AMQPAnnotatedMessageHeader{TTL: m.ttl},
				Properties: &azservicebus.AMQPAnnotatedMessageProperties{CreationTime: &created, AbsoluteExpiryTime: &m.expires},
				Body:       azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("x")}},
			})
		}
		for _, m := range list {
			a.must(s.SendAMQPAnnotatedMessage(a.ctx, m, nil))
		}
		_, err = s.ScheduleAMQPAnnotatedMessages(a.ctx, list, created.AddDate(100, 0, 0), nil)
		a.must(err)
		a.must(s.Close(a.ctx))
	}
}

// handsOver sends a message through a queue to another one, which refuses it. The time to live is
// the one that the build of then worked out.
func (b *broker) handsOver() {
	b.t.Helper()
	orders, off := b.resolve("orders"), b.resolve("off")
	body := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "via", CreationTime: amqp.Some(amqp.Timestamp(created.UnixMilli())),
		AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(created.Add(time.Hour).UnixMilli()))})
	m := engine.Message{ID: []byte("via"), Body: amqp.AppendData(body, []byte("x")), TimeToLive: time.Hour}
	b.ask(orders, &engine.Send{Entity: orders.Entity, Slice: orders.Slice(0), Messages: []engine.Message{m}, Destination: off.Entity})
	dead := b.resolve("orders/$transfer/$deadletterqueue")
	peek := &engine.Peek{Slice: dead.Slice(0), SubQueue: dead.SubQueue, From: 1, Count: 1, MaxBytes: 1 << 20}
	for len(b.ask(dead, peek)[0].Messages()) == 0 { // it is on its way
	}
}

// SM-395: what an older build made of the times of a message stands in its event, and is shown in
// all three fields; "never" is shown as no time to live.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	extract(t, "lifetimes", dir)
	b := open(t, dir)
	defer b.close()
	const day = 24 * time.Hour
	three := []time.Duration{time.Hour, 0, 60 * day}
	for place, want := range map[string][]time.Duration{
		"orders": append(three, three...), "hub": three, "hub/subscriptions/all": three, "orders/$transfer/$deadletterqueue": {time.Hour},
	} {
		target := b.resolve(place)
		list := b.ask(target, &engine.Peek{Slice: target.Slice(0), SubQueue: target.SubQueue, From: 1, Count: 100, MaxBytes: 1 << 20})[0].Messages()
		if len(list) != len(want) {
			t.Errorf("%s has %d messages", place, len(list))
			continue
		}
		for i, d := range list {
			stored := make([]byte, d.Body.Size)
			if _, err := b.ReadInto(target.Host(0), d.Body, stored); err != nil {
				t.Fatal(err)
			}
			for _, peek := range []bool{true, false} {
				shown, err := amqpmessage.AppendDelivery(nil, stored, &d, nil, amqpmessage.View{Peek: peek})
				if err != nil {
					t.Fatal(err)
				}
				wantLifetime(t, place, shown, d.EnqueuedAt, want[i])
			}
		}
	}
}

// wantLifetime wants a limit shown in all three fields; 0: none, and no expiry time.
func wantLifetime(t *testing.T, place string, shown []byte, enqueued event.Time, limit time.Duration) {
	t.Helper()
	s, err := amqp.ScanMessage(shown, amqp.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	p, err := amqp.DecodeProperties(s.Properties.Of(shown))
	if err != nil {
		t.Fatal(err)
	}
	creation, expiry := amqp.Some(amqp.Timestamp(created.UnixMilli())), amqp.Opt[amqp.Timestamp]{}
	if limit != 0 {
		creation, expiry = amqp.Some(amqp.Timestamp(enqueued)), amqp.Some(amqp.Timestamp(enqueued.Add(limit)))
	}
	if ttl := uint32(min(limit.Milliseconds(), math.MaxUint32)); s.TTL != ttl || p.CreationTime != creation || p.AbsoluteExpiryTime != expiry {
		t.Errorf("%s: ttl %d, created %v, expires %v, want %d, %v, %v", place, s.TTL, p.CreationTime, p.AbsoluteExpiryTime, ttl, creation, expiry)
	}
}
