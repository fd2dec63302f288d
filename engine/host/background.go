package host

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// surroundings gives the jobs of package background access to a namespace.
type surroundings struct {
	parts  *partitions
	admin  *admin
	store  log.Store
	logger *slog.Logger
}

var (
	_ background.RetentionEnv = surroundings{}
	_ background.ScrubEnv     = surroundings{}
	_ background.EraserEnv    = surroundings{}
	_ background.IdleEnv      = surroundings{}
)

func (n *Namespace) surroundings() surroundings {
	return surroundings{&n.partitions, &n.admin, n.store, n.logger}
}

func (s surroundings) Now() event.Time { return s.admin.now() }

func (s surroundings) Logger() *slog.Logger { return s.logger }

func (s surroundings) Memory() log.Memory { return s.parts.memory }

func (s surroundings) HistoryPolicies() *engine.HistoryPolicies { return s.admin.HistoryPolicies() }

func (s surroundings) Entities() []*engine.Entity { return s.admin.directory.sorted() }

func (s surroundings) Resolve(path string) (engine.Target, error) {
	return s.admin.directory.resolve(path)
}

func (s surroundings) Logs() map[engine.PartitionID]log.Partition {
	logs := map[engine.PartitionID]log.Partition{}
	for i := range s.parts.slots {
		if t := s.parts.slots[i].running.Load(); t != nil {
			logs[engine.PartitionID(i)] = t.log
		}
	}
	return logs
}

func (s surroundings) Space() (total, free, low int64, err error) {
	store, ok := s.store.(interface {
		Space() (total, free, low int64, err error)
	})
	if !ok {
		return 0, 0, 0, nil
	}
	return store.Space()
}

// durableEvery is the interval at which State checks whether a state has become durable.
const durableEvery = 10 * time.Millisecond

// State calls look with the state of a partition as it was a moment ago, once everything in that
// state is durable. The loop only takes the snapshot; the rest happens outside the loop.
func (s surroundings) State(ctx context.Context, id engine.PartitionID, look func(*index.Snapshot, []event.Blob) error) error {
	t := s.parts.slots[id].running.Load()
	if t == nil {
		return loop.NotServing()
	}
	cmd := &loop.Snapshot{}
	defer cmd.Close()
	if _, err := s.parts.ask(ctx, id, cmd); err != nil {
		return err
	}
	again := time.NewTicker(durableEvery)
	defer again.Stop()
	for {
		if _, committed := t.log.Bounds(); cmd.IsDurable(committed) {
			break
		}
		select {
		case <-again.C:
		case <-t.stop:
			return loop.NotServing()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.parts.slots[id].running.Load() != t { // another incarnation may have less
		return loop.NotServing()
	}
	return look(cmd.State())
}

func (s surroundings) Unread(ctx context.Context, id engine.PartitionID) ([]event.Blob, error) {
	cmd := &loop.Snapshot{}
	defer cmd.Close()
	if _, err := s.parts.ask(ctx, id, cmd); err != nil {
		return nil, err
	}
	_, unread := cmd.State()
	return unread, nil
}

// hurryBytes is the amount of log between two checkpoints while history is in a hurry. A chapter
// that has ended can be deleted once there is a checkpoint from a moment later, when the messages
// of its last frames are settled as well.
const hurryBytes = 16 << 20

func (s surroundings) Hurry(id engine.PartitionID, on bool, upTo event.LSN) {
	t := s.parts.slots[id].running.Load()
	if t == nil {
		return
	}
	wish := int64(0)
	if on {
		wish = hurryBytes
	}
	t.loop.WishCheckpoints(wish)
	if sealer, ok := t.log.(log.Sealer); ok {
		sealer.Hurry(upTo)
	}
}

func (s surroundings) NoteCut(ctx context.Context, fact *event.HistoryCut) error {
	if err := s.store.Use(log.Cuts); err != nil {
		return err
	}
	_, err := s.parts.ask(ctx, 0, &engine.Note{Fact: fact})
	return err
}

func (s surroundings) Damaged(id engine.PartitionID, files int, err error) {
	s.parts.reportDamage(s.Now(), id, files, err)
}

func (s surroundings) Uses(capability string) bool {
	return slices.Contains(s.store.Namespace().Capabilities, capability)
}

func (s surroundings) Note(ctx context.Context, id engine.PartitionID, capability string, note *engine.Note) error {
	if err := s.store.Use(capability); err != nil {
		return loop.NotMarked(s.logger, capability, err)
	}
	_, err := s.parts.ask(ctx, id, note)
	return err
}

func (s surroundings) InUse(ctx context.Context) (busy []event.EntityID, away func(engine.PartitionID) bool, err error) {
	asked := make([]bool, len(s.parts.slots))
	for i := range s.parts.slots {
		cmd := &loop.Usage{}
		_, err := s.parts.ask(ctx, engine.PartitionID(i), cmd)
		if err != nil && ctx.Err() != nil {
			return nil, nil, err
		}
		if asked[i] = err == nil; asked[i] {
			busy = append(busy, cmd.IDs...)
		}
	}
	return busy, func(id engine.PartitionID) bool { return !asked[id] || s.parts.absent(id) }, nil
}

func (s surroundings) NoteUse(ctx context.Context, note engine.Command) error {
	_, err := s.parts.ask(ctx, 0, note)
	return err
}

// DeleteIdle checks again before it deletes: the entity may have been deleted with its topic,
// updated, or recreated under the same name.
func (s surroundings) DeleteIdle(ctx context.Context, found *engine.Entity, over func(*engine.Entity, []*engine.Entity) bool) error {
	ctx, err := s.admin.begin(ctx)
	if err != nil {
		return err
	}
	defer s.admin.mu.Unlock()
	e := s.admin.directory.find(strings.ToLower(found.Path))
	if e == nil || e.ID != found.ID || !over(e, s.admin.directory.subscriptions(e)) {
		return nil
	}
	return s.admin.delete(ctx, engine.DeleteEntity{Path: e.Path, Reason: "idle"})
}

// EraseBody implements [engine.Erasures].
func (n *Namespace) EraseBody(ctx context.Context, entity string, message event.SequenceNumber, by *engine.Origin, why event.ReasonGiven) (engine.ErasedBody, error) {
	return n.eraser.Erase(ctx, entity, message, by, why)
}
