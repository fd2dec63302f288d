package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// RestartPartition implements [engine.Operations]. It runs to its end even if ctx ends. Only the
// wait for a disk that keeps the old incarnation from ending is given up with ctx.
func (n *Namespace) RestartPartition(ctx context.Context, id engine.PartitionID, by *engine.Origin, why event.ReasonGiven) (engine.PartitionStatus, error) {
	if err := n.checkChange(id, why); err != nil {
		return engine.PartitionStatus{}, err
	}
	was, err := n.beginRestart(id, by)
	if err != nil {
		return n.status(id), err
	}
	defer n.restarts.Done()
	began := time.Now()
	n.logger.Info("partition restart begins", "partition", id, "by", principal(by), "reason", why.Reason)
	if err := n.restart(ctx, id); err != nil {
		if isInternal(err) {
			n.fail(err)
		}
		was.Cause, was.By = oneLine(err), "" // this is why it does not serve now
		if was.State = engine.PartitionFenced; isCorrupt(err) {
			was.State = engine.PartitionRefused
		}
		n.setStatus(was)
		text := "partition cannot be restarted"
		if errors.Is(err, log.ErrLost) {
			text = "DATA IS LOST: the log of a partition lacks acknowledged data; the partition is refused until the data is back, and a start of the broker accepts the log as it is"
			n.noteFenced(id, err)
		}
		n.logger.Error(text, "partition", id, "error", err)
		return was, engine.Refuse(engine.Busy, "Partition %d cannot be restarted: %s", id, was.Cause)
	}
	n.avoidAbsent()
	n.retryCouriers()
	n.watchers.tell(engine.Change{Back: id})
	n.logger.Info("partition serves again", "partition", id, "out_of_service", n.clock.Now().Sub(was.Since), "took", time.Since(began))
	fact := &event.PartitionRestarted{LogPartition: uint32(id), Refused: was.State == engine.PartitionRefused}
	if err := n.note(context.WithoutCancel(ctx), &engine.Note{Fact: fact, Origin: by, Why: why}); err != nil {
		n.logger.Warn("restart of a partition not recorded in the log", "partition", id, "error", err)
	}
	return n.status(id), nil
}

// beginRestart marks a partition as being recovered, and returns its previous status.
func (n *Namespace) beginRestart(id engine.PartitionID, by *engine.Origin) (was engine.PartitionStatus, err error) {
	n.partitions.mu.Lock()
	defer n.partitions.mu.Unlock()
	s := &n.slots[id]
	switch {
	case n.closing.Err() != nil:
		return was, refuseStopping()
	case s.status.State != engine.PartitionFenced && s.status.State != engine.PartitionRefused:
		return was, engine.Refuse(engine.NotAllowed, "Partition %d is %v.", id, s.status.State)
	}
	n.restarts.Add(1)
	was = s.status
	s.status = engine.PartitionStatus{ID: id, State: engine.PartitionStarting, Since: n.clock.Now(), Cause: was.Cause, By: principal(by)}
	return was, nil
}

// restart recovers a partition and makes it serve.
func (n *Namespace) restart(ctx context.Context, id engine.PartitionID) (err error) {
	defer n.rescue(id, &err)
	if last := n.slots[id].last; last != nil {
		// the log records the fence before the restart
		for _, ended := range []chan struct{}{last.ended, last.fenceLogged} {
			select {
			case <-ended:
			case <-n.closing.Done():
				return n.closing.Err()
			case <-ctx.Done():
				return fmt.Errorf("engine: partition %d: operations in progress when it was fenced have not ended: %w", id, ctx.Err())
			}
		}
	}
	plog, err := n.store.Reopen(n.closing, log.PartitionID(id))
	if err != nil {
		return err
	}
	x, err := n.replay(n.closing, plog, id, &PartitionRecovery{})
	if err != nil {
		return refusal(id, err)
	}
	t, err := n.lead(n.closing, id, plog, x)
	if err != nil {
		return err
	}
	if err := n.install(id, t, x); err != nil {
		t.loop.End(err)
		_ = t.writer.Close() // the error that matters is err
		return err
	}
	return nil
}

// install tells a recovered partition everything it missed while it was away, ends everything that
// expired, and makes the partition serve. The catalogue does not change in the meantime.
func (n *Namespace) install(id engine.PartitionID, t *incarnation, x *index.Index) error {
	n.admin.mu.Lock()
	defer n.admin.mu.Unlock()
	l := t.loop
	if set := n.clockStart.Follow(x, n.clock.Now(), n.opts.Time.Wall()); set != nil {
		if err := l.SetClock(set, ""); err != nil {
			return err
		}
	}
	if err := n.reconfigure(id, l); err != nil {
		return err
	}
	l.Begin(n.opts.Program.Version, n.opts.Program.Settings, t.log)
	l.DropUnknown()
	l.Recover()
	l.Resume(n.directory.entity)
	if err := l.Err(); err != nil {
		return err
	}
	n.partitions.mu.Lock()
	defer n.partitions.mu.Unlock()
	n.slots[id].seat(t)
	n.slots[id].status = servingStatus(id, n.clock.Now())
	n.run(id, t)
	return nil
}

// reconfigure puts the entities of a partition in force before it runs, with their rules and
// orders. The time that the partition was away does not count as idle time of its entities. The
// caller holds the mutex of the catalogue.
func (n *Namespace) reconfigure(id engine.PartitionID, l *loop.Loop) error {
	var here []*engine.Entity
	var asks []engine.Command
	for _, e := range n.directory.sorted() {
		for _, h := range hostsOf(e) {
			if h == id {
				here = append(here, e)
				asks = append(asks, lookup(e.Path, e.Kind == event.Subscription))
			}
		}
	}
	found, err := n.askAll(n.closing, 0, asks)
	if err != nil {
		return err
	}
	now := n.clock.Now()
	for i, e := range here {
		if found[i].Err != nil {
			return found[i].Err
		}
		l.Prepare(loop.Configure(e, e.Kind == event.Subscription, found[i].Answer.(*foundEntity).rules), loop.Order(e, n.directory.find))
		e.Use(now)
	}
	return nil
}

// retryCouriers makes couriers that wait for a partition try again at once.
func (n *Namespace) retryCouriers() {
	for i := range n.slots {
		if t := n.slots[i].running.Load(); t != nil && t.courier != nil {
			t.courier.RetryNow()
		}
	}
}
