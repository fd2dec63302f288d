package host

import (
	"context"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Partitions implements [engine.Operations]: it says how every partition is, by number.
func (ps *partitions) Partitions() []engine.PartitionStatus {
	list := make([]engine.PartitionStatus, len(ps.loops))
	for i := range list {
		list[i] = ps.status(engine.PartitionID(i))
	}
	return list
}

func (ps *partitions) status(id engine.PartitionID) engine.PartitionStatus {
	s := engine.PartitionStatus{ID: id}
	if err := ps.refused[id]; err != nil {
		s.State, s.Cause = engine.PartitionRefused, err.Error()
	}
	return s
}

// FencePartition implements [engine.Operations]: it takes a partition out of service, so that its entities answer Busy and all others go on.
// What is under way there ends as the log says, or with [engine.ErrUnknown]. It returns when nothing new is taken any more and the log of partition 0 says who did it. Partition 0, which holds
// the catalogue, cannot be fenced: that is refused with NotAllowed, as is a partition that does not serve; an unknown one with NotFound.
func (n *Namespace) FencePartition(_ context.Context, id engine.PartitionID, _ *engine.Origin, why event.ReasonGiven) error {
	if err := n.mayChange(id, why); err != nil {
		return err
	}
	if n.status(id).State != engine.PartitionServing {
		return engine.Refuse(engine.NotAllowed, "Partition %d is %v.", id, n.status(id).State)
	}
	return engine.Refuse(engine.NotImplemented, "Partitions cannot be fenced yet.")
}

// RestartPartition implements [engine.Operations]: it recovers a partition that is fenced or refused as a start does, and has it serve again. It
// is refused with NotAllowed while the partition serves or starts, and with Busy, and the reason in the text, when the partition cannot be recovered: then it is as before, with
// that as its cause.
func (n *Namespace) RestartPartition(_ context.Context, id engine.PartitionID, _ *engine.Origin, why event.ReasonGiven) (engine.PartitionStatus, error) {
	if err := n.mayChange(id, why); err != nil {
		return engine.PartitionStatus{}, err
	}
	s := n.status(id)
	if s.State == engine.PartitionServing || s.State == engine.PartitionStarting {
		return s, engine.Refuse(engine.NotAllowed, "Partition %d is %v.", id, s.State)
	}
	return s, engine.Refuse(engine.NotImplemented, "Partitions cannot be restarted yet.")
}

// mayChange refuses what no operator can do to any partition.
func (n *Namespace) mayChange(id engine.PartitionID, why event.ReasonGiven) *engine.Error {
	switch {
	case int(id) >= len(n.loops):
		return engine.Refuse(engine.NotFound, "There is no partition %d.", id)
	case id == 0:
		return engine.Refuse(engine.NotAllowed, "Partition 0 holds the catalogue: it cannot be fenced or restarted by itself.")
	}
	return engine.CheckReason(why.Reason)
}
