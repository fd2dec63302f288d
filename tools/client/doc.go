// Package client is a small AMQP 1.0 client of Service Bus: what the command line and the load
// generator need to send, receive and peek, at Ledgerbus, at the emulator and in the cloud. It
// stands on github.com/Azure/go-amqp and knows nothing of the broker's insides: what works here
// works against any of the three.
//
//	cs, err := client.ParseConnectionString("Endpoint=sb://localhost;SharedAccessKeyName=…;SharedAccessKey=…;UseDevelopmentEmulator=true;")
//	c, err := client.Dial(ctx, cs, client.Options{})
//	s, err := c.NewSender(ctx, "orders")
//	err = s.Send(ctx, client.NewMessage([]byte("hello")))
//
// A [Client] is one connection. It signs its own tokens and renews them as long as it is open. It
// does not reconnect: an error that says the connection ended is final, and the caller decides what
// to do.
//
// Section numbers in comments are those of the wire protocol reference.
package client
