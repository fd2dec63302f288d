package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a courier and the loop of its log tell each other.

// TransferBatch is transfers of a slice, which are durable, for the courier to take.
type TransferBatch struct {
	engine.Internal
	Source    event.Slice
	Transfers []engine.Transfer // by number
	Floors    []Floor
}

// Floor says up to where the transfers of a slice to a destination are over, durably.
type Floor struct {
	Destination event.EntityID
	Number      event.TransferNumber // all smaller ones are
}

// SliceGone tells the courier that a slice is no more.
type SliceGone struct {
	engine.Internal
	Source event.Slice
}

// TransferResults tells the loop what became of transfers of a slice.
type TransferResults struct {
	engine.Internal
	Source      event.Slice
	Trigger     event.Trigger
	Destination event.EntityID
	Arrived     []event.TransferNumber
	Failed      []engine.FailTransfer
	Bytes       int // of all of them
}

// NotServing refuses what is asked of a partition that does not serve. Nothing of it was taken.
func NotServing() *engine.Error {
	return engine.Refuse(engine.Busy, "The partition is not available now. Please retry the operation.")
}
