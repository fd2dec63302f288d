// Package listen lets one host:port serve everybody: it tells plain AMQP, TLS and HTTP apart by the
// first bytes of a connection, and AMQP inside a WebSocket from other HTTP.
//
//	s := listen.New(listen.Options{AMQP: amqpServer, TLS: config})
//	go s.Serve(ctx, listener, listen.Any)
//	defer s.Close()
//
// It knows bytes, not brokers: a connection that speaks AMQP is handed to [Options.AMQP], and other
// requests over HTTP go to [Options.Handler]. A connection that is handed on shows what lies
// beneath: a plain one has SyscallConn, one inside TLS has ConnectionState. The Handler never gets
// a request that the page of another origin made. Its requests have TLS set if they came inside
// TLS, are never without a Host, and have their paths as they came.
//
// A connection has one goroutine, which becomes the AMQP server's when it is handed on; HTTP has
// net/http's. Until then it is pending: counted, in total and per address, and cut when it does not
// say in time what it wants (reliability.md 8).
package listen
