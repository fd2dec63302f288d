// Package host is a broker over one data directory, for those who speak to it by [engine.Broker]
// and [engine.Admin]. It knows clocks, goroutines and logs, and no AMQP or socket.
//
// [Open] recovers every partition and makes a [Namespace] of them: a loop runs each (package loop),
// a courier takes what moves to other entities, and what a broker does by itself is in package
// background. Here is what concerns more than one partition: administration and the directory of
// entities, the clock, fences and restarts, backups.
package host
