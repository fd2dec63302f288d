package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Usage asks a partition which of its entities are in use without anything being asked of them: those with a receiver or a
// scheduled message (semantics.md 7.7). It is its own answer.
type Usage struct {
	engine.Internal
	IDs []event.EntityID // in no order
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
func (w *waiting) usage() (busy []event.EntityID) {
	for e := range w.part.Entities() {
		for i := range e.Hosts {
			slice := event.Slice{Entity: e.ID, Partition: uint8(i)}
			if x := w.part.Index(); w.Has(e.ID) || x.Scheduled(slice) > 0 || x.Count(slice, event.Main, index.Transferring) > 0 {
				busy = append(busy, e.ID)
				break
			}
		}
	}
	return busy
}
