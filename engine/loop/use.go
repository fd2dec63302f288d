package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Usage asks a partition which of its entities are in use although no request names them: those
// with a receiver or a scheduled message (semantics.md 7.7). It is its own answer.
type Usage struct {
	engine.Internal
	IDs []event.EntityID // in no order
}

// usage returns the entities of this partition that are in use without requests.
func (w *receivers) usage() (busy []event.EntityID) {
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
