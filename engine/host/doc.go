// Package host runs a broker over one data directory. Callers use it through [engine.Broker] and
// [engine.Admin]. It knows clocks, goroutines and logs, but no AMQP and no sockets.
//
// [Open] recovers every partition and returns a [Namespace]. Each partition has a loop (package
// loop) and a courier, which moves messages to other entities. Package background has the jobs that
// no client asks for. This package has everything that concerns more than one partition:
// administration, the directory of entities, the clock, fences, restarts and backups.
package host
