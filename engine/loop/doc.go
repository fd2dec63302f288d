// Package loop runs the rules of one partition (docs/decisions/0089). It knows clocks, goroutines
// and a log, and no other partition, AMQP or socket.
//
// A [Loop] owns the partition's state. It takes what was asked from its mailbox, stamps the time,
// has the partition decide, writes and applies the events, and lets replies go when what they stand
// for is in the log. It alone knows who waits: receivers with credit, those that want a session,
// sweeps that go on. That dies with the process.
//
// Its types do not point to each other, so they can be read from below:
//
//   - link.go, credit.go, line.go: what the ports of a receiver link share over several loops
//   - receiver_queue.go, session_waiters.go, sweep.go, waiting.go: who waits; transfers.go: what
//     moves to other entities
//   - frames.go, pace.go, checkpoint.go: frames on their way into the log; replies.go, recents.go,
//     reading.go: replies that wait for it
//   - recorder.go: writes and applies what is decided, and tells those above
//   - dispatch.go, forwarder.go, inbound.go, fanout.go, link_facts.go, facts.go: what acts
//   - step.go, late.go, overload.go, loop.go: the turn of a loop
//
// Two calls tell the parts what happens: decided, for each event that is written and applied, and
// committed, when more of the log is written or durable.
//
// A simulation drives loops by hand, one turn after the other, with a clock and a disk of its own.
package loop
