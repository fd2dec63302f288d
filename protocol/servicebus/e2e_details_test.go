package servicebus_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// The details that history keeps of a message, besides its body, are in the event that stores it,
// however it was sent: alone, without an id, in a batch, to be active later, to a topic with a
// receiver and to one without.
func TestDetailsInHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBrokerIn(t, dir, servicebus.Limits{})
	b.put(t, event.Queue, "orders", nil)
	b.put(t, event.Topic, "news", nil)
	b.put(t, event.Subscription, "news/Subscriptions/all", nil)
	b.put(t, event.Topic, "void", nil)
	ctx := timeout(t)
	conn := must(amqp.Dial(ctx, "amqp://"+b.address, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")}))(t)
	defer conn.Close()
	session := must(conn.NewSession(ctx, nil))(t)
	send := func(entity string, m *amqp.Message) {
		t.Helper()
		s := must(session.NewSender(ctx, entity, nil))(t)
		if err := s.Send(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	order := func(n int, id any) *amqp.Message {
		m := amqp.NewMessage(fmt.Appendf(nil, "body %d", n))
		m.Properties = &amqp.MessageProperties{MessageID: id, Subject: new(fmt.Sprint("subject ", n)), CorrelationID: fmt.Sprint("c", n), ContentType: new("text/plain")}
		m.ApplicationProperties = map[string]any{"Diagnostic-Id": trace, "n": n}
		return m
	}
	send("orders", order(1, "id"))
	send("orders", order(2, nil))
	uuid := order(3, "x")
	uuid.Properties.CorrelationID = amqp.UUID{0xab, 15: 1}
	later := order(4, "later")
	later.Annotations = amqp.Annotations{"x-opt-scheduled-enqueue-time": time.Now().Add(time.Hour)}
	send("orders", &amqp.Message{Format: 0x80013700, Data: [][]byte{must(uuid.MarshalBinary())(t), must(later.MarshalBinary())(t), must(amqp.NewMessage([]byte("bare")).MarshalBinary())(t)}})
	send("news", order(5, "news"))
	send("void", order(6, nil))
	sdk := must(b.root(t).NewSender("orders", nil))(t)
	must(sdk.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("seven"), Subject: new("subject 7"), CorrelationID: new("c7"), ContentType: new("text/plain"),
		ApplicationProperties: map[string]any{"traceparent": trace}}}, time.Now().Add(time.Hour), nil))(t)
	conn.Close()
	b.stop()

	of := func(n, size uint32, correlation string) event.Details {
		return event.Details{BodySize: size, Subject: fmt.Appendf(nil, "subject %d", n), CorrelationID: []byte(correlation), ContentType: []byte("text/plain"), TraceParent: []byte(trace)}
	}
	want := map[string][]event.Details{
		"MessageEnqueued":  {of(1, 11, "c1"), of(2, 11, "c2"), of(3, 11, "ab000000-0000-0000-0000-000000000001"), {BodySize: 9}},
		"MessageScheduled": {of(4, 11, "c4"), of(7, 10, "c7")},
		"MessagePublished": {of(5, 11, "c5"), of(6, 11, "c6")},
	}
	got := detailsIn(t, dir)
	// entities may be in different logs
	bySubject := func(x, y event.Details) int { return slices.Compare(x.Subject, y.Subject) }
	for kind, list := range want {
		slices.SortFunc(list, bySubject)
		slices.SortFunc(got[kind], bySubject)
		if !cmp.Equal(got[kind], list) {
			t.Errorf("%s:\ngot  %+v\nwant %+v (-want +got):\n%s", kind, got[kind], list, cmp.Diff(list, got[kind]))
		}
	}
}

// detailsIn is the details in all events of a stopped directory, by kind.
func detailsIn(t *testing.T, dir string) map[string][]event.Details {
	t.Helper()
	store := must(log.Open(context.Background(), dir, log.Options{ReadOnly: true}))(t)
	defer store.Close()
	all := map[string][]event.Details{}
	for _, id := range store.Partitions() {
		part := must(store.Open(context.Background(), id))(t)
		for f, err := range part.Read(context.Background(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			var decoder event.Decoder
			for rest := f.Records; f.Kind == log.Events && len(rest) > 0; {
				var rec event.Record
				if rec, rest, err = decoder.Record(f.Base, f.Bodies, rest); err != nil {
					t.Fatal(err)
				}
				for _, ev := range rec.Events {
					switch m := ev.(type) {
					case *event.MessageEnqueued:
						all["MessageEnqueued"] = append(all["MessageEnqueued"], owned(m.Details))
					case *event.MessageScheduled:
						all["MessageScheduled"] = append(all["MessageScheduled"], owned(m.Details))
					case *event.MessagePublished:
						all["MessagePublished"] = append(all["MessagePublished"], owned(m.Details))
					}
				}
			}
		}
	}
	return all
}

// owned is a copy of details whose texts are those of a frame.
func owned(d event.Details) event.Details {
	for _, text := range []*[]byte{&d.Subject, &d.CorrelationID, &d.ContentType, &d.TraceParent} {
		*text = slices.Clone(*text)
	}
	return d
}
