package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Operations is the engine for an operator: its partitions, one by one. Every act is an event of
// partition 0, which holds the catalogue, with its origin and the reason given. Refusals are
// [*Error]: [NotFound] where there is no such partition, [NotAllowed] where its state forbids what
// is asked, or it is partition 0.
type Operations interface {
	// Partitions are all of a namespace, by number.
	Partitions() []PartitionStatus
	// FencePartition takes a partition out of service: whatever is asked of it is refused with
	// [Busy] until it is restarted. Others go on.
	FencePartition(ctx context.Context, p PartitionID, by *Origin, why event.ReasonGiven) error
	// RestartPartition runs the recovery of a partition that does not serve, alone, as a start of
	// the broker does. It returns the status of the partition afterwards; where the restart did not
	// help, an error says why.
	RestartPartition(ctx context.Context, p PartitionID, by *Origin, why event.ReasonGiven) (PartitionStatus, error)
}

// PartitionState is what a partition does.
type PartitionState uint8

const (
	PartitionServing  PartitionState = iota
	PartitionStarting                // it is being recovered, after an operator has asked for that
	// it was taken out of service, by an I/O error or by an operator
	PartitionFenced
	PartitionRefused // its files are not what was written to them
)

// String is the name that programs know: it is part of the broker's API.
func (s PartitionState) String() string {
	return [...]string{"serving", "starting", "fenced", "refused"}[s]
}

// PartitionStatus is how a partition is.
type PartitionStatus struct {
	ID    PartitionID
	State PartitionState
	Since event.Time // when the state began; 0: nobody knows
	// one line; "" while it serves and nothing that it has stored is known to be damaged
	Cause string
	By    string // the principal of the operator who brought it to the state; "": nobody did
	// Scrubbed is when all of its log had been read again; 0: it has not been yet.
	Scrubbed event.Time
}
