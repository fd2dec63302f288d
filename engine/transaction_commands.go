package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// MaxTransactionMessages is how many messages may be sent in one transaction.
const MaxTransactionMessages = 100

// Stage makes an operation part of a transaction: it is checked as if it were done now, and done
// when the transaction is committed. The first operation of a transaction begins it. Its reply is
// the operation's own: a schedule has its numbers, and a settlement that is [Settle.Unread] the
// messages to read, with which nothing is staged: it has to come again before the commit.
//
// After a refusal the transaction has failed: [Commit] rolls it back and is refused with
// [TransactionFailed]. One that has ended here, by itself too, is refused with
// [UnknownTransaction].
type Stage struct {
	Transaction event.TransactionID
	// Operation is a [Send], a [Settle], a [CancelScheduled] or a [SetSessionState]. It is the
	// transaction's from now on: it holds no Buffer, and nothing of its memory is used for anything
	// else.
	Operation Command
	Bytes     int // memory that the operation takes until the end of the transaction
}

// Commit does all that a transaction has staged, in one record, or nothing: a refusal has rolled it
// back. All of it is in one partition, that of its first operation. With [ErrUnknown] it may have
// been done.
type Commit struct {
	Transaction event.TransactionID
	Slice       event.Slice // of the first operation
	Origin      *Origin     // of the link that asks
}

// Rollback forgets all that a transaction has staged.
type Rollback struct {
	Transaction event.TransactionID
	Slice       event.Slice // of the first operation
	Origin      *Origin
	Cause       event.AbortCause
}

func (*Stage) command()    {}
func (*Commit) command()   {}
func (*Rollback) command() {}
