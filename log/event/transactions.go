package event

// A transaction's operations are staged in memory. What they are to the log is one record:
// TransactionCommitted and the events of the operations, in order of staging. No event of the
// record can be understood without the others.

// TransactionID is what the broker calls a transaction in its answer to a declare. No two have the
// same.
type TransactionID [16]byte

// String is the id's UUID text.
func (t TransactionID) String() string { return string(AppendUUID(make([]byte, 0, 36), t[:])) }

// MarshalText makes ids readable in JSON.
func (t TransactionID) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// TransactionCommitted is the first event of a record that has a transaction's operations. By
// itself it changes nothing: it says what the events behind it are.
//
//event:kind 43 verb=committed with=transactions fact
type TransactionCommitted struct {
	Envelope
	ID         TransactionID
	Operations uint32 // one may take several events, or none
	DeclaredAt Time
}

// TransactionAborted says that a transaction in which something was staged ended without effect. It
// changes nothing.
//
//event:kind 44 verb=aborted with=transactions fact
type TransactionAborted struct {
	Envelope
	ID    TransactionID
	Cause AbortCause
}

// AbortCause is why a transaction ended without effect.
//
//event:closed cause of an abort
//event:words rolled-back timed-out lost failed
type AbortCause uint8

const (
	AbortRolledBack AbortCause = 1 // the client said so
	AbortTimedOut   AbortCause = 2
	AbortLost       AbortCause = 3 // its coordinator link or connection is gone
	AbortFailed     AbortCause = 4 // the client wanted to commit, but an operation was refused
)

// NumbersReserved gives out numbers for messages that a transaction has scheduled and may yet
// commit: the client learns them before it commits, and nobody else may get them, whether it
// commits or not and whatever crashes in between. The event is durable before the client learns
// them. A MessageScheduled that has one of them says so: see Reserved.
//
//event:kind 66 verb=reserved with=transactions
type NumbersReserved struct {
	Envelope
	First SequenceNumber // the slice's next one
	Count uint32         // at least 1
}
