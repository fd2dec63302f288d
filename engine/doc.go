// Package engine holds the rules of the broker. It knows no clock, goroutine or file, and no AMQP:
// package host runs it.
//
// A [Partition] is a state machine over one log. [Partition.Decide] looks at a command and returns
// the events that follow; [Partition.Apply] changes the state by an event. The driver of a
// partition gives it time, commands and a log, adopts decisions ([Partition.Adopt]), and releases
// replies once the log is as far as they need ([Outcome.Level]).
//
// Four invariants carry the design:
//
//  1. Durable state changes only in Apply, and the same Apply runs live, on recovery and in tools.
//  2. Nothing leaves the process (a disposition, a delivery, a reply) before the events that
//     justify it are committed.
//  3. One decision is one record: a dead-lettering, a batch or the commit of a transaction is
//     atomic with no markers.
//  4. Volatile state dies with the process. Waiting receivers and their credit belong to the
//     driver; staged operations of transactions belong to the partition.
//
// Decide and Apply use no clock, randomness, goroutine, I/O or map order, so a seed reproduces a
// run.
//
// # How a rule is written
//
// A rule first checks and then enacts. The check may refuse and adds nothing; the enactment cannot
// refuse. Overdue items that a check finds end even if the command is refused (passed.go). The
// caller adopts an outcome before anything else happens to the partition, or asks again (decision
// 25). values_test.go lists, with reasons, the fields of commands that are not plain values
// (decision 34).
//
// A publish is one event with all copies. The event holds what the rules in force decided, so a
// replay needs no filter language. Rules are compiled once, when they come into force; a message's
// properties are parsed once, by its connection.
//
// A message that belongs to a session is locked as long as the session is: its lock has no end of
// its own, and one event, SessionReleased, returns all of them. There is no index of expiry times:
// every message with a time to live would have to be in it. Instead a pass over the queue finds
// expired messages. It runs only when a message has expired and a receiver waits.
//
// # What the protocol side does
//
//	target, err := broker.Resolve("orders/$DeadLetterQueue")
//	broker.Submit(target.Host(r.Slice.Partition), []engine.Request{{Command: &engine.Attach{Receiver: r}, Tag: 1, Sink: conn}})
//
// It gets a [Reply] for every request through its [Sink], in the order in which the events became
// durable. It knows only the interfaces [Broker] and [Admin].
package engine
