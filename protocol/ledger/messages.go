package ledger

import (
	"net/http"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// eraseTime bounds the time until a body is erased: the broker rewrites a file of the log as fast
// as the disk allows.
const eraseTime = 2 * time.Minute

func (c *call) eraseMessage() (any, error) {
	var what wire.Erase
	if err := c.arguments(&what); err != nil {
		return nil, err
	}
	if what.Entity == "" || what.Sequence <= 0 {
		return nil, refuse(http.StatusBadRequest, "Missing or invalid message; the body must have entity and sequence (1 or more).")
	}
	c.extendDeadlines(eraseTime)
	out, err := c.h.Erasures.EraseBody(c.Context(), what.Entity, event.SequenceNumber(what.Sequence), c.origin(), c.why)
	if err != nil {
		return nil, err
	}
	return wire.Erased{Entity: out.Entity, Sequence: int64(out.Sequence), Bytes: out.Bytes, Before: out.Before}, nil
}
