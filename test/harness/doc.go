// Package harness gives tests a broker to talk to, as net/http/httptest gives them a web server.
//
//	b := harness.Start(t, harness.Queue("orders", harness.Lock(time.Second)))
//	client, err := azservicebus.NewClientFromConnectionString(b.ConnectionString(), nil)
//
// [Start] runs, inside the test's process, exactly what `ledgerbus serve` runs: package broker, on
// a free port, with its data in a directory of the test. [Broker.Restart] stops it cleanly and
// [Broker.Crash] as a power switch would; both start it again on the same port, where clients find
// it when they reconnect.
//
// [StartProcess] runs the real binary instead, so that it can be killed with a signal while it
// works.
//
// It knows nothing of what tests prove. A broker is closed when its test ends.
package harness
