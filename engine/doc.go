// Package engine holds the rules of the broker. It knows no clock, goroutine or file, and no AMQP:
// package host runs it.
//
// A [Partition] is a state machine over one log: [Partition.Decide] looks at a command and answers
// which events follow, [Partition.Apply] changes the state by an event. Whoever drives it gives it
// time, commands and a log, adopts what was decided ([Partition.Adopt]), and lets replies leave
// once the log is as far as they need ([Outcome.Level]).
//
// Four invariants carry the design:
//
//  1. Durable state changes only in Apply, and the same Apply runs live, on recovery and in tools.
//  2. Nothing leaves the process (a disposition, a delivery, a reply) before the events that
//     justify it are committed.
//  3. One decision is one record: a dead-lettering, a batch or the commit of a transaction is
//     atomic with no markers.
//  4. Volatile things (waiting receivers, their credit) are the driver's, what is staged in
//     transactions is the partition's, and both may die with the process.
//
// Decide and Apply use no clock, randomness, goroutine, I/O or map order, so a seed reproduces a
// run.
//
// # How a rule is written
//
// A rule first checks, which may refuse and adds nothing, and then enacts, which cannot refuse.
// What a check finds whose time is over ends also when the command is refused (passed.go). The
// caller adopts an outcome before anything else happens to the partition, or asks again (decision
// 25). What commands hold beside plain values is listed, with reasons, in values_test.go (decision
// 34).
//
// A publish is one event with all copies. What the rules in force said stands in it, so a replay
// needs no filter language. Rules are compiled once, when they come into force; a message's
// properties are parsed once, by its connection.
//
// A message that belongs to a session is locked as long as the session is: its lock has no time of
// its own, and one event, SessionReleased, gives all of them back. An expired message is not looked
// for by time: a pass over the queue is cheaper than an index that every message with a time to
// live would have to be in, and it runs only when something has expired and somebody receives.
//
// # What the protocol side does
//
//	target, err := broker.Resolve("orders/$DeadLetterQueue")
//	broker.Submit(target.Host(r.Slice.Partition), []engine.Request{{Command: &engine.Attach{Receiver: r}, Tag: 1, Sink: conn}})
//
// and gets a [Reply] for every request, in the order in which their events became durable, through
// its [Sink]. It knows a [Broker] and an [Admin], not who stands behind them.
package engine
