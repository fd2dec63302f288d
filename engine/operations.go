package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Operations is the engine for an operator: its partitions, one by one. Every act is an event of
// partition 0, which holds the catalogue, with its origin and the given reason. Refusals are
// [*Error]: [NotFound] if there is no such partition, [NotAllowed] if its state forbids the act or
// it is partition 0.
type Operations interface {
	// Partitions returns all partitions of a namespace, by number.
	Partitions() []PartitionStatus
	// FencePartition takes a partition out of service: all its requests are refused with [Busy]
	// until it is restarted. Other partitions keep serving.
	FencePartition(ctx context.Context, p PartitionID, by *Origin, why event.ReasonGiven) error
	// RestartPartition runs the recovery of one partition that does not serve, as a start of the
	// broker does. It returns the status of the partition afterwards; if the restart did not help,
	// an error tells why.
	RestartPartition(ctx context.Context, p PartitionID, by *Origin, why event.ReasonGiven) (PartitionStatus, error)
}

// PartitionState is the state of a partition's service.
type PartitionState uint8

const (
	PartitionServing  PartitionState = iota
	PartitionStarting                // an operator asked for its recovery, which runs
	// taken out of service, by an I/O error or by an operator
	PartitionFenced
	PartitionRefused // its files differ from what was written to them
)

// String returns the name that programs know: it is part of the broker's API.
func (s PartitionState) String() string {
	return [...]string{"serving", "starting", "fenced", "refused"}[s]
}

// PartitionStatus is the status of a partition.
type PartitionStatus struct {
	ID    PartitionID
	State PartitionState
	Since event.Time // when the state began; 0: unknown
	// one line; "" while it serves and none of its stored data is known to be damaged
	Cause string
	By    string // the principal of the operator who caused the state; "": none
	// Scrubbed is the time at which the whole log had last been read again; 0: not yet.
	Scrubbed event.Time
}
