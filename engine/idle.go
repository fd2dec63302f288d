package engine

import (
	"context"
	"errors"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// idleCheck is how often entities that delete themselves are looked at.
	idleCheck = 30 * time.Second
	// idleGrace is how long after a start nothing is deleted for idleness (semantics.md 7.7): clients come back first.
	idleGrace = time.Minute
)

// usage asks a partition when its entities that delete themselves were last used.
type usage struct{}

func (*usage) command() {}

// touch notes in the catalogue when an entity was last used.
type touch struct {
	entity event.EntityID
	at     event.Time
}

func (*touch) command() {}

// used is the last use of an entity.
type used struct {
	entity event.EntityID
	at     event.Time
}

// use notes that something was asked of an entity. Sends, receives, empty ones too, and looks count; answers that were not
// asked for do not.
func (l *Loop) use(now event.Time, cmd Command) {
	var id event.Slice
	switch cmd := cmd.(type) {
	case *Send:
		id = cmd.Slice
	case *Attach:
		id = cmd.Receiver.Slice
	case *Flow:
		id = cmd.Receiver.Slice
	case *Detach:
		id = cmd.Receiver.Slice
	case *Settle:
		id = cmd.Slice
	case *Renew:
		id = cmd.Slice
	case *Peek:
		id = cmd.Slice
	case *ReceiveDeferred:
		id = cmd.Slice
	case *CancelScheduled:
		id = cmd.Slice
	case *BatchDelete:
		id = cmd.Slice
	case *RenewSession:
		id = cmd.Slice
	case *SetSessionState:
		id = cmd.Slice
	case *GetSessionState:
		id = cmd.Slice
	case *ListSessions:
		id = cmd.Slice
	default:
		return
	}
	if e := l.part.entities[id.Entity]; e != nil && e.Properties.AutoDeleteOnIdle != event.Forever {
		l.lastUse[id.Entity] = now
	}
}

// usage is the last use of every entity of this partition that deletes itself. One with a receiver or a scheduled message
// is in use (semantics.md 7.7).
func (l *Loop) usage(now event.Time) (all []used) {
	for id, e := range l.part.entities {
		if e.Properties.AutoDeleteOnIdle == event.Forever {
			continue
		}
		at := l.lastUse[id]
		for i := range e.Hosts {
			slice := event.Slice{Entity: id, Partition: uint8(i)}
			if l.lines[slice] != nil || l.halls[slice] != nil || l.part.index.Scheduled(slice) > 0 {
				at = now
			}
		}
		all = append(all, used{id, at})
	}
	if l.part.id == 0 {
		for _, e := range l.part.index.Catalogue.All() {
			all = append(all, used{e.ID, max(e.UpdatedAt, e.AccessedAt)})
		}
	}
	return all
}

// touch adds the note of an entity's last use.
func (p *Partition) touch(cmd *touch) Outcome {
	ev := p.events.New(event.KindEntityTouched).(*event.EntityTouched)
	ev.Envelope, ev.AccessedAt = p.envelope(event.Slice{Entity: cmd.entity}, 0), cmd.at
	p.out = append(p.out, ev)
	return p.done(log.Ordered)
}

// CollectIdle deletes the entities that were not used for as long as their AutoDeleteOnIdle says, and notes the last use of
// the others. A running namespace does it by itself.
func (n *Namespace) CollectIdle(ctx context.Context) error {
	last, noted := map[event.EntityID]event.Time{}, map[event.EntityID]event.Time{}
	for i, l := range n.loops {
		if l == nil {
			continue
		}
		reply, err := n.ask(ctx, PartitionID(i), &usage{})
		if err != nil {
			return err
		}
		for _, u := range reply.used {
			last[u.entity] = max(last[u.entity], u.at)
		}
		if i == 0 {
			for _, u := range reply.used { // what the log knows comes last
				noted[u.entity] = u.at
			}
		}
	}
	now := n.clock.Now()
	var errs []error
	for _, e := range *n.directory.Load() {
		idle := e.Properties.AutoDeleteOnIdle
		switch quiet := now.Sub(last[e.ID]); {
		case idle == event.Forever || e.Properties.ForwardTo != "" || n.loops[e.Hosts[0]] == nil:
		case quiet >= idle && now.Sub(n.started) >= idleGrace:
			n.logger.Info("entity deleted because it was not used", "entity", e.Path, "for", quiet)
			errs = append(errs, n.DeleteQueue(ctx, DeleteQueue{Path: e.Path, Reason: "idle"}))
		case last[e.ID].Sub(noted[e.ID]) >= max(time.Minute, idle/10):
			_, err := n.ask(ctx, 0, &touch{e.ID, last[e.ID]})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
