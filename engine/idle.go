package engine

import (
	"context"
	"errors"
	"sync/atomic"
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

// usage asks a partition which of its entities are in use without anything being asked of them: those with a receiver or a
// scheduled message (semantics.md 7.7).
type usage struct{}

func (*usage) command() {}

// touch notes in the catalogue when an entity was last used.
type touch struct {
	entity event.EntityID
	at     event.Time
}

func (*touch) command() {}

// activity is when an entity was last used. All versions of an entity share one; any loop that hosts a part of it writes.
type activity struct {
	at    atomic.Int64
	noted atomic.Int64 // of that, what stands in the log
	ruled atomic.Int64 // when a rule was last added or changed: that keeps a subscription, and is no use of it
}

// note moves the last use to a time, never back.
func (a *activity) note(at event.Time) {
	if a != nil && a.at.Load() < int64(at) {
		a.at.Store(int64(at))
	}
}

func (a *activity) last() event.Time {
	if a == nil {
		return 0
	}
	return event.Time(a.at.Load())
}

// use notes that something was asked of an entity. Sends, receives, empty ones too, and looks count (docs/decisions/0010);
// answers that were not asked for do not.
func (l *Loop) use(now event.Time, cmd Command) {
	var id event.Slice
	switch cmd := cmd.(type) {
	case *Send:
		cmd.Entity.use(now)
	case *Attach:
		cmd.Receiver.Entity.use(now)
	case *Flow:
		cmd.Receiver.Entity.use(now)
	case *Detach:
		cmd.Receiver.Entity.use(now)
	case *Settle:
		cmd.Entity.use(now)
	case *Renew:
		cmd.Entity.use(now)
	case *ReceiveDeferred:
		cmd.Entity.use(now)
	case *CancelScheduled:
		cmd.Entity.use(now)
	case *BatchDelete:
		cmd.Entity.use(now)
	case *RenewSession:
		cmd.Entity.use(now)
	case *SetSessionState:
		cmd.Entity.use(now)
	case *GetSessionState:
		cmd.Entity.use(now)
	case *Peek:
		id = cmd.Slice
	case *ListSessions:
		id = cmd.Slice
	default:
		return
	}
	if id.Entity != 0 {
		l.part.entities[id.Entity].use(now)
	}
}

func (e *Entity) use(now event.Time) {
	if e != nil {
		e.activity.note(now)
	}
}

// usage is the entities of this partition that are in use by themselves.
func (l *Loop) usage() (busy []event.EntityID) {
	for id, e := range l.part.entities {
		for i := range e.Hosts {
			slice := event.Slice{Entity: id, Partition: uint8(i)}
			if l.lines[slice] != nil || l.halls[slice] != nil || l.part.index.Scheduled(slice) > 0 {
				busy = append(busy, id)
				break
			}
		}
	}
	return busy
}

// touch adds the note of an entity's last use.
func (p *Partition) touch(cmd *touch) Outcome {
	ev := p.events.New(event.KindEntityTouched).(*event.EntityTouched)
	ev.Envelope, ev.AccessedAt = p.envelope(event.Slice{Entity: cmd.entity}, 0), cmd.at
	p.out = append(p.out, ev)
	return p.done(log.Ordered)
}

// notedEvery is how far apart the notes of the last use of an entity that stays are.
const notedEvery = 10 * time.Minute

// CollectIdle deletes the entities that were not used for as long as their AutoDeleteOnIdle says, and notes the last use of
// the others. A running namespace does it by itself.
func (n *Namespace) CollectIdle(ctx context.Context) error {
	now := n.clock.Now()
	all := n.Entities()
	quiet := make(map[event.EntityID]time.Duration, len(all))
	byID := make(map[event.EntityID]*Entity, len(all))
	for _, e := range all {
		byID[e.ID] = e
		quiet[e.ID] = now.Sub(max(e.activity.last(), e.UpdatedAt, event.Time(e.activity.ruled.Load())))
	}
	for i, l := range n.loops {
		if l == nil {
			continue
		}
		reply, err := n.ask(ctx, PartitionID(i), &usage{})
		if err != nil {
			return err
		}
		for _, id := range reply.busy {
			quiet[id] = 0
			if e := byID[id]; e != nil && e.Properties.AutoDeleteOnIdle != event.Forever {
				e.use(now) // so that the next start knows
			}
		}
	}
	for _, e := range all { // a topic is in use when one of its subscriptions is
		if e.Kind == event.Subscription {
			quiet[e.Topic] = min(quiet[e.Topic], quiet[e.ID])
		}
	}
	var errs []error
	for _, e := range all {
		idle := e.Properties.AutoDeleteOnIdle
		if _, there := n.Find(e.Path); !there || n.loops[e.Hosts[0]] == nil {
			continue // it went with its topic, or cannot be asked
		}
		if idle != event.Forever && quiet[e.ID] >= idle && now.Sub(n.started) >= idleGrace {
			n.logger.Info("entity deleted because it was not used", "entity", e.Path, "for", quiet[e.ID])
			errs = append(errs, n.DeleteEntity(ctx, DeleteEntity{Path: e.Path, Reason: "idle"}))
			continue
		}
		every := notedEvery
		if idle != event.Forever {
			every = max(time.Minute, idle/10)
		}
		if at := e.activity.last(); at.Sub(e.noted()) >= every {
			_, err := n.ask(ctx, 0, &touch{e.ID, at})
			e.activity.noted.Store(int64(at))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// noted is the last use that stands in the log.
func (e *Entity) noted() event.Time { return event.Time(e.activity.noted.Load()) }

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
