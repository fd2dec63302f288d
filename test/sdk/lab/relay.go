package lab

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Route is between two queues.
type Route struct{ From, To string }

// relayTimeout is how long a message may take from one queue to the other.
const relayTimeout = 20 * time.Second

// relay has Go's SDK receive a message from one queue and send what it received to another one, so
// that a suite of another SDK can show that the two understand each other.
func (l *Lab) relay(route Route) error {
	ctx, cancel := context.WithTimeout(context.Background(), relayTimeout)
	defer cancel()
	client, err := azservicebus.NewClientFromConnectionString(l.ConnectionString(), nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	receiver, err := client.NewReceiverForQueue(route.From, nil)
	if err != nil {
		return err
	}
	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil {
		return err
	}
	sender, err := client.NewSender(route.To, nil)
	if err != nil {
		return err
	}
	if err := sender.SendMessage(ctx, messages[0].Message(), nil); err != nil {
		return err
	}
	return receiver.CompleteMessage(ctx, messages[0], nil)
}
