package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Erasures is the engine for an operator who has to remove what was sent.
type Erasures interface {
	// EraseBody removes the body of a settled message from the log. The events of the message stay,
	// and so do the size and the checksum of its body. When it returns without an error the body is
	// gone from this log, and the request for it is an event, with its origin and the reason given.
	// Copies elsewhere, in backups, at clients and where the message was forwarded to, are not
	// touched. Refusals are [*Error]: [NotFound] where history knows no such message, [NotAllowed]
	// while it waits, or another message that shares its body, [Busy] where the body is not gone
	// yet: then the request is in the log, and is carried out as soon as that is possible, unless
	// the partition does not serve or the event could not be written.
	EraseBody(ctx context.Context, entity string, message event.SequenceNumber, by *Origin, why event.ReasonGiven) (ErasedBody, error)
}

// ErasedBody is a body that is gone.
type ErasedBody struct {
	Entity   string // path
	Sequence event.SequenceNumber
	Bytes    uint32 // that it had
	Before   bool   // it was gone already, and nothing was done
}
