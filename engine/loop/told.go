package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Messages between a courier and the loop of its log.

// TransferBatch gives the courier transfers of a slice, which are durable.
type TransferBatch struct {
	engine.Internal
	Source    event.Slice
	Transfers []engine.Transfer // by number
	Floors    []Floor
}

// Floor says up to where the transfers of a slice to a destination are settled, durably.
type Floor struct {
	Destination event.EntityID
	Number      event.TransferNumber // all smaller ones are settled
}

// SliceGone tells the courier that a slice was deleted.
type SliceGone struct {
	engine.Internal
	Source event.Slice
}

// TransferResults tells the loop the results of transfers of a slice.
type TransferResults struct {
	engine.Internal
	Source      event.Slice
	Trigger     event.Trigger
	Destination event.EntityID
	Arrived     []event.TransferNumber
	Failed      []engine.FailTransfer
	Bytes       int // of all of them
}

// NotServing refuses requests to a partition that does not serve. None of them was carried out.
func NotServing() *engine.Error {
	return engine.Refuse(engine.Busy, "The partition is not available now. Please retry the operation.")
}
