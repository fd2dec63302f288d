package servicebus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// WP-220, SM-019, SM-284: the unmodified SDK sends to a topic and receives from its subscriptions,
// their dead-letter queues and message sessions.
func TestSDKTopics(t *testing.T) {
	b := startBroker(t)
	b.put(t, event.Topic, "orders", nil)
	b.put(t, event.Subscription, "orders/Subscriptions/all", nil)
	b.put(t, event.Subscription, "orders/Subscriptions/sessions", func(p *event.Properties) { p.RequiresSession = true })
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("one"), SessionID: new("a"), ApplicationProperties: map[string]any{"n": int64(7)}}, nil); err != nil {
		t.Fatal(err)
	}
	batch := must(s.NewMessageBatch(ctx, nil))(t)
	for _, body := range []string{"two", "three"} {
		if err := batch.AddMessage(&azservicebus.Message{Body: []byte(body), MessageID: &body, SessionID: new("a")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SendMessageBatch(ctx, batch, nil); err != nil {
		t.Fatal(err)
	}
	r := must(c.NewReceiverForSubscription("orders", "all", nil))(t)
	for i, body := range []string{"one", "two", "three"} {
		m := receiveOne(t, r)
		if string(m.Body) != body || *m.SequenceNumber != int64(i+1) || *m.EnqueuedSequenceNumber != int64(i+1) || m.LockedUntil == nil || *m.SessionID != "a" {
			t.Fatalf(`%+v; want string(m.Body) == body && *m.SequenceNumber == int64(i + 1) && *m.EnqueuedSequenceNumber == int64(i + 1) && m.LockedUntil != nil && *m.SessionID == "a"`, m)
		}
		var err error
		switch i {
		case 0:
			err = r.CompleteMessage(ctx, m, nil)
		case 1:
			err = r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: new("because")})
		case 2:
			err = r.DeferMessage(ctx, m, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if m := must(r.ReceiveDeferredMessages(ctx, []int64{3}, nil))(t); len(m) != 1 || string(m[0].Body) != "three" || r.RenewMessageLock(ctx, m[0], nil) != nil {
		t.Errorf(`%+v; want len(m) == 1 && string(m[0].Body) == "three" && r.RenewMessageLock(ctx, m[0], nil) == nil`, m)
	}
	dead := must(c.NewReceiverForSubscription("orders", "all", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	if m := receiveOne(t, dead); string(m.Body) != "two" || *m.DeadLetterReason != "because" {
		t.Errorf(`%+v; want string(m.Body) == "two" && *m.DeadLetterReason == "because"`, m)
	}
	session := must(c.AcceptNextSessionForSubscription(ctx, "orders", "sessions", nil))(t)
	if m := must(session.ReceiveMessages(ctx, 3, nil))(t); session.SessionID() != "a" || len(m) == 0 || string(m[0].Body) != "one" || m[0].ApplicationProperties["n"] != int64(7) {
		t.Errorf(`%+v; want session.SessionID() == "a" && len(m) != 0 && string(m[0].Body) == "one" && m[0].ApplicationProperties["n"] == int64(7)`, m)
	}
	if m := must(session.PeekMessages(ctx, 3, nil))(t); len(m) != 3 {
		t.Errorf("%+v; want len(m) == 3", m)
	}
	state := make([]byte, 200<<10) // bounded by the size of the topic's messages
	if err := session.SetSessionState(ctx, state, nil); err != nil {
		t.Error(err)
	}
	if got := must(session.GetSessionState(ctx, nil))(t); len(got) != len(state) {
		t.Errorf("state of %d bytes", len(got))
	}
}

// WP-169, SM-095, SM-292: scheduled messages of a topic.
func TestSDKTopicSchedule(t *testing.T) {
	b := startBroker(t)
	b.put(t, event.Topic, "orders", nil)
	b.put(t, event.Subscription, "orders/Subscriptions/all", nil)
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	numbers := must(s.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("gone")}, {Body: []byte("later")}}, time.Now().Add(time.Hour), nil))(t)
	if err := s.CancelScheduledMessages(ctx, numbers[:1], nil); err != nil || len(numbers) != 2 {
		t.Fatalf("%+v %+v; want len(numbers) == 2", err, numbers)
	}
	wantCode(t, s.CancelScheduledMessages(ctx, numbers[:1], nil), azservicebus.CodeNotFound)
	// SM-409: the way to browse the scheduled messages of a topic
	ofTopic := must(b.root(t).NewReceiverForQueue("orders", nil))(t)
	if peeked := must(ofTopic.PeekMessages(ctx, 5, nil))(t); len(peeked) != 1 || string(peeked[0].Body) != "later" {
		t.Errorf(`%+v; want one message, "later"`, peeked)
	}
	if _, err := ofTopic.ReceiveMessages(ctx, 1, nil); err == nil || !strings.Contains(err.Error(), "amqp:not-allowed") {
		t.Errorf("receiving from a topic: %v; want amqp:not-allowed", err)
	}
	r := must(c.NewReceiverForSubscription("orders", "all", nil))(t)
	if peeked := must(r.PeekMessages(ctx, 5, nil))(t); len(peeked) != 0 {
		t.Errorf("%+v; want len(peeked) == 0", peeked)
	}
	soon := time.Now().Add(300 * time.Millisecond)
	must(s.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("soon")}}, soon, nil))(t)
	if m := receiveOne(t, r); string(m.Body) != "soon" || m.EnqueuedTime.Before(soon.Truncate(time.Millisecond)) {
		t.Errorf(`%+v; want string(m.Body) == "soon" && !m.EnqueuedTime.Before(soon.Truncate(time.Millisecond))`, m)
	}
}

