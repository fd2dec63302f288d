// Package broker puts a broker together from its parts and takes it apart again: log, engine,
// protocol, listeners, in this order, and back in reverse. The command line and the tests start
// exactly this.
//
//	s, err := broker.Start(ctx, settings)
//	defer s.Close()
//	fmt.Println(s.ConnectionString())
//
// It holds no rule of the broker. Diagnostics go to [slog.Default].
package broker
