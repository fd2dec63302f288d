package loop

import (
	"log/slog"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
)

// capabilities holds the capabilities that the data directory is marked with.
type capabilities struct {
	use    func(capability string) error // see [Options]
	used   map[string]bool
	logger *slog.Logger
}

// beforeFirst makes durable that the directory may have data of a capability, before the first of
// it is written. If that fails, requests that need the capability are refused. It waits for the
// disk, but only once in the life of a directory.
func (c *capabilities) beforeFirst(capability string, refuse func(*engine.Error)) {
	if c.used[capability] {
		return
	}
	if c.use != nil {
		if err := c.use(capability); err != nil {
			refuse(NotMarked(c.logger, capability, err))
			return
		}
	}
	c.used[capability] = true
	refuse(nil)
}

// NotMarked refuses a request that needs a capability with which the data directory cannot be
// marked, and logs why.
func NotMarked(logger *slog.Logger, capability string, err error) *engine.Error {
	logger.Error("request refused: the data directory cannot be marked with the capability that it needs", "capability", capability, "error", err)
	return engine.Refuse(engine.Busy, "The broker cannot do this now: the data directory cannot be marked as needing it. The broker's log says why.")
}

// beforePut is beforeFirst for an entity that may get several partitions.
func (c *capabilities) beforePut(cmd *engine.PutEntity, part *engine.Partition) {
	if cmd.Properties.EnablePartitioning && part.Splits() {
		c.beforeFirst(log.Partitioned, part.RefuseSplits)
	}
}

// beforeSend is beforeFirst for moves, if a send hands messages over to another entity.
func (c *capabilities) beforeSend(cmd *engine.Send, part *engine.Partition) {
	if cmd.Destination != nil {
		c.beforeFirst(log.Moves, part.RefuseHandOvers)
	}
}
