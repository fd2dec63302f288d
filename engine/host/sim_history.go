package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// History is what gives space back, for a simulation that drives loops by hand: the steps are those of a [Namespace].
type History struct {
	of HistoryOf
	k  *retention
}

// HistoryOf is what a simulation has in the place of a namespace.
type HistoryOf struct {
	Now      func() event.Time
	Policies func() *engine.HistoryPolicies
	Entities func() []*engine.Entity
	Logs     func() map[engine.PartitionID]log.Partition // of those that serve
	Loop     func(engine.PartitionID) *Loop
	Space    func() (total, free, low int64, err error) // as for a disk
	// Cut is replay.Cut, or something around it.
	Cut    func(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error)
	Logger *slog.Logger
	// Hurry says whether there is a hurry, and up to where chapters of a partition are to be sealed as soon as they have ended.
	Hurry func(id engine.PartitionID, on bool, upTo event.LSN)
	// Note has a fact put into the catalogue's log.
	Note func(*event.HistoryCut) error
	// Wait is called where the namespace would wait, for a disk or for readers, and reports whether to go on.
	Wait func() bool
}

// NewHistory makes one. It remembers nothing that a new one would not find out.
func NewHistory(of HistoryOf) *History {
	h := &History{of: of}
	h.k = newRetention(simGrounds{h})
	h.k.cut = of.Cut
	return h
}

// Look does what a namespace does once a minute.
func (h *History) Look(ctx context.Context) { h.k.look(ctx) }

// DropBodies drops the bodies of a partition that its state does not need and keep does not ask for, from sealed files that are worth it. It returns how many files
// were written again, and why one was left, if any.
func (h *History) DropBodies(ctx context.Context, id engine.PartitionID, keep func(*log.Body) bool) (files int, held, err error) {
	c, err := simGrounds{h}.compaction(id, keeps{file: func(*log.Summary) int64 { return 0 }, body: keep})
	if err != nil {
		return 0, nil, err
	}
	out, err := c.run(ctx)
	return out.Files, out.Held, err
}

// simGrounds are the grounds of a simulation.
type simGrounds struct{ h *History }

func (s simGrounds) Now() event.Time                          { return s.h.of.Now() }
func (s simGrounds) HistoryPolicies() *engine.HistoryPolicies { return s.h.of.Policies() }
func (s simGrounds) Entities() []*engine.Entity               { return s.h.of.Entities() }
func (s simGrounds) log() *slog.Logger                        { return s.h.of.Logger }

func (s simGrounds) logs() map[engine.PartitionID]log.Partition { return s.h.of.Logs() }

func (s simGrounds) space() (total, free, low int64, err error) { return s.h.of.Space() }

func (s simGrounds) reading(_ context.Context, id engine.PartitionID) ([]event.Blob, error) {
	return reading(s.h.of.Loop(id)), nil
}

func (s simGrounds) hurry(id engine.PartitionID, on bool, upTo event.LSN) { s.h.of.Hurry(id, on, upTo) }

func (s simGrounds) note(_ context.Context, fact *event.HistoryCut) error { return s.h.of.Note(fact) }

// compaction is that of [partitions], with the loop's part done at once.
func (s simGrounds) compaction(id engine.PartitionID, keep keeps) (*compaction, error) {
	plog, ok := s.h.of.Logs()[id]
	if !ok {
		return nil, notServing()
	}
	state := func(_ context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		l := s.h.of.Loop(id)
		cmd := &snapshotOf{}
		defer cmd.close()
		if r := cmd.take(l); r.Err != nil {
			return r.Err
		}
		for {
			if _, committed := plog.Bounds(); cmd.lasts(committed) {
				break
			}
			if !s.h.of.Wait() || s.h.of.Loop(id) != l { // another run of it may have less
				return notServing()
			}
		}
		return look(cmd.state, cmd.read)
	}
	rest := func(context.Context, time.Time) error {
		if !s.h.of.Wait() {
			return notServing()
		}
		return nil
	}
	return &compaction{log: plog, state: state, keep: keep, rest: rest}, nil
}
