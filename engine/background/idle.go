package background

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// idleCheck is the interval at which entities with AutoDeleteOnIdle are checked.
const idleCheck = 30 * time.Second

// Idle deletes the entities that were unused for as long as their AutoDeleteOnIdle, and records the
// last use of the others. One goroutine of the broker runs it.
type Idle struct {
	Of      IdleEnv
	Started event.Time // start of the broker
}

// IdleEnv is what an [Idle] needs of its broker.
type IdleEnv interface {
	Now() event.Time
	Logger() *slog.Logger
	Entities() []*engine.Entity
	// InUse returns the entities that partitions have in use although no request names them, and
	// the partitions that cannot be asked.
	InUse(ctx context.Context) (busy []event.EntityID, away func(engine.PartitionID) bool, err error)
	// NoteUse makes the catalogue carry out a note of [engine.NewIdleness].
	NoteUse(ctx context.Context, note engine.Command) error
	// DeleteIdle deletes an entity if it is still the one that was found, and over returns true
	// while no other goroutine can change it.
	DeleteIdle(ctx context.Context, found *engine.Entity, over func(e *engine.Entity, subscriptions []*engine.Entity) bool) error
}

// Run looks at intervals until the context ends. It completes a look that has begun.
func (v *Idle) Run(ctx context.Context) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleCheck)
		if err := v.Look(look); err != nil {
			v.Of.Logger().Warn("idle entities not deleted", "error", err)
		}
		cancel()
	}
}

// Look deletes the entities that were idle for too long.
func (v *Idle) Look(ctx context.Context) error {
	busy, away, err := v.Of.InUse(ctx)
	if err != nil {
		return err
	}
	all := v.Of.Entities()
	idle := engine.NewIdleness(v.Started, all, busy)
	var errs []error
	for _, e := range all {
		if slices.ContainsFunc(e.Hosts, away) {
			continue // not all its partitions can be asked
		}
		if now := v.Of.Now(); idle.Over(now, e) {
			errs = append(errs, v.Of.DeleteIdle(ctx, e, v.stillIdle(busy)))
		} else if note := idle.Note(now, e); note != nil {
			errs = append(errs, v.Of.NoteUse(ctx, note))
		}
	}
	return errors.Join(errs...)
}

// stillIdle returns a function that reports whether an entity is still idle when it is called. By
// then the entity may have been deleted with its topic, updated, or used.
func (v *Idle) stillIdle(busy []event.EntityID) func(*engine.Entity, []*engine.Entity) bool {
	return func(e *engine.Entity, subscriptions []*engine.Entity) bool {
		now, idle := v.Of.Now(), engine.NewIdleness(v.Started, subscriptions, busy)
		if !idle.Over(now, e) {
			return false
		}
		v.Of.Logger().Info("idle entity deleted", "entity", e.Path, "idle_for", idle.Quiet(now, e))
		return true
	}
}
