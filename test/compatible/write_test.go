package compatible

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

const entities = `{"UserConfig": {"Namespaces": [{"Name": "compatible", "Queues": [
	{"Name": "orders", "Properties": {"LockDuration": "PT5S", "RequiresDuplicateDetection": true, "DuplicateDetectionHistoryTimeWindow": "PT5M"}},
	{"Name": "grouped", "Properties": {"RequiresSession": true}},
	{"Name": "mortal", "Properties": {"DeadLetteringOnMessageExpiration": true}}], "Topics": [
	{"Name": "news", "Subscriptions": [{"Name": "all"},
		{"Name": "some", "Rules": [{"Name": "eu", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "region = 'eu'"}, "Action": {"SqlExpression": "SET seen = 1"}}}]}]}]}]}}`

// author writes a directory, as one client after another.
type author struct {
	t       *testing.T
	ctx     context.Context
	process *harness.Process
	bus     *azservicebus.Client
}

// write makes a data directory in which everything has happened to messages, and leaves it as a
// kill does.
func write(t *testing.T, binary, data string) {
	t.Helper()
	a, end := newAuthor(t, binary, data, entities)
	defer end()
	for _, chapter := range []func(*author){(*author).sends, (*author).settles, (*author).sessions, (*author).topics, (*author).changes, (*author).leavesOpen} {
		a.start()
		chapter(a)
		a.must(a.process.Kill())
	}
}

// newAuthor prepares a broker with entities, of an entity file, on a data directory. The function
// returned kills what still runs.
func newAuthor(t *testing.T, binary, data, entities string, flags ...string) (*author, func()) {
	t.Helper()
	flags = append(flags, "--log-level", "warn")
	if entities != "" {
		config := data + ".json"
		if err := os.WriteFile(config, []byte(entities), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--entities", config)
	}
	a := &author{t: t, ctx: t.Context(), process: harness.NewProcess(binary, data, flags...)}
	return a, func() { _ = a.process.Kill() }
}

func (a *author) start() {
	a.t.Helper()
	_, err := a.process.Start()
	a.must(err)
	a.bus, err = azservicebus.NewClientFromConnectionString(a.process.ConnectionString(), nil)
	a.must(err)
}

func (a *author) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func message(id string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte("body of " + id), MessageID: &id}
}

func (a *author) send(to string, messages ...*azservicebus.Message) {
	a.t.Helper()
	s, err := a.bus.NewSender(to, nil)
	a.must(err)
	for _, m := range messages {
		a.must(s.SendMessage(a.ctx, m, nil))
	}
	a.must(s.Close(a.ctx))
}

func (a *author) schedule(to string, at time.Time, messages ...*azservicebus.Message) []int64 {
	a.t.Helper()
	s, err := a.bus.NewSender(to, nil)
	a.must(err)
	numbers, err := s.ScheduleMessages(a.ctx, messages, at, nil)
	a.must(err)
	a.must(s.Close(a.ctx))
	return numbers
}

// receiver is one of a queue, or of its dead letters.
func (a *author) receiver(queue string, o azservicebus.ReceiverOptions) *azservicebus.Receiver {
	a.t.Helper()
	r, err := a.bus.NewReceiverForQueue(queue, &o)
	a.must(err)
	return r
}

// receive receives exactly n messages.
func (a *author) receive(r interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}, n int) (got []*azservicebus.ReceivedMessage) {
	a.t.Helper()
	for len(got) < n {
		some, err := r.ReceiveMessages(a.ctx, n-len(got), nil)
		a.must(err)
		got = append(got, some...)
	}
	return got
}

// sends sends single messages, one of them twice, and a batch, and schedules some.
func (a *author) sends() {
	for i := range 20 {
		a.send("orders", message(fmt.Sprint("m", i)))
	}
	a.send("orders", message("m3"))
	s, err := a.bus.NewSender("orders", nil)
	a.must(err)
	batch, err := s.NewMessageBatch(a.ctx, nil)
	a.must(err)
	for i := range 5 {
		a.must(batch.AddMessage(message(fmt.Sprint("b", i)), nil))
	}
	a.must(s.SendMessageBatch(a.ctx, batch, nil))
	numbers := a.schedule("orders", time.Now().Add(time.Hour), message("later"), message("never"))
	a.must(s.CancelScheduledMessages(a.ctx, numbers[1:], nil))
	a.schedule("mortal", time.Now().Add(200*time.Millisecond), message("soon"))
	got := a.receive(a.receiver("mortal", azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}), 1)
	if string(got[0].Body) != "body of soon" {
		a.t.Fatalf("received %q", got[0].Body)
	}
	brief := message("brief")
	brief.TimeToLive = to.Ptr(time.Millisecond)
	a.send("mortal", brief)
	a.receive(a.receiver("mortal", azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}), 1)
	brief = message("brief one")
	brief.TimeToLive = to.Ptr(time.Millisecond)
	a.send("orders", brief)
}

// settles settles messages in every way, and leaves one lock to end by itself.
func (a *author) settles() {
	r := a.receiver("orders", azservicebus.ReceiverOptions{})
	got := a.settleEach(r)
	deferred, err := r.ReceiveDeferredMessages(a.ctx, []int64{*got[2].SequenceNumber}, nil)
	a.must(err)
	a.must(r.CompleteMessage(a.ctx, deferred[0], nil))
	dead := a.receiver("orders", azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	a.must(dead.CompleteMessage(a.ctx, a.receive(dead, 1)[0], nil))
	a.receive(a.receiver("orders", azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}), 2)
}

