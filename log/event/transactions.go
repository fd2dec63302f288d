package event

// A transaction's operations are staged in memory. In the log they are one record:
// TransactionCommitted and the events of the operations, in order of staging. No event of the
// record can be understood without the others.

// TransactionID identifies a transaction in the broker's answer to a declare. Each transaction has
// its own.
type TransactionID [16]byte

// String returns the id's UUID text.
func (t TransactionID) String() string { return string(AppendUUID(make([]byte, 0, 36), t[:])) }

// MarshalText makes ids readable in JSON.
func (t TransactionID) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// TransactionCommitted is the first event of a record with a transaction's operations. By itself it
// changes nothing: it says that the following events are those operations.
//
//event:kind 43 verb=committed with=transactions fact
type TransactionCommitted struct {
	Envelope
	ID         TransactionID
	Operations uint32 // each has any number of events
	DeclaredAt Time
}

// TransactionAborted says that a transaction with staged operations ended without effect. It
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
	AbortRolledBack AbortCause = 1 // the client requested it
	AbortTimedOut   AbortCause = 2
	AbortLost       AbortCause = 3 // its coordinator link or connection is gone
	AbortFailed     AbortCause = 4 // the client wanted to commit, but an operation was refused
)

// NumbersReserved gives out numbers for messages that a transaction has scheduled and may still
// commit. The client learns the numbers before it commits. No other message may get them, whether
// the transaction commits or not and whatever crashes in between. The event is durable before the
// client learns the numbers. A MessageScheduled with one of them has Reserved set.
//
//event:kind 66 verb=reserved with=transactions
type NumbersReserved struct {
	Envelope
	First SequenceNumber // the slice's next one
	Count uint32         // at least 1
}
