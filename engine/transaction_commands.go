package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// MaxTransactionMessages is the most messages that may be sent in one transaction.
const MaxTransactionMessages = 100

// Stage makes an operation part of a transaction. It is checked as if it were done now, and done
// when the transaction is committed. The first operation of a transaction begins it. Its reply is
// the operation's own: a schedule has its numbers. A settlement that is [Settle.Unread] has the
// messages to read; then nothing is staged, and it must come again before the commit.
//
// After a refusal the transaction has failed: [Commit] rolls it back and is refused with
// [TransactionFailed]. An operation of a transaction that has ended here, including by time, is
// refused with [UnknownTransaction].
type Stage struct {
	Transaction event.TransactionID
	// Operation is a [Send], a [Settle], a [CancelScheduled] or a [SetSessionState]. It belongs to
	// the transaction from now on: it holds no Buffer, and its memory is used for nothing else.
	Operation Command
	Bytes     int // memory that the operation takes until the end of the transaction
}

// Commit carries out all staged operations of a transaction, in one record, or none: a refusal has
// rolled it back. All of it is in one partition, that of its first operation. With [ErrUnknown] it
// may have been carried out.
type Commit struct {
	Transaction event.TransactionID
	Slice       event.Slice // of the first operation
	Origin      *Origin     // of the link that asks
}

// Rollback forgets all staged operations of a transaction.
type Rollback struct {
	Transaction event.TransactionID
	Slice       event.Slice // of the first operation
	Origin      *Origin
	Cause       event.AbortCause
}

func (*Stage) command()    {}
func (*Commit) command()   {}
func (*Rollback) command() {}
