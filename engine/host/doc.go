// Package host runs the rules of package engine. It knows clocks, goroutines and logs, and no AMQP or socket.
//
// A [Namespace] is a broker over one data directory: [Open] recovers every partition and starts a [Loop] for each, which owns the
// partition's state. The loop takes what was asked from its mailbox, stamps the time, has the partition decide, writes and applies the
// events, and lets replies go when what they stand for is in the log. It alone knows who waits: receivers with credit, those that
// want a session, sweeps that go on. That dies with the process.
//
// Nothing here decides what a command comes to. A simulation drives loops by hand, one turn after the other, with a clock and a disk
// of its own.
package host
