package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// tellEvery is the interval at which a start reports the progress of a replay.
	tellEvery = 10 * time.Second
	// tellBytes is the amount of log after which it checks the time.
	tellBytes = 64 << 20
)

// recover rebuilds the state of a partition from the newest good checkpoint and the log after it.
func (n *Namespace) recover(ctx context.Context, id engine.PartitionID) *index.Index {
	began := time.Now()
	r := PartitionRecovery{Partition: id}
	p, err := n.store.Open(ctx, log.PartitionID(id))
	var x *index.Index
	if err == nil {
		n.slots[id].log.Store(&p)
		x, err = n.replay(ctx, p, id, &r)
	}
	if err != nil {
		x, r.Err = nil, refusal(id, err)
		if ctx.Err() == nil { // a start that is stopped says nothing about the partition
			about := []any{"partition", id, "error", err}
			if at := (*replay.Error)(nil); errors.As(err, &at) && at.Stack != nil {
				about = append(about, "stack", string(at.Stack))
			}
			n.logger.Error("partition refused", about...)
		}
	} else {
		r.Messages, r.Locks = x.Live(), x.Locks()
	}
	r.Took = time.Since(began)
	n.recovered[id] = r
	return x
}

func (n *Namespace) replay(ctx context.Context, p log.Partition, id engine.PartitionID, r *PartitionRecovery) (x *index.Index, err error) {
	defer n.rescue(id, &err)
	r.Log = p.Recovery()
	s := replay.Newest(p, 0, func(c log.CheckpointInfo, err error) {
		n.logger.Warn("checkpoint discarded; replaying more of the log", "partition", id, "lsn", c.LSN, "error", err)
	})
	_, end := p.Bounds()
	err = s.Run(ctx, replay.Watch{Progress: logProgress(n.logger, id, end)})
	r.Checkpoint, r.Replayed = s.From, s.Events
	if err != nil {
		return nil, err
	}
	return s.Index, nil
}

// refusal returns the error of a partition that cannot be recovered. If a record of a sound frame
// cannot be decoded, or does not fit the state, there is a bug in this program or in the one that
// wrote it. The exception is a record of a newer version.
func refusal(id engine.PartitionID, err error) error {
	switch at := (*replay.Error)(nil); {
	case !errors.As(err, &at):
		return fmt.Errorf("engine: partition %d: %w", id, err)
	case errors.Is(err, event.ErrUnknown):
		return fmt.Errorf("engine: %w", err) // the error names the partition
	}
	return fmt.Errorf("%w: %w", ErrInternal, err)
}

// logProgress returns the function that logs the progress of a long replay.
func logProgress(logger *slog.Logger, id engine.PartitionID, end event.LSN) func(event.LSN) {
	var look event.LSN
	told := time.Now()
	return func(at event.LSN) {
		if at < look {
			return
		}
		look = at + tellBytes
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			logger.Info("replaying the log", "partition", id, "lsn", at, "end", end)
		}
	}
}
