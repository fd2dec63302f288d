package servicebus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// What a client of plain AMQP asks for and a Service Bus SDK never does, with go-amqp: a key for a
// login, links that last, selectors, temporary queues.
func TestPlainAMQPClient(t *testing.T) {
	t.Parallel()
	b := startBrokerWith(t, servicebus.Limits{}, "orders")
	ctx := timeout(t)
	conn, err := amqp.Dial(ctx, "amqp://"+b.address, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(ctx, amqp.NewMessage([]byte("x")), nil); err != nil {
		t.Fatal(err)
	}
	durable, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{
		SourceDurability: amqp.DurabilityUnsettledState, SourceExpiryPolicy: amqp.ExpiryPolicyNever,
		Durability: amqp.DurabilityUnsettledState, ExpiryPolicy: amqp.ExpiryPolicyNever,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := durable.Receive(ctx, nil)
	if err != nil || string(m.GetData()) != "x" {
		t.Fatalf(`%+v, %v; want string(m.GetData()) == "x"`, m, err)
	}
	if err := errors.Join(durable.AcceptMessage(ctx, m), durable.Close(ctx)); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]*amqp.ReceiverOptions{
		"selector":        {Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'blue'")}},
		"any filter":      {Filters: []amqp.LinkFilter{amqp.NewLinkFilter("apache.org:no-local-filter:list", 0x0000468C00000003, []any{})}},
		"temporary queue": {DynamicAddress: true},
	} {
		address := "orders"
		if o.DynamicAddress {
			address = ""
		}
		_, err := session.NewReceiver(context.WithoutCancel(ctx), address, o)
		var refused *amqp.Error
		if !errors.As(err, &refused) || refused.Condition != amqp.ErrCondNotImplemented {
			t.Errorf("%s: %v; want errors.As(err, &refused) && refused.Condition == amqp.ErrCondNotImplemented", name, err)
		}
	}
}
