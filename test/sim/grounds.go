package sim

import (
	"context"
	"log/slog"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// grounds is the world as the removal of history sees it. Where a broker waits, for a disk or for
// readers, the world goes on.
type grounds struct {
	w    *world
	wait func() bool // reports whether to go on
}

func (g grounds) Now() event.Time { return event.Time(g.w.newest) }

func (g grounds) Logger() *slog.Logger { return g.w.logger() }

func (g grounds) Memory() log.Memory { return log.Unbounded{} }

func (g grounds) HistoryPolicies() *engine.HistoryPolicies {
	return g.w.spaces.said.Catalogue.History()
}

func (g grounds) Entities() []*engine.Entity { return g.w.entities() }

func (g grounds) Logs() map[engine.PartitionID]log.Partition { return g.w.logs() }

func (g grounds) Space() (total, free, low int64, err error) { return g.w.room() }

func (g grounds) Hurry(id engine.PartitionID, on bool, upTo event.LSN) {
	g.w.hurryHistory(id, on, upTo)
}

func (g grounds) NoteCut(_ context.Context, fact *event.HistoryCut) error { return g.w.noteCut(fact) }

// State takes a state of a partition at once, and waits until all that it shows is durable.
func (g grounds) State(ctx context.Context, id engine.PartitionID, look func(*index.Snapshot, []event.Blob) error) error {
	p := g.w.parts[id]
	l, plog := p.loop, p.plog
	cmd := &loop.Snapshot{}
	defer cmd.Close()
	if r := cmd.Take(l); r.Err != nil {
		return r.Err
	}
	for {
		if _, committed := plog.Bounds(); cmd.IsDurable(committed) {
			return look(cmd.State())
		}
		if err := g.rest(ctx, time.Time{}); err != nil {
			return err
		}
		if p.loop != l { // another run of it may have less
			return notServing()
		}
	}
}

func (g grounds) Unread(_ context.Context, id engine.PartitionID) ([]event.Blob, error) {
	cmd := &loop.Snapshot{}
	defer cmd.Close()
	r := cmd.Take(g.w.parts[id].loop)
	_, unread := cmd.State()
	return unread, r.Err
}

// rest waits for readers.
func (g grounds) rest(context.Context, time.Time) error {
	if !g.wait() {
		return notServing()
	}
	return nil
}

// notServing is how a broker refuses what is asked of a partition that does not serve.
func notServing() error { return engine.Refuse(engine.Busy, "The partition does not serve.") }
