package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
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

// inUse is the answer to it, in no order.
type inUse []event.EntityID

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
func (l *Loop) usage() (busy inUse) {
	for id, e := range l.part.entities {
		for i := range e.Hosts {
			slice := event.Slice{Entity: id, Partition: uint8(i)}
			if l.lines[slice] != nil || l.browsers[slice] != nil || l.halls[slice] != nil || l.part.index.Scheduled(slice) > 0 {
				busy = append(busy, id)
				break
			}
		}
	}
	return busy
}

// touch adds the note of an entity's last use, unless it was deleted since.
func (p *Partition) touch(cmd *touch) Outcome {
	if _, ok := p.index.Catalogue.Get(cmd.entity); !ok {
		return p.done(log.Ordered)
	}
	ev := p.events.New(event.KindEntityTouched).(*event.EntityTouched)
	ev.Envelope, ev.AccessedAt = p.envelope(event.Slice{Entity: cmd.entity}, 0), cmd.at
	p.out = append(p.out, ev)
	return p.done(log.Ordered)
}

// notedEvery is how far apart the notes of the last use of an entity that stays are.
const notedEvery = 10 * time.Minute

// Idleness tells which entities have not been used for too long, and which last uses the log should know of (semantics.md 7.7).
type Idleness struct {
	started event.Time
	busy    map[event.EntityID]bool
	below   map[event.EntityID][]*Entity // subscriptions, by topic
}

// NewIdleness is told when the broker was started, what there is, and what is in use without anything being asked of it.
func NewIdleness(started event.Time, entities []*Entity, busy []event.EntityID) *Idleness {
	i := &Idleness{started: started, busy: make(map[event.EntityID]bool, len(busy)), below: map[event.EntityID][]*Entity{}}
	for _, id := range busy {
		i.busy[id] = true
	}
	for _, e := range entities {
		if e.Kind == event.Subscription {
			i.below[e.Topic] = append(i.below[e.Topic], e)
		}
	}
	return i
}

// quiet is how long an entity was not used. A topic is in use when one of its subscriptions is; what forwards has a receiver that
// never leaves (S0-50, docs/decisions/0020).
func (i *Idleness) quiet(now event.Time, e *Entity) time.Duration {
	if e.Properties.ForwardTo != "" || e.Properties.ForwardDeadLetteredMessagesTo != "" {
		return 0
	}
	if i.busy[e.ID] && !mutant.On(mutant.IdleThoughHeld) {
		return 0
	}
	quiet := now.Sub(max(e.activity.last(), e.UpdatedAt, event.Time(e.activity.ruled.Load())))
	for _, sub := range i.below[e.ID] {
		quiet = min(quiet, i.quiet(now, sub))
	}
	return quiet
}

// Over tells whether an entity was not used for so long that it is to be deleted.
func (i *Idleness) Over(now event.Time, e *Entity) bool {
	idle := e.Properties.AutoDeleteOnIdle
	return idle != event.Forever && i.quiet(now, e) >= idle && now.Sub(i.started) >= idleGrace
}

// Note is the command that notes the last use of an entity that stays, for partition 0; nil when the log knows enough.
func (i *Idleness) Note(now event.Time, e *Entity) Command {
	every := notedEvery
	if idle := e.Properties.AutoDeleteOnIdle; idle != event.Forever {
		every = max(time.Minute, idle/10)
		if i.busy[e.ID] {
			e.use(now) // so that the next start knows
		}
	}
	at := e.activity.last()
	if at.Sub(e.noted()) < every {
		return nil
	}
	e.activity.noted.Store(int64(at))
	return &touch{e.ID, at}
}

// CollectIdle deletes the entities that were not used for as long as their AutoDeleteOnIdle says, and notes the last use of
// the others. A running namespace does it by itself.
func (n *Namespace) CollectIdle(ctx context.Context) error {
	var busy []event.EntityID
	for i, l := range n.loops {
		if l == nil {
			continue
		}
		reply, err := n.ask(ctx, PartitionID(i), &usage{})
		if err != nil {
			return err
		}
		busy = append(busy, reply.Busy()...)
	}
	all := n.Entities()
	look := NewIdleness(n.started, all, busy)
	var errs []error
	for _, e := range all {
		if n.loops[e.Hosts[0]] == nil {
			continue // it cannot be asked
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
// its topic, or somebody has updated it, or made another of its name.
func (n *Namespace) deleteIdle(ctx context.Context, found *Entity, busy []event.EntityID) error {
	ctx, err := n.begin(ctx)
	if err != nil {
		return err
	}
	defer n.mu.Unlock()
	e := n.directory.find(strings.ToLower(found.Path))
	if e == nil || e.ID != found.ID {
		return nil
	}
	now, look := n.clock.Now(), NewIdleness(n.started, n.directory.below(e), busy)
	if !look.Over(now, e) {
		return nil
	}
	n.logger.Info("entity deleted because it was not used", "entity", e.Path, "for", look.quiet(now, e))
	return n.delete(ctx, DeleteEntity{Path: e.Path, Reason: "idle"})
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