// ruleNode is the management node of the subscription "orders/Subscriptions/all" to a plain AMQP
// client.
type ruleNode struct {
	t    testing.TB
	to   *amqp.Sender
	from *amqp.Receiver
}

func (b *broker) ruleNode(t testing.TB) *ruleNode {
	t.Helper()
	ctx := timeout(t)
	c := must(amqp.Dial(ctx, "amqp://"+b.address, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")}))(t)
	t.Cleanup(func() { c.Close() })
	session := must(c.NewSession(ctx, nil))(t)
	const node = "orders/Subscriptions/all/$management"
	return &ruleNode{
		t: t, to: must(session.NewSender(ctx, node, nil))(t),
		from: must(session.NewReceiver(ctx, node, &amqp.ReceiverOptions{TargetAddress: "answers", SettlementMode: amqp.ReceiverSettleModeFirst.Ptr()}))(t),
	}
}

// ask makes a request and wants a status.
func (n *ruleNode) ask(status int32, operation string, body map[string]any) any {
	n.t.Helper()
	ctx := timeout(n.t)
	request := &amqp.Message{
		Properties:            &amqp.MessageProperties{MessageID: "1", ReplyTo: new("answers")},
		ApplicationProperties: map[string]any{"operation": "com.microsoft:" + operation, "server-timeout": uint32(10_000)},
		Value:                 body,
	}
	if err := n.to.Send(ctx, request, nil); err != nil {
		n.t.Fatal(err)
	}
	answer := must(n.from.Receive(ctx, nil))(n.t)
	if err := n.from.AcceptMessage(ctx, answer); err != nil {
		n.t.Fatal(err)
	}
	if answer.ApplicationProperties["statusCode"] != status {
		n.t.Fatalf(`%s: %+v; want answer.ApplicationProperties["statusCode"] == status`, operation, answer.ApplicationProperties)
	}
	return answer.Value
}

// rules is everything that enumerate-rules shows.
func (n *ruleNode) rules() []any {
	n.t.Helper()
	return n.ask(200, "enumerate-rules", map[string]any{"top": int32(1<<31 - 1), "skip": int32(0)}).(map[string]any)["rules"].([]any)
}

// WP-179, WP-180, WP-181, SM-290: rules over a plain AMQP client, which wants every type of an
// answer to be right, before and after a restart.
func TestAMQPRules(t *testing.T) {
	dir := t.TempDir()
	b := startBrokerIn(t, dir, servicebus.Limits{})
	b.put(t, event.Topic, "orders", nil)
	b.put(t, event.Subscription, "orders/Subscriptions/all", nil)
	node := b.ruleNode(t)
	add := map[string]any{"rule-name": "red", "rule-description": map[string]any{
		"correlation-filter": map[string]any{"label": "paint", "to": nil, "properties": map[string]any{"color": "red"}},
		"sql-rule-action":    map[string]any{"expression": "SET sys.Label = 'done'; SET m = n * 2"},
	}}
	node.ask(200, "add-rule", add)
	node.ask(409, "add-rule", add)
	node.ask(400, "add-rule", map[string]any{"rule-name": "huge", "rule-description": map[string]any{
		// a request may be so long, a rule not
		"correlation-filter": map[string]any{"label": strings.Repeat("x", 70_000)},
	}})
	node.ask(200, "remove-rule", map[string]any{"rule-name": "$Default"})
	node.ask(404, "remove-rule", map[string]any{"rule-name": "$Default"})
	before := node.rules()
	b.stop()
	b = startBrokerIn(t, dir, servicebus.Limits{})
	if after := b.ruleNode(t).rules(); len(before) != 1 || !cmp.Equal(after, before) {
		t.Errorf("%+v became %+v (-want +got):\n%s", before, after, cmp.Diff(before, after))
	}
	client, ctx := b.root(t), timeout(t)
	s := must(client.NewSender("orders", nil))(t)
	for _, color := range []string{"blue", "red"} {
		m := &azservicebus.Message{Subject: new("paint"), ApplicationProperties: map[string]any{"Color": color, "n": int32(21)}}
		if err := s.SendMessage(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	r := must(client.NewReceiverForSubscription("orders", "all", nil))(t)
	m := receiveOne(t, r)
	if p := m.ApplicationProperties; *m.Subject != "done" || p["Color"] != "red" || p["m"] != int64(42) || p["RuleName"] != "red" || *m.EnqueuedSequenceNumber != 2 {
		t.Errorf("%+v %+v", m, p)
	}
}

// S0-29, S0-30, S0-33, SM-069, SM-070: the time to live that a copy in a subscription shows to a
// peek and to a receiver. A default alone, of topic or subscription, is shown by receive and not by
// peek, whether the message was once deferred or scheduled or not.
func TestSDKTopicTimeToLive(t *testing.T) {
	b := startBroker(t)
	c, ctx := b.root(t), timeout(t)
	const own, short, long = 10 * time.Minute, 30 * time.Minute, 2 * time.Hour
	for name, p := range map[string]struct{ topic, sub, own, peek, receive time.Duration }{
		"none":                {0, 0, 0, 0, 0},
		"of-the-topic":        {short, 0, 0, 0, short},
		"of-the-subscription": {0, short, 0, 0, short},
		"topic-smaller":       {short, long, 0, 0, short},
		"topic-larger":        {long, short, 0, 0, short},
		"own":                 {0, 0, own, own, own},
		"own-smaller":         {short, long, own, own, own},
		"own-cut-by-topic":    {short, 0, long, short, short},
		"own-cut-by-sub":      {long, short, long, short, short},
	} {
		limit := func(d time.Duration) func(*event.Properties) {
			return func(p *event.Properties) {
				if p.DefaultMessageTimeToLive = d; d == 0 {
					p.DefaultMessageTimeToLive = event.Forever
				}
			}
		}
		b.put(t, event.Topic, name, limit(p.topic))
		b.put(t, event.Subscription, name+"/Subscriptions/s", limit(p.sub))
		m := &azservicebus.Message{Body: []byte(name)}
		if p.own != 0 {
			m.TimeToLive = &p.own
		}
		s := must(c.NewSender(name, nil))(t)
		if err := s.SendMessage(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
		must(s.ScheduleMessages(ctx, []*azservicebus.Message{m}, time.Now().Add(-time.Second), nil))(t)
		check := func(where string, m *azservicebus.ReceivedMessage, want time.Duration) {
			t.Helper()
			var life time.Duration
			if m.TimeToLive != nil { // the SDK has 0 for none
				life = *m.TimeToLive
			}
			expires := m.RawAMQPMessage.Properties.AbsoluteExpiryTime
			if life != want || (expires != nil) != (want != 0) || want != 0 && !expires.Equal(m.EnqueuedTime.Add(want)) {
				t.Errorf("%s, %s: time to live %v, expires at %v, not %v after %v", name, where, life, expires, want, m.EnqueuedTime)
			}
		}
		r := must(c.NewReceiverForSubscription(name, "s", nil))(t)
		for _, m := range must(r.PeekMessages(ctx, 2, nil))(t) {
			check("peeked", m, p.peek)
		}
		for range 2 {
			m := receiveOne(t, r)
			check("received", m, p.receive)
			if err := r.DeferMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
			check("deferred", must(r.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil))(t)[0], p.receive)
		}
		for _, m := range must(r.PeekMessages(ctx, 2, &azservicebus.PeekMessagesOptions{FromSequenceNumber: new(int64(1))}))(t) {
			check("peeked again", m, p.peek)
		}
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
