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

// idleCheck is how often entities that delete themselves are looked at.
const idleCheck = 30 * time.Second

// Idle deletes the entities that were not used for as long as their AutoDeleteOnIdle says, and
// notes the last use of the others: one goroutine of the broker.
type Idle struct {
	Of      IdleEnv
	Started event.Time // when the broker was
}

// IdleEnv is what an [Idle] needs of its broker.
type IdleEnv interface {
	Now() event.Time
	Logger() *slog.Logger
	Entities() []*engine.Entity
	// InUse returns the entities that partitions have in use without anything being asked of them,
	// and which partitions cannot be asked.
	InUse(ctx context.Context) (busy []event.EntityID, away func(engine.PartitionID) bool, err error)
	// NoteUse has the catalogue carry out a note of [engine.NewIdleness].
	NoteUse(ctx context.Context, note engine.Command) error
	// DeleteIdle deletes an entity if it is still the one that was found, and over says so, now
	// that nobody else can change it.
	DeleteIdle(ctx context.Context, found *engine.Entity, over func(e *engine.Entity, subscriptions []*engine.Entity) bool) error
}

// Run looks now and then until the context ends. A look that has begun is not given up for that.
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

// Look deletes the entities whose time is over.
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
			continue // not all of it can be asked
		}
		if now := v.Of.Now(); idle.Over(now, e) {
			errs = append(errs, v.Of.DeleteIdle(ctx, e, v.stillIdle(busy)))
		} else if note := idle.Note(now, e); note != nil {
			errs = append(errs, v.Of.NoteUse(ctx, note))
		}
	}
	return errors.Join(errs...)
}

// stillIdle reports whether the time of an entity is over, with what is known of it and its
// subscriptions by then: it may have gone with its topic, been updated, or been used.
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
