package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// If the options say so, a partition whose log cannot be written is taken out of service: its
// entities are busy, and all others continue (docs/decisions/0044). An operator can do the same to
// a working partition. restart.go brings it back.

var _ engine.Operations = (*Namespace)(nil)

// partitionEnded handles the error with which an incarnation stopped on its own. If the error is
// not a fault of the disk, the namespace ends. So it does after any error of partition 0, which
// holds the catalogue.
func (n *Namespace) partitionEnded(id engine.PartitionID, t *incarnation, err error) {
	switch {
	case isInternal(err):
		n.fail(err)
	case n.slots[id].running.Load() != t:
		n.logger.Error("fenced partition did not stop cleanly; operations in progress have no outcome", "partition", id, "error", err)
	case id == 0 || !n.opts.Fence || n.closing.Err() != nil:
		n.fail(err)
	case n.takeOut(t, engine.PartitionStatus{ID: id, State: engine.PartitionFenced, Since: n.clock.Now(), Cause: oneLine(err)}):
		n.logger.Error("partition fenced: its entities are busy, all others are served; it can be restarted", "partition", id, "error", err)
		n.avoidAbsent()
		_ = t.retire() // it returns the same error
		n.noteFenced(id, err)
		close(t.fenceLogged)
	}
}

// fail passes on an error after which the process should end.
func (n *Namespace) fail(err error) {
	select {
	case n.failed <- err:
	default: // the first ones are enough
	}
}

// isInternal reports whether an error says that the state may be wrong (see [ErrInternal]).
func isInternal(err error) bool {
	return errors.Is(err, ErrInternal) || errors.Is(err, log.ErrInternal)
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// noteFenced records in the log of the catalogue that a partition has failed, if it can.
func (n *Namespace) noteFenced(id engine.PartitionID, cause error) {
	ctx, cancel := context.WithTimeout(n.closing, manageTimeout)
	defer cancel()
	fact := &event.PartitionFenced{LogPartition: uint32(id), Cause: event.FencedByError, Error: oneLine(cause)}
	if err := n.note(ctx, &engine.Note{Fact: fact}); err != nil {
		n.logger.Warn("fencing of a partition not recorded in the log", "partition", id, "error", err)
	}
}

// note records a fact about partitions in the log of the catalogue.
func (n *Namespace) note(ctx context.Context, cmd *engine.Note) error {
	if err := n.store.Use(log.Fences); err != nil {
		return loop.NotMarked(n.logger, log.Fences, err)
	}
	_, err := n.ask(ctx, 0, cmd)
	return err
}

// FencePartition implements [engine.Operations]. Operations in progress end as the log says, or
// with [engine.ErrUnknown]. That may take as long as the disk takes, and FencePartition does not
// wait for it. The fence does not outlast the process: after a start the partition serves.
func (n *Namespace) FencePartition(ctx context.Context, id engine.PartitionID, by *engine.Origin, why event.ReasonGiven) error {
	if err := n.checkChange(id, why); err != nil {
		return err
	}
	n.fencing.Lock()
	defer n.fencing.Unlock()
	t := n.slots[id].running.Load()
	if n.closing.Err() != nil {
		return refuseStopping()
	}
	if t == nil {
		return n.refuseState(id)
	}
	fact := &event.PartitionFenced{LogPartition: uint32(id), Cause: event.FencedByOperator}
	if err := n.note(ctx, &engine.Note{Fact: fact, Origin: by, Why: why}); err != nil {
		return fmt.Errorf("engine: partition %d: %w", id, err)
	}
	cause := "fenced by an operator"
	if why.Reason != "" {
		cause += ": " + why.Reason
	}
	if !n.takeOut(t, engine.PartitionStatus{ID: id, State: engine.PartitionFenced, Since: n.clock.Now(), Cause: cause, By: principal(by)}) {
		return n.refuseState(id) // it has failed in the meantime
	}
	close(t.fenceLogged)
	n.logger.Warn("partition fenced by an operator: its entities are busy, all others are served", "partition", id, "by", principal(by), "reason", why.Reason)
	n.avoidAbsent()
	n.background.Go(func() {
		if err := t.retire(); err == nil {
			n.logger.Info("fenced partition stopped cleanly", "partition", id)
		}
	})
	return nil
}

// checkChange refuses what no operator can do to any partition.
func (n *Namespace) checkChange(id engine.PartitionID, why event.ReasonGiven) error {
	switch {
	case int(id) >= len(n.slots):
		return engine.Refuse(engine.NotFound, "There is no partition %d.", id)
	case id == 0:
		return engine.Refuse(engine.NotAllowed, "Partition 0 holds the catalogue: it cannot be fenced or restarted by itself.")
	}
	if err := engine.CheckReason(why.Reason); err != nil {
		return err
	}
	return nil
}

// refuseState refuses an operation that the state of a partition does not allow.
func (n *Namespace) refuseState(id engine.PartitionID) error {
	return engine.Refuse(engine.NotAllowed, "Partition %d is %v.", id, n.status(id).State)
}

// refuseStopping refuses an operator's request while the namespace closes.
func refuseStopping() error { return engine.Refuse(engine.Busy, "The broker is stopping.") }

func principal(by *engine.Origin) string {
	if by == nil {
		return ""
	}
	return by.Principal
}

// avoidAbsent tells the catalogue on which partitions to place no new entities.
func (n *Namespace) avoidAbsent() {
	away := make([]bool, len(n.slots))
	for i := range away {
		away[i] = n.absent(engine.PartitionID(i))
	}
	n.Submit(0, []engine.Request{{Command: loop.Do(func(p *engine.Partition) engine.Reply { p.Avoid(away); return engine.Reply{} })}})
}
