// Package listen lets one host:port serve everybody: it tells plain AMQP, TLS and HTTP apart by the first bytes of a
// connection, and AMQP inside a WebSocket from other HTTP.
//
//	s := listen.New(listen.Options{AMQP: amqpServer, TLS: config})
//	go s.Serve(ctx, listener, listen.Any)
//	defer s.Close()
//
// It knows bytes, not brokers: who speaks AMQP is handed to [Options.AMQP] as a connection, what else is asked over HTTP goes to
// [Options.Handler]. What it hands on can be asked for what lies beneath: a plain connection has SyscallConn, one inside TLS has
// ConnectionState. The Handler gets requests of our own pages and of no page, with TLS set and never without a Host; their paths are
// as they came.
//
// A connection has one goroutine until it is handed on, which becomes the AMQP server's; HTTP has net/http's. Until then it is
// pending: counted, together and per address, and cut when it does not say in time what it wants (reliability.md 8).
package listen
