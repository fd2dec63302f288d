// Package listen serves plain AMQP, TLS, HTTP, and AMQP inside a WebSocket on one host and port. It
// tells them apart by the first bytes of a connection, and WebSockets from other HTTP by the path.
//
//	s := listen.New(listen.Options{AMQP: amqpServer, TLS: config})
//	go s.Serve(ctx, listener, listen.Any)
//	defer s.Close()
//
// The package knows nothing of the broker. It hands connections that speak AMQP to [Options.AMQP],
// and other HTTP requests to [Options.Handler]. A connection that is handed on shows its kind: a
// plain one has SyscallConn, one inside TLS has ConnectionState. The Handler never gets a request
// that a page of another origin made. Its requests have TLS set if they came inside TLS, always
// have a Host, and have their paths unchanged.
//
// A connection has one goroutine, which becomes the AMQP server's when the connection is handed on;
// HTTP connections have that of net/http. Until then the connection is pending: it is counted, in
// total and per address, and closed if it does not show its protocol in time (reliability.md 8).
package listen
