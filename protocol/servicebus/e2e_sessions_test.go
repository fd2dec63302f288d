package servicebus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func (b *broker) queue(t testing.TB, path string, change func(*event.Properties)) {
	t.Helper()
	b.put(t, event.Queue, path, change)
}

func wantCode(t testing.TB, err error, code azservicebus.Code) {
	t.Helper()
	var e *azservicebus.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, not %s", err, code)
	}
}

// WP-140, WP-142, WP-143, WP-146, WP-147, WP-148, WP-150, WP-176, WP-177, WP-178: the unmodified
// SDK and sessions.
func TestSDKSessions(t *testing.T) {
	b := startBroker(t)
	b.queue(t, "sessions", func(p *event.Properties) { p.RequiresSession = true })
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("sessions", nil))(t)
	for i, session := range []string{"a", "", "a"} {
		if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i), SessionID: &session}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SendMessage(ctx, &azservicebus.Message{}, nil); err == nil {
		t.Error("sent without a session")
	}
	r := must(c.AcceptSessionForQueue(ctx, "sessions", "a", nil))(t)
	if until := time.Until(r.LockedUntil()); r.SessionID() != "a" || until < 55*time.Second || until > time.Minute {
		t.Errorf("%q until %v", r.SessionID(), r.LockedUntil())
	}
	_, err := b.root(t).AcceptSessionForQueue(ctx, "sessions", "a", nil)
	var e *amqp.Error
	if !errors.As(err, &e) || e.Condition != "com.microsoft:session-cannot-be-locked" {
		t.Errorf(`%+v; want errors.As(err, &e) && e.Condition == "com.microsoft:session-cannot-be-locked"`, err)
	}
	if state := must(r.GetSessionState(ctx, nil))(t); state != nil {
		t.Errorf("state %q", state)
	}
	if err := r.SetSessionState(ctx, []byte{0, 1, 2}, nil); err != nil {
		t.Fatal(err)
	}
	if state := must(r.GetSessionState(ctx, nil))(t); !bytes.Equal(state, []byte{0, 1, 2}) {
		t.Errorf("state %q", state)
	}
	if err := r.RenewSessionLock(ctx, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 2 {
		for _, m := range must(r.ReceiveMessages(ctx, 2, nil))(t) {
			got = append(got, string(m.Body))
			if err := r.CompleteMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if fmt.Sprint(got) != "[0 2]" {
		t.Errorf(`%+v; want fmt.Sprint(got) == "[0 2]"`, got)
	}
	if peeked := must(r.PeekMessages(ctx, 10, nil))(t); len(peeked) != 1 {
		t.Errorf("%d messages", len(peeked))
	}
	next := must(c.AcceptNextSessionForQueue(ctx, "sessions", nil))(t)
	if next.SessionID() != "" {
		t.Errorf("%q, want %q", next.SessionID(), "")
	}
	m := must(next.ReceiveMessages(ctx, 1, nil))(t)[0]
	if err := next.Close(ctx); err != nil {
		t.Fatal(err)
	}
	next = must(c.AcceptSessionForQueue(ctx, "sessions", "", nil))(t)
	if again := must(next.ReceiveMessages(ctx, 1, nil))(t)[0]; again.DeliveryCount != m.DeliveryCount || again.MessageID != m.MessageID {
		t.Errorf("%+v; want again.DeliveryCount == m.DeliveryCount && again.MessageID == m.MessageID", again)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = c.AcceptNextSessionForQueue(short, "sessions", nil)
	// where answer and deadline cross; that the answer comes sooner: TestNoSession
	if !errors.Is(err, context.DeadlineExceeded) {
		wantCode(t, err, azservicebus.CodeTimeout)
	}
}

// WP-110, WP-169 to WP-174: scheduled and deferred messages through the unmodified SDK.
func TestSDKScheduleAndDefer(t *testing.T) {
	b := startBroker(t, "orders")
	b.queue(t, "sessions", func(p *event.Properties) { p.RequiresSession = true })
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	later := time.Now().Add(time.Hour)
	numbers := must(s.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("never")}, {Body: []byte("later")}}, later, nil))(t)
	if len(numbers) != 2 || numbers[0] != 1 || numbers[1] != 2 {
		t.Fatalf("%+v; want len(numbers) == 2 && numbers[0] == 1 && numbers[1] == 2", numbers)
	}
	if err := s.CancelScheduledMessages(ctx, numbers[:1], nil); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.CancelScheduledMessages(ctx, numbers[:1], nil), azservicebus.CodeNotFound)
	// for the broker it must be in the future, however busy the machine is
	soon := time.Now().Add(2 * time.Second)
	if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("soon"), ScheduledEnqueueTime: &soon}, nil); err != nil {
		t.Fatal(err)
	}
	r := must(c.NewReceiverForQueue("orders", nil))(t)
	peeked := must(r.PeekMessages(ctx, 10, nil))(t)
	if len(peeked) != 2 || peeked[0].State != azservicebus.MessageStateScheduled || !peeked[0].ScheduledEnqueueTime.Equal(later.Truncate(time.Millisecond)) {
		t.Errorf("%+v; want len(peeked) == 2 && peeked[0].State == azservicebus.MessageStateScheduled && peeked[0].ScheduledEnqueueTime.Equal(later.Truncate(time.Millisecond))", peeked)
	}
	m := receiveOne(t, r)
	if string(m.Body) != "soon" || time.Now().Before(soon) || *m.SequenceNumber != 4 || m.EnqueuedTime.Before(soon.Truncate(time.Millisecond)) {
		t.Errorf(`%+v; want string(m.Body) == "soon" && !time.Now().Before(soon) && *m.SequenceNumber == 4 && !m.EnqueuedTime.Before(soon.Truncate(time.Millisecond))`, m)
	}
	if err := r.DeferMessage(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	deferred := must(r.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil))(t)
	if len(deferred) != 1 || deferred[0].State != azservicebus.MessageStateDeferred || deferred[0].LockedUntil == nil {
		t.Fatalf("%+v; want len(deferred) == 1 && deferred[0].State == azservicebus.MessageStateDeferred && deferred[0].LockedUntil != nil", deferred)
	}
	_, err := r.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil)
	wantCode(t, err, azservicebus.CodeNotFound)
	if err := r.RenewMessageLock(ctx, deferred[0], nil); err != nil {
		t.Fatal(err)
	}
	if err := r.AbandonMessage(ctx, deferred[0], nil); err != nil {
		t.Fatal(err)
	}
	deferred = must(r.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil))(t)
	if deferred[0].DeliveryCount != 3 { // deferring and abandoning count; the SDK shows one more
		t.Errorf("%+v; want deferred[0].DeliveryCount == 3", deferred[0])
	}
	if err := r.CompleteMessage(ctx, deferred[0], nil); err != nil {
		t.Fatal(err)
	}

	ss := must(c.NewSender("sessions", nil))(t)
	if err := ss.SendMessage(ctx, &azservicebus.Message{Body: []byte("x"), SessionID: new("a")}, nil); err != nil {
		t.Fatal(err)
	}
	sr := must(c.AcceptSessionForQueue(ctx, "sessions", "a", nil))(t)
	m = must(sr.ReceiveMessages(ctx, 1, nil))(t)[0]
	if err := sr.DeferMessage(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	deferred = must(sr.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil))(t)
	if err := sr.DeadLetterMessage(ctx, deferred[0], nil); err != nil {
		t.Fatal(err)
	}
	dead := must(c.NewReceiverForQueue("sessions", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	if m := receiveOne(t, dead); *m.SessionID != "a" {
		t.Errorf(`%+v; want *m.SessionID == "a"`, m)
	}
}
