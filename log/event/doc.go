// Package event is the vocabulary of Ledgerbus: every kind of thing that can have happened, in the past tense, with its
// versioned binary form. The log stores it, the index applies it, the tools print it. It imports nothing of ours and
// knows no file, no queue rule and no clock.
//
// A [Record] is what one decision wrote: all of its events or none. Events carry everything that was decided - instants,
// lock tokens, generated ids, new delivery counts, dead-letter reasons - so that applying them needs no clock, no
// randomness and no configuration (semantics.md 4.3 R1). Each event also names its [Origin]: who asked for it.
//
// Bytes a client sent (a message, property changes) are not part of the encoded event. They stand beside it in the same
// frame, and the event holds a [Blob]: where they are, how many, and their checksum. So a record can be proved although a
// body in it was erased.
//
// The byte layout is described in docs/log-format.md. Golden files under testdata keep old logs readable.
package event
