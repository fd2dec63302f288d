// Package event is the vocabulary of Ledgerbus: every kind of thing that can have happened, in the
// past tense, with its versioned binary form. The log stores it, the index applies it, the tools
// print it. It imports nothing of ours and knows no file, no queue rule and no clock.
//
// A [Record] is what one decision wrote: all of its events or none. Events carry everything that
// was decided - instants, lock tokens, generated ids, new delivery counts, dead-letter reasons - so
// that applying them needs no clock, no randomness and no configuration (semantics.md 4.3 R1). Each
// event also names its [Origin]: who asked for it.
//
// Bytes a client sent (a message, property changes) are not part of the encoded event. They stand
// beside it in the same frame, and the event holds a [Blob]: where they are, how many, and their
// checksum. So a record can be proved although a body in it was erased.
//
// The byte layout is described in docs/log-format.md. Golden files under testdata keep old logs
// readable.
//
// # Schema
//
// An event is a struct, and the struct is its schema: from it "go generate ./log/event" makes what
// stores and reads the event, what a [Pool] and [Named] need, the words of its constants, and the
// columns that it fills in an export: read those files to see what comes of a line here. A
// directive says what a kind is:
//
//	//event:kind 25 verb=dead
//
// Behind the number may stand the word by which people ask for such events (verb), the capability
// without which a directory has none (with), that they change nothing (fact), and that [Named]
// names the slice besides the message (slice). A field is one line:
//
//	SubQueue SubQueue `log:"v2,with=moves,only=TransferDeadLetter"`
//
// Fields are stored in their order, each as its type says: a method of the encoder for that type,
// or that of the type below it. A SequenceNumber is a message that the event is about. Most fields
// need no tag. The words of the tag log are
//
//	v2                the version of the event that the field came with
//	with=moves        the capability that it needs: an event without the field is written as before
//	after=HasSession  it is stored behind another field, not where it stands
//	in=Details        it is stored under a flag of the details
//	among=A..B        the values that a reader takes, where not all of the type
//	only=A            the one value that is stored at all
//
// The tag export names the column of the table of events in which the field stands ("size:Size" is
// a member of it). A type of constants may have a directive with their words in a dump (words), and
// one that says what a value is (closed): then a reader refuses any other one.
//
// What flags make optional, and rows of a base, are stored by hand: a struct with a method encode
// of its own is left alone. A method decoded is called when all fields are read: it fills in what
// old versions did not say, and refuses what does not fit together.
package event

//go:generate go run ./internal/gen