// settleEach receives ten messages and settles them in every way, each with what a client may add;
// every fifth is left locked.
func (a *author) settleEach(r *azservicebus.Receiver) []*azservicebus.ReceivedMessage {
	a.t.Helper()
	got := a.receive(r, 10)
	for i, m := range got {
		switch i % 5 {
		case 0:
			a.must(r.CompleteMessage(a.ctx, m, nil))
		case 1:
			a.must(r.AbandonMessage(a.ctx, m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"tries": int64(i)}}))
		case 2:
			a.must(r.DeferMessage(a.ctx, m, &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"why": "later"}}))
		case 3:
			a.must(r.DeadLetterMessage(a.ctx, m, &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description"),
				PropertiesToModify: map[string]any{"by": "hand", "when": time.Unix(1e9, 0)}}))
		case 4:
			a.must(r.RenewMessageLock(a.ctx, m, nil))
		}
	}
	return got
}

// sessions uses sessions, and holds one when it is killed.
func (a *author) sessions() {
	for i := range 9 {
		m := message(fmt.Sprint("s", i))
		m.SessionID = to.Ptr(fmt.Sprint("session-", i%3))
		a.send("grouped", m)
	}
	for i := range 2 {
		s, err := a.bus.AcceptSessionForQueue(a.ctx, "grouped", fmt.Sprint("session-", i), nil)
		a.must(err)
		a.must(s.SetSessionState(a.ctx, []byte(fmt.Sprint("state ", i)), nil))
		got := a.receive(s, 3)
		a.must(s.CompleteMessage(a.ctx, got[0], nil))
		a.must(s.DeferMessage(a.ctx, got[1], nil))
		a.must(s.RenewSessionLock(a.ctx, nil))
		if i == 0 {
			a.must(s.Close(a.ctx))
		}
	}
}

// topics publishes, and changes rules meanwhile.
func (a *author) topics() {
	c := a.administer()
	defer c.Close()
	publish := func(id, region string) {
		m := message(id)
		m.ApplicationProperties = map[string]any{"region": region}
		a.send("news", m)
	}
	publish("n0", "eu")
	publish("n1", "us")
	some := admin.SubscriptionPath("news", "some")
	_, err := c.CreateRule(a.ctx, some, event.Rule{Name: "us", Filter: event.Filter{Kind: event.CorrelationFilter,
		Properties: []event.Property{{Name: "region", Value: event.Value{Type: event.String, Text: "us"}}}}})
	a.must(err)
	publish("n2", "us")
	_, err = c.UpdateRule(a.ctx, some, event.Rule{Name: "us", Filter: event.Filter{Kind: event.SQLFilter, Text: "region = 'us' AND n > 1"}})
	a.must(err)
	a.must(c.DeleteRule(a.ctx, some, "eu"))
	publish("n3", "eu")
	a.schedule("news", time.Now().Add(200*time.Millisecond), message("n4"))
	r, err := a.bus.NewReceiverForSubscription("news", "all", nil)
	a.must(err)
	got := a.receive(r, 5)
	a.must(r.CompleteMessage(a.ctx, got[0], nil))
	a.must(r.DeadLetterMessage(a.ctx, got[1], nil))
}

// changes changes and deletes entities.
func (a *author) changes() {
	c := a.administer()
	defer c.Close()
	_, err := c.Create(a.ctx, admin.NewEntity(event.Queue, "temporary"))
	a.must(err)
	a.send("temporary", message("t0"), message("t1"))
	a.must(c.Delete(a.ctx, event.Queue, "temporary"))
	_, err = c.Create(a.ctx, admin.NewEntity(event.Subscription, admin.SubscriptionPath("news", "brief")))
	a.must(err)
	a.send("news", message("n5"))
	a.must(c.Delete(a.ctx, event.Subscription, admin.SubscriptionPath("news", "brief")))
	orders, err := c.Get(a.ctx, event.Queue, "orders")
	a.must(err)
	orders.Properties.MaxDeliveryCount = 7
	_, err = c.Update(a.ctx, orders)
	a.must(err)
	a.releases()
}

// releases gives a message back, and deletes messages in one go.
func (a *author) releases() {
	cs, err := client.ParseConnectionString(a.process.ConnectionString())
	a.must(err)
	bus, err := client.Dial(a.ctx, cs, client.Options{})
	a.must(err)
	defer bus.Close()
	a.send("mortal", message("d0"), message("d1"))
	r, err := bus.NewReceiver(a.ctx, "mortal", client.PeekLock)
	a.must(err)
	a.must(r.Credit(1))
	m, err := r.Receive(a.ctx)
	a.must(err)
	a.must(r.Release(a.ctx, m))
	_, err = bus.Manage(a.ctx, "mortal", "batch-delete-messages",
		map[string]any{"message-count": int32(10), "enqueued-time-utc": time.Now().Add(time.Minute)})
	a.must(err)
}

// leavesOpen waits for the lock that was left to end by itself, and leaves others when it is
// killed.
func (a *author) leavesOpen() {
	r := a.receiver("orders", azservicebus.ReceiverOptions{})
	for again := false; !again; {
		for _, m := range a.receive(r, 1) {
			again = m.DeliveryCount > 1 && m.ApplicationProperties["tries"] == nil
		}
	}
	r = a.receiver("mortal", azservicebus.ReceiverOptions{})
	a.send("mortal", message("held"), message("waiting"))
	a.receive(r, 1)
	_, err := a.bus.AcceptSessionForQueue(a.ctx, "grouped", "session-2", nil)
	a.must(err)
}

func (a *author) administer() *admin.Client {
	a.t.Helper()
	c, err := admin.New(a.process.ConnectionString(), admin.Options{})
	a.must(err)
	return c
}
