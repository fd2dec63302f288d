// Package event defines every kind of event, in the past tense, with its versioned binary form. The
// log stores events, the index applies them, and the tools print them. The package imports no other
// package of Ledgerbus and knows no file, no queue rule and no clock.
//
// A [Record] contains the events of one decision: all of them or none. Events carry everything that
// was decided (instants, lock tokens, generated ids, new delivery counts, dead-letter reasons), so
// that applying them needs no clock, no randomness and no configuration (semantics.md 4.3 R1). Each
// event also names its [Origin]: the client or operator who asked for it.
//
// Bytes that a client sent (a message, property changes) are not part of the encoded event. They
// are next to it in the same frame, and the event holds a [Blob] with their position, size and
// checksum. So a record can be verified even if a body in it was erased.
//
// docs/log-format.md describes the byte layout. Golden files under testdata keep old logs readable.
//
// # Schema
//
// An event is a struct, and the struct is its schema. From it "go generate ./log/event" makes the
// code that stores and reads the event, the tables for a [Pool] and [Named], the words of its
// constants, and the columns that it fills in an export. The generated files show the result of
// each line here. A directive describes a kind:
//
//	//event:kind 25 verb=dead
//
// After the number may follow: the word with which people search for such events (verb), the
// capability without which a directory has none (with), that they change nothing (fact), and that
// [Named] names the slice besides the message (slice). A field is one line:
//
//	SubQueue SubQueue `log:"v2,with=moves,only=TransferDeadLetter"`
//
// Fields are stored in their order, each as its type says: with a method of the encoder for that
// type, or for its underlying type. A SequenceNumber is a message that the event is about. Most
// fields need no tag. The words of the tag log are
//
//	v2                the version of the event that added the field
//	with=moves        the capability that it needs: an event without the field is written as before
//	after=HasSession  it is stored after another field, not at its own place
//	in=Details        it is stored under a flag of the details
//	among=A..B        the values that a reader accepts, if not all of the type
//	only=A            the only value that is stored
//
// The tag export names the column of the table of events that has the field ("size:Size" is a
// member of it). A type of constants may have a directive with their words in a dump (words), and
// one that describes a value (closed): then a reader refuses any other value.
//
// Fields that flags make optional, and rows of a base, are stored by hand: no code is generated for
// a struct with its own encode method. A method decoded is called after all fields are read. It
// sets the fields that old versions lack, and refuses contradictions.
package event

//go:generate go run ./internal/gen
