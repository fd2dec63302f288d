package sdkgo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/settings"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

func unknownQueue(b *bus) {
	s, err := b.client.NewSender("nowhere", nil)
	b.must(err)
	b.wantCode(s.SendMessage(b.patient(), text("a"), nil), azservicebus.CodeNotFound)
	r, err := b.client.NewReceiverForQueue("nowhere", nil)
	b.must(err)
	_, err = r.ReceiveMessages(b.patient(), 1, nil)
	b.wantCode(err, azservicebus.CodeNotFound)
	_, err = r.PeekMessages(b.patient(), 1, nil)
	b.wantCode(err, azservicebus.CodeNotFound)
	if all := b.broker.Server().Engine().Entities(); len(all) != 1 {
		b.Errorf("%d entities", len(all))
	}
	b.send("a") // the connection is as good as before
}

func wrongKey(b *bus) {
	client := b.connect(b.broker.ConnectionStringFor("RootManageSharedAccessKey", "not the key"))
	s, err := client.NewSender("orders", nil)
	b.must(err)
	b.wantCode(s.SendMessage(b.patient(), text("a"), nil), azservicebus.CodeUnauthorizedAccess)
	client = b.connect(b.broker.ConnectionStringFor("NoSuchRule", "SAS_KEY_VALUE"))
	_, err = b.receiverOf(client, peekLock).ReceiveMessages(b.patient(), 1, nil)
	b.wantCode(err, azservicebus.CodeUnauthorizedAccess)
	b.empty(peekLock)
}

// TestRights shows SM and WP-057, WP-058: what keys with one right may do.
func TestRights(t *testing.T) {
	t.Parallel()
	b := newBus(t, harness.Queue("orders"), harness.Rule("listener", "one key", settings.Listen), harness.Rule("producer", "another key", settings.Send))
	producer := b.connect(b.broker.ConnectionStringFor("producer", "another key"))
	s, err := producer.NewSender("orders", nil)
	b.must(err)
	b.must(s.SendMessage(b.patient(), text("a"), nil))
	_, err = b.receiverOf(producer, peekLock).ReceiveMessages(b.patient(), 1, nil)
	b.wantCode(err, azservicebus.CodeUnauthorizedAccess)
	if err == nil || !strings.Contains(err.Error(), "'Listen' claim(s) are required") {
		b.Errorf("receiving with the right to send: %v", err)
	}

	listener := b.connect(b.broker.ConnectionStringFor("listener", "one key"))
	r := b.receiverOf(listener, peekLock)
	b.must(r.CompleteMessage(b.patient(), b.takeOne(r), nil))
	s, err = listener.NewSender("orders", nil)
	b.must(err)
	err = s.SendMessage(b.patient(), text("b"), nil)
	b.wantCode(err, azservicebus.CodeUnauthorizedAccess)
	if err == nil || !strings.Contains(err.Error(), "'Send' claim(s) are required") {
		b.Errorf("sending with the right to listen: %v", err)
	}
	b.empty(peekLock)
}

// notYet: what is not supported is refused with a message that names it.
func notYet(b *bus) {
	b.send("a")
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
	defer cancel()
	refused := func(what string, err error, word string) {
		b.Helper()
		if err == nil || ctx.Err() != nil || !strings.Contains(strings.ToLower(err.Error()), word) {
			b.Errorf("%s: %v", what, err)
		}
	}
	_, err := b.client.AcceptSessionForQueue(ctx, "orders", "s", nil)
	refused("a session of a queue without sessions", err, "session")
	_, err = b.client.AcceptNextSessionForQueue(ctx, "orders", nil)
	refused("any session of a queue without sessions", err, "session")
	_, err = b.sender().ScheduleMessages(ctx, []*azservicebus.Message{text("later")}, time.Now().Add(time.Hour), nil)
	refused("scheduling", err, "schedule")
	at := time.Now().Add(time.Hour)
	impatient := connect(b.T, b.broker.ConnectionString(), azservicebus.RetryOptions{MaxRetries: -1}) // others try again after amqp:not-implemented
	s, err := impatient.NewSender("orders", nil)
	b.must(err)
	refused("scheduling by annotation", s.SendMessage(ctx, &azservicebus.Message{ScheduledEnqueueTime: &at}, nil), "schedule")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	b.must(r.DeferMessage(ctx, m, nil))
	_, err = b.receiverOf(impatient, peekLock).ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil)
	refused("receiving a deferred message", err, "receive-by-sequence-number")
	b.wantBodies(b.peek(peekLock), "a")
}
