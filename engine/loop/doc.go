// Package loop runs the rules of one partition (docs/decisions/0089). It knows clocks, goroutines
// and a log, but no other partition, no AMQP and no sockets.
//
// A [Loop] owns the partition's state. It takes requests from its mailbox, stamps the time, lets
// the partition decide, and writes and applies the events. It sends a reply when everything that
// the reply tells is in the log. Only the loop knows who waits: receivers with credit, receivers
// that want a session, and unfinished sweeps. That knowledge dies with the process.
//
// No two of its types point to each other, so they can be read from the bottom up:
//
//   - link.go, credit.go, line.go: what the ports of a receiver link share over several loops
//   - receiver_queue.go, session_waiters.go, sweep.go, waiting.go: who waits; transfers.go: what
//     moves to other entities
//   - frames.go, pace.go, checkpoint.go: frames on their way into the log; replies.go, recents.go,
//     reading.go: replies that wait for it
//   - activity.go: counts what happens
//   - recorder.go: writes and applies decisions, and tells the parts above
//   - dispatch.go, forwarder.go, inbound.go, fanout.go, link_facts.go, facts.go: what acts
//   - step.go, late.go, overload.go, loop.go: the turn of a loop
//
// Two calls notify the parts: decided, for each event that is written and applied, and committed,
// when more of the log is written or durable.
//
// A simulation drives loops directly, one turn after the other, with its own clock and disk.
package loop
