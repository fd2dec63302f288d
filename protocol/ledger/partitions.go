package ledger

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// restartTime bounds the wait of a request for the recovery of a partition. The recovery itself
// continues after it.
const restartTime = 15 * time.Minute

func (c *call) listPartitions() (any, error) {
	all := c.h.Operations.Partitions()
	list := wire.Partitions{Partitions: make([]wire.Partition, len(all))}
	for i, p := range all {
		list.Partitions[i] = showPartition(p)
	}
	return list, nil
}

func (c *call) fencePartition() (any, error) {
	id, err := c.partition()
	if err != nil {
		return nil, err
	}
	if err := c.h.Operations.FencePartition(c.Context(), id, c.origin(), c.why); err != nil {
		return nil, err
	}
	return showPartition(c.h.Operations.Partitions()[id]), nil
}

// restartPartition continues when the client disconnects: closing a terminal must not leave a
// partition half open.
func (c *call) restartPartition() (any, error) {
	id, err := c.partition()
	if err != nil {
		return nil, err
	}
	c.extendDeadlines(restartTime + time.Minute)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), restartTime)
	defer cancel()
	status, err := c.h.Operations.RestartPartition(ctx, id, c.origin(), c.why)
	if err != nil {
		return nil, err
	}
	return showPartition(status), nil
}

// partition returns the partition that the path names. A request about a partition has no other
// arguments.
func (c *call) partition() (engine.PartitionID, error) {
	if err := c.arguments(&struct{}{}); err != nil {
		return 0, err
	}
	last := len(c.h.Operations.Partitions()) - 1
	text := c.vars["id"]
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > last || text != strconv.Itoa(n) {
		return 0, refuse(http.StatusNotFound, "There is no partition %.20q; partitions are 0 to %d.", text, last)
	}
	return engine.PartitionID(n), nil
}

// showPartition returns a partition as answers show it.
func showPartition(p engine.PartitionStatus) wire.Partition {
	shown := wire.Partition{ID: int(p.ID), State: p.State.String(), Cause: p.Cause, By: p.By}
	if p.Since != 0 {
		since := p.Since.Std().UTC()
		shown.Since = &since
	}
	if p.Scrubbed != 0 {
		scrubbed := p.Scrubbed.Std().UTC()
		shown.Scrubbed = &scrubbed
	}
	return shown
}
