package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// idleCheck is how often entities that delete themselves are looked at.
const idleCheck = 30 * time.Second

// usage asks a partition which of its entities are in use without anything being asked of them: those with a receiver or a
// scheduled message (semantics.md 7.7).
type usage struct{ engine.Internal }

// inUse is the answer to it, in no order.
type inUse struct {
	engine.Internal
	ids []event.EntityID
}

// use notes that something was asked of an entity. Sends, receives, empty ones too, and looks count (docs/decisions/0010);
// answers that were not asked for do not.
func use(part *engine.Partition, now event.Time, cmd engine.Command) {
	var id event.Slice
	switch cmd := cmd.(type) {
	case *engine.Send:
		cmd.Entity.Use(now)
	case *engine.Attach:
		cmd.Receiver.Entity.Use(now)
	case *engine.Flow:
		cmd.Receiver.Entity.Use(now)
	case *engine.Detach:
		cmd.Receiver.Entity.Use(now)
	case *engine.Settle:
		cmd.Entity.Use(now)
	case *engine.Renew:
		cmd.Entity.Use(now)
	case *engine.ReceiveDeferred:
		cmd.Entity.Use(now)
	case *engine.CancelScheduled:
		cmd.Entity.Use(now)
	case *engine.BatchDelete:
		cmd.Entity.Use(now)
	case *engine.RenewSession:
		cmd.Entity.Use(now)
	case *engine.SetSessionState:
		cmd.Entity.Use(now)
	case *engine.GetSessionState:
		cmd.Entity.Use(now)
	case *engine.Stage:
		use(part, now, cmd.Operation)
		return
	case *engine.Peek:
		id = cmd.Slice
	case *engine.ListSessions:
		id = cmd.Slice
	default:
		return
	}
	if id.Entity != 0 {
		if e, err := part.Entity(id); err == nil {
			e.Use(now)
		}
	}
}

// usage is the entities of this partition that are in use by themselves.
func (w *waiting) usage() (busy inUse) {
	for e := range w.part.Entities() {
		for i := range e.Hosts {
			slice := event.Slice{Entity: e.ID, Partition: uint8(i)}
			if x := w.part.Index(); w.Has(e.ID) || x.Scheduled(slice) > 0 || x.Count(slice, event.Main, index.Transferring) > 0 {
				busy.ids = append(busy.ids, e.ID)
				break
			}
		}
	}
	return busy
}

// CollectIdle deletes the entities that were not used for as long as their AutoDeleteOnIdle says, and notes the last use of
// the others. A running namespace does it by itself.
func (n *Namespace) CollectIdle(ctx context.Context) error {
	var busy []event.EntityID
	away := make([]bool, len(n.slots)) // partitions that cannot be asked
	for i := range n.slots {
		reply, err := n.ask(ctx, engine.PartitionID(i), &usage{})
		if err != nil && ctx.Err() != nil {
			return err
		}
		if away[i] = err != nil; away[i] {
			continue
		}
		busy = append(busy, InUse(&reply)...)
	}
	all := n.Entities()
	look := engine.NewIdleness(n.started, all, busy)
	var errs []error
	for _, e := range all {
		if slices.ContainsFunc(e.Hosts, func(h engine.PartitionID) bool { return away[h] || n.absent(h) }) {
			continue // not all of it can be asked
		}
		if now := n.clock.Now(); look.Over(now, e) {
			errs = append(errs, n.deleteIdle(ctx, e, busy))
		} else if note := look.Note(now, e); note != nil {
			_, err := n.ask(ctx, 0, note)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// deleteIdle deletes an entity that was not used, if that is still so now that nobody else can change it: it may have gone with
// its topic, been updated, or been made anew under its name.
func (n *Namespace) deleteIdle(ctx context.Context, found *engine.Entity, busy []event.EntityID) error {
	ctx, err := n.begin(ctx)
	if err != nil {
		return err
	}
	defer n.admin.mu.Unlock()
	e := n.directory.find(strings.ToLower(found.Path))
	if e == nil || e.ID != found.ID {
		return nil
	}
	now, look := n.clock.Now(), engine.NewIdleness(n.started, n.directory.subscriptions(e), busy)
	if !look.Over(now, e) {
		return nil
	}
	n.logger.Info("entity deleted because it was not used", "entity", e.Path, "for", look.Quiet(now, e))
	return n.delete(ctx, engine.DeleteEntity{Path: e.Path, Reason: "idle"})
}

// collect runs CollectIdle now and then until the namespace is closed.
func (n *Namespace) collect(stop <-chan struct{}) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), idleCheck)
		if err := n.CollectIdle(ctx); err != nil {
			n.logger.Warn("idle entities not collected", "error", err)
		}
		cancel()
	}
}
