package format

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

const entities = `{"UserConfig": {"Namespaces": [{"Name": "format", "Queues": [
	{"Name": "orders", "Properties": {"RequiresDuplicateDetection": true}},
	{"Name": "grouped", "Properties": {"RequiresSession": true}},
	{"Name": "mortal", "Properties": {"DeadLetteringOnMessageExpiration": true, "MaxDeliveryCount": 1}}], "Topics": [
	{"Name": "news", "Subscriptions": [{"Name": "all"}, {"Name": "some"}]}]}]}}`

// written are events that a broker with these clients must have written: all but those that take
// long, or no client asks for.
var written = []string{"OriginDefined", "EntityCreated", "EntityUpdated", "EntityDeleted", "MessageEnqueued", "MessageLocked", "LockRenewed",
	"MessageAbandoned", "MessageCompleted", "MessageReceivedAndDeleted", "MessageDeferred", "MessageDeadLettered", "MessageScheduled",
	"ScheduledActivated", "ScheduleCancelled", "DuplicateDropped", "SessionAccepted", "SessionLockRenewed", "SessionReleased",
	"SessionStateSet", "SliceDropped", "RuleAdded", "RuleUpdated", "RuleRemoved", "MessagePublished", "ScheduledPublished",
	"SettlementRefused", "RunStarted"}

// TestTraffic: what the real broker wrote, killed between and then stopped, is the same to both
// readers.
func TestTraffic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, data := filepath.Join(dir, "entities.json"), filepath.Join(dir, "data")
	if err := os.WriteFile(config, []byte(entities), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &author{t: t, ctx: t.Context(), process: harness.NewProcess(harness.Build(t, dir), data, "--entities", config, "--log-level", "warn")}
	defer func() { _ = a.process.Kill() }()
	for _, does := range []func(*author){(*author).settles, (*author).sessions, (*author).topics, (*author).leaves} {
		a.start()
		does(a)
		a.must(a.process.Kill())
		agree(t, data)
	}
	a.start()
	a.must(a.process.Stop())
	all := strings.Join(agree(t, data), "")
	for _, kind := range written {
		if !strings.Contains(all, fmt.Sprintf(`"Event":"%s"`, kind)) {
			t.Errorf("no %s", kind)
		}
	}
}

