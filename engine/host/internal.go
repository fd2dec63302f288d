package host

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What [Namespace] asks of loops, beside the commands of package engine.

// configure puts an entity's settings in force, or rules of it.
func (l *Loop) configure(cmd *configure) {
	l.part.Configure(cmd.entity)
	l.transfers.wake(cmd.entity)
	var err error
	switch {
	case cmd.ruled:
		err = l.part.ConfigureRules(cmd.entity, cmd.rules)
	case cmd.put != nil:
		err = l.part.ConfigureRule(cmd.entity, *cmd.put)
	case cmd.remove != "":
		l.part.ForgetRule(cmd.entity, cmd.remove)
	}
	if err != nil { // it was checked before it was stored, so this is a newer program that is stricter
		l.recorder.logger.Error("a stored rule cannot be used; it matches nothing", "error", err)
	}
}

// dropSlice has a partition forget a slice of an entity that is no more, and the entity.
type dropSlice struct {
	engine.Internal
	slice event.Slice
}

// dropSlice forgets a slice. Whoever waits for a session of it is told.
func (l *Loop) dropSlice(now event.Time, cmd *dropSlice) {
	l.part.Forget(cmd.slice.Entity)
	l.recorder.write(now, l.part.Decide(now, engine.DropSlice(cmd.slice)))
	l.waiting.OpenSessions(cmd.slice)
}

// carryOut does what [Namespace] asks of a loop.
func (l *Loop) carryOut(cmd engine.Command) (reply engine.Reply) {
	switch cmd := cmd.(type) {
	case *configure:
		l.configure(cmd)
	case *avoid:
		l.part.Avoid(cmd.partitions)
	case *ping:
		reply.Err = l.damaged
	case *damage:
		spoil(l, cmd)
	case *usage:
		reply.Answer = l.waiting.usage()
	case *count:
		reply.Answer = runtimes{of: l.part.Belongings(cmd.entities)}
	case *inspect:
		reply.Answer = runtimes{of: l.part.Runtimes(cmd.slices)}
	case *lookup:
		return l.lookup(cmd)
	case *askHistory:
		reply.Answer = saidOfHistory{now: l.part.HistoryPolicies()}
	case *SnapshotOf:
		return cmd.Take(l)
	}
	return reply
}

// lookup finds an entity of the catalogue.
func (l *Loop) lookup(cmd *lookup) engine.Reply {
	e, ok := l.part.Index().Catalogue.Find(cmd.path)
	if !ok {
		return engine.Reply{Err: engine.NoEntity(cmd.path)}
	}
	found := &foundEntity{entity: engine.View(e, nil)}
	if cmd.ruled {
		for _, r := range l.part.Index().Catalogue.Rules(e.ID) {
			found.rules = append(found.rules, *r)
		}
	}
	return engine.Reply{Answer: found}
}

// configure gives a partition the settings of an entity, and rules of a subscription: all it has, one that is new or changed,
// or the name of one that is gone.
type configure struct {
	engine.Internal
	entity *engine.Entity
	ruled  bool
	rules  []event.Rule
	put    *event.Rule
	remove string
}

// lookup asks the catalogue for an entity, with the rules it has.
type lookup struct {
	engine.Internal
	path  string
	ruled bool
}

// foundEntity is the answer to a lookup.
type foundEntity struct {
	engine.Internal
	entity *engine.Entity
	rules  []event.Rule // when they were asked for
}

// inspect asks a partition how much there is in slices of it.
type inspect struct {
	engine.Internal
	slices []event.Slice
}

// runtimes is the answer to an inspect, by its slices, or to a count, by its entities.
type runtimes struct {
	engine.Internal
	of []engine.Runtime
}

// damage tells a partition that a stored body could not be read back.
type damage struct {
	engine.Internal
	err  error
	lock event.LockToken // under which the message was given; zero: none, or it does not matter
	is   func()          // called if it is damage; nil: that is known
}

// spoil notes damage. With a lock it is none if nobody has that lock any more: then the message has ended while it was on its way, and history was free to
// give its body back.
func spoil(l *Loop, cmd *damage) {
	if cmd.lock != (event.LockToken{}) {
		if _, held := l.part.Index().Lock(cmd.lock); !held {
			l.recorder.logger.Warn("a message was not delivered: it ended, and its body was given back, before its receiver had room for it", "lock", cmd.lock, "error", cmd.err)
			return
		}
	}
	if l.damaged = cmd.err; cmd.is != nil {
		cmd.is()
	}
	refuseGrowth(l)
}
