// Package client is a small AMQP 1.0 client of Service Bus. The command line and the load generator
// use it to send, receive and peek. It works with Ledgerbus, the emulator and the cloud, because it
// is based on github.com/Azure/go-amqp and does not depend on the broker's packages.
//
//	cs, err := client.ParseConnectionString("Endpoint=sb://localhost;SharedAccessKeyName=…;SharedAccessKey=…;UseDevelopmentEmulator=true;")
//	c, err := client.Dial(ctx, cs, client.Options{})
//	s, err := c.NewSender(ctx, "orders")
//	err = s.Send(ctx, client.NewMessage([]byte("hello")))
//
// A [Client] is one connection. It signs its tokens and renews them while it is open. It does not
// reconnect: after an error that says that the connection ended, the caller must dial again or give
// up.
//
// Section numbers in comments are those of the wire protocol reference.
package client
