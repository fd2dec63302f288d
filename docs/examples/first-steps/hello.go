//go:build ignore

// Sends a message to the queue orders and receives what is there.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const emulator = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := azservicebus.NewClientFromConnectionString(cmp.Or(os.Getenv("LEDGERBUS_CONNECTION_STRING"), emulator), nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	sender, err := client.NewSender("orders", nil)
	if err != nil {
		return err
	}
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("hello from Go")}, nil); err != nil {
		return err
	}
	receiver, err := client.NewReceiverForQueue("orders", nil)
	if err != nil {
		return err
	}
	messages, err := receiver.ReceiveMessages(ctx, 10, nil)
	if err != nil {
		return err
	}
	for _, m := range messages {
		fmt.Println(string(m.Body))
		if err := receiver.CompleteMessage(ctx, m, nil); err != nil {
			return err
		}
	}
	return nil
}
