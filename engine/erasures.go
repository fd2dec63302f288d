package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Erasures is the engine for an operator who has to remove the contents of messages.
type Erasures interface {
	// EraseBody removes the body of a settled message from the log. The events of the message stay,
	// as do the size and checksum of its body. When it returns without an error the body is gone
	// from this log, and the request is an event with its origin and the given reason. It does not
	// touch copies elsewhere: in backups, at clients, and where the message was forwarded.
	//
	// Refusals are [*Error]. [NotFound]: history knows no such message. [NotAllowed]: the message,
	// or another one that shares its body, still waits. [Busy]: the body is not gone yet. In that
	// case the request is in the log and is carried out as soon as possible, unless the partition
	// does not serve or the event could not be written.
	EraseBody(ctx context.Context, entity string, message event.SequenceNumber, by *Origin, why event.ReasonGiven) (ErasedBody, error)
}

// ErasedBody is a body that was erased.
type ErasedBody struct {
	Entity   string // path
	Sequence event.SequenceNumber
	Bytes    uint32 // size of the body
	Before   bool   // it was erased earlier, and nothing was done
}
