// Package engine holds the rules of the broker. It knows no clock, goroutine or file, and no AMQP: package host runs it.
//
// A [Partition] is a state machine over one log: [Partition.Decide] looks at a command and answers which events follow, [Partition.Apply]
// changes the state by an event. Whoever drives it gives it time, commands and a log, adopts what was decided ([Partition.Adopt]), and
// lets replies leave once the log is as far as they need ([Outcome.Level]).
//
// Four invariants carry the design:
//
//  1. Durable state changes only in Apply, and the same Apply runs live, on recovery and in tools.
//  2. Nothing leaves the process (a disposition, a delivery, a reply) before the events that justify it are committed.
//  3. One decision is one record: a dead-lettering, a batch or the commit of a transaction is atomic with no markers.
//  4. Volatile things (waiting receivers, their credit) are the driver's, what is staged in transactions is the partition's, and both may
//     die with the process.
//
// Decide and Apply use no clock, randomness, goroutine, I/O or map order, so a seed reproduces a run.
//
// # What the protocol side does
//
//	target, err := broker.Resolve("orders/$DeadLetterQueue")
//	broker.Submit(target.Host(r.Slice.Partition), []engine.Request{{Command: &engine.Attach{Receiver: r}, Tag: 1, Sink: conn}})
//
// and gets a [Reply] for every request, in the order in which their events became durable, through its [Sink]. It knows a [Broker]
// and an [Admin], not who stands behind them.
package engine
