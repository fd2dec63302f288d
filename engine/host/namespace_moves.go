package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// capabilityStore is the part of [log.Store] that registers a capability before the first byte of
// it is written.
type capabilityStore interface{ Use(capability string) error }

// courier returns the courier of a partition. It returns nil without [Options].Reread, and in an
// excerpt of another directory: the other end of a move may be missing there, or may come from
// another time (docs/decisions/0059).
func (n *Namespace) courier(id engine.PartitionID) *background.Courier {
	opts := &n.opts
	if opts.Reread == nil || slices.Contains(n.store.Namespace().Capabilities, log.Slice) {
		return nil
	}
	return background.NewCourier(background.CourierOptions{Home: id, Reread: opts.Reread, Entity: n.directory.entity, Offer: n.offer, Logger: opts.Logger, Memory: opts.Memory,
		FailuresTo: opts.FailuresTo,
		Read:       func(b event.Blob, dst []byte) (int, error) { return n.ReadInto(id, b, dst) },
		Damaged:    func(err error) { n.ReportDamage(id, event.LockToken{}, err) }})
}

// offer passes a request of a courier to a loop.
func (n *Namespace) offer(id engine.PartitionID, req engine.Request) bool {
	l := n.loop(id)
	return l != nil && l.Offer(req)
}

// runCourier runs the courier of an incarnation until that retires.
func (n *Namespace) runCourier(id engine.PartitionID, t *incarnation) {
	n.background.Go(func() {
		defer close(t.courierEnded)
		if t.courier == nil {
			return
		}
		err := func() (err error) {
			defer n.rescue(id, &err)
			t.courier.Run(n.clock.Now, t.stop)
			return nil
		}()
		if err != nil {
			n.fail(err)
		}
	})
}

// useMoves makes durable that messages may move, before any loop is told to move one.
func (a *admin) useMoves(entities []*engine.Entity) error {
	if !slices.ContainsFunc(entities, func(e *engine.Entity) bool { return e != nil && forwards(e) }) {
		return nil
	}
	if err := a.store.Use(log.Moves); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// reorder renews the standing orders of the changed entities, and of the entities that forward to
// one that was created, changed or deleted.
func (a *admin) reorder(ctx context.Context, changed, own []*engine.Entity) error {
	orders, seen := make(map[engine.PartitionID][]engine.Command), map[event.EntityID]bool{}
	give := func(e *engine.Entity) {
		if seen[e.ID] {
			return
		}
		seen[e.ID] = true
		for _, h := range hostsOf(e) {
			orders[h] = append(orders[h], loop.Order(e, a.directory.find))
		}
	}
	for _, e := range own {
		give(e)
	}
	for _, e := range changed {
		for _, from := range a.routes.sourcesOf(strings.ToLower(e.Path)) {
			give(from)
		}
	}
	for h, cmds := range orders {
		if a.partitions.absent(h) {
			continue
		}
		if _, err := a.partitions.askAll(ctx, h, cmds); err != nil {
			return err
		}
	}
	return nil
}

// hostsOf returns the partitions that host an entity, without duplicates.
func hostsOf(e *engine.Entity) []engine.PartitionID {
	hosts := slices.Clone(e.Hosts)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// orderAll gives all entities their standing orders, before the loops run. If ForwardTo was set by
// a version that did not forward, the messages of the entity begin to move now; orderAll logs that
// once.
func (a *admin) orderAll(logger *slog.Logger) error {
	var all []*engine.Entity
	for _, e := range a.directory.sorted() {
		if a.routes.put(nil, e); forwards(e) {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if !a.moved {
		for _, e := range all {
			logger.Warn("forwarding begins for an entity whose ForwardTo an older version of the broker ignored", "entity", e.Path,
				"forward_to", e.Properties.ForwardTo, "forward_dead_letters_to", e.Properties.ForwardDeadLetteredMessagesTo)
		}
	}
	if err := a.useMoves(all); err != nil {
		return err
	}
	for _, e := range all {
		for _, h := range hostsOf(e) {
			if l := a.partitions.loop(h); l != nil {
				l.Prepare(loop.Order(e, a.directory.find))
			}
		}
	}
	if trapped, messages := a.keptByOlder(all); len(trapped) > 0 {
		logger.Warn("forwarding begins for messages that an older version of the broker kept", "entities", trapped, "messages", messages)
	}
	return nil
}

// keptByOlder returns the entities that have messages to move although no message has ever left
// them: an older version kept these messages.
func (a *admin) keptByOlder(all []*engine.Entity) (paths []string, messages int) {
	for _, e := range all {
		here := 0
		for i, h := range e.Hosts {
			id := event.Slice{Entity: e.ID, Partition: uint8(i)}
			if t := a.partitions.slots[h].running.Load(); t != nil && t.part.Index().NextTransfer(id) == 1 {
				here += t.loop.ToMove(id)
			}
		}
		if messages += here; here > 0 {
			paths = append(paths, e.Path)
		}
	}
	return paths, messages
}