// author writes a directory, as clients do.
type author struct {
	t       *testing.T
	ctx     context.Context
	process *harness.Process
	bus     *azservicebus.Client
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
	return &azservicebus.Message{Body: []byte("body of " + id), MessageID: &id, Subject: to.Ptr("subject of " + id), ContentType: to.Ptr("text/plain"),
		ApplicationProperties: map[string]any{"region": "eu", "n": int64(7), "Diagnostic-Id": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
}

func (a *author) sender(to string) *azservicebus.Sender {
	a.t.Helper()
	s, err := a.bus.NewSender(to, nil)
	a.must(err)
	return s
}

func (a *author) send(to string, messages ...*azservicebus.Message) {
	a.t.Helper()
	s := a.sender(to)
	for _, m := range messages {
		a.must(s.SendMessage(a.ctx, m, nil))
	}
	a.must(s.Close(a.ctx))
}

func (a *author) receiver(queue string, mode azservicebus.ReceiveMode) *azservicebus.Receiver {
	a.t.Helper()
	r, err := a.bus.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{ReceiveMode: mode})
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

// settles settles messages in every way, once too often too.
func (a *author) settles() {
	for i := range 8 {
		a.send("orders", message(fmt.Sprint("m", i)))
	}
	a.send("orders", message("m3"))
	r := a.receiver("orders", azservicebus.ReceiveModePeekLock)
	got := a.receive(r, 6)
	a.must(r.RenewMessageLock(a.ctx, got[0], nil))
	a.must(r.CompleteMessage(a.ctx, got[0], nil))
	changed := map[string]any{"n": nil, "text": "x", "big": uint64(math.MaxUint64), "half": 0.5, "yes": true, "bytes": []byte{1}, "at": time.Unix(1e9, 0)}
	a.must(r.AbandonMessage(a.ctx, got[1], &azservicebus.AbandonMessageOptions{PropertiesToModify: changed}))
	a.must(r.DeferMessage(a.ctx, got[2], &azservicebus.DeferMessageOptions{PropertiesToModify: changed}))
	deferred, err := r.ReceiveDeferredMessages(a.ctx, []int64{*got[2].SequenceNumber}, nil)
	a.must(err)
	a.must(r.CompleteMessage(a.ctx, deferred[0], nil))
	if r.CompleteMessage(a.ctx, deferred[0], nil) == nil {
		a.t.Error("a message was completed twice")
	}
	a.must(r.DeadLetterMessage(a.ctx, got[3], &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("why"), PropertiesToModify: changed}))
	a.receive(a.receiver("orders", azservicebus.ReceiveModeReceiveAndDelete), 1)
	a.send("mortal", message("weak"))
	weak := a.receiver("mortal", azservicebus.ReceiveModePeekLock)
	a.must(weak.AbandonMessage(a.ctx, a.receive(weak, 1)[0], nil))

	s := a.sender("mortal")
	numbers, err := s.ScheduleMessages(a.ctx, []*azservicebus.Message{message("never")}, time.Now().Add(time.Hour), nil)
	a.must(err)
	a.must(s.CancelScheduledMessages(a.ctx, numbers, nil))
	_, err = s.ScheduleMessages(a.ctx, []*azservicebus.Message{message("soon")}, time.Now().Add(100*time.Millisecond), nil)
	a.must(err)
	a.receive(weak, 1)
}

func (a *author) sessions() {
	for i := range 4 {
		m := message(fmt.Sprint("s", i))
		m.SessionID = to.Ptr(fmt.Sprint("session-", i%2))
		a.send("grouped", m)
	}
	s, err := a.bus.AcceptSessionForQueue(a.ctx, "grouped", "session-0", nil)
	a.must(err)
	a.must(s.SetSessionState(a.ctx, []byte("state"), nil))
	a.must(s.SetSessionState(a.ctx, nil, nil))
	got := a.receive(s, 2)
	a.must(s.CompleteMessage(a.ctx, got[0], nil))
	a.must(s.RenewSessionLock(a.ctx, nil))
	a.must(s.Close(a.ctx))
}

// topics publishes through rules with values of every type, and changes entities.
func (a *author) topics() {
	c, err := admin.New(a.process.ConnectionString(), admin.Options{})
	a.must(err)
	defer c.Close()
	some := admin.SubscriptionPath("news", "some")
	values := []event.Property{
		{Name: "@s", Value: event.Value{Type: event.String, Text: " <a & b> "}}, {Name: "@i", Value: event.Value{Type: event.Int, Bits: 1 << 31}},
		{Name: "@l", Value: event.Value{Type: event.Long, Bits: math.MaxUint64}}, {Name: "@b", Value: event.Value{Type: event.Bool, Bits: 1}},
		{Name: "@d", Value: event.Value{Type: event.Double, Bits: math.Float64bits(-0.1)}},
		{Name: "@t", Value: event.Value{Type: event.Instant, Bits: 639054432001234567}},
		{Name: "@p", Value: event.Value{Type: event.Span, Bits: 36_000_000_001}},
	}
	sql := event.Filter{Kind: event.SQLFilter, Text: "region = 'eu' OR n = @i", Parameters: values}
	_, err = c.CreateRule(a.ctx, some, event.Rule{Name: "eu", Filter: sql, Action: event.Action{Text: "SET seen = @d; SET sys.Label = 'new'; REMOVE n", Parameters: values}})
	a.must(err)
	_, err = c.CreateRule(a.ctx, some, event.Rule{Name: "us", Filter: event.Filter{Kind: event.CorrelationFilter,
		Conditions: []event.Condition{{Field: event.FieldLabel, Text: "none"}}, Properties: values}})
	a.must(err)
	a.send("news", message("n0"), message("n1"))
	_, err = c.UpdateRule(a.ctx, some, event.Rule{Name: "us", Filter: event.Filter{Kind: event.SQLFilter, Text: "region = 'us' AND n > 1"}})
	a.must(err)
	a.must(c.DeleteRule(a.ctx, some, "us"))
	r, err := a.bus.NewReceiverForSubscription("news", "all", nil)
	a.must(err)
	a.receive(r, 2)
	_, err = a.sender("news").ScheduleMessages(a.ctx, []*azservicebus.Message{message("n2")}, time.Now().Add(100*time.Millisecond), nil)
	a.must(err)
	a.receive(r, 1)

	_, err = c.Create(a.ctx, admin.NewEntity(event.Queue, "temporary"))
	a.must(err)
	a.send("temporary", message("t0"))
	a.must(c.Delete(a.ctx, event.Queue, "temporary"))
	orders, err := c.Get(a.ctx, event.Queue, "orders")
	a.must(err)
	orders.Properties.MaxDeliveryCount, orders.Properties.UserMetadata = 7, "caf\u00e9"
	_, err = c.Update(a.ctx, orders)
	a.must(err)
}

// leaves leaves locks and a session open when it is killed.
func (a *author) leaves() {
	a.receive(a.receiver("orders", azservicebus.ReceiveModePeekLock), 1)
	_, err := a.bus.AcceptSessionForQueue(a.ctx, "grouped", "session-1", nil)
	a.must(err)
}
