// Package broker starts a broker from its parts in the order log, engine, protocol, listeners, and
// stops them in reverse. The command line and the tests start the same broker.
//
//	s, err := broker.Start(ctx, settings)
//	defer s.Close()
//	fmt.Println(s.ConnectionString())
//
// The package contains no rules of the broker. Diagnostics go to [slog.Default].
package broker
